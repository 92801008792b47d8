/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What bare tests of VM entry and VM exit share: a guest that is code of the
 * test, with the descriptors and pages of the host, under EPT
 */
#ifndef VMX_H
#define VMX_H

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

#define PIN_EXTERNAL            (1u << 0)
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
#define REASON_EXTERNAL         1
#define REASON_VMCALL           18
#define REASON_BAD_GUEST        (1u << 31 | 33)
#define REASON_BAD_MSR          (1u << 31 | 34)
#define REASON_EPT_VIOLATION    48

static uint8_t vmxon_region[4096] __attribute__((aligned(4096)));
static uint8_t vmcs[2][4096] __attribute__((aligned(4096)));
static uint8_t msr_bitmap[4096] __attribute__((aligned(4096)));
static uint64_t ept_pml4[512] __attribute__((aligned(4096)));
static uint64_t ept_pdpt[512] __attribute__((aligned(4096)));
static uint64_t ept_pd[4][512] __attribute__((aligned(4096)));
static uint64_t ept_pt[512] __attribute__((aligned(4096)));

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
static inline uint32_t controls(uint32_t msr, uint32_t wanted)
{
    uint64_t allowed = rdmsr(msr);

    if (wanted & ~(allowed >> 32)) {
        fail("no such controls: %x of MSR %x", (uint64_t)wanted,
             (uint64_t)msr);
    }
    return wanted | (uint32_t)allowed;
}

static inline void set_controls(uint32_t exit, uint32_t entry)
{
    vmwrite(FIELD_PIN, controls(0x48d, PIN_NMI));
    vmwrite(FIELD_CPU, controls(0x48e, CPU_HLT | CPU_MSR_BITMAPS |
                                CPU_SECONDARY));
    vmwrite(FIELD_CPU2, controls(0x48b, CPU2_EPT));
    vmwrite(FIELD_EXIT, controls(0x48f, EXIT_HOST_64 | exit));
    vmwrite(FIELD_ENTRY, controls(0x490, ENTRY_IA32E | entry));
}

static inline void set_up(void)
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
static inline uint32_t run(const char *at, uint64_t debugctl)
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

static inline void is(unsigned n, const struct record *record,
                      const char *from, const char *to)
{
    if (record->from != (uintptr_t)from || record->to != (uintptr_t)to) {
        fail("record %d is %x -> %x, not %x -> %x", n, record->from,
             record->to, from, to);
    }
}

static inline void use_pages(void)
{
    wrmsr(MSR_DS_AREA, (uintptr_t)&page_area);
    for (unsigned n = 0; n < sizeof(page_records) / 24; n++) {
        page_records[n].from = page_records[n].to = 0;
    }
    page_area.base = page_area.index = (uintptr_t)page_records;
    page_area.maximum = (uintptr_t)page_records + sizeof(page_records);
    page_area.threshold = page_area.maximum + 24;
}

/* The same, but the buffer is a page at an address that maps none yet. */
static inline void use_window(uint64_t window)
{
    use_pages();
    page_area.base = page_area.index = window;
    page_area.maximum = window + 4096;
    page_area.threshold = window + 8192;
}

static inline void ept_set(const void *page, unsigned rights)
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

#endif
