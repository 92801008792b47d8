/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Every kind of near branch in 64-bit mode, taken and not taken
 *
 * SDM vol. 3, "Branch Trace Messages" and "Branch Trace Store (BTS)": a taken
 * branch makes a record; one that is not taken makes none.
 */
#include "bare.h"

    .text
    .globl test
test:
    /* Unconditional: short, near, through a register, through memory */
    TRACE_ON TRACE
    B 1f, jmp 1f
    nop
1:  B 2f, .byte 0xe9, 0x02, 0, 0, 0
    nop
    nop
2:  movq    $3f, %rbx
    B 3f, jmp *%rbx
    nop
3:  movq    $4f, slot
    B 4f, jmp *slot
    nop
4:  TRACE_OFF
    CHECK "jmp"

    /* Calls and returns */
    TRACE_ON TRACE
    B leaf, call leaf
after_call:
    E leaf_ret, after_call
    movq    $leaf_indirect, %rbx
    B leaf_indirect, call *%rbx
after_indirect:
    E leaf_indirect, after_indirect
    movq    $leaf_memory, slot
    pushq   $0x1111
    B leaf_memory, call *slot
after_memory:
    E leaf_memory, after_memory
    TRACE_OFF
    CHECK "call and ret"

    /* All conditions, both ways.  mask has what goes to flags. */
    .macro  JCC cc, taken, not_taken
    pushq   $\taken
    popfq
    B 7f, j\cc 7f
    ud2
7:  pushq   $\not_taken
    popfq
    j\cc    8f
8:
    .endm
    .set CF, 1
    .set PF, 4
    .set ZF, 0x40
    .set SF, 0x80
    .set OF, 0x800
    TRACE_ON TRACE
    JCC     o, OF, 0
    JCC     no, 0, OF
    JCC     b, CF, 0
    JCC     ae, 0, CF
    JCC     z, ZF, 0
    JCC     nz, 0, ZF
    JCC     be, ZF, 0
    JCC     a, 0, CF
    JCC     s, SF, 0
    JCC     ns, 0, SF
    JCC     p, PF, 0
    JCC     np, 0, PF
    JCC     l, SF, 0
    JCC     ge, 0, OF
    JCC     le, ZF, 0
    JCC     g, 0, SF
    TRACE_OFF
    CHECK "jcc short"

    TRACE_ON TRACE
    .macro  JCC_NEAR cc, taken, not_taken
    pushq   $\taken
    popfq
    B 7f, .byte 0x0f, 0x80 + \cc, 1, 0, 0, 0
    nop
7:  pushq   $\not_taken
    popfq
    .byte   0x0f, 0x80 + \cc, 0, 0, 0, 0
    .endm
    JCC_NEAR 0, OF, 0
    JCC_NEAR 1, 0, OF
    JCC_NEAR 2, CF, 0
    JCC_NEAR 3, 0, CF
    JCC_NEAR 4, ZF, 0
    JCC_NEAR 5, 0, ZF
    JCC_NEAR 6, ZF, 0
    JCC_NEAR 7, 0, CF
    JCC_NEAR 8, SF, 0
    JCC_NEAR 9, 0, SF
    JCC_NEAR 10, PF, 0
    JCC_NEAR 11, 0, PF
    JCC_NEAR 12, SF, 0
    JCC_NEAR 13, 0, OF
    JCC_NEAR 14, ZF, 0
    JCC_NEAR 15, 0, SF
    TRACE_OFF
    CHECK "jcc near"

    /* loop, loope, loopne, jrcxz, jecxz */
    movl    $3, %ebx
    TRACE_ON TRACE
    movq    $3, %rcx
1:  nop
2:  loop    1b
    E 2b, 1b
    E 2b, 1b
    movq    $2, %rcx
    pushq   $ZF
    popfq
    B 3f, loope 3f
    nop
3:  movq    $2, %rcx
    pushq   $0
    popfq
    loope   4f
4:  movq    $2, %rcx
    B 5f, loopne 5f
    nop
5:  pushq   $ZF
    popfq
    loopne  6f
6:  movq    $0, %rcx
    B 1f, jrcxz 1f
    nop
1:  movabsq $0x100000000, %rcx
    jrcxz   2f
2:  B 3f, jecxz 3f
    nop
3:  TRACE_OFF
    CHECK "loops"

    /* A string instruction is no branch, nor is a conditional move. */
    TRACE_ON TRACE
    movq    $slot, %rdi
    movl    $8, %ecx
    xorl    %eax, %eax
    rep stosb
    cmovz   %rdi, %rbx
    TRACE_OFF
    CHECK "none"

    /* Only with both TR and BTS is anything stored. */
    TRACE_ON DEBUGCTL_TR
    jmp     1f
1:  TRACE_OFF
    CHECK "TR alone"
    TRACE_ON DEBUGCTL_BTS
    jmp     1f
1:  TRACE_OFF
    CHECK "BTS alone"
    ret

leaf:
    nop
leaf_ret:
    ret
leaf_indirect:
    ret
leaf_memory:
    ret     $8

    .bss
slot:
    .quad   0
