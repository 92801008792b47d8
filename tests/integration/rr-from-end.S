/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * rr-from-end: a guest that writes to memory, and ends as the last character of
 * its command line says
 *
 * The test rr-from-end knows how many instructions there are from one write to
 * the next one.
 */

#define COMMAND_LINE    16              /* in the boot information */

#define WRITES          8
#define PAUSE           100

#define SERIAL          0x3f8
#define DEBUG_EXIT      0xf4
#define PVPANIC         0x505
#define RESET           0xcf9
#define CMOS            0x70
#define CMOS_FREE       0x7e
#define PM_CONTROL      0x604           /* where the firmware puts it */
#define PM_SLEEP        0x2000

    .globl count, copy, writes, reads
#include "multiboot.h"
    cli
    movl COMMAND_LINE(%ebx), %esi
1:  movb (%esi), %al
    testb %al, %al
    jz 2f
    movb %al, %bl
    incl %esi
    jmp 1b

2:  movl $WRITES, %ecx
    cmpb $'k', %bl
    jne 3f
    xorl %ecx, %ecx                     /* until it is killed */
3:  movl $PAUSE, %edx
4:  decl %edx
    jnz 4b
writes:
    movl %ecx, count
reads:
    movl count, %esi
    movl %esi, copy
    testl $0xffff, %ecx
    jnz 5f
    movw $SERIAL, %dx
    movb $'.', %al
    outb %al, %dx
5:  decl %ecx
    jnz 3b

    cmpb $'p', %bl
    je panic
    cmpb $'d', %bl
    je debug_exit
    cmpb $'r', %bl
    je reset
    cmpb $'t', %bl
    je triple_fault
    cmpb $'a', %bl
    je again
power_off:
    movw $PM_CONTROL, %dx
    movw $PM_SLEEP, %ax
    outw %ax, %dx
    jmp rest

panic:
    movw $PVPANIC, %dx
    movb $1, %al
    outb %al, %dx
    jmp rest

debug_exit:
    movb $0, %al
    outb %al, $DEBUG_EXIT
    jmp rest

    /* It is reset once, and is off then. */
again:
    movb $CMOS_FREE, %al
    outb %al, $CMOS
    inb $CMOS + 1, %al
    testb %al, %al
    jnz power_off
    movb $1, %al
    outb %al, $CMOS + 1
reset:
    movw $RESET, %dx
    movb $6, %al
    outb %al, %dx
    jmp rest

triple_fault:
    lidt no_table
    int3
rest:
    hlt
    jmp rest

    .balign 8
no_table:
    .quad 0
count:
    .long 77
copy:
    .long 0
