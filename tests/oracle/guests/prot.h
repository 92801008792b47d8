/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What guests in 32-bit protected mode have in common
 *
 * PROTECTED_MODE goes from the guest's "start" to its "main", in flat code at
 * privilege level 0.  What follows, at the end, holds the tables; what is
 * between its two halves belongs to the guest:
 *
 *     PROTECTED_GDT        descriptors up to SEL_FREE, the guest adds its own
 *     PROTECTED_IDT        ends the GDT; gates 0 to 31, the guest adds others
 *                          from 32 on
 *     PROTECTED_END        ends the IDT; the rest
 */

#define SEL_CODE32      0x08    /* flat */
#define SEL_DATA32      0x10
#define SEL_CODE16      0x18    /* based at BASE */
#define SEL_DATA16      0x20
#define SEL_USER_CODE   0x2b    /* flat, privilege level 3 */
#define SEL_USER_DATA   0x33
#define SEL_TSS         0x38
#define SEL_FREE        0x40    /* the guest's own */

#define STACK           0x7000
#define STACK_FROM_USER 0x6000  /* of interrupts at privilege level 3 */
#define USER_STACK      0x5000

        .macro PROTECTED_MODE
start:
        ENTER_PROTECTED gdtr, SEL_CODE32, SEL_DATA32, protected
        mov $STACK, %esp
        lidt idtr
        mov $SEL_TSS, %ax
        ltr %ax
        jmp main
        .endm

/* A fault in what follows continues at the label. */
        .macro EXPECT vector, label
        movl $\vector, expected
        movl $\label, resume
        .endm

/* A trap of this kind in what follows returns to where it came from. */
        .macro EXPECT_TRAP vector
        EXPECT \vector, 0
        .endm

/* From privilege level 0 to 3. */
        .macro ENTER_USER label
        push $SEL_USER_DATA
        push $USER_STACK
        pushf
        push $SEL_USER_CODE
        push $\label
        mov $SEL_USER_DATA, %ax
        mov %ax, %ds
        mov %ax, %es
        iret
\label:
        .endm

        .macro PROTECTED_GDT
        .balign 8
gdt:    .quad 0
        FLAT D_CODE, F_4G
        FLAT D_DATA, F_4G
        DESC base, 0xffff, D_CODE, F_16
        DESC base, 0xffff, D_DATA, F_16
        FLAT (D_CODE | D_USER), F_4G
        FLAT (D_DATA | D_USER), F_4G
        DESC tss, 103, D_TSS32, 0
        .endm

        .macro PROTECTED_IDT
gdt_end:
        .balign 8
idt:
        .irp n, 0, 1, 2, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, \
                19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
        .if \n == 5             /* int3 and into may come from level 3 */
        GATE vector3, SEL_CODE32, (D_INTR32 | D_USER)
        GATE vector4, SEL_CODE32, (D_INTR32 | D_USER)
        .endif
        GATE vector\n, SEL_CODE32, D_INTR32
        .endr
        .endm

        .macro PROTECTED_END
idt_end:
        .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, \
                18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
vector\n:
        .if \n != 8 && (\n < 10 || \n > 14) && \n != 17
        push $0                 /* as if there were an error code */
        .endif
        push $\n
        jmp common
        .endr

/* Go on at "resume" if it is set, else where the frame says. */
common:
        push %eax
        mov 4(%esp), %eax
        cmp %eax, %cs:expected
        je 1f
        FAIL 0x20
1:      incl %ss:faults
        mov %cs:resume, %eax
        test %eax, %eax
        jz 1f
        mov %eax, 12(%esp)
1:      orl $EFL_RF, 20(%esp)   /* or a breakpoint there would hit again */
        pop %eax
        add $8, %esp
        iret

        .balign 4
expected:
        .long 0
resume: .long 0
faults: .long 0
gdtr:   .word gdt_end - gdt - 1
        .long gdt
idtr:   .word idt_end - idt - 1
        .long idt
        .balign 8
tss:    .long 0, STACK_FROM_USER, SEL_DATA32
        .fill 22, 4, 0
        .long 0x680000          /* no I/O permission map */
        .endm
