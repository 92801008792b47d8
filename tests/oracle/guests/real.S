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

/* A fault in what follows goes on at the label. */
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

        /* near jumps: short, near, with 32-bit offset, indirect */
        jmp 1f
        nop
1:      jmp far_away
back:   .byte 0xe9              /* to the next instruction */
        .word 0
        .byte 0xeb, 0
        .byte 0x66, 0xe9
        .long 1
        nop
        mov $OFF(1f), %ax
        jmp *%ax
        nop
1:      movw $OFF(1f), OFF(pointer)
        jmp *OFF(pointer)
        nop
1:      mov $OFF(1f), %eax
        jmpl *%eax
        nop
1:      mov $3, %cx
1:      dec %cx
        jz 2f
        jmp 1b                  /* backwards */
2:
        /* every condition under many flags: short, near and to the next */
        mov $OFF(flags_table), %si
1:      lodsw
        push %ax
        popf
        .irp cc, o, no, b, ae, e, ne, be, a, s, ns, p, np, l, ge, le, g
        j\cc 2f
        nop
2:
        .endr
        .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
        .byte 0x0f, 0x80 + \n
        .word 1
        nop
        .byte 0x70 + \n, 0
        .byte 0x66, 0x0f, 0x80 + \n
        .long 0
        .endr
        cmp $OFF(flags_end), %si
        jne 1b

        /* loops, with CX and ECX */
        mov $3, %cx
1:      loop 1b
        mov $3, %cx
1:      cmp %cx, %cx
        loope 1b
        mov $3, %cx
1:      cmp $2, %cx
        loopne 1b
        mov $0x10003, %ecx
1:      addr32 loop 2f
2:      test $0xffff, %cx
        jnz 1b
        mov $2, %cx
        .byte 0xe2, 0           /* loop, to the next */
        .byte 0xe2, 0
        jcxz 1f
        nop
1:      inc %cx
        jcxz 1f
        nop
1:      mov $0x10000, %ecx
        jecxz 1f
        jcxz 1f
        nop
1:      xor %ecx, %ecx
        jecxz 1f
        nop
1:
        /* calls and returns */
        call near
        calll near32
        mov $OFF(near), %bx
        call *%bx
        mov %bx, OFF(pointer)
        call *OFF(pointer)
        mov $OFF(near32), %ebx
        calll *%ebx
        push %ax
        call near_pop
        call 1f                 /* to the next */
1:      pop %ax
        lcallw $SEG, $OFF(far)
        lcallw $SEG + 1, $OFF(far) - 16
        lcalll $SEG, $OFF(far32)
        movw $OFF(far), OFF(pointer)
        movw $SEG, OFF(pointer) + 2
        lcallw *OFF(pointer)
        push %ax
        lcallw $SEG, $OFF(far_pop)
        ljmpw $SEG - 0x10, $OFF(1f) + 0x100
1:      ljmpw $SEG, $OFF(1f)
1:      ljmpl $SEG, $OFF(1f)
1:      movw $OFF(1f), OFF(pointer)
        movw $SEG, OFF(pointer) + 2
        ljmpw *OFF(pointer)
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
        /* faults: each goes on behind the instruction */
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

far_away:
        jmp back
near:
        ret
near32:
        retl
near_pop:
        ret $2
far:
        lret
far32:
        lretl
far_pop:
        lret $2
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

        .balign 4
flags_table:
        .word 0x0002, 0x0803, 0x0042, 0x0086, 0x0882, 0x0887, 0x0047, 0x0802
        .word 0x0006, 0x0003, 0x0082, 0x08c7
flags_end:
expected:
        .word 0
resume: .word 0
pointer:
        .word 0, 0
bounds: .word 1, 4
short_idt:
        .word 0x3f * 4 + 3
        .long 0
full_idt:
        .word 0x3ff
        .long 0
        GUEST_END
