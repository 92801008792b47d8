/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * It resets itself by the keyboard controller, by the chipset, and by triple
 * faults in real, protected and 64-bit mode; the last from a branch that was
 * taken
 *
 * covers: far_jmp/real jmp/prot32 jmp_ind/long
 * vectors: 6 14
 * cr3: 0 0x20000
 * resets: 5
 */

#include "guest.h"

#define SEL_CODE32      0x08
#define SEL_DATA        0x10
#define SEL_CODE64      0x18

#define CMOS_COUNT      0x70    /* a byte of the CMOS that is free */
#define PML4            0x20000
#define PDPT            0x21000
#define PAGE_DIR        0x22000
#define PAGE_NONE       0x40000000

start:
        /* which time is it? */
        mov %cs, %ax
        mov %ax, %ds
        xor %ax, %ax
        mov %ax, %ss
        mov $0x7000, %sp
        mov $CMOS_COUNT, %al
        out %al, $0x70
        in $0x71, %al
        mov %al, %bl
        inc %al
        out %al, $0x71
        cmp $0, %bl
        je controller
        cmp $1, %bl
        je chipset
        cmp $2, %bl
        je real_mode
        cmp $3, %bl
        je protected_mode
        cmp $4, %bl
        je protected_mode
        PASS

controller:
        mov $0xfe, %al
        out %al, $0x64
        cli
        hlt
chipset:
        mov $0xcf9, %dx
        mov $0x06, %al
        out %al, %dx
        cli
        hlt
real_mode:
        lidtw OFF(no_idt)
        ud2

protected_mode:
        ENTER_PROTECTED gdtr, SEL_CODE32, SEL_DATA, protected
        lidtl no_idt
        mov $PML4, %edi
        mov $0x3000 / 4, %ecx
        xor %eax, %eax
        rep stosl
        movl $PDPT + 7, PML4
        movl $PAGE_DIR + 7, PDPT
        movl $0x87, PAGE_DIR
        mov $PML4, %eax
        mov %eax, %cr3
        cmp $4, %bl
        je long_mode
        jmp 1f
1:      ud2

long_mode:
        mov %cr4, %eax
        or $CR4_PAE, %eax
        mov %eax, %cr4
        mov $MSR_EFER, %ecx
        rdmsr
        or $EFER_LME, %eax
        wrmsr
        mov %cr0, %eax
        or $CR0_PG, %eax
        mov %eax, %cr0
        ljmp $SEL_CODE64, $1f
        .code64
1:      mov $PAGE_NONE, %eax
        jmp *%rax               /* taken; what it goes to is not there */

        .balign 8
gdt:    .quad 0
        FLAT D_CODE, F_4G
        FLAT D_DATA, F_4G
        FLAT D_CODE, F_64
gdtr:   .word . - gdt - 1
        .long gdt
no_idt: .word 0
        .quad 0
        GUEST_END
