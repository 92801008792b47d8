/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * User mode: system calls, compatibility mode, and the filters by CPL
 *
 * SDM vol. 3, "CPL-Qualified Branch Trace Mechanism" and "CPL-Qualified Branch
 * Trace Store Encodings".  What the filters do to a branch that changes the
 * CPL is left open there; here it is the CPL after the branch that counts.
 */
#include "bare.h"

    .macro MSR number, high, low
    movl    $\number, %ecx
    movl    $\high, %edx
    movl    $\low, %eax
    wrmsr
    .endm

    /* The same trip through all levels; each record is expected if \os or
       \usr says so.  It ends at CPL 0. */
    .macro TRIP flags, os, usr
    movq    $1f, come_back
    movq    $13f, sysexit_to
    movl    $15f, compat_pointer
    TRACE_ON \flags
    movq    %rsp, kernel_rsp
    pushq   $SEL_USER_DATA
    pushq   $user_stack_end
    pushq   $0x3002
    pushq   $SEL_USER64
    pushq   $10f
    BIF \usr, 10f, iretq
10: BIF \usr, 11f, jmp 11f
    ud2
11: BIF \os, syscall_entry, syscall
    EIF \os, syscall_jmp, syscall_2
    EIF \usr, syscall_sysret, 12f
12: BIF \os, sysenter_entry, sysenter
    EIF \usr, sysenter_sysexit, 13f
13: BIF \os, user_int, int $0x42
    EIF \usr, user_int_iret, 14f
14: BIF \usr, 15f, ljmp *compat_pointer
    .code32
15: BIF \usr, 16f, jmp 16f
    ud2
16: BIF \usr, 17f, call 17f
17: popl    %eax
    xorl    %ecx, %ecx
    BIF \usr, 18f, jecxz 18f
    ud2
18: movl    $0x7fffffff, %eax
    addl    $1, %eax
    BIF \os, user_into, into
    EIF \usr, user_into_iret, 19f
19: BIF \os, user_int, int $0x42
    EIF \usr, user_int_iret, 20f
20: BIF \usr, 21f, ljmpl $SEL_USER64, $21f
    .code64
21: BIF \os, user_leave, int $0x43
1:
    .endm
    .macro BIF wanted, to, insn:vararg
    .if \wanted
    B \to, \insn
    .else
    \insn
    .endif
    .endm
    .macro EIF wanted, from, to
    .if \wanted
    E \from, \to
    .endif
    .endm

    .text
    .globl test
test:
    MSR MSR_STAR, (SEL_USER32 << 16 | SEL_CODE64), 0
    MSR MSR_LSTAR, 0, syscall_entry
    MSR MSR_SFMASK, 0, 0x700
    MSR MSR_SYSENTER_CS, 0, SEL_CODE64
    MSR MSR_SYSENTER_ESP, 0, (event_stack + STACK_SIZE)
    MSR MSR_SYSENTER_EIP, 0, sysenter_entry
    .macro GATE vector, handler
    movl    $\vector, %edi
    movq    $\handler, %rsi
    movl    $3, %edx
    call    set_gate
    .endm
    GATE 0x42, user_int
    GATE 0x43, user_leave
    GATE 4, user_into

    TRIP TRACE, 1, 1
    CHECK "all"

    TRIP (TRACE | DEBUGCTL_OFF_OS), 0, 1
    CHECK "BTS_OFF_OS"

    TRIP (TRACE | DEBUGCTL_OFF_USR), 1, 0
    CHECK "BTS_OFF_USR"

    TRIP (TRACE | DEBUGCTL_OFF_OS | DEBUGCTL_OFF_USR), 0, 0
    CHECK "both off"
    ret

syscall_entry:
syscall_jmp:
    jmp     syscall_2
    ud2
syscall_2:
    movl    $0x3002, %r11d
syscall_sysret:
    sysretq
sysenter_entry:
    movq    $user_stack_end, %rcx
    movq    sysexit_to, %rdx
sysenter_sysexit:
    sysexitq
user_int:
    nop
user_int_iret:
    iretq
user_into:
    nop
user_into_iret:
    iretq

/* The end of a trip: on with the stack of CPL 0, without another branch */
user_leave:
    movl    $MSR_DEBUGCTL, %ecx
    xorl    %eax, %eax
    xorl    %edx, %edx
    wrmsr
    movq    kernel_rsp, %rsp
    jmp     *come_back

    .data
compat_pointer:
    .long   0
    .word   SEL_USER32

    .bss
    .balign 16
come_back:
    .quad   0
kernel_rsp:
    .quad   0
sysexit_to:
    .quad   0
    .fill   4096
user_stack_end:
