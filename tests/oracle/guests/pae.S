/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * PAE paging: address spaces whose tables are in one page, with other code at
 * the same address; paging modes that change with CR3 as it is
 *
 * covers: jmp/prot32 jcc/prot32 call/prot32 ret/prot32 loop/prot32 int/prot32
 * covers: call_ind/prot32 exception/prot32
 * vectors: 14
 * cr3: 0 0x8000000000020000 0x8000000000020020 0x8000000000020fe0
 * cr3: 0x8000000000020fe8 0x8000000000028000 0x20000 0x28000
 */

#include "guest.h"
#include "prot.h"

#define POINTERS        0x20000         /* WINDOW shows code_page */
#define POINTERS_OTHER  0x20020         /* other_page */
#define POINTERS_LAST   0x20fe0         /* nothing */
#define DIR             0x21000
#define DIR_OTHER       0x22000
#define DIR_LAST        0x23000
#define TABLE           0x24000         /* the first 2 MiB */
#define TABLE_OTHER     0x25000
#define TABLE_LAST      0x26000
#define BOTH            0x28000         /* with PAE and without */
#define TABLE_BOTH      0x29000         /* of 32-bit paging: the first 2 MiB */
#define WINDOW          0x100000
#define ENTRY           (WINDOW >> 12)

#define PWT             8

        .macro LOAD_CR3 value
        mov $\value, %eax
        mov %eax, %cr3
        .endm

        .macro CALL_WINDOW
        mov $WINDOW, %eax
        call *%eax
        .endm

        .macro PAGING_OFF
        mov %cr0, %eax
        and $~CR0_PG, %eax
        mov %eax, %cr0
        jmp 1f
1:      call code_page
        .endm

        .macro PAGING_ON
        mov %cr0, %eax
        or $CR0_PG, %eax
        mov %eax, %cr0
        jmp 1f
1:      call code_page
        .endm

        .macro PAE_ON
        mov %cr4, %eax
        or $CR4_PAE, %eax
        mov %eax, %cr4
        .endm

        .macro PAE_OFF
        mov %cr4, %eax
        and $~CR4_PAE, %eax
        mov %eax, %cr4
        .endm

        PROTECTED_MODE
main:
        mov $POINTERS, %edi
        xor %eax, %eax
        mov $0x9000 / 4, %ecx
        rep stosl
        mov $0x3000 / 4, %ecx
        rep stosl

        /* three tables of 512 entries of 8 bytes, and one of 4 bytes */
        mov $7, %eax
        xor %ecx, %ecx
1:      mov %eax, TABLE(, %ecx, 8)
        mov %eax, TABLE_OTHER(, %ecx, 8)
        mov %eax, TABLE_LAST(, %ecx, 8)
        mov %eax, TABLE_BOTH(, %ecx, 4)
        add $0x1000, %eax
        inc %ecx
        cmp $512, %ecx
        jne 1b
        movl $code_page + 7, TABLE + 8 * ENTRY
        movl $other_page + 7, TABLE_OTHER + 8 * ENTRY
        movl $0, TABLE_LAST + 8 * ENTRY
        movl $other_page + 7, TABLE_BOTH + 4 * ENTRY
        movl $TABLE + 7, DIR
        movl $TABLE_OTHER + 7, DIR_OTHER
        movl $TABLE_LAST + 7, DIR_LAST
        movl $DIR + 1, POINTERS
        movl $DIR_OTHER + 1, POINTERS_OTHER
        movl $DIR_LAST + 1, POINTERS_LAST

        /* while paging is off, what CR3 has is not the address space */
        LOAD_CR3 POINTERS_OTHER
        call code_page
        LOAD_CR3 POINTERS
        call code_page
        PAE_ON
        call code_page
        PAGING_ON

        mov $3, %ebx
1:      LOAD_CR3 POINTERS
        CALL_WINDOW
        LOAD_CR3 POINTERS_OTHER
        CALL_WINDOW
        int $0x20
        dec %ebx
        jnz 1b
        /* from one to the other in the page itself */
        LOAD_CR3 POINTERS
        mov $POINTERS_OTHER, %ecx
        mov $WINDOW + (code_switch - code_page), %eax
        call *%eax

        /* an address that only this one does not have */
        LOAD_CR3 POINTERS_LAST
        mov %esp, %ebp
        EXPECT 14, 1f
        CALL_WINDOW
1:      mov %ebp, %esp
        LOAD_CR3 (POINTERS_LAST + PWT)
        call code_page

        /* The same CR3 with PAE, without paging, and with 32-bit paging */
        LOAD_CR3 POINTERS
        PAGING_OFF
        PAE_OFF
        call code_page
        movl $TABLE_BOTH + 7, POINTERS
        PAGING_ON
        CALL_WINDOW
        PAGING_OFF
        movl $DIR + 1, POINTERS
        PAE_ON
        PAGING_ON
        CALL_WINDOW

        /* and of a page of its own */
        PAGING_OFF
        PAE_OFF
        movl $TABLE_BOTH + 7, BOTH
        LOAD_CR3 BOTH
        PAGING_ON
        CALL_WINDOW
        PAGING_OFF
        movl $DIR + 1, BOTH
        PAE_ON
        PAGING_ON
        CALL_WINDOW
        LOAD_CR3 POINTERS_OTHER
        CALL_WINDOW
        PASS

handler20:
        iret

        PROTECTED_GDT
        PROTECTED_IDT
        GATE handler20, SEL_CODE32, D_INTR32
        PROTECTED_END

        /* position-independent */
        .balign 4096
code_page:
        jmp 1f
        nop
1:      mov $3, %ecx
1:      loop 1b
        call 2f
        cmp %ecx, %ecx
        je 1f
        nop
1:      ret
2:      ret
        .org code_page + 0x800
code_switch:
        mov %ecx, %cr3
        ud2                     /* goes on in other_page */

        .balign 4096
other_page:
        nop
        jmp 1f
        .fill 5, 1, 0x90
1:      mov $2, %ecx
2:      dec %ecx
        jnz 2b
        ret
        .org other_page + 0x800
        mov %ecx, %cr3
        jmp 1f
        nop
1:      ret

        GUEST_END
