/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Guests with a Branch Trace Store of their own
 */
#ifndef KVM_BTS_H
#define KVM_BTS_H

#include "kvm.h"

#define MSR_MISC_ENABLE 0x1a0
#define MSR_DEBUGCTL    0x1d9
#define MSR_DS_AREA     0x600

#define DEBUGCTL_TR     (1 << 6)
#define DEBUGCTL_BTS    (1 << 7)
#define DEBUGCTL_BTINT  (1 << 8)
#define DEBUGCTL_ON     (DEBUGCTL_TR | DEBUGCTL_BTS)

/* Where the guest has what, below the code's page and behind it */
#define VM_DS           0x3000
#define VM_BUFFER       0x4000

/* What a guest executes for its DS area, and then for BTS of all branches, in
   16-bit code */
#define GUEST_SET_DS_AREA                                       \
    "   movl    $0x600, %ecx\n"         /* DS_AREA */           \
    "   movl    $0x3000, %eax\n"                                \
    "   xorl    %edx, %edx\n"                                   \
    "   wrmsr\n"
#define GUEST_SET_BTS                                           \
    "   movl    $0x1d9, %ecx\n"         /* DEBUGCTL: TR, BTS */ \
    "   movl    $0xc0, %eax\n"                                  \
    "   wrmsr\n"

#define CPUID_1_EDX_DS      (1 << 21)
#define CPUID_1_ECX_DTES64  (1 << 2)
#define CPUID_1_ECX_DS_CPL  (1 << 4)

#define CAP_X86_BTS         239

struct ds_area {
    uint64_t base, index, maximum, threshold;
};

/* The linear address that a label of the guest's code has in the guest */
#define AT(label)       (VM_CODE + (uintptr_t)(label) - (uintptr_t)guest_begin)

static inline struct kvm_cpuid2 *vm_supported_cpuid(struct vm *vm)
{
    struct kvm_cpuid2 *cpuid = calloc(1, sizeof(*cpuid) +
                                      100 * sizeof(cpuid->entries[0]));

    CHECK(cpuid != NULL);
    cpuid->nent = 100;
    CHECK(ioctl(vm->kvm, KVM_GET_SUPPORTED_CPUID, cpuid) == 0);
    return cpuid;
}

static inline struct kvm_cpuid_entry2 *cpuid_1(struct kvm_cpuid2 *cpuid)
{
    for (unsigned i = 0; i < cpuid->nent; i++) {
        if (cpuid->entries[i].function == 1) {
            return &cpuid->entries[i];
        }
    }
    fail("there is no CPUID.01H");
}

/* Linux 6.11 has these, the host's headers may not. */
#define PRE_FAULT_MEMORY    _IOWR(KVMIO, 0xd5, struct pre_fault_memory)

struct pre_fault_memory {
    uint64_t gpa, size, flags, padding[5];
};

/* The strict model loses records that wait for a page of the host, so let none
   wait. */
static inline void vm_prefault(struct vm *vm)
{
    struct pre_fault_memory range = { .size = VM_SIZE };

    for (unsigned at = 0; at < VM_SIZE; at += 4096) {
        volatile uint8_t *byte = vm->memory + at;

        *byte = *byte;
    }
    CHECK(ioctl(vm->vcpu, PRE_FAULT_MEMORY, &range) == 0);
}

/* Let the guest have BTS; returns all that KVM supports, and what BTS needs. */
static inline struct kvm_cpuid2 *vm_bts_cpuid(struct vm *vm)
{
    struct kvm_enable_cap cap = { .cap = CAP_X86_BTS };
    struct kvm_cpuid2 *cpuid = vm_supported_cpuid(vm);
    struct kvm_cpuid_entry2 *entry = cpuid_1(cpuid);

    if (ioctl(vm->kvm, KVM_CHECK_EXTENSION, CAP_X86_BTS)) {
        CHECK(ioctl(vm->vm, KVM_ENABLE_CAP, &cap) == 0);
        entry->edx |= CPUID_1_EDX_DS;
        entry->ecx |= CPUID_1_ECX_DTES64 | CPUID_1_ECX_DS_CPL;
    }
    if (BTS_STRICT) {
        vm_prefault(vm);
    }
    return cpuid;
}

/* As a monitor would, and the guest sees BTS. */
static inline void vm_have_bts(struct vm *vm)
{
    struct kvm_cpuid2 *cpuid = vm_bts_cpuid(vm);

    CHECK(ioctl(vm->vcpu, KVM_SET_CPUID2, cpuid) == 0);
    CHECK(vm_set_msr(vm, MSR_MISC_ENABLE, 1) == 1);
    free(cpuid);
}

/* A buffer for so many records, with the threshold at so many */
static inline volatile struct ds_area *vm_ds_area(struct vm *vm,
                                                  unsigned records,
                                                  unsigned threshold)
{
    volatile struct ds_area *ds = (void *)(vm->memory + VM_DS);

    ds->base = ds->index = VM_BUFFER;
    ds->maximum = VM_BUFFER + records * sizeof(struct record);
    ds->threshold = VM_BUFFER + threshold * sizeof(struct record);
    return ds;
}

/* What the guest's buffer has, from the start on, is this. */
static inline void vm_check_records(struct vm *vm, const uint64_t (*want)[2],
                                    unsigned n)
{
    const struct ds_area *ds = (void *)(vm->memory + VM_DS);
    const struct record *r = (void *)(vm->memory + VM_BUFFER);

    if (ds->index != ds->base + n * sizeof(*r)) {
        fail("%lld records, not %u", (long long)(ds->index - ds->base) /
             (long long)sizeof(*r), n);
    }
    for (unsigned i = 0; i < n; i++) {
        if (r[i].from != want[i][0] || r[i].to != want[i][1]) {
            fail("record %u is %llx -> %llx, not %llx -> %llx", i,
                 (unsigned long long)r[i].from, (unsigned long long)r[i].to,
                 (unsigned long long)want[i][0],
                 (unsigned long long)want[i][1]);
        }
    }
}

/* End here if KVM cannot give a guest BTS. */
static inline void bts_or_skip(void)
{
    int kvm = open("/dev/kvm", O_RDWR);

    CHECK(kvm >= 0);
    if (ioctl(kvm, KVM_CHECK_EXTENSION, CAP_X86_BTS) == 0) {
        printf("this KVM has no BTS for guests\n");
        exit(77);
    }
    close(kvm);
}

/* The kernel has not complained of an NMI that it knows no reason for; what
   it complains of otherwise, init looks for.  Returns how many messages there
   were. */
static inline unsigned kmsg_is_calm(void)
{
    static const char *const bad[] = { "unknown reason", "Uhhuh", "Dazed" };
    int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK);
    char line[8192];
    unsigned count = 0;
    ssize_t n;

    CHECK(fd >= 0);
    while ((n = read(fd, line, sizeof(line) - 1)) > 0) {
        line[n] = '\0';
        for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
            if (strstr(line, bad[i])) {
                fail("the kernel says %s", line);
            }
        }
        count++;
    }
    CHECK(n < 0 && errno == EAGAIN);
    CHECK(count > 0);
    close(fd);
    return count;
}

#endif
