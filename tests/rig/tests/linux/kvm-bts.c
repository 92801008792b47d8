/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest that traces itself: KVM switches DS_AREA and DEBUGCTL, and lets them
 * be moved into another virtual machine in mid-trace
 *
 * rig: linux=kvm_intel.bts=1
 */
#include "kvm-bts.h"

extern const char guest_begin[], g_loop[], g_jmp[], g_after[], g_call[],
    g_back[], g_sub[], g_end[], g_last[], g_off[], guest_end[];

asm(
    "   .pushsection .rodata\n"
    "   .code16\n"
    "guest_begin:\n"
    GUEST_SET_DS_AREA GUEST_SET_BTS
    "g_jmp: jmp g_after\n"
    "   nop\n"
    "g_after: movw $3, %bx\n"
    "1: decw    %bx\n"
    "g_loop: jnz 1b\n"
    "g_call: call g_sub\n"
    "g_back: jmp g_end\n"
    "g_sub: ret\n"
    "g_end: outb %al, $0x10\n"          /* to the host, in mid-trace */
    "g_last: jmp g_off\n"
    "   nop\n"
    "g_off: xorl %eax, %eax\n"
    "   wrmsr\n"
    "   jmp     1f\n"
    "1: outb    %al, $0x11\n"
    "   jmp     1b\n"
    "guest_end:\n"
    "   .code64\n"
    "   .popsection\n");

static struct vm guest(void)
{
    struct vm vm = vm_open(guest_begin, guest_end - guest_begin);

    vm_have_bts(&vm);
    vm_ds_area(&vm, 32, 1000);
    return vm;
}

/* Let the guest finish what it has begun. */
static void finish(struct vm *vm)
{
    uint64_t loop = AT(g_after) + 3;
    const uint64_t want[][2] = {
        { AT(g_jmp), AT(g_after) },
        { AT(g_loop), loop },
        { AT(g_loop), loop },
        { AT(g_call), AT(g_sub) },
        { AT(g_sub), AT(g_back) },
        { AT(g_back), AT(g_end) },
        { AT(g_last), AT(g_off) },
    };

    vm_check_records(vm, want, 6);
    CHECK(vm_get_msr(vm, MSR_DEBUGCTL) == DEBUGCTL_ON);
    CHECK(vm_get_msr(vm, MSR_DS_AREA) == VM_DS);
    CHECK(vm_run(vm) == 0x11);
    vm_check_records(vm, want, 7);
    CHECK(vm_get_msr(vm, MSR_DEBUGCTL) == 0);
    CHECK(vm_run(vm) == 0x11);
    vm_check_records(vm, want, 7);
}

static void move(struct vm *from, bool debugctl_first)
{
    struct vm to = guest();
    struct kvm_sregs sregs;
    struct kvm_regs regs;

    memcpy(to.memory, from->memory, 0x10000);
    CHECK(ioctl(from->vcpu, KVM_GET_REGS, &regs) == 0);
    CHECK(ioctl(to.vcpu, KVM_SET_REGS, &regs) == 0);
    CHECK(ioctl(from->vcpu, KVM_GET_SREGS, &sregs) == 0);
    CHECK(ioctl(to.vcpu, KVM_SET_SREGS, &sregs) == 0);
    for (int i = 0; i < 2; i++) {
        uint32_t msr = i != debugctl_first ? MSR_DEBUGCTL : MSR_DS_AREA;

        CHECK(vm_set_msr(&to, msr, vm_get_msr(from, msr)) == 1);
    }
    finish(&to);
}

int main(void)
{
    struct vm vm = guest();
    long bits = ioctl(vm.kvm, KVM_CHECK_EXTENSION, 239 /* KVM_CAP_X86_BTS */);

    if (!bits) {
        printf("this KVM has no BTS for guests\n");
        return 77;
    }
    CHECK(bits == 0x7c0);

    /* The exit lies between the outb and its completion by the next run. */
    CHECK(vm_run(&vm) == 0x10);
    vm.run->immediate_exit = 1;
    CHECK(ioctl(vm.vcpu, KVM_RUN, 0) == -1 && errno == EINTR);
    vm.run->immediate_exit = 0;

    move(&vm, true);
    move(&vm, false);
    finish(&vm);
    return 0;
}
