/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rr-input: a guest that writes what it reads from its serial port, whose FIFO
 * is on, up to a byte 0; before it reads, it writes '>'
 */

#define FIRST           0x3f8
#define FIFO_CONTROL    (FIRST + 2)
#define LINE_STATUS     (FIRST + 5)
#define PM_CONTROL      0x604           /* where the firmware puts it */
#define PM_SLEEP        0x2000

#include "multiboot.h"
    cli
    movw $FIFO_CONTROL, %dx
    movb $7, %al
    outb %al, %dx
    movb $'>', %al
1:  movw $FIRST, %dx
    outb %al, %dx
    movw $LINE_STATUS, %dx
2:  inb %dx, %al
    testb $1, %al
    jz 2b
    movw $FIRST, %dx
    inb %dx, %al
    testb %al, %al
    jnz 1b
    movw $PM_CONTROL, %dx
    movw $PM_SLEEP, %ax
    outw %ax, %dx
3:  hlt
    jmp 3b
