/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Faults of each kind in protected mode with paging: on instructions of all
 * sorts, in the middle of calls, returns, interrupts and their delivery, and
 * on fetching the instruction that a branch went to
 *
 * covers: exception/prot32 call/prot32 iret/prot32 int/prot32
 * vectors: 0 5 6 7 8 10 11 12 13 14 16
 * cr3: 0 0x20000
 */

#include "guest.h"
#include "prot.h"

/*
 * All of the first 4 MiB is mapped one to one but for PAGE_NONE, which is
 * not present, and PAGE_KERNEL, which level 3 may not use.
 */
#define PAGE_DIR        0x20000
#define PAGE_TABLE      0x21000
#define PAGE_NONE       0x30000
#define PAGE_KERNEL     0x31000
#define PAGE_CODE       0x2f000         /* the page before PAGE_NONE */
#define PAGE_READ       0x32000         /* level 3 cannot write here */

#define SEL_ABSENT      SEL_FREE                /* code, not present */
#define SEL_ABSENT_DATA (SEL_FREE + 0x08)
#define SEL_DPL3_GATE   (SEL_FREE + 0x10)       /* to a data segment */
#define SEL_BAD_TSS     (SEL_FREE + 0x18)       /* too short */
#define SEL_ABSENT_TSS  (SEL_FREE + 0x20)

        PROTECTED_MODE
main:
        /* the page tables */
        mov $PAGE_TABLE, %edi
        mov $7, %eax
1:      stosl
        add $0x1000, %eax
        cmp $0x400007, %eax
        jne 1b
        movl $PAGE_TABLE + 7, PAGE_DIR
        mov $PAGE_DIR + 4, %edi
        mov $1023, %ecx
        xor %eax, %eax
        rep stosl
        andl $~1, PAGE_TABLE + (PAGE_NONE >> 12) * 4
        andl $~4, PAGE_TABLE + (PAGE_KERNEL >> 12) * 4
        andl $~2, PAGE_TABLE + (PAGE_READ >> 12) * 4
        mov $PAGE_DIR, %eax
        mov %eax, %cr3
        mov %cr0, %eax
        or $CR0_PG | CR0_WP | CR0_MP, %eax
        mov %eax, %cr0

        /* each kind on an instruction that is no branch */
        EXPECT 0, 1f
        xor %ecx, %ecx
        div %ecx
1:      EXPECT 5, 1f
        mov $5, %eax
        bound %eax, bounds
1:      EXPECT 6, 1f
        ud2
1:      EXPECT 6, 1f
        .byte 0xf0, 0x90        /* lock nop */
1:      mov %cr0, %eax
        or $CR0_TS, %eax
        mov %eax, %cr0
        EXPECT 7, 1f
        fld1
1:      clts
        fninit
        EXPECT 16, 1f
        movw $0x0300, fpu_control
        fldcw fpu_control
        fld1
        fldz
        fdivrp
        fwait
1:      fninit
        EXPECT 11, 1f
        mov $SEL_ABSENT_DATA, %ax
        mov %ax, %ds
1:      EXPECT 12, 1f
        mov $SEL_ABSENT_DATA, %ax
        mov %ax, %ss
1:      EXPECT 13, 1f
        mov $0x4000, %ax
        mov %ax, %es
1:      EXPECT 14, 1f
        mov PAGE_NONE, %eax
1:      EXPECT 14, 1f
        mov %eax, PAGE_READ
1:      EXPECT 14, 1f
        incl PAGE_NONE - 2      /* straddles */
1:      EXPECT 13, 1f
        .byte 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66
        .byte 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x90 /* 16 bytes */
1:
        /* with a repeat prefix: faults after some iterations */
        EXPECT 14, 1f
        mov $8, %ecx
        mov $PAGE_NONE - 12, %edi
        rep stosl
1:      EXPECT 14, 1f
        mov $8, %ecx
        mov $PAGE_NONE - 8, %esi
        mov $PAGE_CODE, %edi
        rep movsl
1:
        /* branches that fault themselves: no record but the fault's */
        EXPECT 14, 1f
        jmp *PAGE_NONE
1:      EXPECT 14, 1f
        call *PAGE_NONE
1:      mov %esp, %ebp
        EXPECT 14, 1f
        mov $PAGE_NONE, %esp
        ret
1:      EXPECT 14, 1f
        mov $PAGE_NONE - 4, %esp
        lret                    /* half of the frame is there */
1:      EXPECT 14, 1f
        mov $PAGE_NONE - 8, %esp
        iret
1:      mov %ebp, %esp
        EXPECT 13, 1f
        ljmp $0, $target
1:      EXPECT 13, 1f
        ljmp $SEL_DATA32, $target
1:      EXPECT 11, 1f
        ljmp $SEL_ABSENT, $target
1:      EXPECT 11, 1f
        lcall $SEL_ABSENT, $target
1:      EXPECT 13, 1f
        lcall $SEL_DPL3_GATE, $0
1:      push $0
        push $target
        EXPECT 13, 1f
        lret
1:      add $8, %esp
        push $SEL_ABSENT
        push $target
        EXPECT 11, 1f
        lret
1:      add $8, %esp
        pushf
        push $SEL_ABSENT
        push $target
        EXPECT 11, 1f
        iret
1:      add $12, %esp
        EXPECT 13, 1f
        push $0                 /* no stack for level 3 */
        push $0
        pushf
        push $SEL_USER_CODE
        push $target
        iret
1:      mov %ebp, %esp
        EXPECT 10, 1f
        ljmp $SEL_BAD_TSS, $0
1:      EXPECT 11, 1f
        ljmp $SEL_ABSENT_TSS, $0
1:
        /* interrupts whose delivery faults: one record */
        EXPECT 13, 1f
        int $0xff               /* beyond the IDT */
1:      EXPECT 11, 1f
        int $0x20               /* gate not present */
1:      EXPECT 11, 1f
        int $0x21               /* its code is not present */
1:      EXPECT 13, 1f
        int $0x22               /* a gate to data */
1:      EXPECT 13, 1f
        int $0x27               /* an empty gate */
1:
        /* a fault whose delivery faults */
        movb $D_INTR32 & 0x7f, idt + 6 * 8 + 5  /* #UD is not present */
        EXPECT 11, 1f
        ud2
1:      movb $D_INTR32 & 0x7f, idt + 13 * 8 + 5
        EXPECT 8, 1f            /* #NP while #GP is delivered: #DF */
        mov $0x4000, %ax
        mov %ax, %es
1:      movb $D_INTR32, idt + 13 * 8 + 5
        movb $D_INTR32, idt + 6 * 8 + 5

        /* a branch to what cannot be fetched: two records */
        EXPECT 14, 1f
        jmp *none
1:      EXPECT 14, 1f
        cmp %eax, %eax
        je PAGE_NONE
1:      EXPECT 14, 1f
        call PAGE_NONE + 0x123
1:      pop %eax
        EXPECT 14, 1f
        push $PAGE_NONE
        ret
1:      EXPECT 14, 1f
        ljmp $SEL_CODE32, $PAGE_NONE
1:      EXPECT 14, 1f
        pushf
        push $SEL_CODE32
        push $PAGE_NONE
        iret
1:      EXPECT 14, 1f
        int $0x23               /* the handler cannot be fetched */
1:      mov %ebp, %esp
        /* falls off the end of a page: no branch, fault of the next */
        movb $0x90, PAGE_NONE - 1
        EXPECT 14, 1f
        jmp PAGE_NONE - 1
1:      movl $0xb8909090, PAGE_NONE - 4 /* mov $imm32 straddles */
        EXPECT 14, 1f
        jmp PAGE_NONE - 4
1:      movl $0xe8909090, PAGE_NONE - 4 /* call straddles */
        EXPECT 14, 1f
        jmp PAGE_NONE - 4
1:      movl $0x0075c085, PAGE_NONE - 4 /* test, jne to the next page */
        xor %eax, %eax
        EXPECT 14, 1f
        jmp PAGE_NONE - 4               /* not taken */
1:      mov $1, %eax
        EXPECT 14, 1f
        jmp PAGE_NONE - 4               /* taken */
1:      movl $0x00eb9090, PAGE_NONE - 4 /* jmp to the next page */
        EXPECT 14, 1f
        jmp PAGE_NONE - 4
1:
        /* level 3 */
        ENTER_USER user
        EXPECT 14, 1f
        mov PAGE_KERNEL, %eax
1:      EXPECT 14, 1f
        jmp PAGE_KERNEL
1:      EXPECT 14, 1f
        mov $PAGE_KERNEL + 4, %esp
        call target             /* the push faults */
1:      EXPECT 14, 1f
        mov $PAGE_NONE + 4, %esp
        call *pointer
1:      EXPECT 14, 1f
        lcall $SEL_USER_CODE, $target
1:      EXPECT 14, 1f
        mov $PAGE_NONE + 16, %esp
        pusha
1:      EXPECT 14, 1f
        mov $PAGE_NONE, %esp
        ret
1:      EXPECT 14, 1f
        mov $PAGE_NONE - 4, %esp
        lret
1:      EXPECT 14, 1f
        mov $PAGE_NONE - 8, %esp
        iret
1:      EXPECT 14, 1f
        mov $PAGE_READ + 4, %esp
        push %eax
1:      mov $USER_STACK, %esp
        EXPECT 13, 1f
        cli
1:      EXPECT 13, 1f
        ljmp $SEL_CODE32, $target
1:      EXPECT 13, 1f
        in $0x80, %al
1:      EXPECT 0, 1f
        xor %ecx, %ecx
        div %ecx
1:      int $0x24
end:    PASS

target: FAIL 0x30
handler24:
        mov $SEL_DATA32, %ax
        mov %ax, %ds
        jmp end

        PROTECTED_GDT
        .word 0xffff, 0
        .byte 0, D_CODE & 0x7f, F_4G, 0
        .word 0xffff, 0
        .byte 0, D_DATA & 0x7f, F_4G, 0
        GATE target, SEL_DATA32, D_CALL32
        DESC tss, 10, D_TSS32, 0
        DESC tss, 103, (D_TSS32 & 0x7f), 0
        PROTECTED_IDT
        GATE target, SEL_CODE32, (D_INTR32 & 0x7f)
        GATE target, SEL_ABSENT, D_INTR32
        GATE target, SEL_DATA32, D_INTR32
        .word PAGE_NONE & 0xffff, SEL_CODE32
        .byte 0, D_INTR32
        .word PAGE_NONE >> 16
        GATE handler24, SEL_CODE32, (D_INTR32 | D_USER)
        .quad 0, 0, 0
        PROTECTED_END
        .balign 4
bounds: .long 1, 4, 0
pointer:
        .long target
none:   .long PAGE_NONE
fpu_control:
        .long 0
        GUEST_END
