/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * VM entry, VM exit and EPT
 *
 * SDM vol. 3, "Loading Guest Control Registers, Debug Registers, and MSRs",
 * "Saving Control Registers, Debug Registers, and MSRs", "Loading Host Control
 * Registers, Debug Registers, MSRs", "Loading MSRs", "Exit Qualification for
 * EPT Violations".
 */
#include "vmx.h"

struct msr_entry {
    uint32_t index, reserved;
    uint64_t value;
};

static struct msr_entry msr_list[3][1] __attribute__((aligned(16)));

/* Entry loads IA32_DEBUGCTL, exit saves and clears it; neither makes a
   record. */
static void debug_controls(void)
{
    vmwrite(FIELD_DEBUGCTL, TRACE);
    bts_reset();
    EQUAL(run(guest_one, 0), REASON_VMCALL);
    EQUAL(rdmsr(MSR_DEBUGCTL), 0);
    EQUAL(bts_count(), 1);
    is(0, records, guest_one, guest_one_to);
    EQUAL(vmread(FIELD_DEBUGCTL), TRACE);

    /* What the host had is replaced, and not restored. */
    vmwrite(FIELD_DEBUGCTL, 0);
    bts_reset();
    EQUAL(run(guest_one, TRACE), REASON_VMCALL);
    EQUAL(rdmsr(MSR_DEBUGCTL), 0);
    EQUAL(bts_count(), 0);

    /* What the guest writes is saved. */
    EQUAL(run(guest_write, 0), REASON_VMCALL);
    EQUAL(vmread(FIELD_DEBUGCTL), TRACE | DEBUGCTL_OFF_OS);
    EQUAL(bts_count(), 0);

    /* Without saving it stays as it was ... */
    set_controls(0, ENTRY_LOAD_DEBUG);
    vmwrite(FIELD_DEBUGCTL, TRACE);
    EQUAL(run(guest_write, 0), REASON_VMCALL);
    EQUAL(vmread(FIELD_DEBUGCTL), TRACE);
    EQUAL(rdmsr(MSR_DEBUGCTL), 0);

    /* ... and without loading, the guest runs with what the host had. */
    set_controls(EXIT_SAVE_DEBUG, 0);
    vmwrite(FIELD_DEBUGCTL, 0x2);
    bts_reset();
    EQUAL(run(guest_one, TRACE), REASON_VMCALL);
    EQUAL(bts_count(), 1);
    is(0, records, guest_one, guest_one_to);
    EQUAL(vmread(FIELD_DEBUGCTL), TRACE);
    EQUAL(rdmsr(MSR_DEBUGCTL), 0);
    set_controls(EXIT_SAVE_DEBUG, ENTRY_LOAD_DEBUG);

    /* Reserved bits fail the entry, which clears it, too. */
    vmwrite(FIELD_DEBUGCTL, TRACE | 1 << 2);
    EQUAL(run(guest_one, TRACE), REASON_BAD_GUEST);
    EQUAL(rdmsr(MSR_DEBUGCTL), 0);
}

/* IA32_DS_AREA has no field; lists switch it. */
static void msr_lists(void)
{
    vmwrite(FIELD_DEBUGCTL, TRACE);
    bts_reset();
    use_pages();
    wrmsr(MSR_DS_AREA, (uintptr_t)&ds_area);
    msr_list[0][0] = (struct msr_entry) {
        MSR_DS_AREA, 0, (uintptr_t)&page_area
    };
    msr_list[1][0] = (struct msr_entry) { MSR_DS_AREA, 0, 0 };
    msr_list[2][0] = (struct msr_entry) {
        MSR_DS_AREA, 0, (uintptr_t)&ds_area
    };
    vmwrite(FIELD_ENTRY_LOAD, (uintptr_t)msr_list[0]);
    vmwrite(FIELD_EXIT_STORE, (uintptr_t)msr_list[1]);
    vmwrite(FIELD_EXIT_LOAD, (uintptr_t)msr_list[2]);
    vmwrite(FIELD_ENTRY_LOAD_COUNT, 1);
    vmwrite(FIELD_EXIT_STORE_COUNT, 1);
    vmwrite(FIELD_EXIT_LOAD_COUNT, 1);
    EQUAL(run(guest_one, 0), REASON_VMCALL);
    EQUAL(rdmsr(MSR_DS_AREA), (uintptr_t)&ds_area);
    EQUAL(msr_list[1][0].value, (uintptr_t)&page_area);
    EQUAL(bts_count(), 0);
    EQUAL(page_area.index, (uintptr_t)page_records + 24);
    is(0, page_records, guest_one, guest_one_to);

    msr_list[0][0].value = 1ull << 63;
    EQUAL(run(guest_one, 0), REASON_BAD_MSR);
    EQUAL(vmread(FIELD_QUALIFICATION), 1);
    vmwrite(FIELD_ENTRY_LOAD_COUNT, 0);
    vmwrite(FIELD_EXIT_STORE_COUNT, 0);
    vmwrite(FIELD_EXIT_LOAD_COUNT, 0);
}

/* Violations in mid-store, of which each is mended: nothing is lost. */
static void ept_violations(void)
{
    uint64_t qualification;

    vmwrite(FIELD_DEBUGCTL, TRACE);
    use_pages();
    ept_set(&page_area, 0);
    ept_set(page_records, 5);           /* not writable */
    EQUAL(run(guest_three, 0), REASON_EPT_VIOLATION);
    EQUAL(vmread(FIELD_RIP), guest_three_1);
    EQUAL(vmread(FIELD_PHYSICAL), (uintptr_t)&page_area);
    EQUAL(vmread(FIELD_LINEAR), (uintptr_t)&page_area);
    EQUAL(vmread(FIELD_VECTORING) >> 31, 0);
    qualification = vmread(FIELD_QUALIFICATION);
    EQUAL(qualification & (1 << 16), 1 << 16);
    EQUAL(qualification & 0x3f, 1);     /* a read, of what has no rights */
    EQUAL(vmread(FIELD_DEBUGCTL), TRACE);
    EQUAL(page_area.index, (uintptr_t)page_records);

    ept_set(&page_area, 7);
    EQUAL(run(NULL, 0), REASON_EPT_VIOLATION);
    EQUAL(vmread(FIELD_RIP), guest_three_1);
    EQUAL(vmread(FIELD_PHYSICAL), (uintptr_t)page_records);
    qualification = vmread(FIELD_QUALIFICATION);
    EQUAL(qualification & (1 << 16), 1 << 16);
    EQUAL(qualification & 0x3f, 0x2a);  /* a write, where one may not */
    EQUAL(page_area.index, (uintptr_t)page_records);

    /* Another VMCS in between, and VMCLEAR, as when a vCPU changes CPUs */
    VMX_REGION("vmclear", vmcs[0]);
    VMX_REGION("vmptrld", vmcs[1]);
    VMX_REGION("vmptrld", vmcs[0]);
    launched = false;
    ept_set(page_records, 7);
    EQUAL(run(NULL, 0), REASON_VMCALL);
    EQUAL(page_area.index, (uintptr_t)page_records + 3 * 24);
    is(0, &page_records[0], guest_three, guest_three_1);
    is(1, &page_records[1], guest_three_1, guest_three_2);
    is(2, &page_records[2], guest_three_2, guest_three_3);

    /* Across two pages: the second write of the record violates. */
    use_pages();
    page_area.index = (uintptr_t)page_records + 4096 - 16;
    ept_set((uint8_t *)page_records + 4096, 0);
    EQUAL(run(guest_three, 0), REASON_EPT_VIOLATION);
    EQUAL(vmread(FIELD_RIP), guest_three_1);
    EQUAL(page_area.index, (uintptr_t)page_records + 4096 - 16);
    ept_set((uint8_t *)page_records + 4096, 7);
    EQUAL(run(NULL, 0), REASON_VMCALL);
    EQUAL(page_area.index, (uintptr_t)page_records + 4096 - 16 + 3 * 24);

    /* BTS is off when the guest goes on: the record is dropped. */
    use_pages();
    ept_set(page_records, 5);
    EQUAL(run(guest_three, 0), REASON_EPT_VIOLATION);
    ept_set(page_records, 7);
    vmwrite(FIELD_DEBUGCTL, 0);
    EQUAL(run(NULL, 0), REASON_VMCALL);
    vmwrite(FIELD_DEBUGCTL, TRACE);
    EQUAL(run(guest_one, 0), REASON_VMCALL);
    EQUAL(page_area.index, (uintptr_t)page_records + 24);
    is(0, page_records, guest_one, guest_one_to);
}

/* A fault in mid-store that the VMM intercepts and mends, as with shadow page
   tables, loses nothing either. */
static void page_faults(void)
{
    const uint64_t window = 0x8000000000;

    vmwrite(FIELD_EXCEPTIONS, 1 << 14);
    use_window(window);
    EQUAL(run(guest_three, 0), REASON_EXCEPTION_NMI);
    EQUAL(vmread(FIELD_INTERRUPTION), 0x80000b0e);
    EQUAL(vmread(FIELD_QUALIFICATION), window);
    EQUAL(vmread(FIELD_RIP), guest_three_1);
    map_page(window, (uintptr_t)page_records, PAGE_RW_DIRTY);
    EQUAL(run(NULL, 0), REASON_VMCALL);
    EQUAL(page_area.index, window + 3 * 24);
    is(0, &page_records[0], guest_three, guest_three_1);

    vmwrite(FIELD_EXCEPTIONS, 0);
}

/* An event that entry injects makes a record. */
static void injection(void)
{
    vmwrite(FIELD_DEBUGCTL, TRACE);
    set_gate(0x40, guest_handler, 0);
    bts_reset();
    vmwrite(FIELD_INJECT, 0x80000040);  /* an external interrupt */
    vmwrite(FIELD_RFLAGS, 0x202);
    EQUAL(run(guest_one, 0), REASON_VMCALL);
    EQUAL(bts_count(), 3);
    is(0, &records[0], guest_one, guest_handler);
    is(1, &records[1], guest_iret, guest_one);
    is(2, &records[2], guest_one, guest_one_to);
    vmwrite(FIELD_RFLAGS, 2);

    /* Injected after a violation: what was kept comes first. */
    use_pages();
    ept_set(page_records, 5);
    EQUAL(run(guest_one, 0), REASON_EPT_VIOLATION);
    ept_set(page_records, 7);
    vmwrite(FIELD_INJECT, 0x80000440);  /* a software interrupt */
    vmwrite(FIELD_INJECT_LENGTH, 1);
    vmwrite(FIELD_RIP, (uintptr_t)guest_one_nop);
    EQUAL(run(NULL, 0), REASON_VMCALL);
    EQUAL(page_area.index, (uintptr_t)page_records + 3 * 24);
    is(0, &page_records[0], guest_one, guest_one_to);
    is(1, &page_records[1], guest_one_nop, guest_handler);
    is(2, &page_records[2], guest_iret, guest_one_to);
}

/* The interrupt at the threshold is the host's NMI. */
static void pmi(void)
{
    vmwrite(FIELD_DEBUGCTL, TRACE | DEBUGCTL_BTINT);
    bts_reset();
    ds_area.threshold = ds_area.base + 2 * 24;
    apic_write(APIC_LVTPC, LVT_NMI);
    EQUAL(run(guest_three, 0), REASON_EXCEPTION_NMI);
    EQUAL(vmread(FIELD_INTERRUPTION), 0x80000202);
    EQUAL(vmread(FIELD_RIP), guest_three_2);
    EQUAL(bts_count(), 2);
    EQUAL(apic_read(APIC_LVTPC), LVT_NMI | LVT_MASKED);
    EQUAL(rdmsr(MSR_DEBUGCTL), 0);
    EQUAL(run(NULL, 0), REASON_VMCALL);
    EQUAL(bts_count(), 3);
    is(2, &records[2], guest_three_2, guest_three_3);
}

/* An interrupt that is pending ends the guest at once, whether the guest could
   take one or not: "Other Causes of VM Exits". */
static void external_interrupts(void)
{
    vmwrite(FIELD_DEBUGCTL, 0);
    vmwrite(FIELD_PIN, vmread(FIELD_PIN) | PIN_EXTERNAL);
    set_gate(0x50, guest_handler, 0);
    for (unsigned enabled = 0; enabled < 2; enabled++) {
        vmwrite(FIELD_RFLAGS, enabled ? 0x202 : 2);
        apic_write(APIC_ICR, 1 << 18 | 0x50);   /* to this CPU itself */
        EQUAL(run(guest_one, 0), REASON_EXTERNAL);
        EQUAL(vmread(FIELD_RIP), guest_one);
        asm volatile("sti; nop; cli" : : : "memory");
        apic_write(APIC_EOI, 0);
        EQUAL(run(NULL, 0), REASON_VMCALL);
    }
    vmwrite(FIELD_RFLAGS, 2);
    set_controls(EXIT_SAVE_DEBUG, ENTRY_LOAD_DEBUG);
}

void test(void)
{
    set_up();
    debug_controls();
    msr_lists();
    ept_violations();
    page_faults();
    injection();
    pmi();
    external_interrupts();
}
