/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest with page tables where there is no RAM
 *
 * In a loop it calls a function in the upper half of the address space, as a
 * kernel does to switch to a task, and causes a page fault in an instruction
 * that QEMU executes alone.  It ends if the fault has another error code than it
 * should have.  What is at fixed addresses is known to the test.
 */

#include "guest.h"
#include "long.h"

#define HIGH            0xffffff8000000000      /* all of it once more */
#define HOOK            0x4000                  /* from BASE */
#define STRAY           0x40000000              /* a GiB */
#define NO_RAM          0xe0000000              /* of physical addresses */
#define CURRENT         0x8000
#define TASK            0x8100

#define READ_ONLY       0x180000
#define PROTECTED_WRITE 3                       /* its error code */

        LONG_MODE
main:
        /* The timer interrupts nothing. */
        mov $0xff, %al
        out %al, $0x21
        out %al, $0xa1
        movq $PDPT + 7, PML4 + 511 * 8
        mov $NO_RAM + 7, %eax
        mov %rax, PDPT + (STRAY >> 30) * 8
        movl $READ_ONLY + 5, PAGE_TABLE + (READ_ONLY >> 12) * 8
        mov %cr3, %rax
        mov %rax, %cr3
        movw $OFF(fault), idt + 14 * 16

        /* Its numbers, name and flags */
        movl $77, TASK
        movl $76, TASK + 4
        movl $0x79617274, TASK + 8
        movl $0, TASK + 12
        movl $0x200040, TASK + 24
        movabs $HIGH + TASK, %rax
        mov %rax, CURRENT
        sti

        /* The task that runs switches to itself. */
1:      mov CURRENT, %rdi
        mov %rdi, %rsi
        movabs $HIGH + BASE + HOOK, %rax
        call *%rax
        /* Such an access is not atomic with other vCPUs running. */
        lock incl READ_ONLY - 2
        FAIL 0x21
2:      jmp 1b

fault:
        pop %rbx
        cmp $PROTECTED_WRITE, %rbx
        je 1f
        FAIL 0x22
1:      movq $2b, (%rsp)
        iretq

        LONG_GDT
        LONG_IDT
        LONG_END

        /* More than an instruction, so that the first is not a block's last */
        .org base + HOOK
        push %rax
        pop %rax
        ret
        GUEST_END
