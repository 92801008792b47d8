/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Branches in 64-bit code, of each kind that needs no interrupt
 *
 * Included where they are to run, with a stack and SEG64 as the selector of
 * this code.
 */

/* The prefix of MPX, which binutils 2.44 no longer know */
#define BND 0xf2

        /* near jumps: short, near, to the next, indirect, data16 */
        jmp 1f
        nop
1:      jmp 3f
2:      .byte 0xe9
        .long 0
        .byte 0xeb, 0
        mov $1f, %eax
        jmp *%rax
        nop
1:      movq $1f, pointer64
        jmp *pointer64(%rip)
        nop
1:      lea 1f(%rip), %r11
        jmp *%r11
        nop
1:      movq $1f, pointer64
        notrack jmp *pointer64
        nop
1:      mov $3, %ecx
1:      dec %ecx
        jz 1f
        jmp 1b
3:      .byte BND
        jmp 2b
1:
        /* every condition under many flags: short, near and to the next */
        mov $flags_table64, %esi
1:      lodsq
        push %rax
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
        .byte 0x2e, 0x70 + \n, 1        /* with a hint */
        nop
        .endr
        cmp $flags_table64_end, %rsi
        jne 1b

        /* loops, with RCX and ECX */
        mov $3, %ecx
1:      loop 1b
        mov $3, %ecx
1:      cmp %ecx, %ecx
        loope 1b
        mov $3, %ecx
1:      cmp $2, %ecx
        loopne 1b
        mov $0x100000002, %rcx
1:      addr32 loop 1b
        mov $2, %ecx
        .byte 0xe2, 0           /* loop, to the next */
        .byte 0xe2, 0
        jrcxz 1f
        nop
1:      mov $0x100000000, %rcx
        jrcxz 1f
        jecxz 1f
        nop
1:
        /* calls and returns */
        call near_64
        mov $near_64, %ebx
        call *%rbx
        mov %rbx, pointer64
        call *pointer64(%rip)
        .byte BND
        call near_bnd_64
        push %rax
        call near_pop_64
        call rep_ret_64
        call 1f                 /* to the next */
1:      pop %rax
        .byte 0x66, 0x48, 0xe8  /* data16 rex.w call, as linkers make it */
        .long near_64 - . - 4
        movl $1f, pointer64
        movw $SEG64, pointer64 + 4
        ljmp *pointer64
        nop
1:      movl $far_64, pointer64
        movw $SEG64, pointer64 + 4
        lcall *pointer64
        movq $far_q_64, pointer64
        movw $SEG64, pointer64 + 8
        rex.w lcall *pointer64
        movq $1f, pointer64
        rex.w ljmp *pointer64
        nop
1:      push $SEG64
        push $1f
        lretq
        nop
1:      push %rax
        movq $far_pop_64, pointer64
        rex.w lcall *pointer64
        jmp branches64_end

near_64:
        ret
near_bnd_64:
        .byte BND
        ret
rep_ret_64:
        repz ret
near_pop_64:
        ret $8
far_64:
        lretl
far_q_64:
        lretq
far_pop_64:
        lretq $8
        .balign 8
flags_table64:
        .quad 0x0002, 0x0803, 0x0042, 0x0086, 0x0882, 0x0887, 0x0047, 0x0802
        .quad 0x0006, 0x0003, 0x0082, 0x08c7
flags_table64_end:
pointer64:
        .quad 0, 0
branches64_end:
