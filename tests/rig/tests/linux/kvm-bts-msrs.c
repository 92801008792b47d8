/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who may set which bit of IA32_DEBUGCTL and what address in IA32_DS_AREA:
 * the guest by what CPUID and IA32_MISC_ENABLE say, the host in any order
 *
 * rig: linux=kvm_intel.bts=1
 */
#include "kvm-wrmsr.h"

#define BTS_UNAVAIL     (1 << 11)
#define ALL             0x7c0u      /* TR, BTS, BTINT, BTS_OFF_OS, ..._USR */
#define NONCANONICAL    (1ull << 47)

/* Bits that the guest can set, each alone */
static uint64_t settable(struct vm *vm)
{
    uint64_t bits = 0, got = 0;

    for (unsigned i = 0; i < 64; i++) {
        if (guest_wrmsr(vm, MSR_DEBUGCTL, 1ull << i)) {
            bits |= 1ull << i;
            CHECK(guest_rdmsr(vm, MSR_DEBUGCTL, &got));
            CHECK(got == (1ull << i) || !(ALL >> i & 1));
            CHECK(guest_wrmsr(vm, MSR_DEBUGCTL, 0));
        }
    }
    return bits;
}

/* A guest without these bits of CPUID, and with this in MISC_ENABLE, can set
   these bits of BTS; what else it can set does not depend on that. */
static void can_set(uint32_t ecx, uint32_t edx, int misc_enable, uint64_t want)
{
    static uint64_t others = -1;
    struct vm vm = wrmsr_guest();
    uint64_t bits;

    take_cpuid(&vm, ecx, edx);
    if (misc_enable >= 0) {
        CHECK(vm_set_msr(&vm, MSR_MISC_ENABLE, misc_enable) == 1);
    } else {
        CHECK(vm_get_msr(&vm, MSR_MISC_ENABLE) & BTS_UNAVAIL);
    }
    if (!(edx & CPUID_1_EDX_DS)) {
        CHECK(vm_set_msr(&vm, MSR_DS_AREA, VM_DS) == 1);
    }
    bits = settable(&vm);
    printf("without %x %x, MISC_ENABLE %d: %llx\n", ecx, edx, misc_enable,
           (unsigned long long)bits);
    fflush(stdout);
    CHECK((bits & ALL) == want);
    if (others == -1ull) {
        others = bits & ~ALL;
    }
    CHECK((bits & ~ALL) == others);
    CHECK(!(others >> 16));
    /* All at once, and one of the reserved among them */
    CHECK(guest_wrmsr(&vm, MSR_DEBUGCTL, want));
    CHECK(!guest_wrmsr(&vm, MSR_DEBUGCTL, want | 1 << 20));
    CHECK(vm_get_msr(&vm, MSR_DEBUGCTL) == want);
    if (want != ALL) {
        CHECK(!guest_wrmsr(&vm, MSR_DEBUGCTL, ALL));
    }
    CHECK(guest_wrmsr(&vm, MSR_DEBUGCTL, 0));
    /* DS_AREA takes any linear address there is, if there is DS. */
    CHECK(guest_wrmsr(&vm, MSR_DS_AREA, 0x123456) ==
          !(edx & CPUID_1_EDX_DS));
    CHECK(guest_wrmsr(&vm, MSR_DS_AREA, ~0xfffull) ==
          !(edx & CPUID_1_EDX_DS));
    CHECK(!guest_wrmsr(&vm, MSR_DS_AREA, NONCANONICAL));
    CHECK(!guest_wrmsr(&vm, MSR_DS_AREA, 1ull << 63));
    /* No guest can let itself have BTS. */
    CHECK(!guest_wrmsr(&vm, MSR_MISC_ENABLE,
                       vm_get_msr(&vm, MSR_MISC_ENABLE) ^ BTS_UNAVAIL));
    close(vm.vcpu);
    close(vm.vm);
    close(vm.kvm);
}

/* BTS is in CPUID, but the monitor has not asked for it. */
static void not_enabled(void)
{
    struct vm vm = wrmsr_guest();
    struct kvm_cpuid2 *cpuid = vm_supported_cpuid(&vm);
    struct kvm_cpuid_entry2 *entry = cpuid_1(cpuid);

    entry->edx |= CPUID_1_EDX_DS;
    entry->ecx |= CPUID_1_ECX_DTES64 | CPUID_1_ECX_DS_CPL;
    CHECK(ioctl(vm.vcpu, KVM_SET_CPUID2, cpuid) == 0);
    free(cpuid);
    CHECK(vm_set_msr(&vm, MSR_MISC_ENABLE, 1) == 1);
    CHECK(!(settable(&vm) & ALL));
    CHECK(vm_set_msr(&vm, MSR_DEBUGCTL, DEBUGCTL_ON) == 0);
    close(vm.vcpu);
    close(vm.vm);
    close(vm.kvm);
}

/* The host sets what a guest had that was tracing itself, in this order. */
static void host_sets(const unsigned order[3])
{
    static const struct {
        uint32_t index;
        uint64_t data;
    } msrs[] = {
        { MSR_MISC_ENABLE, 1 },
        { MSR_DEBUGCTL, DEBUGCTL_ON },
        { MSR_DS_AREA, VM_DS },
    };
    struct vm vm = wrmsr_guest();
    const struct ds_area *ds = (void *)(vm.memory + VM_DS);
    const struct record *r = (void *)(vm.memory + VM_BUFFER);
    uint64_t got = 0;

    take_cpuid(&vm, 0, 0);
    for (unsigned i = 0; i < 3; i++) {
        CHECK(vm_set_msr(&vm, msrs[order[i]].index, msrs[order[i]].data) == 1);
    }
    CHECK(guest_rdmsr(&vm, MSR_DEBUGCTL, &got));
    CHECK(got == DEBUGCTL_ON);
    CHECK(ds->index == ds->base + 2 * sizeof(*r));
    CHECK(r[0].to == AT(g_rdmsr));
    CHECK(vm_set_msr(&vm, MSR_DEBUGCTL, 1 << 20) == 0);
    CHECK(vm_set_msr(&vm, MSR_DEBUGCTL, DEBUGCTL_ON | 1ull << 40) == 0);
    CHECK(vm_set_msr(&vm, MSR_DS_AREA, NONCANONICAL) == 0);
    CHECK(vm_get_msr(&vm, MSR_DEBUGCTL) == DEBUGCTL_ON);
    CHECK(vm_get_msr(&vm, MSR_DS_AREA) == VM_DS);
    close(vm.vcpu);
    close(vm.vm);
    close(vm.kvm);
}

int main(void)
{
    static const unsigned orders[][3] = {
        { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 }, { 1, 2, 0 }, { 2, 0, 1 },
        { 2, 1, 0 },
    };
    struct kvm_cpuid_entry2 *cpuid;
    struct vm vm;

    bts_or_skip();
    vm = wrmsr_guest();
    CHECK(ioctl(vm.kvm, KVM_CHECK_EXTENSION, CAP_X86_BTS) == ALL);
    CHECK(ioctl(vm.vm, KVM_CHECK_EXTENSION, CAP_X86_BTS) == ALL);
    cpuid = cpuid_1(vm_supported_cpuid(&vm));
    /* A monitor that knows nothing of BTS gives it to no guest. */
    CHECK(!(cpuid->edx & CPUID_1_EDX_DS));
    CHECK(!(cpuid->ecx & CPUID_1_ECX_DTES64));
    CHECK(!(cpuid->ecx & CPUID_1_ECX_DS_CPL));
    not_enabled();
    CHECK(in_msr_list(&vm, MSR_DEBUGCTL));
    CHECK(in_msr_list(&vm, MSR_DS_AREA));

    can_set(0, 0, 1, ALL);
    can_set(CPUID_1_ECX_DS_CPL, 0, 1, DEBUGCTL_ON | DEBUGCTL_BTINT);
    can_set(CPUID_1_ECX_DTES64, 0, 1, 0);
    can_set(0, CPUID_1_EDX_DS, 1, 0);
    can_set(0, 0, 1 | BTS_UNAVAIL, 0);
    can_set(0, 0, -1, 0);
    for (unsigned i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
        host_sets(orders[i]);
    }
    kmsg_is_calm();
    return 0;
}
