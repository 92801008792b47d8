/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The strict model of BTS: where the SDM leaves something open, the opposite of
 * what vmx.c shows
 *
 * rig: model=strict
 */
#include "vmx.h"

extern const char host_nmi[];
extern volatile uint64_t host_nmis;

asm(".text\n"
    "host_nmi:\n"
    "   incq    host_nmis\n"
    "   iretq\n"
    ".bss\n"
    "host_nmis: .quad 0\n"
    ".text\n");

/* A record whose store causes a VM exit is lost, and the exit looks like one of
   any access. */
static void ept_violations(void)
{
    const void *const pages[] = { &page_area, page_records };

    vmwrite(FIELD_DEBUGCTL, TRACE);
    for (unsigned n = 0; n < 2; n++) {
        use_pages();
        ept_set(pages[n], 5);           /* not writable */
        EQUAL(run(guest_three, 0), REASON_EPT_VIOLATION);
        EQUAL(vmread(FIELD_RIP), guest_three_1);
        EQUAL(vmread(FIELD_PHYSICAL) & ~0xfffull, (uintptr_t)pages[n]);
        EQUAL(vmread(FIELD_QUALIFICATION) & (1 << 16), 0);
        EQUAL(page_area.index, (uintptr_t)page_records);
        ept_set(pages[n], 7);
        EQUAL(run(NULL, 0), REASON_VMCALL);
        EQUAL(page_area.index, (uintptr_t)page_records + 2 * 24);
        is(0, &page_records[0], guest_three_1, guest_three_2);
        is(1, &page_records[1], guest_three_2, guest_three_3);
    }
}

/* Nor is it kept if the VMM intercepts and mends a fault. */
static void page_faults(void)
{
    const uint64_t window = 0x8000000000;

    vmwrite(FIELD_EXCEPTIONS, 1 << 14);
    use_window(window);
    EQUAL(run(guest_three, 0), REASON_EXCEPTION_NMI);
    EQUAL(vmread(FIELD_RIP), guest_three_1);
    map_page(window, (uintptr_t)page_records, PAGE_RW_DIRTY);
    EQUAL(run(NULL, 0), REASON_VMCALL);
    EQUAL(page_area.index, window + 2 * 24);
    is(0, &page_records[0], guest_three_1, guest_three_2);
    vmwrite(FIELD_EXCEPTIONS, 0);
}

/* An event that entry injects makes no record; what comes after it does. */
static void injection(void)
{
    vmwrite(FIELD_DEBUGCTL, TRACE);
    set_gate(0x40, guest_handler, 0);
    bts_reset();
    vmwrite(FIELD_INJECT, 0x80000040);  /* an external interrupt */
    vmwrite(FIELD_RFLAGS, 0x202);
    EQUAL(run(guest_one, 0), REASON_VMCALL);
    EQUAL(bts_count(), 2);
    is(0, &records[0], guest_iret, guest_one);
    is(1, &records[1], guest_one, guest_one_to);
    vmwrite(FIELD_RFLAGS, 2);

    bts_reset();
    vmwrite(FIELD_INJECT, 0x80000440);  /* a software interrupt */
    vmwrite(FIELD_INJECT_LENGTH, 1);
    EQUAL(run(guest_one_nop, 0), REASON_VMCALL);
    EQUAL(bts_count(), 1);
    is(0, &records[0], guest_iret, guest_one_to);
}

static void wait(void)
{
    for (unsigned n = 0; n < 1000; n++) {
        asm volatile("nop");
    }
}

/* The interrupt comes with the record after the one that reaches the threshold,
   or some time after BTS is switched off, if only by a VM exit. */
static void pmi(void)
{
    vmwrite(FIELD_DEBUGCTL, TRACE | DEBUGCTL_BTINT);
    bts_reset();
    ds_area.threshold = ds_area.base + 2 * 24;
    apic_write(APIC_LVTPC, LVT_NMI);
    EQUAL(run(guest_three, 0), REASON_EXCEPTION_NMI);
    EQUAL(vmread(FIELD_INTERRUPTION), 0x80000202);
    EQUAL(vmread(FIELD_RIP), guest_three_3);
    EQUAL(bts_count(), 3);
    EQUAL(apic_read(APIC_LVTPC), LVT_NMI | LVT_MASKED);
    EQUAL(run(NULL, 0), REASON_VMCALL);
    EQUAL(bts_count(), 3);

    /* Record 3 was beyond the threshold, too; LVTPC is masked. */
    wait();
    set_gate(2, host_nmi, 0);
    bts_reset();
    ds_area.threshold = ds_area.base + 3 * 24;
    apic_write(APIC_LVTPC, LVT_NMI);
    EQUAL(run(guest_three, 0), REASON_VMCALL);
    EQUAL(host_nmis, 0);
    wait();
    EQUAL(host_nmis, 1);
    EQUAL(bts_count(), 3);
    EQUAL(apic_read(APIC_LVTPC), LVT_NMI | LVT_MASKED);
}

void test(void)
{
    set_up();
    ept_violations();
    page_faults();
    injection();
    pmi();
}
