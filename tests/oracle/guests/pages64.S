/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * 64-bit code in pages of all sorts: both halves of the address space and
 * their ends, wrapped addresses, instructions and branches across pages, large
 * pages, pages that must not be executed, address spaces with PCIDs, code that
 * modifies itself
 *
 * covers: jmp/long jcc/long call/long ret/long loop/long jmp_ind/long
 * covers: call_ind/long int/long far_call/long exception/long
 * covers: jmp/compat32 call/compat32 jmp_ind/compat32 exception/compat32
 * vectors: 6 13 14
 * cr3: 0 0x20000 0x20001 0x26002 0x26fff
 * qemu: -cpu max
 */

#include "guest.h"
#include "long.h"

#define PML4_OTHER      0x26000         /* WINDOW shows other_page */
#define PDPT_OTHER      0x27000
#define DIR_OTHER       0x28000
#define TABLE_OTHER     0x29000
#define PDPT_TOP        0x2a000         /* the last page of what it maps ... */
#define DIR_TOP         0x2b000
#define TABLE_TOP       0x2c000         /* ... is LAST of this table */
#define LAST            0xff8

#define WINDOW          0x100000        /* mapped here and there */
#define NONE            0x180000        /* not present */
#define NO_EXECUTE      0x181000
#define LARGE           0x200000        /* a page of 2 MiB */
#define HIGH_HALF       0xffff800000000000      /* shows all again */
#define TOP             0xfffffffffffff000
#define TOP_COMPAT      0xfffff000
#define TOP_LOW_HALF    0x00007ffffffff000

#define CR4_PCIDE       0x20000
#define EFER_NXE        0x800

        .macro MAP address, physical
        movl $\physical + 7, PAGE_TABLE + ((\address >> 12) & 0x1ff) * 8
        invlpg \address
        .endm

        .macro UNMAP address
        movl $0, PAGE_TABLE + ((\address >> 12) & 0x1ff) * 8
        invlpg \address
        .endm

/* FILL label, bytes: with nop */
        .macro FILL label, bytes
        mov $\label, %edi
        mov $0x90, %al
        mov $\bytes, %ecx
        rep stosb
        .endm

        LONG_MODE
main:
        mov $PML4_OTHER, %edi
        mov $0x7000 / 8, %ecx
        xor %eax, %eax
        rep stosq
        mov $PAGE_TABLE, %esi
        mov $TABLE_OTHER, %edi
        mov $512, %ecx
        rep movsq
        movl $PDPT_OTHER + 7, PML4_OTHER
        movl $DIR_OTHER + 7, PDPT_OTHER
        movl $TABLE_OTHER + 7, DIR_OTHER
        movl $other_page + 7, TABLE_OTHER + (WINDOW >> 12) * 8
        movl $PDPT + 7, PML4 + 256 * 8
        movl $PDPT_TOP + 7, PML4 + 255 * 8
        movl $PDPT_TOP + 7, PML4 + 511 * 8
        movl $DIR_TOP + 7, PDPT_TOP + LAST
        movl $TABLE_TOP + 7, DIR_TOP + LAST
        movl $TABLE_TOP + 7, PAGE_DIR_APIC + LAST
        movl $top_page + 7, TABLE_TOP + LAST
        movl $0, PAGE_TABLE + (NONE >> 12) * 8
        mov $MSR_EFER, %ecx
        rdmsr
        or $EFER_NXE, %eax
        wrmsr
        orl $0x80000000, PAGE_TABLE + (NO_EXECUTE >> 12) * 8 + 4
        mov %cr4, %rax
        or $CR4_PCIDE, %eax
        mov %rax, %cr4

        /* one page at several addresses, in both halves */
        MAP WINDOW, code_page
        mov $code_page, %esi
        mov $LARGE, %edi
        mov $0x1000 / 8, %ecx
        rep movsq
        mov $HIGH_HALF, %r12
        mov $3, %ebx
1:      call code_page
        mov $WINDOW, %eax
        call *%rax
        lea WINDOW(%r12), %rax
        call *%rax
        lea code_page(%r12), %rax
        push $2f
        jmp *%rax
2:      call LARGE
        lea LARGE(%r12), %rax
        call *%rax
        dec %ebx
        jnz 1b
        /* from one half into the other and back */
        lea 1f(%r12), %rax
        jmp *%rax
1:      call near
        mov $1f, %eax
        jmp *%rax
1:
        /* over the end of all addresses: falls, jumps, calls, straddles */
        MAP 0, low_page
        .irp offset, 0xff0, 0xfe0, 0xfd0, 0xfc0
        mov $1f, %esi
        mov $TOP + \offset, %rax
        jmp *%rax
1:      mov $STACK, %esp
        .endr
        /* over the end of the lower half: not canonical */
        .irp offset, 0xff0, 0xfe0, 0xfd0, 0xfc0
        EXPECT 13, 1f
        mov $TOP_LOW_HALF + \offset, %rax
        jmp *%rax
1:      mov $STACK, %esp
        .endr
        /* over 4 GiB in 32-bit code */
        push $SEL_CODE32
        push $1f
        lretq
        .code32
1:      .irp offset, 0xfe0, 0xfd0
        mov $1f, %esi
        mov $TOP_COMPAT + \offset, %eax
        jmp *%eax
1:      mov $STACK, %esp
        .endr
        EXPECT 14, 1f
        jmp NONE
1:      ljmp $SEL_CODE64, $1f
        .code64
1:      MAP 0, 0

        /* pages that must not be executed */
        EXPECT 14, 1f
        jmp NO_EXECUTE
1:      EXPECT 14, 1f
        call NO_EXECUTE
1:      movl $0x90909090, NO_EXECUTE - 4 + 0x1000
        mov $STACK, %esp
        EXPECT 14, 1f
        lea NO_EXECUTE(%r12), %rax
        push %rax
        ret
1:      mov $STACK, %esp
        EXPECT 14, 1f
        lea NONE(%r12), %rax
        call *%rax
1:      mov $STACK, %esp

        /* two pages: what is behind the first changes */
        MAP WINDOW, end_page
        mov $2, %ebx
1:      MAP (WINDOW + 0x1000), tail_page1
        call ends
        MAP (WINDOW + 0x1000), tail_page2
        call ends
        dec %ebx
        jnz 1b
        UNMAP (WINDOW + 0x1000)
        .irp offset, 0xff0, 0xfe0, 0xfd0, 0xfc0, 0xfb0
        EXPECT 14, 1f
        mov $WINDOW + \offset, %eax
        call *%rax
1:      mov $STACK, %esp
        .endr
        orl $0x80000000, PAGE_TABLE + (WINDOW >> 12) * 8 + 12
        movl $tail_page1 + 7, PAGE_TABLE + (WINDOW >> 12) * 8 + 8
        .irp offset, 0xff0, 0xfe0, 0xfd0, 0xfc0, 0xfb0
        EXPECT 14, 1f
        mov $WINDOW + \offset, %eax
        call *%rax
1:      mov $STACK, %esp
        .endr
        movl $0, PAGE_TABLE + (WINDOW >> 12) * 8 + 12

        /* address spaces with PCIDs */
        MAP WINDOW, code_page
        mov $3, %ebx
1:      mov $PML4 + 1, %eax
        mov %rax, %cr3
        call WINDOW
        mov $PML4_OTHER + 2, %eax
        mov %rax, %cr3
        call WINDOW
        mov $PML4 + 1, %eax
        mov %rax, %cr3
        call WINDOW
        mov $PML4_OTHER + 0xfff, %eax
        mov %rax, %cr3
        call WINDOW
        dec %ebx
        jnz 1b
        mov $PML4, %eax
        mov %rax, %cr3

        /* code that modifies what comes next: a displacement, a condition */
        mov $4, %ebx
modify: mov %bl, 1f + 1(%rip)
1:      jmp 2f
        nop
        nop
        nop
        nop
        nop
2:      nop
        nop
        nop
        nop
        xorb $1, 1f(%rip)
        cmp %eax, %eax
1:      je 1f
        nop
1:      lea 1f(%r12), %rdi      /* in the other half */
        xorb $1, (%rdi)
1:      jne 1f
        nop
1:      mov $0x9090909001ebc031, %rax   /* xor %eax, %eax; jmp .+3 */
        test $1, %bl
        jz 1f
        mov $0x909001ebc0319090, %rax
1:      xchg %rax, 1f(%rip)
1:      .fill 8, 1, 0x90
        mov $0x9090909002ebc031, %rax
        lock xadd %rax, 1f(%rip)
        .balign 8
1:      .quad 0
        movq $0, 1b
        movups pattern(%rip), %xmm0
        movups %xmm0, 1f(%rip)
1:      .fill 16, 1, 0xcc
        dec %ebx
        jnz modify

        /* a string instruction that overwrites what follows, and itself */
        mov $3, %ebx
rewrite:
        FILL 1f, 16
        mov $pattern, %esi
        mov $1f, %edi
        mov $2, %ecx
        rep movsq
1:      .fill 16, 1, 0x90
        dec %ebx
        jnz rewrite
        mov $0x9090909090909090, %rax
        mov $1f, %edi
        mov $3, %ecx
        .byte 0xeb, 0
1:      rep stosq               /* becomes nop, before it has ended */
        .fill 21, 1, 0x90
        jmp 1f
1:
        /* calls, an interrupt and a fault that push onto their own block */
        .macro ONTO_ITSELF bytes, code:vararg
        mov $3, %ebx
1:      mov $2f + \bytes, %esp
        mov $3f, %eax
        jmp 2f
        .balign 16
2:      .fill \bytes, 1, 0x90
        \code
3:      FILL 2b, \bytes
        dec %ebx
        jnz 1b
        .endm
        ONTO_ITSELF 8, call 3f
        ONTO_ITSELF 8, call *%rax
        movl $3f, far_pointer
        movw $SEL_CODE64, far_pointer + 4
        ONTO_ITSELF 8, lcall *far_pointer
        ONTO_ITSELF 48, int $0x20
        ONTO_ITSELF 8, enter $0, $0
        mov $3, %ebx
1:      mov $2f + 96, %esp
        EXPECT 6, 3f
        jmp 2f
        .balign 16
2:      .fill 96, 1, 0x90
        ud2
3:      FILL 2b, 96
        dec %ebx
        jnz 1b
        mov $STACK, %esp
        PASS

near:   ret
handler20:
        iretq
/* Run all that is at the end of the page in WINDOW. */
ends:   .irp offset, 0xff0, 0xfe0, 0xfd0, 0xfc0, 0xfb0
        mov $WINDOW + \offset, %eax
        call *%rax
        .endr
        ret

        LONG_GDT
        LONG_IDT
        GATE64 handler20, SEL_CODE64, D_INTR32
        LONG_END
        .balign 16
pattern:
        jmp 1f
        nop
1:      cmp %eax, %eax
        je 1f
        nop
1:      .fill 8, 1, 0x90
far_pointer:
        .quad 0, 0

        /* position-independent, since they run at several addresses */
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
1:      lea 1f(%rip), %rax
        jmp *%rax
        nop
1:      jne 2f
        jmp 3f
2:      ret
3:      ret

        .balign 4096
other_page:
        nop
        jmp 1f
        .fill 5, 1, 0x90
1:      mov $2, %ecx
2:      dec %ecx
        jnz 2b
        ret

/* The last page of all: continues at address 0, in 32-bit and 64-bit code. */
        .balign 4096
top_page:
        .org top_page + 0xfc0
        jmp 1f                          /* an instruction in both pages */
        .org top_page + 0xfd0
        call top_page + 0x1000
        .org top_page + 0xfe0
        jmp top_page + 0x1000
        .org top_page + 0xfe8
1:      jmp 2f
        .org top_page + 0xff0
        nop
        jmp 1f
        nop
1:      .org top_page + 0xffa, 0x90
        jmp 1f
2:      test %al, %al
1:      .byte 0xa9, 0                   /* test $imm32, %eax */

        .balign 4096
low_page:
        .byte 0x90, 0x90, 0x90
        jmp *%rsi

/* What is at its end continues in one of the two that follow. */
        .balign 4096
end_page:
        .org end_page + 0xfb0
        jmp end_page + 0xff5
        .org end_page + 0xfc0
        jmp end_page + 0x1010
        .org end_page + 0xfd0
        call end_page + 0x1010
        ret
        .org end_page + 0xfe0
        cmp %eax, %eax
        je end_page + 0x1010
        .org end_page + 0xff0
        jmp 1f
        nop
        nop
        nop
        .org end_page + 0xff5, 0x90
1:      .fill 9, 1, 0x90
        .byte 0x48, 0xb8                /* mov $imm64, %rax */

        .balign 4096
tail_page1:
        .quad 0x1122334455667788
        ret
        .org tail_page1 + 0x10
        jmp 1f
        nop
1:      ret

        .balign 4096
tail_page2:
        .quad -1
        jmp 1f
        .org tail_page2 + 0x10, 0x90
        nop
1:      jmp 1f
        nop
        nop
1:      ret
        GUEST_END
