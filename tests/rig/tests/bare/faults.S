/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Faults in the middle of a store
 *
 * SDM vol. 3, "Setting Up the DS Save Area" wants pages that are present,
 * accessed and dirty, and does not say what happens otherwise.  Here the store
 * is done at the boundary of the instruction: the branch is complete, the
 * fault's return address is where the branch went, and the record is lost.
 */
#include "bare.h"

#define WINDOW          0x8000000000    /* nothing is mapped there */
#define NEXT            (WINDOW + 0x1000)

    .macro CALL3 function, a, b=0, c=0
    movq    $\a, %rdi
    movq    $\b, %rsi
    movq    $\c, %rdx
    call    \function
    .endm

    .text
    .globl test
test:
    CALL3   set_gate, 14, page_fault, 0
    CALL3   set_gate, 13, general_protection, 0

    /* The buffer is not there.  The handler is not traced (BTS_OFF_OS filters
       by CPL, so the branches are in user mode) and maps it: only the branch
       that comes before, into user mode, is lost. */
    call    bts_reset
    movabsq $WINDOW, %rax
    movq    %rax, ds_area
    movq    %rax, ds_area + 8
    addq    $0x1000, %rax
    movq    %rax, ds_area + 16
    movq    %rax, ds_area + 24
    movq    $records, to_map
    call    user_branches
    cmpq    $1, faults
    jne     wrong
    movq    $after_first, %rax          /* where it returned to */
    cmpq    %rax, fault_rip
    jne     wrong
    movabsq $WINDOW, %rax
    cmpq    %rax, fault_address
    jne     wrong
    cmpl    $2, fault_error             /* a write, by the supervisor */
    jne     wrong
    movabsq $WINDOW + 3 * 24, %rax
    cmpq    %rax, ds_area + 8
    jne     wrong
    movq    $records + 3 * 24, %rax     /* as bts_check() wants it */
    movq    %rax, ds_area + 8
    movq    $records, %rax
    movq    %rax, ds_area
    movq    $records_expected, %rdi
    movq    $expected, %rsi
    movq    $expected_end, %rdx
    call    bts_check

    /* A record across two pages, of which the second is not there: it faults
       there, and the index does not move. */
    call    bts_reset
    movabsq $NEXT - 16, %rax
    movq    %rax, ds_area
    movq    %rax, ds_area + 8
    addq    $0x1000, %rax
    movq    %rax, ds_area + 16
    movq    %rax, ds_area + 24
    movq    $records + 0x1000, to_map
    movq    $0, faults
    call    user_branches
    cmpq    $1, faults
    jne     wrong
    movabsq $NEXT, %rax
    cmpq    %rax, fault_address
    jne     wrong
    movq    $after_first, %rax
    cmpq    %rax, fault_rip
    jne     wrong
    movabsq $NEXT - 16 + 3 * 24, %rax
    cmpq    %rax, ds_area + 8
    jne     wrong

    /* A page that is read-only, though the stores are the supervisor's: CR0.WP
       is set. */
    call    bts_reset
    movabsq $WINDOW, %rdi
    movq    $records, %rsi
    movq    $0x61, %rdx
    call    map_page
    movabsq $WINDOW, %rax
    movq    %rax, ds_area
    movq    %rax, ds_area + 8
    addq    $0x1000, %rax
    movq    %rax, ds_area + 16
    movq    %rax, ds_area + 24
    movq    $records, to_map
    movq    $0, faults
    call    user_branches
    cmpq    $1, faults
    jne     wrong
    cmpl    $3, fault_error
    jne     wrong

    /* An area that is not there at all: the index is read first. */
    call    bts_reset
    movabsq $WINDOW + 0x10000, %rax
    movq    %rax, %rdx
    shrq    $32, %rdx
    movl    $MSR_DS_AREA, %ecx
    wrmsr
    movq    $ds_page, to_map
    movq    $0, faults
    call    user_branches
    cmpq    $1, faults
    jne     wrong
    cmpl    $0, fault_error
    jne     wrong

    /* A buffer whose address is not canonical */
    call    bts_reset
    movabsq $0x8000000000000000, %rax
    movq    %rax, ds_area
    movq    %rax, ds_area + 8
    addq    $0x1000, %rax
    movq    %rax, ds_area + 16
    movq    $-1, ds_area + 24
    movq    $0, faults
    call    user_branches
    cmpq    $1, faults
    jne     wrong
    movq    $after_first, %rax
    cmpq    %rax, fault_rip
    jne     wrong
    ret
wrong:
    movq    $wrong_text, %rdi
    movq    faults, %rsi
    movq    fault_rip, %rdx
    movq    fault_address, %rcx
    movq    fault_error, %r8
    movq    ds_area + 8, %r9
    xorl    %eax, %eax
    call    fail

/* Three branches in user mode, stored, with CPL 0 filtered */
user_branches:
    popq    %rax
    movq    %rax, come_back
    CALL3   set_gate, 0x43, user_leave, 3
    movq    %rsp, kernel_rsp
    .pushsection .expect, "aw"
expected:
    .popsection
    TRACE_ON_AGAIN (TRACE | DEBUGCTL_OFF_OS)
    pushq   $SEL_USER_DATA
    pushq   $user_stack_end
    pushq   $0x3002
    pushq   $SEL_USER64
    pushq   $1f
    iretq
after_first:
    E page_fault_iret, after_first
1:  B 1f, jmp 1f
    ud2
1:  B 1f, jmp 1f
    ud2
1:  int     $0x43
    .pushsection .expect, "aw"
expected_end:
    .popsection
user_leave:
    TRACE_OFF
    movq    kernel_rsp, %rsp
    jmp     *come_back

page_fault:
    pushq   %rax
    pushq   %rcx
    pushq   %rdx
    pushq   %rsi
    pushq   %rdi
    pushq   %r8
    pushq   %r9
    pushq   %r10
    pushq   %r11
    incq    faults
    movq    72(%rsp), %rax
    movq    %rax, fault_error
    movq    80(%rsp), %rax
    movq    %rax, fault_rip
    movq    %cr2, %rdi
    movq    %rdi, fault_address
    movq    to_map, %rsi
    movl    $PAGE_RW_DIRTY, %edx
    call    map_page
    popq    %r11
    popq    %r10
    popq    %r9
    popq    %r8
    popq    %rdi
    popq    %rsi
    popq    %rdx
    popq    %rcx
    popq    %rax
    addq    $8, %rsp
page_fault_iret:
    iretq

/* Makes the buffer one that is there. */
general_protection:
    pushq   8(%rsp)
    popq    fault_rip
    incq    faults
    movq    $records, ds_area
    movq    $records, ds_area + 8
    movq    $records + 0x1000, ds_area + 16
    addq    $8, %rsp
    iretq

    .data
records_expected:
    .asciz  "a page that is not there"
wrong_text:
    .asciz  "faults %x, at %x, of %x, error %x, index %x"

    .bss
    .balign 4096
ds_page:
    .fill   4096
    .balign 16
faults:
    .quad   0
fault_rip:
    .quad   0
fault_address:
    .quad   0
fault_error:
    .quad   0
to_map:
    .quad   0
come_back:
    .quad   0
kernel_rsp:
    .quad   0
    .fill   4096
user_stack_end:
