/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Branches in flat 32-bit code, of each kind that needs no interrupt
 *
 * Included where they are to run, with a stack and SEG32 as the selector of
 * this code.
 */

        /* near jumps: short, near, to the next, indirect */
        jmp 1f
        nop
1:      jmp 3f
2:      .byte 0xe9
        .long 0
        .byte 0xeb, 0
        mov $1f, %eax
        jmp *%eax
        nop
1:      movl $1f, pointer32
        jmp *pointer32
        nop
1:      mov $3, %ecx
1:      dec %ecx
        jz 1f
        jmp 1b
3:      jmp 2b
1:
        /* every condition under many flags: short, near and to the next */
        mov $flags_table32, %esi
1:      lodsl
        push %eax
        popf
        .irp cc, o, no, b, ae, e, ne, be, a, s, ns, p, np, l, ge, le, g
        j\cc 2f
        nop
2:
        .endr
        .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
        .byte 0x0f, 0x80 + \n
        .long 1
        nop
        .byte 0x70 + \n, 0
        .byte 0x0f, 0x80 + \n
        .long 0
        .endr
        cmp $flags_table32_end, %esi
        jne 1b

        /* loops, with ECX and CX */
        mov $3, %ecx
1:      loop 1b
        mov $3, %ecx
1:      cmp %ecx, %ecx
        loope 1b
        mov $3, %ecx
1:      cmp $2, %ecx
        loopne 1b
        mov $0x10002, %ecx
1:      addr16 loop 1b
        mov $2, %ecx
        .byte 0xe2, 0           /* loop, to the next */
        .byte 0xe2, 0
        jecxz 1f
        nop
1:      mov $0x10000, %ecx
        jecxz 1f
        jcxz 1f
        nop
1:
        /* calls and returns */
        call near_32
        mov $near_32, %ebx
        call *%ebx
        mov %ebx, pointer32
        call *pointer32
        push %eax
        call near_pop_32
        call 1f                 /* to the next */
1:      pop %eax
        lcall $SEG32, $far_32
        movl $far_32, pointer32
        movw $SEG32, pointer32 + 4
        lcall *pointer32
        push %eax
        lcall $SEG32, $far_pop_32
        ljmp $SEG32, $1f
1:      movl $1f, pointer32
        ljmp *pointer32
1:      jmp branches32_end

near_32:
        ret
near_pop_32:
        ret $4
far_32:
        lret
far_pop_32:
        lret $4
        .balign 4
flags_table32:
        .long 0x0002, 0x0803, 0x0042, 0x0086, 0x0882, 0x0887, 0x0047, 0x0802
        .long 0x0006, 0x0003, 0x0082, 0x08c7
flags_table32_end:
pointer32:
        .long 0, 0
branches32_end:
