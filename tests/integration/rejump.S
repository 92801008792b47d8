/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rejump: a guest that says R, waits for a byte on its serial port, jumps,
 * changes that jump, jumps again, says H and halts
 *
 * The jump is in the page in which it waits: the page that is traced first.
 */

#define PAGE            4096
#define SPIN_INSNS      1000
#define SERIAL          0x3f8
#define LINE_STATUS     5
#define DATA_READY      1

    .macro SAY letter
    movw $SERIAL, %dx
    movb $\letter, %al
    outb %al, %dx
    movb $'\n', %al
    outb %al, %dx
    .endm

#include "multiboot.h"
    cli
    movl $word, %esp
    SAY 'R'
    jmp spin

    .balign PAGE
spin:
    .rept SPIN_INSNS
    incl (%esp)
    .endr
    movw $SERIAL + LINE_STATUS, %dx
    inb %dx, %al
    testb $DATA_READY, %al
    jz spin
jump:
    .byte 0xe9
    .long first - jump - 5

    .balign PAGE
first:
    movl $second - jump - 5, jump + 1
    jmp jump

    .balign PAGE
second:
    SAY 'H'
halt:
    hlt
    jmp halt

    .bss
    .balign 4
word:
    .skip 4
