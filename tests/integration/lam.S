/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest with the bits of LAM (61 and 62) in CR3
 *
 * TCG has no LAM and refuses these bits in MOV to CR3, but RSM loads CR3 from
 * SMRAM as it is there, and with 32-bit PAE paging the upper bits mean nothing.
 * So an SMI handler puts them there.
 *
 * It runs a loop of LOOPS branches each in the address spaces 0x5000 with both
 * bits, 0x6000 with none, and 0x5000 with none.
 */

#include "guest.h"

#define LOOPS           1000

#define SMI_PORT        0xb2
#define PCI_ADDRESS     0xcf8
#define PCI_DATA        0xcfc
/* An SMI for each write to SMI_PORT. */
#define PCI_PM_CONTROL  0x80000b58
#define PM_APMC_ENABLE  0x02

#define DIR             0x7000
#define PAGE_2M         0x83            /* the first 2 MiB, as they are */

#define SMBASE          0x30000
#define SMM_ENTRY       0x8000          /* from SMBASE */
#define SMM_CR3         0xff50

        /* CR3 becomes this, and the loop runs. */
        .macro SPACE low, high
        movl $\low, cr3
        movl $\high, cr3 + 4
        out %al, $SMI_PORT
        nop
        mov $LOOPS, %ecx
1:      loop 1b
        .endm

start:
        mov %cs, %ax
        mov %ax, %ds
        mov $SMBASE >> 4, %ax
        mov %ax, %es
        mov $OFF(handler), %si
        mov $SMM_ENTRY, %di
        mov $handler_end - handler, %cx
        rep movsb
        mov $PCI_PM_CONTROL, %eax
        mov $PCI_ADDRESS, %dx
        out %eax, %dx
        mov $PM_APMC_ENABLE, %al
        mov $PCI_DATA + 3, %dx
        out %al, %dx

        ENTER_PROTECTED gdtr, 8, 16, protected
        movl $DIR + 1, 0x5000
        movl $DIR + 1, 0x6000
        movl $PAGE_2M, DIR
        mov $CR4_PAE, %eax
        mov %eax, %cr4
        mov $0x6000, %eax
        mov %eax, %cr3
        mov %cr0, %eax
        or $CR0_PG, %eax
        mov %eax, %cr0
        jmp 1f
1:
        SPACE 0x5000, 0x60000000
        SPACE 0x6000, 0
        SPACE 0x5000, 0
        PASS

        .code16
handler:
        mov $cr3, %ebx
        mov (%ebx), %eax
        mov 4(%ebx), %edx
        mov $SMBASE + SMM_CR3, %ebx
        mov %eax, (%ebx)
        mov %edx, 4(%ebx)
        rsm
handler_end:

        .balign 8
cr3:    .quad 0
gdt:    .quad 0
        FLAT D_CODE, F_4G
        FLAT D_DATA, F_4G
gdtr:   .word gdtr - gdt - 1
        .long gdt
        GUEST_END
