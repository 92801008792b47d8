/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Real mode, 32-bit protected mode with a CS base, virtual-8086 mode and task
 * switches
 *
 * SDM vol. 3, "Debug Store Support" of the Core microarchitecture: the 64-bit
 * formats apply in all operating modes.  Addresses in records are linear: they
 * have the base of CS in them.  "Task Switching": a task switch by a jump,
 * call, interrupt or return is a branch to the new task's EIP.
 */
#include "bare.h"

#define SEL_TASK_A      0x60
#define SEL_TASK_B      0x68
#define SEL_BASED16     0x70
#define SEL_TASK_C      0x78

    .macro SWITCH flags
    movl    $MSR_DEBUGCTL, %ecx
    movl    $\flags, %eax
    xorl    %edx, %edx
    wrmsr
    .endm

    .code32
    .text
    .globl test32
test32:
    movl    $buffer, area
    movl    $buffer, area + 8
    movl    $buffer + 0x4000, area + 16
    movl    $-1, area + 24
    movl    $MSR_DS_AREA, %ecx
    movl    $area, %eax
    xorl    %edx, %edx
    wrmsr
    .pushsection .expect, "aw"
expected:
    .popsection

    /* Flat, and with a base of 0x10000 */
    movl    $leave_based - 0x10000, %ebx
    SWITCH  TRACE
    B 1f, jmp 1f
    ud2
1:  B in_based, ljmpl $SEL_BASED32, $OFF(in_based)
    ud2
in_based:
    B 1f, jmp 1f
    ud2
1:  B based_leaf, call based_leaf
    E based_leaf_ret, 1f
1:  xorl    %ecx, %ecx
    B 1f, jcxz 1f
    ud2
1:  B leave_based, jmp *%ebx
leave_based:
    B 1f, ljmpl $SEL_CODE32, $1f
1:  SWITCH  0

    /* An interrupt through an interrupt gate, and a fault.  Linear addresses
       have 32 bits: a base can make them wrap, and "to" has that. */
    lidtl   idt32_pointer
    movl    $int32, %eax
    movw    %ax, idt32 + 0x40 * 8
    movw    $SEL_CODE32, idt32 + 0x40 * 8 + 2
    movw    $0x8e00, idt32 + 0x40 * 8 + 4
    shrl    $16, %eax
    movw    %ax, idt32 + 0x40 * 8 + 6
    movl    $ud32, %eax
    movw    %ax, idt32 + 6 * 8
    movw    $SEL_CODE32, idt32 + 6 * 8 + 2
    movw    $0x8e00, idt32 + 6 * 8 + 4
    shrl    $16, %eax
    movw    %ax, idt32 + 6 * 8 + 6
    SWITCH  TRACE
    B int32, int $0x40
    E int32_iret, 1f
1:  B ud32, ud2
    E ud32_iret, 1f
1:  movl    $0x7fffffff, %eax
    addl    $1, %eax
    SWITCH  0
    SWITCH  TRACE
    B in_based_2, ljmpl $SEL_BASED32, $OFF(in_based_2)
in_based_2:
    B int32, int $0x40
    E int32_iret, 1f
1:  B 1f, ljmpl $SEL_CODE32, $1f
1:  SWITCH  0

    /* Task switches: jump, call and back by iret, a task gate */
    movl    $task_a, %eax
    movl    $SEL_TASK_A, %edi
    call    make_tss
    movl    $task_b, %eax
    movl    $SEL_TASK_B, %edi
    call    make_tss
    movl    $SEL_TASK_A, %eax
    ltr     %ax
    movl    $in_task_b, task_b + 0x20
    movl    $2, task_b + 0x24
    movl    $task_b_stack_end, task_b + 0x38
    movl    $SEL_DATA, task_b + 0x48
    movl    $SEL_CODE32, task_b + 0x4c
    movl    $SEL_DATA, task_b + 0x50
    movl    $SEL_DATA, task_b + 0x54
    movl    $SEL_DATA, task_b + 0x58
    movl    $SEL_DATA, task_b + 0x5c
    movl    $SEL_TASK_B << 16, idt32 + 0x41 * 8
    movl    $0x8500, idt32 + 0x41 * 8 + 4
    SWITCH  TRACE
    B in_task_b, lcall $SEL_TASK_B, $0
back_1:
    E task_b_iret, back_1
    B task_b_again, int $0x41
back_2:
    E task_b_iret_2, back_2
    B task_b_third, ljmp $SEL_TASK_B, $0
back_3:
    E task_b_jump, back_3
    SWITCH  0

    /* A task whose stack segment is bad: the switch is complete, #TS comes
       before its first instruction.  The handler goes back by a task switch. */
    movl    $task_c, %eax
    movl    $SEL_TASK_C, %edi
    call    make_tss
    movl    $task_b_stack_end, task_c + 4
    movl    $SEL_DATA, task_c + 8
    movl    $in_task_c, task_c + 0x20
    movl    $2, task_c + 0x24
    movl    $SEL_CODE32, task_c + 0x4c
    movl    $invalid_tss, %eax
    movw    %ax, idt32 + 10 * 8
    movw    $SEL_CODE32, idt32 + 10 * 8 + 2
    movw    $0x8e00, idt32 + 10 * 8 + 4
    shrl    $16, %eax
    movw    %ax, idt32 + 10 * 8 + 6
    SWITCH  TRACE
    B in_task_c, ljmp $SEL_TASK_C, $0
back_4:
    E in_task_c, invalid_tss
    E invalid_tss, back_4
    SWITCH  0

    /* Real mode */
    movl    $OFF(real_int), 0x44 * 4    /* the vector table is at 0 */
    movw    $0x1000, 0x44 * 4 + 2
    lidtl   ivt_pointer
    movl    $0x00009b01, gdt + SEL_BASED16 + 4
    movl    $0x0000ffff, gdt + SEL_BASED16
    ljmpl   $SEL_BASED16, $OFF(1f)
    .code16
1:  movl    %cr0, %eax
    andl    $~CR0_PE, %eax
    movl    %eax, %cr0
    ljmp    $0x1000, $OFF(1f)
1:  SWITCH  TRACE
    B 1f, jmp 1f
    ud2
1:  B real_leaf, call real_leaf
    E real_leaf_ret, 1f
1:  B real_int, int $0x44
    E real_int_iret, 1f
1:  B 1f, ljmp $0x1001, $(OFF(1f)-0x10)
1:  B 1f, jmp 1f
    ud2
1:  B real_far, lcall $0x1000, $OFF(real_far)
    E real_far_ret, 1f
1:  movl    %cr0, %eax
    orl     $CR0_PE, %eax
    movl    %eax, %cr0
    B 1f, ljmpl $SEL_CODE32, $1f
    .code32
1:  SWITCH  0

    /* Virtual-8086 mode, at CPL 3: left by INT 0x42, a gate of DPL 3 */
    lidtl   idt32_pointer
    movl    $v86_leave, %eax
    movw    %ax, idt32 + 0x42 * 8
    movw    $SEL_CODE32, idt32 + 0x42 * 8 + 2
    movw    $0xee00, idt32 + 0x42 * 8 + 4
    shrl    $16, %eax
    movw    %ax, idt32 + 0x42 * 8 + 6
    movl    $task_a_stack_end, task_a + 4
    movl    $SEL_DATA, task_a + 8
    movl    %esp, saved_esp
    SWITCH  (TRACE | DEBUGCTL_OFF_OS)
    pushl   $0                  /* gs, fs, ds, es */
    pushl   $0
    pushl   $0
    pushl   $0
    pushl   $0x2000             /* ss, sp */
    pushl   $0xff00
    pushl   $0x23002            /* VM, IOPL 3 */
    pushl   $0x1000
    pushl   $OFF(v86)
    B v86, iretl
    ud2
    .code16
v86:
    B 1f, jmp 1f
    ud2
1:  B v86_leaf, call v86_leaf
    E v86_leaf_ret, 1f
1:  int     $0x42               /* to CPL 0: filtered */
    .code32
v86_leave:
    SWITCH  0
    movl    $SEL_DATA, %eax
    movl    %eax, %ds
    movl    %eax, %es
    movl    %eax, %fs
    movl    %eax, %gs
    movl    saved_esp, %esp
    .pushsection .expect, "aw"
expected_end:
    .popsection
    movl    %cr0, %eax
    andl    $~8, %eax           /* TS, which a task switch sets */
    movl    %eax, %cr0
    ret

based_leaf:
    nop
based_leaf_ret:
    ret
int32:
    nop
int32_iret:
    iretl
ud32:
    addl    $2, (%esp)
ud32_iret:
    iretl
in_task_b:
    nop
task_b_iret:
    iretl
task_b_again:
    nop
task_b_iret_2:
    iretl
task_b_third:
task_b_jump:
    ljmp    $SEL_TASK_A, $0
in_task_c:
    ud2
invalid_tss:
    ljmp    $SEL_TASK_A, $0
    .code16
real_leaf:
    nop
real_leaf_ret:
    ret
real_int:
    nop
real_int_iret:
    iret
real_far:
    nop
real_far_ret:
    lret
v86_leaf:
    nop
v86_leaf_ret:
    ret

/* A TSS at eax and its descriptor edi */
    .code32
make_tss:
    movl    %eax, %edx
    shll    $16, %edx
    movw    $0x67, %dx
    movl    %edx, gdt(%edi)
    movl    %eax, %edx
    shrl    $16, %edx
    movl    %eax, %esi
    andl    $0xff000000, %esi
    andl    $0xff, %edx
    orl     %esi, %edx
    orl     $0x8900, %edx
    movl    %edx, gdt + 4(%edi)
    ret

    .code64
    .globl test
test:
    movq    area + 8, %rax
    subq    $buffer, %rax
    movq    %rax, %rcx
    addq    $records, %rax
    movq    %rax, ds_area + 8
    movq    $buffer, %rsi
    movq    $records, %rdi
    rep movsb
    movq    $text, %rdi
    movq    $expected, %rsi
    movq    $expected_end, %rdx
    jmp     bts_check

    .data
text:
    .asciz  "legacy modes"
idt32_pointer:
    .word   0x43 * 8 - 1
    .long   idt32
ivt_pointer:
    .word   0x3ff
    .long   0

    .bss
    .balign 16
area:
    .fill   96
buffer:
    .fill   0x4000
idt32:
    .fill   0x43 * 8
    .balign 128
task_a:
    .fill   128
task_b:
    .fill   128
task_c:
    .fill   128
    .fill   1024
task_b_stack_end:
    .fill   1024
task_a_stack_end:
saved_esp:
    .quad   0
