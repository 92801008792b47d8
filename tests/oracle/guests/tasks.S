/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Task switches: jumps, calls, interrupts and faults through TSS descriptors
 * and task gates, and back by iret, between address spaces
 *
 * covers: far_jmp/prot32 far_call/prot32 iret/prot32 int/prot32
 * covers: exception/prot32
 * vectors: 6 8 13 14
 * cr3: 0 0x20000 0x22000 0x24000
 */

#include "guest.h"
#include "prot.h"

/* Three address spaces that map the first 4 MiB one to one. */
#define DIR_MAIN        0x20000
#define DIR_OTHER       0x22000
#define DIR_FAULT       0x24000
#define PAGE_TABLE      0x26000
#define PAGE_NONE       0x30000
#define TSS_LIMIT       103

#define SEL_OTHER       SEL_FREE                /* TSS of other */
#define SEL_OTHER_GATE  (SEL_FREE + 0x08)
#define SEL_FAULT       (SEL_FREE + 0x10)       /* TSS of fault_task */
#define SEL_LOST        (SEL_FREE + 0x18)       /* TSS whose EIP is unmapped */
#define SEL_USER_TASK   (SEL_FREE + 0x20)       /* TSS of user_task */
#define SEL_TSS16       (SEL_FREE + 0x28)       /* TSS of other16 */

/* T cr3, eip, esp, cs, ss: a TSS */
        .macro T cr3, eip, esp, cs=SEL_CODE32, ss=SEL_DATA32
        .long 0, STACK_FROM_USER, SEL_DATA32, 0, 0, 0, 0
        .long \cr3, \eip, 2, 0, 0, 0, 0, \esp, 0, 0, 0
        .long \ss, \cs, \ss, \ss, 0, 0, 0, 104 << 16
        .endm

        PROTECTED_MODE
main:
        mov $PAGE_TABLE, %edi
        mov $7, %eax
1:      stosl
        add $0x1000, %eax
        cmp $0x400007, %eax
        jne 1b
        andl $~1, PAGE_TABLE + (PAGE_NONE >> 12) * 4
        mov $DIR_MAIN, %edi
        mov $0x6000 / 4, %ecx
        xor %eax, %eax
        rep stosl
        movl $PAGE_TABLE + 7, DIR_MAIN
        movl $PAGE_TABLE + 7, DIR_OTHER
        movl $PAGE_TABLE + 7, DIR_FAULT
        mov $DIR_MAIN, %eax
        mov %eax, %cr3
        movl $DIR_MAIN, tss + 28
        mov %cr0, %eax
        or $CR0_PG, %eax
        mov %eax, %cr0
        jmp 1f
1:
        /* call and iret */
        movl $other, tss_other + 32
        lcall $SEL_OTHER, $0
        lcall $SEL_OTHER, $0            /* continues behind its iret */
        lcall $SEL_OTHER_GATE, $0
        lcall *far_pointer
        /* jump there and back */
        movl $other_jump, tss_other + 32
        ljmp $SEL_OTHER, $0
        movl $other_jump, tss_other + 32
        ljmp $SEL_OTHER_GATE, $0
        /* a 16-bit TSS: it has no CR3 */
        lcall $SEL_TSS16, $0

        /* an interrupt through a task gate */
        movl $other_interrupt, tss_other + 32
        int $0x20
        int $0x20
        /* a fault through a task gate, with an error code */
        movw $SEL_FAULT, idt + 14 * 8 + 2
        movb $D_TASK, idt + 14 * 8 + 5
        movl $1f, resume
        mov PAGE_NONE, %eax
1:      movl $1f, resume
        jmp PAGE_NONE                   /* on fetching */
1:
        /* a task whose first instruction cannot be fetched */
        movl $1f, resume
        ljmp $SEL_LOST, $0
1:      EXPECT 6, 1f
        ud2
1:
        /* a task at level 3, which is interrupted through a task gate */
        movl $other_interrupt, tss_other + 32
        lcall $SEL_USER_TASK, $0

        /* switches that fail before they begin */
        EXPECT 13, 1f
        lcall $SEL_TSS, $0              /* it is busy */
1:      EXPECT 13, 1f
        ljmp $SEL_TSS + 3, $0
1:
        /* from level 3: a stack that is not there is a double fault */
        movw $SEL_CODE32, idt + 14 * 8 + 2
        movb $D_INTR32, idt + 14 * 8 + 5
        movw $SEL_OTHER, idt + 8 * 8 + 2
        movb $D_TASK, idt + 8 * 8 + 5
        movl $PAGE_NONE + 8, tss + 4
        movl $double_fault, tss_other + 32
        movl $1f, resume
        ENTER_USER user
        int $0x21
        nop
1:      PASS

other:  nop
        iret
        nop
        iret
        iret
        iret
other_jump:
        nop
        ljmp $SEL_TSS, $0
        nop
        ljmp $SEL_TSS, $0
other_interrupt:
        jmp 1f
1:      iret
        jmp other_interrupt
        .code16
other16:
        nop
        iretw
        .code32
user_task:
        jmp 1f
1:      int $0x20                       /* a task gate that level 3 may use */
        int $0x22
handler22:
        mov $SEL_DATA32, %ax
        mov %ax, %ds
        /* back to main: the task that has called user_task */
        pushf
        orl $EFL_NT, (%esp)
        popf
        iret

/* #PF comes here: makes main go on at "resume". */
fault_task:
        mov resume, %eax
        mov %eax, tss + 32
        add $4, %esp                    /* the error code */
        cmpw $SEL_LOST, tss_fault       /* whom it has interrupted */
        je 1f
        iret
        jmp fault_task
1:      ljmp $SEL_TSS, $0
        jmp fault_task

/* #DF: main continues at "resume" too, back at level 0. */
double_fault:
        mov resume, %eax
        mov %eax, tss + 32
        movl $SEL_CODE32, tss + 76
        movl $SEL_DATA32, tss + 80
        movl $STACK, tss + 56
        add $4, %esp
        iret

        PROTECTED_GDT
        DESC tss_other, TSS_LIMIT, D_TSS32, 0
        .word 0, SEL_OTHER
        .byte 0, D_TASK, 0, 0
        DESC tss_fault, TSS_LIMIT, D_TSS32, 0
        DESC tss_lost, TSS_LIMIT, D_TSS32, 0
        DESC tss_user, TSS_LIMIT, D_TSS32, 0
        DESC tss16, 43, 0x81, 0
        PROTECTED_IDT
        .word 0, SEL_OTHER
        .byte 0, D_TASK | D_USER, 0, 0
        GATE handler22, SEL_CODE32, (D_INTR32 | D_USER)
        GATE handler22, SEL_CODE32, (D_INTR32 | D_USER)
        PROTECTED_END
        .balign 4
far_pointer:
        .long 0
        .word SEL_OTHER
        .balign 4
tss_other:
        T DIR_OTHER, other, 0x4000
tss_fault:
        T DIR_FAULT, fault_task, 0x4800
tss_lost:
        T DIR_OTHER, PAGE_NONE, 0x4000
tss_user:
        T DIR_OTHER, user_task, USER_STACK, SEL_USER_CODE, SEL_USER_DATA
tss16:  .word 0, STACK_FROM_USER, SEL_DATA32, 0, 0, 0, 0
        .word OFF(other16), 2, 0, 0, 0, 0, 0x4000, 0, 0, 0
        .word SEL_DATA32, SEL_CODE16, SEL_DATA32, SEL_DATA32, 0
        GUEST_END
