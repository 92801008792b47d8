/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Unless BTS is switched on in kvm_intel, KVM has none of it, nor does it trace
 * guests
 */
#include "kvm-trace.h"
#include "kvm-wrmsr.h"

static void no_trace(struct vm *vm)
{
    FILE *file = fopen("/sys/module/kvm_intel/parameters/bts_trace", "r");
    struct trace t = { .vm = *vm };
    struct bts_trace config = { 0 };

    CHECK(file != NULL);
    CHECK(fgetc(file) == 'N');
    fclose(file);
    CHECK(ioctl(vm->kvm, KVM_CHECK_EXTENSION, CAP_X86_BTS_TRACE) == 0);
    CHECK(trace_attr(&t, KVM_HAS_DEVICE_ATTR, &config) == -1 && errno == ENXIO);
    CHECK(trace_attr(&t, KVM_SET_DEVICE_ATTR, &config) == -1 && errno == ENXIO);
    CHECK(trace_attr(&t, KVM_GET_DEVICE_ATTR, &config) == -1 && errno == ENXIO);
}

int main(void)
{
    FILE *file = fopen("/sys/module/kvm_intel/parameters/bts", "r");
    struct kvm_enable_cap cap = { .cap = CAP_X86_BTS };
    struct kvm_cpuid2 *cpuid;
    struct kvm_cpuid_entry2 *entry;
    struct vm vm;

    if (!file) {
        printf("this KVM knows nothing of BTS\n");
        return 77;
    }
    CHECK(fgetc(file) == 'N');
    vm = wrmsr_guest();
    CHECK(ioctl(vm.kvm, KVM_CHECK_EXTENSION, CAP_X86_BTS) == 0);
    cpuid = vm_supported_cpuid(&vm);
    entry = cpuid_1(cpuid);
    CHECK(!(entry->edx & CPUID_1_EDX_DS));
    CHECK(!(entry->ecx & CPUID_1_ECX_DTES64));
    CHECK(!(entry->ecx & CPUID_1_ECX_DS_CPL));
    CHECK(!in_msr_list(&vm, MSR_DEBUGCTL));

    /* Not even for a monitor that says that it has it */
    CHECK(ioctl(vm.vm, KVM_ENABLE_CAP, &cap) == -1 && errno == EINVAL);
    entry->edx |= CPUID_1_EDX_DS;
    entry->ecx |= CPUID_1_ECX_DTES64 | CPUID_1_ECX_DS_CPL;
    CHECK(ioctl(vm.vcpu, KVM_SET_CPUID2, cpuid) == 0);
    CHECK(vm_set_msr(&vm, MSR_MISC_ENABLE, 1) == 1);
    for (unsigned bit = 6; bit <= 10; bit++) {
        CHECK(vm_set_msr(&vm, MSR_DEBUGCTL, 1 << bit) == 0);
        CHECK(!guest_wrmsr(&vm, MSR_DEBUGCTL, 1 << bit));
    }
    CHECK(guest_wrmsr(&vm, MSR_DEBUGCTL, 0));
    CHECK(vm_get_msr(&vm, MSR_DEBUGCTL) == 0);
    no_trace(&vm);
    kmsg_is_calm();
    return 0;
}
