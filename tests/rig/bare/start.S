/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * From the reset vector to test() in 64-bit mode
 *
 * On the way, in 32-bit protected mode without paging, it calls test32 if the
 * test has one.  Other CPUs, once they get a start-up IPI, go to ap_main().
 */
#define BARE_START
#include "bare.h"

    .section .reset, "ax"
    .code16
    .globl reset
reset:
    ljmp    $0xf000, $OFF(start16)

    .text
start16:
    cli
    lgdtl   %cs:OFF(gdt_pointer32)
    movl    %cr0, %eax
    orl     $CR0_PE, %eax
    movl    %eax, %cr0
    ljmpl   $SEL_CODE32, $0xf0000 + OFF(1f)

    .code32
1:  movl    $SEL_DATA, %eax
    movl    %eax, %ds
    movl    %eax, %es
    movl    %eax, %ss
    movl    %eax, %fs
    movl    %eax, %gs
    cld
    movl    $0xf0000, %esi
    movl    $0x10000, %edi
    movl    $0x10000 / 4, %ecx
    rep movsl
    lgdtl   gdt_pointer         /* the one that can be written */
    ljmpl   $SEL_CODE32, $1f
1:  movl    $bss, %edi
    movl    $bss_end, %ecx
    subl    %edi, %ecx
    shrl    $2, %ecx
    xorl    %eax, %eax
    rep stosl
    movl    $stack + STACK_SIZE, %esp

    .weak   test32
    movl    $test32, %eax
    testl   %eax, %eax
    jz      1f
    call    *%eax
1:

    /* 4 GiB, all as they are, in pages of 2 MiB that user mode may use */
    movl    $pml4, %edi
    movl    $pdpt + 7, (%edi)
    movl    $pdpt, %edi
    movl    $pd + 7, %eax
    movl    $4, %ecx
1:  movl    %eax, (%edi)
    addl    $8, %edi
    addl    $0x1000, %eax
    loop    1b
    movl    $pd, %edi
    movl    $0xe7, %eax     /* large, dirty, accessed, user, writable */
    movl    $2048, %ecx
1:  movl    %eax, (%edi)
    addl    $8, %edi
    addl    $0x200000, %eax
    loop    1b

    call    enter_long
    .code64
    movq    $stack + STACK_SIZE, %rsp
    call    bare_init
    call    test
    call    bare_pass
1:  hlt
    jmp     1b

/* From 32-bit protected mode to long mode; returns in 64-bit code. */
    .code32
enter_long:
    movl    %cr4, %eax
    orl     $CR4_PAE, %eax
    movl    %eax, %cr4
    movl    $pml4, %eax
    movl    %eax, %cr3
    movl    $MSR_EFER, %ecx
    rdmsr
    orl     $EFER_LME | EFER_SCE | EFER_NXE, %eax
    wrmsr
    movl    %cr0, %eax
    orl     $CR0_PG | CR0_WP | CR0_NE, %eax
    movl    %eax, %cr0
    popl    %edx
    ljmpl   $SEL_CODE64, $1f
    .code64
1:  movl    %edx, %edx
    jmp     *%rdx

/* A start-up IPI with vector 8 begins here, copied to 0x8000 by ap_start(). */
    .code16
    .globl ap_trampoline, ap_trampoline_end
ap_trampoline:
    cli
    lgdtl   %cs:(ap_gdt_pointer - ap_trampoline)
    movl    %cr0, %eax
    orl     $CR0_PE, %eax
    movl    %eax, %cr0
    ljmpl   $SEL_CODE32, $ap_32
ap_gdt_pointer:
    .word   GDT_SIZE - 1
    .long   gdt
ap_trampoline_end:
    .code32
ap_32:
    movl    $SEL_DATA, %eax
    movl    %eax, %ds
    movl    %eax, %es
    movl    %eax, %ss
    movl    $ap_stack + STACK_SIZE, %esp
    call    enter_long
    .code64
    movq    $ap_stack + STACK_SIZE, %rsp
    lidt    idt_pointer
    call    ap_main
1:  hlt
    jmp     1b
    .weak   ap_main

/* Where an exception goes that no test asked for */
    .altmacro
    .macro unexpected number
unexpected_\number:
    .if \number != 8 && (\number < 10 || \number > 14) && \number != 17
    pushq   $0
    .endif
    pushq   $\number
    jmp     unexpected_common
    .endm
    .set    n, 0
    .rept   32
    unexpected %n
    .set    n, n + 1
    .endr
unexpected_common:
    popq    %rdi
    popq    %rsi
    popq    %rdx
    movq    %cr2, %rcx
    andq    $~15, %rsp
    call    bare_unexpected

    .section .rodata
    .globl unexpected_table
    .balign 8
    .macro entry number
    .quad   unexpected_\number
    .endm
unexpected_table:
    .set    n, 0
    .rept   32
    entry   %n
    .set    n, n + 1
    .endr
    .noaltmacro

/*
 * rdmsr_safe(msr, &value) and wrmsr_safe(msr, value): false if it is a #GP.
 * The handler of #GP goes to safe_failed if the fault is at one of the two.
 */
    .text
    .globl rdmsr_safe, wrmsr_safe, safe_rdmsr, safe_wrmsr, safe_failed
rdmsr_safe:
    movl    %edi, %ecx
safe_rdmsr:
    rdmsr
    shlq    $32, %rdx
    orq     %rdx, %rax
    movq    %rax, (%rsi)
    movl    $1, %eax
    ret
wrmsr_safe:
    movl    %edi, %ecx
    movl    %esi, %eax
    shrq    $32, %rsi
    movl    %esi, %edx
safe_wrmsr:
    wrmsr
    movl    $1, %eax
    ret
safe_failed:
    xorl    %eax, %eax
    ret
    .globl safe_gp
safe_gp:
    cmpq    $safe_rdmsr, 8(%rsp)
    je      1f
    cmpq    $safe_wrmsr, 8(%rsp)
    jne     unexpected_13
1:  movq    $safe_failed, 8(%rsp)
    addq    $8, %rsp
    iretq

    .data
    .balign 16
    .globl gdt
gdt:
    .quad   0
    .quad   0x00af9b000000ffff      /* SEL_CODE64 */
    .quad   0x00cf93000000ffff      /* SEL_DATA */
    .quad   0x00cffb000000ffff      /* SEL_USER32 */
    .quad   0x00cff3000000ffff      /* SEL_USER_DATA */
    .quad   0x00affb000000ffff      /* SEL_USER64 */
    .quad   0x00cff3000000ffff      /* SEL_USER_DATA2 */
    .quad   0, 0                    /* SEL_TSS */
    .quad   0x00cf9b000000ffff      /* SEL_CODE32 */
    .quad   0x00009b000000ffff      /* SEL_CODE16 */
    .quad   0x00409b010000ffff      /* SEL_BASED32: base 0x10000 */
    .quad   0, 0                    /* SEL_FREE, SEL_FREE + 8: for tests */
    .quad   0, 0
    .quad   0, 0
gdt_end:
    .if gdt_end - gdt != GDT_SIZE
    .error "GDT_SIZE is wrong"
    .endif
gdt_pointer32:
    .word   GDT_SIZE - 1
    .long   0xf0000 + OFF(gdt)
    .globl gdt_pointer
gdt_pointer:
    .word   GDT_SIZE - 1
    .quad   gdt

    .bss
    .balign 4096
    .globl pml4
pml4:
    .fill   4096
pdpt:
    .fill   4096
pd:
    .fill   4096 * 4
    .globl stack, ap_stack, event_stack, idt_pointer
stack:
    .fill   STACK_SIZE
ap_stack:
    .fill   STACK_SIZE
event_stack:
    .fill   STACK_SIZE
idt_pointer:
    .fill   16
