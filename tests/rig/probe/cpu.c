/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What this CPU says that it is and has, by CPUID and MSRs
 *
 * The last line is "emulated", with "no" only if nothing says otherwise.
 */
#include <cpuid.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MSR_FEATURE_CONTROL     0x3a
#define MSR_MICROCODE           0x8b
#define MSR_MISC_ENABLE         0x1a0
#define MSR_PERF_CAPABILITIES   0x345
#define MSR_VMX_MISC            0x485
#define MSR_EPT_VPID_CAP        0x48c
#define MSR_BOCHS_MODEL         0xfff   /* of our Bochs, of no CPU */

static bool rdmsr(uint32_t msr, uint64_t *value)
{
    int fd = open("/dev/cpu/0/msr", O_RDONLY);
    bool done = fd >= 0 && pread(fd, value, sizeof(*value), msr) ==
                           sizeof(*value);

    if (fd >= 0) {
        close(fd);
    }
    return done;
}

static void bit(const char *name, unsigned value, unsigned n)
{
    printf("probe: %s %u\n", name, value >> n & 1);
}

static void msr_bit(const char *name, uint32_t msr, unsigned n)
{
    uint64_t value;

    if (rdmsr(msr, &value)) {
        printf("probe: %s %u\n", name, (unsigned)(value >> n & 1));
    } else {
        printf("probe: %s not-asked the CPU has no MSR 0x%x\n", name, msr);
    }
}

/* Intel's model, or another vendor's */
static void identity(void)
{
    unsigned a, b, c, d, family, model;
    char vendor[13] = "", brand[49] = "";
    uint64_t microcode;

    __cpuid(0, a, b, c, d);
    memcpy(vendor, &b, 4);
    memcpy(vendor + 4, &d, 4);
    memcpy(vendor + 8, &c, 4);
    __cpuid(1, a, b, c, d);
    family = (a >> 8 & 15) + ((a >> 8 & 15) == 15 ? a >> 20 & 255 : 0);
    model = (a >> 4 & 15) | (a >> 12 & 0xf0);
    printf("probe: cpu %s family %u model 0x%02x stepping %u\n", vendor,
           family, model, a & 15);
    __cpuid(0x80000000, a, b, c, d);
    if (a >= 0x80000004) {
        for (unsigned n = 0; n < 3; n++) {
            __cpuid(0x80000002 + n, a, b, c, d);
            memcpy(brand + 16 * n, &a, 4);
            memcpy(brand + 16 * n + 4, &b, 4);
            memcpy(brand + 16 * n + 8, &c, 4);
            memcpy(brand + 16 * n + 12, &d, 4);
        }
    }
    printf("probe: brand %s\n", brand + strspn(brand, " "));
    if (rdmsr(MSR_MICROCODE, &microcode)) {
        printf("probe: microcode 0x%x\n", (unsigned)(microcode >> 32));
    }
}

static void features(void)
{
    unsigned a, b, c, d, leaves;

    __cpuid(0, leaves, b, c, d);
    __cpuid(1, a, b, c, d);
    bit("cpuid-ds", d, 21);
    bit("cpuid-dtes64", c, 2);
    bit("cpuid-ds-cpl", c, 4);
    bit("cpuid-vmx", c, 5);
    if (leaves >= 7) {
        __cpuid_count(7, 0, a, b, c, d);
        bit("hybrid", d, 15);
    }
    if (leaves >= 0xa) {
        __cpuid_count(0xa, 0, a, b, c, d);
        printf("probe: perfmon-version %u\n", a & 255);
    }
    msr_bit("bts-unavailable", MSR_MISC_ENABLE, 11);
    msr_bit("pebs-unavailable", MSR_MISC_ENABLE, 12);
    msr_bit("freeze-while-smm", MSR_PERF_CAPABILITIES, 12);
}

/* What the series needs of VT-x, or recommends */
static void vmx(void)
{
    static const struct {
        const char *name;
        uint32_t msr;
        unsigned bit;
    } controls[] = {
        { "vmx-locked", MSR_FEATURE_CONTROL, 0 },
        { "vmx-enabled", MSR_FEATURE_CONTROL, 2 },
        { "vmx-virtual-nmis", 0x481, 32 + 5 },
        { "vmx-cr3-load-exiting", 0x482, 32 + 15 },
        { "vmx-cr3-load-exiting-required", 0x48e, 15 },
        { "vmx-msr-bitmaps", 0x482, 32 + 28 },
        { "vmx-ept", 0x48b, 32 + 1 },
        { "vmx-vpid", 0x48b, 32 + 5 },
        { "vmx-unrestricted-guest", 0x48b, 32 + 7 },
        { "vmx-notify-exits", 0x48b, 32 + 31 },
        { "vmx-save-debug-controls", 0x483, 32 + 2 },
        { "vmx-load-debug-controls", 0x484, 32 + 2 },
        { "vmx-ept-dirty", MSR_EPT_VPID_CAP, 21 },
    };
    uint64_t misc;

    for (unsigned n = 0; n < sizeof(controls) / sizeof(controls[0]); n++) {
        msr_bit(controls[n].name, controls[n].msr, controls[n].bit);
    }
    if (rdmsr(MSR_VMX_MISC, &misc)) {
        printf("probe: vmx-msr-list %u\n",
               512 * ((unsigned)(misc >> 25 & 7) + 1));
    }
}

/* The hypervisor's bit; the firmware of Bochs, which says that it is a CPU of
   Intel; an MSR that no CPU has */
static void emulated(void)
{
    int fd = open("/sys/firmware/acpi/tables/FACP", O_RDONLY);
    char table[16] = "";
    unsigned a, b, c, d;
    uint64_t value;

    __cpuid(1, a, b, c, d);
    if (fd >= 0) {
        if (read(fd, table, sizeof(table)) != sizeof(table)) {
            table[0] = '\0';
        }
        close(fd);
    }
    if (c >> 31) {
        printf("probe: emulated yes: there is a hypervisor\n");
    } else if (memcmp(table + 10, "BOCHS", 5) == 0) {
        printf("probe: emulated yes: the firmware is that of Bochs\n");
    } else if (rdmsr(MSR_BOCHS_MODEL, &value)) {
        printf("probe: emulated yes: there is MSR 0x%x\n", MSR_BOCHS_MODEL);
    } else {
        printf("probe: emulated no\n");
    }
}

int main(void)
{
    unsigned a, b, c, d;

    identity();
    features();
    __cpuid(1, a, b, c, d);
    if (c >> 5 & 1) {
        vmx();
    } else {
        printf("probe: vmx not-asked CPUID says no VT-x\n");
    }
    emulated();
    return 0;
}
