/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A piece of program whose branches are known, which runs a vCPU
 *
 * Who includes this says: rig: walk=walk_begin walk_end (T T)*2 T N T*2 N
 */
#ifndef KVM_WALK_H
#define KVM_WALK_H

#include "kvm.h"

/* Enables the event, runs the vCPU three times, and disables the event. */
static __attribute__((noinline)) void traced(long fd, long vcpu)
{
    asm volatile(
        AUX_ENABLE
        "walk_begin:\n"
        "   movl    $3, %%ebx\n"
        "1: movq    %[ioctl], %%rax\n"  /* KVM_RUN, three times */
        "   movq    %[vcpu], %%rdi\n"
        "   movq    %[run], %%rsi\n"
        "   xorl    %%edx, %%edx\n"
        "   syscall\n"
        "   testq   %%rax, %%rax\n"
        "   jz      2f\n"
        "   ud2\n"
        "2: decl    %%ebx\n"
        "   jnz     1b\n"
        "   movl    $3, %%ecx\n"
        "3: nop\n"
        "   loop    3b\n"
        "walk_end:\n"
        AUX_DISABLE
        :
        : AUX_OPERANDS(fd), [vcpu] "m"(vcpu), [run] "i"(KVM_RUN)
        : AUX_CLOBBERS);
}

#endif
