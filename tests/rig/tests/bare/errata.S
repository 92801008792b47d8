/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Errata of BTS that the emulated CPU can be given: each makes another record, or
 * another time of the interrupt, than modes.c and user.S show
 *
 * rig: model=bu8
 * rig: model=ar62
 * rig: model=ar64
 */
#include "bare.h"

    .macro CALL3 function, first, second, third
    movq    $\first, %rdi
    movq    $\second, %rsi
    movl    $\third, %edx
    call    \function
    .endm

    /* To CPL 3 and back */
    .macro TRIP
    pushq   $SEL_USER_DATA
    pushq   $user_stack_end
    pushq   $2
    pushq   $SEL_USER64
    pushq   $3f
    .endm

    .text
    .globl test
test:
    movq    %rsp, kernel_rsp
    CALL3   set_gate, 0x43, leave, 3
    CALL3   set_gate, 13, leave, 0
    CALL3   set_gate, 2, leave, 0

    /* AR62: with a filter, "from" of a change of the CPL is wrong ... */
    movq    $1f, come_back
    TRACE_ON (TRACE | DEBUGCTL_OFF_USR)
    TRIP
    B 2f, jmp 2f
    ud2
2:  iretq
3:  jmp     4f
    ud2
4:  int     $0x43
    E 2b, leave
1:  CHECK "AR62"

    /* ... and right without one. */
    movq    $1f, come_back
    TRACE_ON TRACE
    TRIP
    B 3f, iretq
3:  B 4f, jmp 4f
    ud2
4:  B leave, int $0x43
1:  CHECK "no filter"

    /* BU8: the instruction at the lower canonical boundary is a NOP. */
    CALL3   map_page, 0x7ffffffff000, boundary, PAGE_RW_DIRTY
    movq    $1f, come_back
    TRACE_ON TRACE
    movabsq $0x7fffffffffff, %rdx
    B 0x7fffffffffff, jmp *%rdx
    E 0xffff800000000000, leave
1:  CHECK "BU8"

    /* AR64: the second record reaches the threshold, the third comes before
       the interrupt. */
    movl    $APIC, %edx
    movl    $0x1ff, APIC_SVR(%rdx)
    movl    $LVT_NMI, APIC_LVTPC(%rdx)
    movq    $1f, come_back
    TRACE_ON 0
    movq    $(records + 2 * 24), ds_area + 24
    TRACE_ON_AGAIN (TRACE | DEBUGCTL_BTINT)
    B 2f, jmp 2f
    ud2
2:  B 3f, jmp 3f
    ud2
3:  nop
    B 4f, jmp 4f
    ud2
4:  nop
    ud2
    E 4b, leave
1:  CHECK "AR64"
    ret

    /* With the stack of the test, without another branch while BTS is on */
leave:
    TRACE_OFF
    movq    kernel_rsp, %rsp
    jmp     *come_back

    .data
    .balign 4096
boundary:
    .fill   4096, 1, 0x90

    .bss
    .balign 16
come_back:
    .quad   0
kernel_rsp:
    .quad   0
    .fill   4096
user_stack_end:
