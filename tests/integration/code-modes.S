/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A boot sector that runs in each mode of code, and ends QEMU
 *
 * A label whose name ends with _BITS_COUNT begins instructions that are
 * executed COUNT times in the mode of BITS, up to the next such label or "not".
 * The function "poly" is executed in three modes, as other instructions in each.
 */
        .code16
        .globl  _start
_start:
start_16_1:
        cli
        xorw    %ax, %ax
        movw    %ax, %ds
        movw    %ax, %ss
        movw    $_start, %sp
        /* Another segment with the same linear addresses */
        ljmp    $0x7c0, $(far_16_1 - _start)
far_16_1:
        movw    $3, %cx
loop_16_3:
        call    count_16_3
        call    poly
        loop    loop_16_3
wraps_16_1:
        /*
         * To IP 0xf000 and back, over the end of the segment.  QEMU does not
         * wrap IP if the page remains the same without.
         */
        movw    $0x16c0, %ax
        movw    %ax, %ds
        movb    $0xe9, (0)
        movw    $(back_16_1 - _start - 0xf003), (1)
        .byte   0xe9
        .word   0xf000 - (back_16_1 - _start)
back_16_1:
        xorw    %ax, %ax
        movw    %ax, %ds
        lgdt    gdt_register
        movl    %cr0, %eax
        orb     $1, %al
        movl    %eax, %cr0
        ljmp    $0x8, $protected_32_1
count_16_3:
        incw    (0x8e00)
        ret

        .code32
protected_32_1:
        movl    $0x10, %eax
        movl    %eax, %ds
        movl    %eax, %es
        movl    %eax, %ss
        movl    $_start, %esp
        movl    $4, %ecx
loop_32_4:
        call    count_32_4
        call    poly
        decl    %ecx
        jnz     loop_32_4
tables_32_1:
        movl    $0xb003, 0xa000
        movl    $0xc003, 0xb000
        movl    $0x83, 0xc000
        movl    $0, 0xa004
        movl    $0, 0xb004
        movl    $0, 0xc004
        movl    $0x20, %eax             /* PAE */
        movl    %eax, %cr4
        movl    $0xa000, %eax
        movl    %eax, %cr3
        movl    $0xc0000080, %ecx       /* EFER: LME */
        rdmsr
        orb     $1, %ah
        wrmsr
        movl    %cr0, %eax
        btsl    $31, %eax
        jmp     not
count_32_4:
        incl    0x8e04
        ret
not:    /* The address space changes here, in the middle of a block. */
        movl    %eax, %cr0
        jmp     compatible_32_1
compatible_32_1:
        movl    $2, %ecx
loop_32_2:
        decl    %ecx
        jnz     loop_32_2
leave_32_1:
        ljmp    $0x18, $long_64_1

        .code64
long_64_1:
        movl    $5, %ecx
loop_64_5:
        call    count_64_5
        call    poly
        decl    %ecx
        jnz     loop_64_5
leave_64_1:
        jmp     end_64_0
end_64_0:
        /* No record follows. */
        movw    $0xf4, %dx
        movb    $0x10, %al
        outb    %al, %dx
1:      hlt
        jmp     1b
count_64_5:
        incl    0x8e08
        ret

not2:
poly:   .byte   0x40, 0x90              /* inc, nop; or nop with a prefix */
        ret
poly_end:

        .balign 8
gdt:    .quad   0
        .quad   0x00cf9b000000ffff
        .quad   0x00cf93000000ffff
        .quad   0x00af9b000000ffff
gdt_register:
        .word   . - gdt - 1
        .long   gdt

        .org    510
        .word   0xaa55
