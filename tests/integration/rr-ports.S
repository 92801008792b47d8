/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rr-ports: a guest that writes to several ports in turn
 *
 * The test rr-output has the same list.  %ebx has how many bytes were written.
 * The last two are written by one instruction, which does not count them.
 */

#define FIRST           0x3f8
#define SECOND          0x2f8
#define DEBUG           0xe9
#define PM_CONTROL      0x604           /* where the firmware puts it */
#define PM_SLEEP        0x2000

    .macro WRITE port, text
    .irpc c, \text
    .word \port
    .ascii "\c"
    .endr
    .endm

#include "multiboot.h"
    cli
    xorl %ebx, %ebx
    movl $list, %esi
1:  movw (%esi), %dx
    movb 2(%esi), %al
    outb %al, %dx
    incl %ebx
    addl $3, %esi
    cmpl $end, %esi
    jne 1b
    movl $last, %esi
    movl $2, %ecx
    movw $FIRST, %dx
    cld
    rep outsb
    movw $PM_CONTROL, %dx
    movw $PM_SLEEP, %ax
    outw %ax, %dx
2:  hlt
    jmp 2b

list:
    WRITE FIRST, lo
    WRITE SECOND, log
    WRITE DEBUG, login_
    WRITE FIRST, g
    WRITE SECOND, in_
    WRITE FIRST, in_
    WRITE DEBUG, login_
    WRITE SECOND, login_
    .word FIRST
    .byte 0
    .word FIRST
    .byte 0xff
end:
last:
    .ascii "!?"
