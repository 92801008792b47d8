/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What guests in 64-bit mode have in common
 *
 * LONG_MODE goes from the guest's "start" to its "main", in 64-bit code at
 * privilege level 0, with the first GiB and the one with the local APIC
 * mapped one to one for all levels.  The list at the end has the tables; the
 * room between them belongs to the guest:
 *
 *     LONG_GDT             descriptors up to SEL_FREE, the guest adds its own
 *     LONG_IDT             ends the GDT; gates 0 to 31, the guest adds others
 *                          from 32 on
 *     LONG_END             ends the IDT; the rest
 */

/* In the order that syscall, sysret, sysenter and sysexit want. */
#define SEL_CODE64      0x08
#define SEL_DATA        0x10
#define SEL_USER_CODE32 0x1b
#define SEL_USER_DATA   0x23
#define SEL_USER_CODE64 0x2b
#define SEL_CODE32      0x38
#define SEL_CODE16      0x40    /* based at BASE */
#define SEL_TSS         0x48
#define SEL_FREE        0x58    /* the guest's own */

#define STACK           0x7000
#define STACK_FROM_USER 0x6000
#define USER_STACK      0x5000
#define STACK_IST       0x4000  /* gates with IST 1 */

#define PML4            0x20000
#define PDPT            0x21000
#define PAGE_DIR        0x22000 /* the first GiB, in pages of 2 MiB */
#define PAGE_DIR_APIC   0x23000 /* the last below 4 GiB */
#define PAGE_TABLE      0x24000 /* the first 2 MiB, in pages of 4 KiB */

        .macro LONG_MODE
start:
        ENTER_PROTECTED gdtr, SEL_CODE32, SEL_DATA, protected
        mov $PML4, %edi
        mov $0x5000 / 4, %ecx
        xor %eax, %eax
        rep stosl
        movl $PDPT + 7, PML4
        movl $PAGE_DIR + 7, PDPT
        movl $PAGE_DIR_APIC + 7, PDPT + 24
        mov $PAGE_TABLE, %edi
        mov $7, %eax
1:      mov %eax, (%edi)
        add $8, %edi
        add $0x1000, %eax
        cmp $0x200007, %eax
        jne 1b
        movl $PAGE_TABLE + 7, PAGE_DIR
        movl $0x200087, PAGE_DIR + 8
        movl $0xfee00087, PAGE_DIR_APIC + 0x1f7 * 8
        mov $PML4, %eax
        mov %eax, %cr3
        mov %cr4, %eax
        or $CR4_PAE | CR4_OSFXSR, %eax
        mov %eax, %cr4
        mov $MSR_EFER, %ecx
        rdmsr
        or $EFER_LME | EFER_SCE, %eax
        wrmsr
        mov %cr0, %eax
        or $CR0_PG | CR0_WP | CR0_MP, %eax
        mov %eax, %cr0
        ljmp $SEL_CODE64, $long_mode
        .code64
long_mode:
        mov $STACK, %esp
        lidt idtr
        mov $SEL_TSS, %ax
        ltr %ax
        jmp main
        .endm

/* A fault in what follows continues at the label. */
        .macro EXPECT vector, label
        movl $\vector, expected
        movl $\label, resume
        .endm

/* A trap of this kind in what follows returns to where it came from. */
        .macro EXPECT_TRAP vector
        EXPECT \vector, 0
        .endm

/* From privilege level 0 to 3; cs decides on the mode there. */
        .macro ENTER_USER label, cs=SEL_USER_CODE64
        push $SEL_USER_DATA
        push $USER_STACK
        pushf
        push $\cs
        push $\label
        iretq
\label:
        .endm

        .macro LONG_GDT
        .balign 8
gdt:    .quad 0
        FLAT D_CODE, F_64
        FLAT D_DATA, F_4G
        FLAT (D_CODE | D_USER), F_4G
        FLAT (D_DATA | D_USER), F_4G
        FLAT (D_CODE | D_USER), F_64
        FLAT (D_DATA | D_USER), F_4G
        FLAT D_CODE, F_4G
        DESC base, 0xffff, D_CODE, F_16
        DESC tss, 103, D_TSS32, 0
        .quad 0
        .endm

        .macro LONG_IDT
gdt_end:
        .balign 8
idt:
        .irp n, 0, 1, 2, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, \
                19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
        .if \n == 5             /* int3 and into may come from level 3 */
        GATE64 vector3, SEL_CODE64, (D_INTR32 | D_USER)
        GATE64 vector4, SEL_CODE64, (D_INTR32 | D_USER)
        .endif
        .if \n == 8
        GATE64 vector\n, SEL_CODE64, D_INTR32, 1
        .else
        GATE64 vector\n, SEL_CODE64, D_INTR32
        .endif
        .endr
        .endm

        .macro LONG_END
idt_end:
        .code64
        .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, \
                18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
vector\n:
        .if \n != 8 && (\n < 10 || \n > 14) && \n != 17
        push $0                 /* as if there were an error code */
        .endif
        push $\n
        jmp common
        .endr

/* Go on at "resume" if it is set, else where the frame says. */
common:
        push %rax
        mov 8(%rsp), %rax
        cmp %eax, expected
        je 1f
        FAIL 0x20
1:      incl faults
        mov resume, %eax
        test %rax, %rax
        jz 1f
        mov %rax, 24(%rsp)
1:      pop %rax
        add $16, %rsp
        iretq

        .balign 8
expected:
        .long 0
resume: .long 0
faults: .long 0
gdtr:   .word gdt_end - gdt - 1
        .quad gdt
idtr:   .word idt_end - idt - 1
        .quad idt
        .balign 8
        .long 0
tss:    .long 0                 /* the quads that follow are aligned */
        .quad STACK_FROM_USER, 0, 0, 0, STACK_IST, 0, 0, 0, 0, 0, 0, 0
        .long 0x680000
        .endm
