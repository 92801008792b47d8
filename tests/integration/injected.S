/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest that runs a guest of its own, again and again, and each time injects
 * an interrupt, whose handler takes a while.  The test injected knows where
 * the counts are.
 */

#define COUNTS          0x200000        /* of injected and handled ones */

/* APM vol. 2, appendix B */
#define VMCB            0x201000
#define HSAVE           0x202000
#define VMCB_INTERCEPT2 (VMCB + 0x10)
#define VMCB_ASID       (VMCB + 0x58)
#define VMCB_EXIT_CODE  (VMCB + 0x70)
#define VMCB_EVENT      (VMCB + 0xa8)
#define VMCB_ES         (VMCB + 0x400)
#define VMCB_CS         (VMCB + 0x410)
#define VMCB_SS         (VMCB + 0x420)
#define VMCB_DS         (VMCB + 0x430)
#define VMCB_GDTR       (VMCB + 0x460)
#define VMCB_IDTR       (VMCB + 0x480)
#define VMCB_EFER       (VMCB + 0x4d0)
#define VMCB_CR0        (VMCB + 0x558)
#define VMCB_DR7        (VMCB + 0x560)
#define VMCB_DR6        (VMCB + 0x568)
#define VMCB_RFLAGS     (VMCB + 0x570)
#define VMCB_RIP        (VMCB + 0x578)
#define VMCB_RSP        (VMCB + 0x5d8)

#define MSR_EFER        0xc0000080
#define EFER_SVME       0x1000
#define MSR_HSAVE       0xc0010117

#define INTERCEPT_VMRUN_VMMCALL 3
#define EXIT_VMMCALL    0x81
#define EVENT_INTR      0x80000000
#define VECTOR          0x30
#define INTERRUPT_GATE  0x8e00
#define CODE            0x10            /* as Multiboot has them */
#define DATA            0x18
#define LOOPS           1000000

    .macro SEGMENT field, selector, attributes
    movl $(\selector) | (\attributes) << 16, \field
    movl $-1, \field + 4
    .endm

#include "multiboot.h"
    cli
    lgdt gdtr
    ljmp $CODE, $1f
1:  movl $DATA, %eax
    movl %eax, %ds
    movl %eax, %es
    movl %eax, %ss
    movl $MSR_EFER, %ecx
    rdmsr
    orl $EFER_SVME, %eax
    wrmsr
    movl $MSR_HSAVE, %ecx
    movl $HSAVE, %eax
    xorl %edx, %edx
    wrmsr
    movl $handler, %eax
    movw %ax, idt + 8 * VECTOR
    shrl $16, %eax
    movw %ax, idt + 8 * VECTOR + 6
    movw $CODE, idt + 8 * VECTOR + 2
    movw $INTERRUPT_GATE, idt + 8 * VECTOR + 4

    movl $INTERCEPT_VMRUN_VMMCALL, VMCB_INTERCEPT2
    movl $1, VMCB_ASID
    SEGMENT VMCB_ES, DATA, 0xc93
    SEGMENT VMCB_CS, CODE, 0xc9b
    SEGMENT VMCB_SS, DATA, 0xc93
    SEGMENT VMCB_DS, DATA, 0xc93
    movl $gdtr - gdt - 1, VMCB_GDTR + 4
    movl $gdt, VMCB_GDTR + 8
    movl $idt_end - idt - 1, VMCB_IDTR + 4
    movl $idt, VMCB_IDTR + 8
    movl $EFER_SVME, VMCB_EFER
    movl $0x31, VMCB_CR0                /* PE, ET, NE */
    movl $0x400, VMCB_DR7
    movl $0xffff0ff0, VMCB_DR6
next:
    movl $2, VMCB_RFLAGS
    movl $nested, VMCB_RIP
    movl $stack_end, VMCB_RSP
    movl $EVENT_INTR | VECTOR, VMCB_EVENT
    incl COUNTS
    movl $VMCB, %eax
    vmrun
    cmpl $EXIT_VMMCALL, VMCB_EXIT_CODE
    je next
    movl $-1, COUNTS
1:  jmp 1b

nested:
    jmp nested

handler:
    incl COUNTS + 4
    movl $LOOPS, %ecx
1:  loop 1b
    vmmcall

    .data
    .balign 8
gdt:
    .quad 0, 0
    .quad 0x00cf9b000000ffff, 0x00cf93000000ffff
gdtr:
    .word gdtr - gdt - 1
    .long gdt
    .balign 8
idt:
    .skip 8 * (VECTOR + 1)
idt_end:

    .bss
    .balign 16
    .skip 4096
stack_end:
