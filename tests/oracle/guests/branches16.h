/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Branches in 16-bit code, of each kind that needs no interrupt
 *
 * Included where they are to run, with a base of BASE in CS and DS, a stack,
 * and SEG as what a far pointer to here has for CS.
 */

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
        lcalll $SEG, $OFF(far32)
        movw $OFF(far), OFF(pointer)
        movw $SEG, OFF(pointer) + 2
        lcallw *OFF(pointer)
        push %ax
        lcallw $SEG, $OFF(far_pop)
        ljmpw $SEG, $OFF(1f)
1:      ljmpl $SEG, $OFF(1f)
1:      movw $OFF(1f), OFF(pointer)
        movw $SEG, OFF(pointer) + 2
        ljmpw *OFF(pointer)
1:
        jmp branches16_end

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
        .balign 2
flags_table:
        .word 0x0002, 0x0803, 0x0042, 0x0086, 0x0882, 0x0887, 0x0047, 0x0802
        .word 0x0006, 0x0003, 0x0082, 0x08c7
flags_end:
pointer:
        .word 0, 0
branches16_end:
