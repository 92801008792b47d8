/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A boot sector that changes its disk for ever: it reads a sector by the BIOS,
 * adds to each of its words, and writes it back, one sector after the other.
 */
        .code16
        .globl  _start
_start:
        xorw    %ax, %ax
        movw    %ax, %ds
        movw    %ax, %es
        movw    %ax, %ss
        movw    $_start, %sp
        movb    %dl, drive
next:
        incl    round
        movl    round, %eax
        andl    $63, %eax
        addl    $13, %eax
        movl    %eax, sector
        movb    $0x42, %ah
        call    disk
        movw    $0x8000, %di
        movw    $128, %cx
        movl    round, %eax
1:      addl    %eax, (%di)
        addw    $4, %di
        loop    1b
        movb    $0x43, %ah
        call    disk
        jmp     next

/* Interrupt 13h, extended read (%ah = 42h) or write (43h) */
disk:
        xorb    %al, %al
        movb    drive, %dl
        movw    $packet, %si
        int     $0x13
        ret

round:  .long   0
drive:  .byte   0
        .balign 4
packet: .byte   16, 0
        .word   1                       /* sectors */
        .word   0x8000, 0               /* to or from here */
sector: .quad   0

        .org    510
        .word   0xaa55
