/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What an exit of a guest costs, in instructions: the machine's time-stamp
 * counter counts them.  ../../cost compares a KVM with our patches and one
 * without.
 *
 * rig: linux=kvm_intel.bts=1
 */
#include "kvm-bts.h"
#include "kvm-cost.h"

extern const char guest_begin[], guest_end[];

asm(
    "   .pushsection .rodata\n"
    "   .code16\n"
    "guest_begin:\n"
    VM_EXITS
    "guest_end:\n"
    "   .code64\n"
    "   .popsection\n");

static void measure(struct vm *vm, const char *what)
{
    *(volatile uint32_t *)(vm->memory + VM_LEAST) = -1u;
    CHECK(vm_run(vm) == 0x10);
    measure_exits(vm, what);
}

int main(void)
{
    struct vm vm = vm_open(guest_begin, guest_end - guest_begin);

    vm_have_bts(&vm);
    measure(&vm, "unused");
    if (ioctl(vm.kvm, KVM_CHECK_EXTENSION, CAP_X86_BTS)) {
        struct kvm_regs regs = { .rip = VM_CODE, .rsp = 0x8000, .rflags = 2 };

        vm_ds_area(&vm, 32, 1000);
        CHECK(vm_set_msr(&vm, MSR_DS_AREA, VM_DS) == 1);
        CHECK(vm_set_msr(&vm, MSR_DEBUGCTL, DEBUGCTL_ON) == 1);
        CHECK(ioctl(vm.vcpu, KVM_SET_REGS, &regs) == 0);
        measure(&vm, "used");
    }
    return 0;
}
