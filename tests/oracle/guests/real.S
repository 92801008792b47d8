/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Real mode: each kind of branch, software interrupts, faults, single step
 *
 * covers: jmp/real jcc/real loop/real jcxz/real jmp_ind/real call/real
 * covers: call_ind/real ret/real far_jmp/real far_call/real far_ret/real
 * covers: int/real int3/real into/real icebp/real iret/real exception/real
 * vectors: 0 1 5 6 13
 */

#include "guest.h"

#define SEG             (BASE >> 4)

/* A fault in what follows continues at the label. */
        .macro EXPECT vector, label
        movw $\vector, OFF(expected)
        movw $OFF(\label), OFF(resume)
        .endm

start:
        mov %cs, %ax
        mov %ax, %ds
        mov %ax, %es
        xor %ax, %ax
        mov %ax, %ss
        mov $0x7000, %sp
        mov %ax, %fs
        xor %bx, %bx
        mov $OFF(vector0), %ax
1:      mov %ax, %fs:(%bx)
        movw $SEG, %fs:2(%bx)
        add $vector1 - vector0, %ax
        add $4, %bx
        cmp $32 * 4, %bx
        jne 1b
        movw $OFF(handler_int), %fs:0x40 * 4
        movw $SEG, %fs:0x40 * 4 + 2

#include "branches16.h"
        lcallw $SEG + 1, $OFF(far) - 16
        ljmpw $SEG - 0x10, $OFF(1f) + 0x100
1:      ljmpw $SEG, $OFF(1f)
1:
        /* software interrupts and iret */
        int $0x40
        movw $0, OFF(resume)
        movw $3, OFF(expected)
        int3
        int $3
        movw $1, OFF(expected)
        .byte 0xf1
        movw $4, OFF(expected)
        mov $0x7f, %al
        inc %al
        into
        xor %al, %al
        into                    /* not taken */
        pushf
        push %cs
        push $OFF(1f)
        iretw
1:      pushfl
        pushl $SEG
        pushl $OFF(1f)
        iretl
1:
        /* faults: each continues behind the instruction */
        EXPECT 0, 1f
        xor %bx, %bx
        div %bx
1:      EXPECT 6, 1f
        ud2
1:      EXPECT 6, 1f
        .byte 0xf0, 0x90        /* lock nop */
1:      mov $2, %ax
        bound %ax, OFF(bounds)
        EXPECT 5, 1f
        mov $5, %ax
        bound %ax, OFF(bounds)
1:      lidtw OFF(short_idt)
        EXPECT 13, 1f
        int $0x40               /* beyond the IDT: #GP instead */
1:      lidtw OFF(full_idt)

        /* single step over branches of all sorts */
        movw $1, OFF(expected)
        movw $0, OFF(resume)
        mov $2, %cx
        pushf
        pop %ax
        or $EFL_TF, %ax
        push %ax
        popf
        nop
        jmp 1f
        nop
1:      loop 1b
        call near
        mov $OFF(near), %bx
        call *%bx
        cmp %ax, %ax
        je 1f
        nop
1:      jne 1f
1:      je 1f
1:      lcallw $SEG, $OFF(far)
        int $0x40
        mov $3, %cx
        mov $OFF(pointer), %di
        rep stosb
        mov $3, %cx
        mov $OFF(pointer), %di
        repne scasb             /* ends at the first byte */
        .byte 0xf1
        xor %ax, %ax
        mov %ax, %ss            /* no trap between these two */
        mov $0x7000, %sp
        pushf
        push %cs
        push $OFF(1f)
        iretw
        nop
1:      pushf
        pop %ax
        and $~EFL_TF, %ax
        push %ax
        popf
        nop
        PASS

handler_int:
        iret

        /* all of one size, for the loop that fills in the vectors */
        .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, \
                18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
vector\n:
        push $\n
        .byte 0xe9
        .word common - . - 2
        .endr

/* Go on at "resume" if it is set, else where the frame says. */
common:
        push %bp
        mov %sp, %bp
        push %ax
        mov 2(%bp), %ax
        cmp %ax, %cs:OFF(expected)
        je 1f
        FAIL 0x20
1:      mov %cs:OFF(resume), %ax
        test %ax, %ax
        jz 1f
        mov %ax, 4(%bp)
1:      pop %ax
        pop %bp
        add $2, %sp
        iretw

expected:
        .word 0
resume: .word 0
bounds: .word 1, 4
short_idt:
        .word 0x3f * 4 + 3
        .long 0
full_idt:
        .word 0x3ff
        .long 0
        GUEST_END
