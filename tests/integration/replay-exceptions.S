/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest that executes invalid instructions, and is interrupted by what comes
 * at its serial port: also between an exception and the first instruction of
 * its handler.  When it has got BYTES bytes it powers itself off.
 *
 * The test replay-exceptions knows where the counts are.
 */

#define BYTES           300

#define INVALID_OPCODE  6
#define FIRST_IRQ       32
#define SERIAL_IRQ      4
#define TRAP_GATE       0x8f00          /* interrupts stay enabled */
#define INTERRUPT_GATE  0x8e00

#define PIC             0x20
#define END_OF_IRQ      0x20
#define TIMER           0x40
#define TIMER_DIVISOR   1000
#define SERIAL          0x3f8
#define PM_CONTROL      0x604           /* where the firmware puts it */
#define PM_SLEEP        0x2000

    .macro DESCRIBE vector, handler, type
    movl $\handler, %eax
    movw %ax, idt + 8 * (\vector)
    shrl $16, %eax
    movw %ax, idt + 8 * (\vector) + 6
    movw %cs, idt + 8 * (\vector) + 2
    movw $\type, idt + 8 * (\vector) + 4
    .endm

    .macro OUT port, value
    movb $\value, %al
    .if \port < 256
    outb %al, $\port
    .else
    movw $\port, %dx
    outb %al, %dx
    .endif
    .endm

#include "multiboot.h"
    cli
    movl $stack + 4096, %esp
    DESCRIBE INVALID_OPCODE, invalid, TRAP_GATE
    DESCRIBE FIRST_IRQ + SERIAL_IRQ, serial, INTERRUPT_GATE
    lidt descriptor

    OUT PIC, 0x11
    OUT PIC + 1, FIRST_IRQ
    OUT PIC + 1, 4
    OUT PIC + 1, 1
    OUT PIC + 1, ~(1 << SERIAL_IRQ) & 0xff
    /* It is masked, and ends the slices of a vCPU that has nothing else. */
    OUT TIMER + 3, 0x34
    OUT TIMER, TIMER_DIVISOR & 0xff
    OUT TIMER, TIMER_DIVISOR >> 8
    OUT SERIAL + 2, 0                   /* an interrupt for each byte */
    OUT SERIAL + 4, 0x08                /* OUT2 lets its interrupt through */
    OUT SERIAL + 1, 0x01                /* for bytes that have come */
    OUT SERIAL, '\n'                    /* It is ready. */
    sti
1:  ud2
    cmpl $BYTES, bytes
    jb 1b

    movw $PM_CONTROL, %dx
    movw $PM_SLEEP, %ax
    outw %ax, %dx
    hlt

invalid:
    incl exceptions
    addl $2, (%esp)
    iret

serial:
    pushl %eax
    pushl %edx
    movl 8(%esp), %eax                  /* what it has interrupted */
    addl %eax, sum
    cmpl $invalid, %eax
    jne 2f
    incl between
2:  movw $SERIAL, %dx
    inb %dx, %al
    cmpl $BYTES, bytes                  /* One can come after the last one. */
    jae 3f
    incl bytes
3:
    OUT PIC, END_OF_IRQ
    popl %edx
    popl %eax
    iret

    .section .data
descriptor:
    .word 8 * 40 - 1
    .long idt

    .balign 16
    .globl counts
counts:
exceptions:
    .long 0
bytes:
    .long 0
between:                                /* an exception and its handler */
    .long 0
sum:                                    /* of the interrupted addresses */
    .long 0

    .section .bss
    .balign 8
idt:
    .skip 8 * 40
stack:
    .skip 4096
