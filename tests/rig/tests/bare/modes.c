/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The buffer: circular, with an interrupt, and full
 *
 * SDM vol. 3, "BTS and DS Save Area", "Setting Up the BTS Buffer": without
 * BTINT the buffer is circular.  The threshold decides when there is an
 * interrupt, through LVTPC, which that masks.  With BTINT, what comes when the
 * buffer is full is lost and nothing beyond it is written; this last is not
 * in the manual.
 */
#include "bare.h"

/* N taken branches, each from loop_from to loop_to but for the last one, which
   is not taken: N - 1 records, and BTS on for no other branch */
void branches(uint64_t debugctl, uint64_t count);
extern const char loop_from[], loop_to[], nmi_handler[], interrupt_handler[],
    nmi_back[], handler_iret[], interrupt_iret[];
extern uint64_t nmis, interrupts, interrupted_at, index_then, lvtpc_then;

asm(".text\n"
    ".globl branches, loop_from, loop_to\n"
    "branches:\n"
    "   movq    %rsi, %r8\n"
    "   movl    %edi, %eax\n"
    "   xorl    %edx, %edx\n"
    "   movl    $0x1d9, %ecx\n"
    "   wrmsr\n"
    "   movq    %r8, %rcx\n"
    "loop_to:\n"
    "   nop\n"
    "loop_from:\n"
    "   loop    loop_to\n"
    "   movl    $0x1d9, %ecx\n"
    "   xorl    %eax, %eax\n"
    "   xorl    %edx, %edx\n"
    "   wrmsr\n"
    "   ret\n"
    /* They switch BTS off at once: their own branches make records. */
    ".macro HANDLER name, counter\n"
    ".globl \\name\n"
    "\\name:\n"
    "   pushq   %rax\n"
    "   pushq   %rcx\n"
    "   pushq   %rdx\n"
    "   movl    $0x1d9, %ecx\n"
    "   xorl    %eax, %eax\n"
    "   xorl    %edx, %edx\n"
    "   wrmsr\n"
    "   incq    \\counter\n"
    "   movq    24(%rsp), %rax\n"
    "   movq    %rax, interrupted_at\n"
    "   movq    ds_area + 8, %rax\n"
    "   movq    %rax, index_then\n"
    "   movl    $0xfee00340, %ecx\n"
    "   movl    (%rcx), %eax\n"
    "   movl    %eax, lvtpc_then\n"
    "   movl    $0xfee000b0, %ecx\n"
    "   movl    $0, (%rcx)\n"
    "   popq    %rdx\n"
    "   popq    %rcx\n"
    "   popq    %rax\n"
    "   iretq\n"
    ".endm\n"
    "HANDLER nmi_handler, nmis\n"
    "HANDLER interrupt_handler, interrupts\n"
    ".bss\n"
    ".globl nmis, interrupts, interrupted_at, index_then, lvtpc_then\n"
    "nmis: .quad 0\n"
    "interrupts: .quad 0\n"
    "interrupted_at: .quad 0\n"
    "index_then: .quad 0\n"
    "lvtpc_then: .quad 0\n"
    ".text\n");

static uint64_t at(unsigned record)
{
    return (uintptr_t)(records + record);
}

static void is_loop(unsigned first, unsigned count)
{
    for (unsigned n = first; n < first + count; n++) {
        EQUAL(records[n].from, loop_from);
        EQUAL(records[n].to, loop_to);
        EQUAL(records[n].flags & ~0x10ull, 0);
    }
}

static void is_empty(unsigned first, unsigned count)
{
    for (unsigned n = first; n < first + count; n++) {
        EQUAL(records[n].from, 0);
        EQUAL(records[n].to, 0);
        EQUAL(records[n].flags, 0);
    }
}

static void circular(void)
{
    bts_reset();
    ds_area.maximum = at(4);
    ds_area.threshold = at(5);
    branches(TRACE, 4);
    EQUAL(ds_area.index, at(3));
    branches(TRACE, 2);
    EQUAL(ds_area.index, at(0));
    is_loop(0, 4);
    is_empty(4, 4);
    records[0].from = 0;
    branches(TRACE, 2);
    EQUAL(ds_area.index, at(1));
    is_loop(0, 4);
    branches(TRACE, 1001);
    EQUAL(ds_area.index, at(1));
    is_loop(0, 4);
    is_empty(4, 4);

    /* An end that is no multiple of the record size is not written past. */
    bts_reset();
    ds_area.maximum = at(4) - 1;
    ds_area.threshold = at(5);
    branches(TRACE, 4);
    EQUAL(ds_area.index, at(0));
    is_loop(0, 3);
    is_empty(3, 4);

    /* A base that is not that of the array, and an index in the middle */
    bts_reset();
    ds_area.base = at(2) + 8;
    ds_area.index = at(4) + 8;
    ds_area.maximum = at(6) + 8;
    ds_area.threshold = at(9);
    branches(TRACE, 4);
    EQUAL(ds_area.index, at(3) + 8);
    is_empty(0, 2);
    EQUAL(records[2].to, loop_from);
    EQUAL(records[2].flags, loop_to);

    EQUAL(nmis, 0);
}

static void threshold_nmi(void)
{
    bts_reset();
    ds_area.threshold = at(10);
    apic_write(APIC_LVTPC, LVT_NMI);
    branches(TRACE | DEBUGCTL_BTINT, 10);
    EQUAL(bts_count(), 9);
    EQUAL(nmis, 0);
    branches(TRACE | DEBUGCTL_BTINT, 20);
    /* The tenth record reaches the threshold; the interrupt comes before the
       next instruction, and is a branch, too: the eleventh. */
    EQUAL(nmis, 1);
    EQUAL(interrupted_at, loop_to);
    EQUAL(index_then, at(11));
    is_loop(0, 10);
    EQUAL(records[10].from, loop_to);
    EQUAL(records[10].to, nmi_handler);
    EQUAL(lvtpc_then, LVT_NMI | LVT_MASKED);
    EQUAL(apic_read(APIC_LVTPC), LVT_NMI | LVT_MASKED);

    /* While it is masked there is no other. */
    branches(TRACE | DEBUGCTL_BTINT, 20);
    EQUAL(nmis, 1);
    EQUAL(bts_count(), 11 + 19);

    /* Unmasked, the next record is at the threshold still. */
    apic_write(APIC_LVTPC, LVT_NMI);
    EQUAL(nmis, 1);
    branches(TRACE | DEBUGCTL_BTINT, 20);
    EQUAL(nmis, 2);
    EQUAL(index_then, at(32));
}

static void threshold_fixed(void)
{
    bts_reset();
    ds_area.threshold = at(5);
    apic_write(APIC_LVTPC, 0x50);
    branches(TRACE | DEBUGCTL_BTINT, 10);
    /* Interrupts are off: all are stored, it comes later. */
    EQUAL(interrupts, 0);
    EQUAL(bts_count(), 9);
    asm volatile("sti; nop; nop; cli");
    EQUAL(interrupts, 1);
    EQUAL(lvtpc_then, 0x50 | LVT_MASKED);
}

/* "It's not enough to clear the BTINT flag itself only": a circular buffer
   whose threshold is within it interrupts, too. */
static void threshold_circular(void)
{
    nmis = 0;
    bts_reset();
    ds_area.maximum = at(8);
    ds_area.threshold = at(6);
    apic_write(APIC_LVTPC, LVT_NMI);
    branches(TRACE, 6);
    EQUAL(nmis, 0);
    branches(TRACE, 3);
    EQUAL(nmis, 1);
    EQUAL(index_then, at(7));
}

static void full(void)
{
    bts_reset();
    ds_area.maximum = at(10);
    ds_area.threshold = at(8);
    apic_write(APIC_LVTPC, LVT_NMI | LVT_MASKED);
    branches(TRACE | DEBUGCTL_BTINT, 100);
    EQUAL(ds_area.index, at(10));
    is_loop(0, 10);
    is_empty(10, 10);
}

void test(void)
{
    set_gate(2, nmi_handler, 0);
    set_gate(0x50, interrupt_handler, 0);
    circular();
    threshold_nmi();
    threshold_fixed();
    threshold_circular();
    full();
}
