/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Far branches, interrupts and exceptions in 64-bit mode
 *
 * SDM vol. 3, "BTS and DS Save Area": "from" is the instruction from which the
 * branch, interrupt, or exception was taken, "to" the first instruction of the
 * service routine.  "Last Branch, Interrupt, and Exception Recording": a
 * branch with an interrupt right after it makes a record of each.
 */
#include "bare.h"

    .macro GATE vector, handler, dpl=0
    movl    $\vector, %edi
    movq    $\handler, %rsi
    movl    $\dpl, %edx
    call    set_gate
    .endm

    .text
    .globl test
test:
    /* Far jumps, calls and returns; a call gate; an iret to where one likes */
    TRACE_ON TRACE
    B 1f, ljmp *far_pointer
    ud2
far_target:
1:  B far_leaf, lcall *far_leaf_pointer
    E far_leaf_ret, 1f
1:  pushq   $SEL_CODE64
    pushq   $2f
    B 2f, lretq
    ud2
2:  pushq   $SEL_DATA
    leaq    8(%rsp), %rax
    pushq   %rax
    pushfq
    pushq   $SEL_CODE64
    pushq   $3f
    B 3f, iretq
    ud2
3:  TRACE_OFF
    CHECK "far jmp, call, ret, iret"

    movq    $gate_leaf, %rax
    movl    %eax, %ebx
    andl    $0xffff, %ebx
    orl     $SEL_CODE64 << 16, %ebx
    movl    %ebx, gdt + SEL_FREE
    movl    %eax, %ebx
    andl    $0xffff0000, %ebx
    orl     $0x8c00, %ebx
    movl    %ebx, gdt + SEL_FREE + 4
    movq    $0, gdt + SEL_FREE + 8
    TRACE_ON TRACE
    B gate_leaf, lcall *gate_pointer
    E gate_leaf_ret, 1f
1:  TRACE_OFF
    CHECK "call gate"

    /* Software interrupts: from the instruction itself */
    GATE 0x40, int40
    GATE 3, int3_
    GATE 1, int1_
    TRACE_ON TRACE
    B int40, int $0x40
    E int40_iret, 1f
1:  B int3_, int3
    E int3_iret, 1f
1:  B int3_, .byte 0xcd, 3
    E int3_iret, 1f
1:  B int1_, .byte 0xf1
    E int1_iret, 1f
1:  TRACE_OFF
    CHECK "int n, int3, int1"

    /* Faults: from the instruction that faults.  The handler goes on after
       it, which is 2 bytes in each case. */
    GATE 6, fault_skip2
    GATE 0, fault_skip2
    GATE 14, fault_error_skip2
    GATE 13, fault_error_skip2
    TRACE_ON TRACE
    movabsq $0x8000000000000000, %rbx
    movabsq $0x7f0000000000, %rdi
    xorl    %ecx, %ecx
    B fault_skip2, ud2
    E fault_iret, 1f
1:  B fault_skip2, div %ecx
    E fault_iret, 1f
1:  B fault_error_skip2, movb (%rdi), %al
    E fault_error_iret, 1f
1:  B fault_error_skip2, movb (%rbx), %al
    E fault_error_iret, 1f
1:  TRACE_OFF
    CHECK "faults"
    GATE 13, safe_gp

    /* A single step is a trap: from the next instruction.  Stepping over a
       taken branch makes a record of that and one of the trap. */
    GATE 1, step
    TRACE_ON TRACE
    pushfq
    orl     $0x100, (%rsp)
    popfq                       /* steps from the next instruction on */
    nop
step_1:
    E step_1, step
    E step_jne, step_iret
    E step_iret, step_1
    B step_2, jmp step_2
    ud2
step_2:
    E step_2, step
    E step_iret, step_2
    TRACE_OFF
    CHECK "single step"

    /* An interrupt right after a taken branch: both, in that order; "from" of
       the second is where the first went to. */
    GATE 0x41, interrupt
    movl    $APIC, %ebx
    TRACE_ON TRACE
    movl    $0, APIC_ICR2(%rbx)
    movl    $0x4041, APIC_ICR(%rbx)     /* to CPU 0, which this is */
    sti
    B 1f, jmp 1f                        /* in the shadow of STI */
    ud2
1:  nop
    E 1b, interrupt
    E interrupt_iret, 1b
    cli
    TRACE_OFF
    CHECK "interrupt after a branch"

    GATE 2, nmi
    TRACE_ON TRACE
    movl    $0x4400, APIC_ICR(%rbx)     /* an NMI to CPU 0, which this is */
1:  E 1b, nmi
    E nmi_iret, 1b
    TRACE_OFF
    CHECK "NMI"
    ret

far_leaf:
    nop
far_leaf_ret:
    lretl
gate_leaf:
    nop
gate_leaf_ret:
    lretq
int40:
    nop
int40_iret:
    iretq
int3_:
    nop
int3_iret:
    iretq
int1_:
    nop
int1_iret:
    iretq
fault_skip2:
    addq    $2, (%rsp)
fault_iret:
    iretq
fault_error_skip2:
    addq    $8, %rsp
    addq    $2, (%rsp)
fault_error_iret:
    iretq
step:
    cmpq    $step_2, (%rsp)
step_jne:
    jne     step_iret
    andl    $~0x100, 16(%rsp)
step_iret:
    iretq
interrupt:
    movl    $0, APIC_EOI(%rbx)
interrupt_iret:
    iretq
nmi:
    nop
nmi_iret:
    iretq

    .section .rodata
far_pointer:
    .long   far_target
    .word   SEL_CODE64
far_leaf_pointer:
    .long   far_leaf
    .word   SEL_CODE64
gate_pointer:
    .long   0
    .word   SEL_FREE
