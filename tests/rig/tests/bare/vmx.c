/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * VM entry, VM exit and EPT
 *
 * SDM vol. 3, "Loading Guest Control Registers, Debug Registers, and MSRs",
 * "Saving Control Registers, Debug Registers, and MSRs", "Loading Host Control
 * Registers, Debug Registers, MSRs", "Loading MSRs", "Exit Qualification for
 * EPT Violations".  The guest is code in this program with the descriptors and
 * pages of the host, under EPT.
 */
#include "bare.h"

#define FIELD_MSR_BITMAP        0x2004
#define FIELD_EXIT_STORE        0x2006
#define FIELD_EXIT_LOAD         0x2008
#define FIELD_ENTRY_LOAD        0x200a
#define FIELD_EPTP              0x201a
#define FIELD_PHYSICAL          0x2400
#define FIELD_LINK              0x2800
#define FIELD_DEBUGCTL          0x2802
#define FIELD_PIN               0x4000
#define FIELD_CPU               0x4002
#define FIELD_EXCEPTIONS        0x4004
#define FIELD_EXIT              0x400c
#define FIELD_EXIT_STORE_COUNT  0x400e
#define FIELD_EXIT_LOAD_COUNT   0x4010
#define FIELD_ENTRY             0x4012
#define FIELD_ENTRY_LOAD_COUNT  0x4014
#define FIELD_INJECT            0x4016
#define FIELD_INJECT_LENGTH     0x401a
#define FIELD_CPU2              0x401e
#define FIELD_ERROR             0x4400
#define FIELD_REASON            0x4402
#define FIELD_INTERRUPTION      0x4404
#define FIELD_VECTORING         0x4408
#define FIELD_LENGTH            0x440c
#define FIELD_INTERRUPTIBILITY  0x4824
#define FIELD_ACTIVITY          0x4826
#define FIELD_QUALIFICATION     0x6400
#define FIELD_LINEAR            0x640a
#define FIELD_RSP               0x681c
#define FIELD_RIP               0x681e
#define FIELD_RFLAGS            0x6820
#define FIELD_HOST_RSP          0x6c14
#define FIELD_HOST_RIP          0x6c16

#define PIN_NMI                 (1u << 3)
#define CPU_HLT                 (1u << 7)
#define CPU_MSR_BITMAPS         (1u << 28)
#define CPU_SECONDARY           (1u << 31)
#define CPU2_EPT                (1u << 1)
#define EXIT_SAVE_DEBUG         (1u << 2)
#define EXIT_HOST_64            (1u << 9)
#define ENTRY_LOAD_DEBUG        (1u << 2)
#define ENTRY_IA32E             (1u << 9)

#define REASON_EXCEPTION_NMI    0
#define REASON_VMCALL           18
#define REASON_BAD_GUEST        (1u << 31 | 33)
#define REASON_BAD_MSR          (1u << 31 | 34)
#define REASON_EPT_VIOLATION    48

struct msr_entry {
    uint32_t index, reserved;
    uint64_t value;
};

static uint8_t vmxon_region[4096] __attribute__((aligned(4096)));
static uint8_t vmcs[2][4096] __attribute__((aligned(4096)));
static uint8_t msr_bitmap[4096] __attribute__((aligned(4096)));
static uint64_t ept_pml4[512] __attribute__((aligned(4096)));
static uint64_t ept_pdpt[512] __attribute__((aligned(4096)));
static uint64_t ept_pd[4][512] __attribute__((aligned(4096)));
static uint64_t ept_pt[512] __attribute__((aligned(4096)));
static struct msr_entry msr_list[3][1] __attribute__((aligned(16)));

/* What EPT maps or not: a DS area and a buffer in pages of their own */
static struct ds_area page_area __attribute__((aligned(4096)));
static struct record page_records[3 * 4096 / 24]
    __attribute__((aligned(4096)));

extern uint16_t gdt_pointer[5], idt_pointer[5];
extern const char vm_exited[], guest_one[], guest_one_nop[], guest_one_to[],
    guest_three[],
    guest_three_1[], guest_three_2[], guest_three_3[], guest_write[],
    guest_handler[], guest_iret[];
uint64_t vm_enter(bool resume, uint64_t debugctl);

asm(".text\n"
    ".globl vm_enter, vm_exited\n"
    "vm_enter:\n"
    "   pushq   %rbx\n"
    "   pushq   %rbp\n"
    "   pushq   %r12\n"
    "   pushq   %r13\n"
    "   pushq   %r14\n"
    "   pushq   %r15\n"
    "   movl    $0x6c14, %eax\n"        /* FIELD_HOST_RSP */
    "   vmwrite %rsp, %rax\n"
    "   testb   %dil, %dil\n"
    "   jnz     1f\n"
    "   movl    $0x1d9, %ecx\n"
    "   movl    %esi, %eax\n"
    "   xorl    %edx, %edx\n"
    "   wrmsr\n"
    "   vmlaunch\n"
    "   jmp     2f\n"
    "1: movl    $0x1d9, %ecx\n"
    "   movl    %esi, %eax\n"
    "   xorl    %edx, %edx\n"
    "   wrmsr\n"
    "   vmresume\n"
    "2: movl    $0x1d9, %ecx\n"
    "   xorl    %eax, %eax\n"
    "   xorl    %edx, %edx\n"
    "   wrmsr\n"
    "   pushfq\n"
    "   popq    %rax\n"
    "   jmp     3f\n"
    "vm_exited:\n"
    "   xorl    %eax, %eax\n"
    "3: popq    %r15\n"
    "   popq    %r14\n"
    "   popq    %r13\n"
    "   popq    %r12\n"
    "   popq    %rbp\n"
    "   popq    %rbx\n"
    "   ret\n"
    /* One branch */
    "guest_one:\n"
    "   jmp     guest_one_to\n"
    "guest_one_nop:\n"
    "   nop\n"
    "guest_one_to:\n"
    "   vmcall\n"
    /* Three, each to the next */
    "guest_three:\n"
    "   jmp     guest_three_1\n"
    "   nop\n"
    "guest_three_1:\n"
    "   jmp     guest_three_2\n"
    "   nop\n"
    "guest_three_2:\n"
    "   jmp     guest_three_3\n"
    "   nop\n"
    "guest_three_3:\n"
    "   vmcall\n"
    /* IA32_DEBUGCTL written by the guest itself */
    "guest_write:\n"
    "   movl    $0x1d9, %ecx\n"
    "   movl    $0x2c0, %eax\n"         /* TRACE, BTS_OFF_OS */
    "   xorl    %edx, %edx\n"
    "   wrmsr\n"
    "   jmp     1f\n"
    "1: vmcall\n"
    "guest_handler:\n"
    "   nop\n"
    "guest_iret:\n"
    "   iretq\n");

static inline uint64_t vmread(uint64_t field)
{
    uint64_t value;

    asm volatile("vmread %1, %0" : "=r"(value) : "r"(field) : "cc");
    return value;
}

static inline void vmwrite(uint64_t field, uint64_t value)
{
    bool failed;

    asm volatile("vmwrite %1, %2" : "=@ccbe"(failed) : "r"(value), "r"(field));
    if (failed) {
        fail("VMWRITE of field %x failed", field);
    }
}

#define VMX_REGION(instruction, region) \
    do { \
        uint64_t address_ = (uintptr_t)(region); \
        bool failed_; \
        asm volatile(instruction " %1" : "=@ccbe"(failed_) : "m"(address_) \
                     : "memory"); \
        CHECK(!failed_); \
    } while (0)

/* Controls: what must be set by the MSR, and what is wanted */
static uint32_t controls(uint32_t msr, uint32_t wanted)
{
    uint64_t allowed = rdmsr(msr);

    if (wanted & ~(allowed >> 32)) {
        fail("no such controls: %x of MSR %x", (uint64_t)wanted,
             (uint64_t)msr);
    }
    return wanted | (uint32_t)allowed;
}

static void set_controls(uint32_t exit, uint32_t entry)
{
    vmwrite(FIELD_PIN, controls(0x48d, PIN_NMI));
    vmwrite(FIELD_CPU, controls(0x48e, CPU_HLT | CPU_MSR_BITMAPS |
                                CPU_SECONDARY));
    vmwrite(FIELD_CPU2, controls(0x48b, CPU2_EPT));
    vmwrite(FIELD_EXIT, controls(0x48f, EXIT_HOST_64 | exit));
    vmwrite(FIELD_ENTRY, controls(0x490, ENTRY_IA32E | entry));
}

static void set_up(void)
{
    static const uint16_t selectors[] = {
        SEL_DATA, SEL_CODE64, SEL_DATA, SEL_DATA, SEL_DATA, SEL_DATA, 0,
        SEL_TSS
    };
    uint64_t cr0, cr3, cr4, tss, gdt_base, idt_base, n;
    uint32_t revision = rdmsr(0x480);

    asm volatile("mov %%cr4, %0" : "=r"(cr4));
    asm volatile("mov %0, %%cr4" : : "r"(cr4 |= CR4_VMXE));
    asm volatile("mov %%cr0, %0" : "=r"(cr0));
    asm volatile("mov %%cr3, %0" : "=r"(cr3));
    wrmsr(0x3a, 5);
    *(uint32_t *)vmxon_region = revision;
    VMX_REGION("vmxon", vmxon_region);
    *(uint32_t *)vmcs[0] = *(uint32_t *)vmcs[1] = revision;
    VMX_REGION("vmclear", vmcs[0]);
    VMX_REGION("vmclear", vmcs[1]);
    VMX_REGION("vmptrld", vmcs[0]);

    /* 4 GiB as they are; the first 2 MiB in pages of 4 KiB */
    ept_pml4[0] = (uintptr_t)ept_pdpt | 7;
    for (n = 0; n < 4; n++) {
        ept_pdpt[n] = (uintptr_t)ept_pd[n] | 7;
    }
    for (n = 0; n < 2048; n++) {
        ept_pd[n / 512][n % 512] = n << 21 | 0xb7;
    }
    for (n = 0; n < 512; n++) {
        ept_pt[n] = n << 12 | 0x37;
    }
    ept_pd[0][0] = (uintptr_t)ept_pt | 7;
    vmwrite(FIELD_EPTP, (uintptr_t)ept_pml4 | 3 << 3 | 6);
    vmwrite(FIELD_MSR_BITMAP, (uintptr_t)msr_bitmap);
    vmwrite(FIELD_LINK, -1);

    gdt_base = *(uint64_t *)(gdt_pointer + 1);
    idt_base = *(uint64_t *)(idt_pointer + 1);
    tss = (gdt[SEL_TSS / 8] >> 16 & 0xffffff) |
          (gdt[SEL_TSS / 8] >> 56) << 24 | gdt[SEL_TSS / 8 + 1] << 32;
    for (n = 0; n < 8; n++) {
        vmwrite(0x800 + 2 * n, selectors[n]);
        vmwrite(0x6806 + 2 * n, n == 7 ? tss : 0);
        vmwrite(0x4800 + 2 * n, n == 7 ? 0x67 : 0xffffffff);
        vmwrite(0x4814 + 2 * n, n == 1 ? 0xa09b : n == 6 ? 0x10000 :
                n == 7 ? 0x8b : 0xc093);
    }
    for (n = 0; n < 6; n++) {
        vmwrite(0xc00 + 2 * n, selectors[n]);
    }
    vmwrite(0xc0c, SEL_TSS);
    for (n = 0; n < 2; n++) {
        uint64_t state = n ? 0x6c00 : 0x6800;

        vmwrite(state, cr0);
        vmwrite(state + 2, cr3);
        vmwrite(state + 4, cr4);
    }
    vmwrite(0x4810, gdt_pointer[0]);
    vmwrite(0x4812, idt_pointer[0]);
    vmwrite(0x6816, gdt_base);
    vmwrite(0x6818, idt_base);
    vmwrite(0x681a, 0x400);             /* DR7 */
    vmwrite(0x6c0a, tss);
    vmwrite(0x6c0c, gdt_base);
    vmwrite(0x6c0e, idt_base);
    vmwrite(FIELD_HOST_RIP, (uintptr_t)vm_exited);
    vmwrite(FIELD_RFLAGS, 2);
    vmwrite(FIELD_RSP, (uintptr_t)ap_stack + STACK_SIZE);
    set_controls(EXIT_SAVE_DEBUG, ENTRY_LOAD_DEBUG);
}

static bool launched;

/* Runs the guest from an address, or on; the reason why it ended */
static uint32_t run(const char *at, uint64_t debugctl)
{
    uint64_t flags;

    if (at) {
        vmwrite(FIELD_RIP, (uintptr_t)at);
        vmwrite(FIELD_RSP, (uintptr_t)ap_stack + STACK_SIZE);
        vmwrite(FIELD_INTERRUPTIBILITY, 0);
    }
    flags = vm_enter(launched, debugctl);
    if (flags) {
        fail("VM entry failed, flags %x, error %d", flags,
             (unsigned)vmread(FIELD_ERROR));
    }
    launched = launched || !(vmread(FIELD_REASON) >> 31);
    return vmread(FIELD_REASON);
}

static void is(unsigned n, const struct record *record, const char *from,
               const char *to)
{
    if (record->from != (uintptr_t)from || record->to != (uintptr_t)to) {
        fail("record %d is %x -> %x, not %x -> %x", n, record->from,
             record->to, from, to);
    }
}

static void use_pages(void)
{
    wrmsr(MSR_DS_AREA, (uintptr_t)&page_area);
    for (unsigned n = 0; n < sizeof(page_records) / 24; n++) {
        page_records[n].from = page_records[n].to = 0;
    }
    page_area.base = page_area.index = (uintptr_t)page_records;
    page_area.maximum = (uintptr_t)page_records + sizeof(page_records);
    page_area.threshold = page_area.maximum + 24;
}

static void ept_set(const void *page, unsigned rights)
{
    struct {
        uint64_t eptp, reserved;
    } one = { (uintptr_t)ept_pml4 | 3 << 3 | 6, 0 };
    uint64_t type = 1;

    CHECK((uintptr_t)page >> 21 == 0);
    ept_pt[(uintptr_t)page >> 12] =
        ((uintptr_t)page & ~0xfffull) | 0x30 | rights;
    asm volatile("invept %0, %1" : : "m"(one), "r"(type) : "memory", "cc");
}

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
    use_pages();
    page_area.base = page_area.index = window;
    page_area.maximum = window + 4096;
    page_area.threshold = window + 8192;
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

void test(void)
{
    set_up();
    debug_controls();
    msr_lists();
    ept_violations();
    page_faults();
    injection();
    pmi();
}
