/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest that writes to its pages in all the ways there are, for ever, with
 * much time between two writes.  A timer interrupts it meanwhile.
 *
 * The test written-pages knows the addresses.
 */

#define DELAY           400000

#define FRAME(n)        (0x200000 + (n) * 0x1000)
#define PAGE(n)         (0x40000000 + (n) * 0x1000)
#define DIRECTORY       0x300000
#define LOW_TABLE       0x301000
#define TABLE           0x302000
#define STACK           0x310000

#define WRITABLE        3
#define LAPIC           0xfee00000
#define LAPIC_TPR       0x80
#define ROM             0xffff0000

/* PAGE(0) has a frame, and sometimes another one; PAGE(1) is its alias. */
#define DATA            PAGE(0)
#define STRING          (PAGE(0) + 0x100)
#define FPU             (PAGE(0) + 0x200)
#define PUSHED          (PAGE(0) + 0x400)
#define BITS            (PAGE(0) + 0x500)
#define DEBUGGED        (PAGE(0) + 0x600)
#define SOURCE          (PAGE(0) + 0x700)
#define ALIAS           PAGE(1)
#define CROSSED         (PAGE(4) - 2)
#define DEVICE          (PAGE(5) + LAPIC_TPR)
#define FIRMWARE        PAGE(6)
#define CODE            PAGE(7)
#define COUNTS          PAGE(8)
#define HITS            (PAGE(8) + 0x10)

#define PIC             0x20
#define END_OF_IRQ      0x20
#define TIMER           0x40
#define TIMER_HZ        200

    .macro DESCRIBE vector, handler
    movl $\handler, %eax
    movw %ax, idt + 8 * \vector
    shrl $16, %eax
    movw %ax, idt + 8 * \vector + 6
    movw %cs, idt + 8 * \vector + 2
    movw $0x8e00, idt + 8 * \vector + 4
    .endm

    .macro MAP page, frame
    movl $\frame | WRITABLE, TABLE + (\page - PAGE(0)) / 0x1000 * 4
    .endm

    .macro WAIT
    movl $DELAY, %ecx
1:  decl %ecx
    jnz 1b
    .endm

#include "multiboot.h"
    cli
    movl $STACK, %esp
    lgdt gdt_pointer
    ljmp $8, $1f
1:  movl $16, %eax
    movl %eax, %ds
    movl %eax, %es
    movl %eax, %ss
    xorl %ebx, %ebx                     /* It has the loader's information. */
    DESCRIBE 1, debug
    DESCRIBE 8, timer
    DESCRIBE 0x30, call
    lidt idt_pointer

    movl $LOW_TABLE, %edi
    movl $WRITABLE, %eax
1:  stosl
    addl $0x1000, %eax
    cmpl $LOW_TABLE + 0x1000, %edi
    jb 1b
    movl $LOW_TABLE | WRITABLE, DIRECTORY
    movl $TABLE | WRITABLE, DIRECTORY + (PAGE(0) >> 22) * 4
    MAP PAGE(0), FRAME(0)
    MAP PAGE(1), FRAME(0)
    MAP PAGE(3), FRAME(3)
    MAP PAGE(4), FRAME(4)
    MAP PAGE(5), LAPIC
    MAP PAGE(6), ROM
    MAP PAGE(7), FRAME(7)
    MAP PAGE(8), FRAME(8)
    MAP PAGE(9), FRAME(9)
    movl $DIRECTORY, %eax
    movl %eax, %cr3
    movl %cr4, %eax
    orl $0x200, %eax                    /* OSFXSR */
    movl %eax, %cr4
    movl %cr0, %eax
    orl $0x80000000, %eax               /* PG */
    andl $~0xc, %eax                    /* EM, TS */
    movl %eax, %cr0

    movb $0xc3, CODE                    /* ret */
    movl $DEBUGGED, %eax
    movl %eax, %dr0
    movl $SOURCE, %eax
    movl %eax, %dr1
    movl $DEBUGGED + 2, %eax
    movl %eax, %dr2
    /* Writes of four bytes, all accesses to four, writes of two */
    movl $0x5fd0015, %eax
    movl %eax, %dr7

    movb $0x34, %al
    outb %al, $TIMER + 3
    movb $(1193182 / TIMER_HZ) & 255, %al
    outb %al, $TIMER
    movb $(1193182 / TIMER_HZ) >> 8, %al
    outb %al, $TIMER
    movb $0xfe, %al                     /* The timer only */
    outb %al, $PIC + 1
    sti
    fninit

round:
    incl %ebx
    WAIT
    movl %ebx, DATA
    WAIT
    movl %ebx, DATA                     /* It does not change. */
    WAIT
    notl DATA                           /* Nor here, in the end */
    notl DATA
    WAIT
    movl %ebx, ALIAS
    WAIT
    movl %ebx, FRAME(0)
    WAIT
    MAP PAGE(0), FRAME(1)
    invlpg PAGE(0)
    movl %ebx, DATA
    WAIT
    movl %ebx, DATA
    MAP PAGE(0), FRAME(0)
    invlpg PAGE(0)
    WAIT
    movl %ebx, CROSSED
    WAIT
    movl $0, DEVICE
    WAIT
    movl %ebx, FIRMWARE
    WAIT
    lock xaddl %eax, DATA
    lock cmpxchg8b DATA
    WAIT
    movl $STRING, %edi
    movl $32, %ecx
    rep stosl
    WAIT
    fxsave FPU
    WAIT
    cli
    movl %esp, %ebp
    movl $PUSHED + 0x10, %esp
    int $0x30
    movl $PUSHED + 0x20, %esp
    pushl %ebx
    movl %ebp, %esp
    sti
    WAIT
    btsl %ebx, BITS
    WAIT
    movl $COUNTS, %esi
    movl $BITS, %edi
    movsl
    WAIT
    call *code
    movl %ebx, CODE + 64
    call *code
    WAIT
    movl %ebx, DEBUGGED
    WAIT
    movl $SOURCE, %esi
    movl $DEBUGGED, %edi
    movsl
    jmp round

code:
    .long CODE

debug:
    incl COUNTS
    pushl %eax
    movl %dr6, %eax
    .irp register, 0, 1, 2
    shrl %eax
    adcl $0, HITS + 4 * \register
    .endr
    movl $0xffff0ff0, %eax
    movl %eax, %dr6
    popl %eax
    iret

timer:
    pushl %eax
    movb $END_OF_IRQ, %al
    outb %al, $PIC
    popl %eax
    iret

call:
    iret

    .balign 8
gdt:
    .quad 0, 0xcf9a000000ffff, 0xcf92000000ffff
gdt_pointer:
    .word . - gdt - 1
    .long gdt
idt_pointer:
    .word 8 * 0x31 - 1
    .long idt

    .bss
    .balign 8
idt:
    .skip 8 * 0x31
