/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What an exit of a guest costs, in instructions: the machine's time-stamp
 * counter counts them.  ../../cost compares a KVM with our patches and one
 * without.
 *
 * rig: linux=kvm_intel.bts=1
 */
#include "kvm-bts.h"

#define VM_LEAST        0x2000

extern const char guest_begin[], g_again[], guest_end[];

/* Exits that KVM handles itself, the cheapest of which is kept; then one to
   the monitor */
asm(
    "   .pushsection .rodata\n"
    "   .code16\n"
    "guest_begin:\n"
    "   movl    $100, %edi\n"
    "1: rdtsc\n"
    "   movl    %eax, %esi\n"
    "   xorl    %eax, %eax\n"
    "   cpuid\n"
    "   rdtsc\n"
    "   subl    %esi, %eax\n"
    "   cmpl    0x2000, %eax\n"
    "   jae     2f\n"
    "   movl    %eax, 0x2000\n"
    "2: decl    %edi\n"
    "   jnz     1b\n"
    "g_again: outb %al, $0x10\n"
    "   jmp     g_again\n"
    "guest_end:\n"
    "   .code64\n"
    "   .popsection\n");

static uint32_t time_stamp(void)
{
    uint32_t low, high;

    asm volatile("rdtsc" : "=a"(low), "=d"(high));
    return low;
}

static void measure(struct vm *vm, const char *what)
{
    volatile uint32_t *inside = (void *)(vm->memory + VM_LEAST);
    uint32_t outside = -1u;

    *inside = -1u;
    CHECK(vm_run(vm) == 0x10);
    for (unsigned i = 0; i < 100; i++) {
        uint32_t begin = time_stamp(), took;

        CHECK(ioctl(vm->vcpu, KVM_RUN, 0) == 0);
        took = time_stamp() - begin;
        if (took < outside) {
            outside = took;
        }
        CHECK(vm->run->exit_reason == KVM_EXIT_IO);
    }
    printf("COST %s: %u %u\n", what, *inside, outside);
    fflush(stdout);
    CHECK(*inside > 100 && *inside < 100000);
    CHECK(outside > *inside && outside < 100000);
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
