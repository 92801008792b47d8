/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Virtual-8086 mode: each kind of branch, interrupts and faults out of it
 * and back, with and without the right to interrupt
 *
 * covers: jmp/vm86 jcc/vm86 loop/vm86 jcxz/vm86 jmp_ind/vm86 call/vm86
 * covers: call_ind/vm86 ret/vm86 far_jmp/vm86 far_call/vm86 far_ret/vm86
 * covers: int/vm86 int3/vm86 into/vm86 icebp/vm86 iret/vm86 exception/vm86
 * covers: iret/prot32
 * vectors: 0 1 6 13
 */

#include "guest.h"
#include "prot.h"

#define SEG             (BASE >> 4)

/* Go from privilege level 0 to the label in virtual-8086 mode. */
        .macro ENTER_VM86 label, iopl
        .irp n, 0, 0, SEG, SEG, 0, USER_STACK
        push $\n
        .endr
        push $EFL_VM | (\iopl << 12) | 2
        push $SEG
        push $OFF(\label)
        iret
        .code16
\label:
        .endm

        .macro EXPECT16 vector, label
        movl $\vector, OFF(expected)
        movl $OFF(\label), OFF(resume)
        .endm

        PROTECTED_MODE
main:
        movw $OFF(handler13), idt + 13 * 8
        ENTER_VM86 free, 3
#include "branches16.h"
        lcallw $SEG + 1, $OFF(far) - 16
        ljmpw $SEG - 0x10, $OFF(1f) + 0x100
1:      ljmpw $SEG, $OFF(1f)
1:
        int $0x20
        movl $0, OFF(resume)
        movl $3, OFF(expected)
        int3
        movl $4, OFF(expected)
        mov $0x7f, %al
        inc %al
        into
        xor %al, %al
        into                    /* not taken */
        movl $1, OFF(expected)
        .byte 0xf1
        pushf
        push %cs
        push $OFF(1f)
        iretw
1:      pushfl
        pushl $SEG
        pushl $OFF(1f)
        iretl
1:      EXPECT16 0, 1f
        xor %bx, %bx
        div %bx
1:      EXPECT16 6, 1f
        ud2
1:      EXPECT16 13, 1f
        hlt
1:      EXPECT16 13, 1f
        mov %eax, %cr3
1:
        /* single step, into an interrupt handler and back */
        movl $1, OFF(expected)
        movl $0, OFF(resume)
        pushf
        pop %ax
        or $EFL_TF, %ax
        push %ax
        popf
        jmp 1f
        nop
1:      call near
        lcallw $SEG, $OFF(far)
        int $0x20
        mov $2, %cx
1:      loop 1b
        pushf
        pop %ax
        and $~EFL_TF, %ax
        push %ax
        popf
        nop
        int $0x21
        .code32
second:
        ENTER_VM86 bound, 0
        jmp 1f
        nop
1:      call near
        EXPECT16 13, 1f
        int $0x20
1:      EXPECT16 13, 1f
        pushf
1:      EXPECT16 13, 1f
        popf
1:      EXPECT16 13, 1f
        iretw
1:      EXPECT16 13, 1f
        cli
1:      movl $0, OFF(resume)
        movl $3, OFF(expected)
        int3                    /* allowed all the same */
        int $0x22               /* #GP, which ends it: see handler13 */
        .code32

handler20:
        iret
handler21:
        mov $SEL_DATA32, %ax
        mov %ax, %ds
        mov %ax, %es
        mov $STACK, %esp
        jmp second
last:
        mov $SEL_DATA32, %ax
        mov %ax, %ds
        PASS

/* #GP: the last one ends the test. */
handler13:
        cmpl $0, %ss:resume
        je last
        jmp vector13

        PROTECTED_GDT
        PROTECTED_IDT
        GATE handler20, SEL_CODE32, (D_INTR32 | D_USER)
        GATE handler21, SEL_CODE32, (D_INTR32 | D_USER)
        PROTECTED_END
        GUEST_END
