/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The host traces a guest that switches between address spaces: the marker in
 * front of each record has its CR3, and KVM flushes the TLB for each load of CR3
 * that asks for it, and for no other
 *
 * rig: linux=kvm_intel.bts_trace=1
 */
#include "kvm-trace.h"

extern const char guest_begin[], g_out[], guest_end[];

asm(
    "   .pushsection .rodata\n"
    "   .code64\n"
    SWITCH_ADDRESS_SPACES
    "   movq    %cr3, %rax\n"
    "g_out: outb %al, $0x10\n"
    "guest_end:\n"
    "   .popsection\n");

#define NOFLUSH (1ull << 63)

static void set_regs(struct trace *t, uint64_t rip, uint64_t cr3_0,
                     uint64_t cr3_1, unsigned rounds)
{
    struct kvm_regs regs = {
        .rip = rip, .rsp = VM_STACK, .rflags = 2,
        .r12 = cr3_0, .r13 = cr3_1, .r15 = rounds,
    };

    CHECK(ioctl(t->vm.vcpu, KVM_SET_REGS, &regs) == 0);
}

/* Each branch has been done in the address space of the marker before it. */
static void check_rounds(struct trace *t, uint64_t cr3_0, uint64_t cr3_1,
                         unsigned rounds)
{
    unsigned at = trace_expect_marker(t, 0, MARKER_ON, 0, ROOT(0));

    for (unsigned i = 0; i < rounds; i++) {
        /* The first load may not change it. */
        if (i > 0 || cr3_0 != ROOT(0)) {
            at = trace_expect_marker(t, at, MARKER_CR3, 0, cr3_0);
        }
        at = trace_expect(t, at, AT(g_jmp0), AT(g_to0));
        if (cr3_1 != cr3_0) {
            at = trace_expect_marker(t, at, MARKER_CR3, 0, cr3_1);
        }
        at = trace_expect(t, at, AT(g_jmp1), AT(g_to1));
        if (i + 1 < rounds) {
            at = trace_expect(t, at, AT(g_again), AT(guest_begin));
        }
    }
    CHECK(at == t->count);
}

static void check_times(struct trace *t)
{
    uint64_t last = 0;
    unsigned markers = 0;

    for (unsigned i = 0; i < t->count; i++) {
        if (IS_MARKER(t->list[i].from)) {
            CHECK(t->list[i].flags > last);
            last = t->list[i].flags;
            markers++;
        }
    }
    CHECK(markers > 1);
    CHECK(last < vm_get_msr(&t->vm, 0x10 /* the guest's TSC */));
}

static void labels(uint64_t cr4, uint64_t pcid, uint64_t bits, unsigned rounds)
{
    uint64_t cr3_0 = ROOT(0), cr3_1 = ROOT(1) | pcid;
    unsigned long flushes;
    struct kvm_regs regs;
    struct trace t;

    trace_open(&t, guest_begin, guest_end - guest_begin, cr4);
    /* The guest's TSC is not the host's. */
    CHECK(vm_set_msr(&t.vm, 0x10, 1ull << 60) == 1);
    trace_set_buffer(&t, 1000, 500);
    set_regs(&t, VM_CODE, cr3_0 | bits, cr3_1 | bits, rounds);
    trace_start(&t);
    /* What is in the emulated CPU's TLB does not show them. */
    flushes = kvm_count("tlb_flush");
    CHECK(trace_run(&t) == 0x10);
    flushes = kvm_count("tlb_flush") - flushes;
    check_rounds(&t, cr3_0, cr3_1, rounds);
    check_times(&t);
    CHECK(t.list[0].flags > 1ull << 60);
    CHECK(ioctl(t.vm.vcpu, KVM_GET_REGS, &regs) == 0);
    CHECK(regs.rax == cr3_1);
    printf("%u switches, PCID %s, %sflush: %u records and markers, "
           "%lu flushes\n", 2 * rounds, cr4 ? "on" : "off", bits ? "no " : "",
           t.count, flushes);
    fflush(stdout);
    CHECK(bits ? flushes < rounds / 10 : flushes >= 2 * rounds);
    trace_close(&t);
}

/* Loads of the same CR3 are none for the labels. */
static void same(void)
{
    struct trace t;

    trace_open(&t, guest_begin, guest_end - guest_begin, 0);
    set_regs(&t, VM_CODE, ROOT(0), ROOT(0), 1);
    trace_start(&t);
    CHECK(trace_run(&t) == 0x10);
    check_rounds(&t, ROOT(0), ROOT(0), 1);
    trace_close(&t);
}

/* A load that faults leaves all as it is: bit 63 without PCID. */
static void faults(void)
{
    struct kvm_sregs sregs;
    struct trace t;

    trace_open(&t, guest_begin, guest_end - guest_begin, 0);
    vm_set_idt(&t.vm, 13, AT(g_out));
    set_regs(&t, VM_CODE, ROOT(1) | NOFLUSH, ROOT(1), 1);
    trace_start(&t);
    CHECK(trace_run(&t) == 0x10);
    CHECK(ioctl(t.vm.vcpu, KVM_GET_SREGS, &sregs) == 0);
    CHECK(sregs.cr3 == ROOT(0));
    CHECK(trace_expect_marker(&t, 0, MARKER_ON, 0, ROOT(0)) + !BTS_STRICT ==
          t.count);
    if (!BTS_STRICT) {
        /* The fault was injected, of which a strict CPU has no record. */
        trace_expect(&t, 1, AT(guest_begin), AT(g_out));
    }
    trace_close(&t);
}

int main(void)
{
    trace_or_skip();
    labels(0, 0, 0, 10000);
    labels(CR4_PCIDE, 5, 0, 1000);
    labels(CR4_PCIDE, 0xfff, NOFLUSH, 1000);
    same();
    faults();
    kmsg_is_calm();
    return 0;
}
