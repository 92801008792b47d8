/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * KVM itself writes the entry that leads to the window into the guest's
 * top-level page tables: where there is none, once for each, and nowhere else
 *
 * rig: linux=kvm_intel.bts_trace=1
 */
#include "kvm-trace.h"

extern const char guest_begin[], g_out[], g_clear[], g_jmp2[], g_to2[],
    g_clear_out[], g_fault[], guest_end[];

/* It switches address spaces, or clears the root entry at R12, does INVLPG for
   R14 and branches, R15 times */
asm(
    "   .pushsection .rodata\n"
    "   .code64\n"
    SWITCH_ADDRESS_SPACES
    "g_out: outb %al, $0x10\n"
    "g_clear: movq $0, (%r12)\n"
    "   invlpg  (%r14)\n"
    "g_jmp2: jmp g_to2\n"
    "   nop\n"
    "g_to2: decl %r15d\n"
    "   jnz     g_clear\n"
    "g_clear_out: outb %al, $0x10\n"
    "g_fault: outb %al, $0x11\n"
    "guest_end:\n"
    "   .popsection\n");

static void open_guest(struct trace *t, uint64_t entry0, uint64_t entry1)
{
    trace_open(t, guest_begin, guest_end - guest_begin, 0);
    for (unsigned vector = 8; vector < 15; vector++) {
        vm_set_idt(&t->vm, vector, AT(g_fault));
    }
    *vm_entry(&t->vm, ROOT(0), W_INDEX) = entry0;
    *vm_entry(&t->vm, ROOT(1), W_INDEX) = entry1;
    t->config.root_entry = W_ENTRY;
}

static void set_regs(struct trace *t, uint64_t rip, uint64_t r12,
                     uint64_t rounds)
{
    struct kvm_regs regs = {
        .rip = rip, .rsp = VM_STACK, .rflags = 2,
        .r12 = r12, .r13 = ROOT(1), .r14 = W_LINEAR + 4096, .r15 = rounds,
    };

    CHECK(ioctl(t->vm.vcpu, KVM_SET_REGS, &regs) == 0);
}

/* All but the entries in question is as it was. */
static void check_roots(struct trace *t, const uint8_t *before, uint64_t entry0,
                        uint64_t entry1)
{
    CHECK((*vm_entry(&t->vm, ROOT(0), W_INDEX) & ~PTE_A) == (entry0 & ~PTE_A));
    CHECK((*vm_entry(&t->vm, ROOT(1), W_INDEX) & ~PTE_A) == (entry1 & ~PTE_A));
    for (unsigned i = 0; i < 8192; i++) {
        if (i % 4096 / 8 != W_INDEX) {
            CHECK(t->vm.memory[VM_ROOT + i] == before[i]);
        }
    }
}

static void installed(uint64_t entry0, uint64_t entry1)
{
    uint8_t before[8192];
    struct trace t;
    unsigned at;

    open_guest(&t, entry0, entry1);
    memcpy(before, t.vm.memory + VM_ROOT, sizeof(before));
    set_regs(&t, VM_CODE, ROOT(0), 100);
    trace_start(&t);
    CHECK(trace_run(&t) == 0x10);
    at = trace_expect_marker(&t, 0, MARKER_ON, 0, ROOT(0));
    for (unsigned i = 0; i < 100; i++) {
        if (i) {
            at = trace_expect_marker(&t, at, MARKER_CR3, 0, ROOT(0));
        }
        at = trace_expect(&t, at, AT(g_jmp0), AT(g_to0));
        at = trace_expect_marker(&t, at, MARKER_CR3, 0, ROOT(1));
        at = trace_expect(&t, at, AT(g_jmp1), AT(g_to1));
        if (i < 99) {
            at = trace_expect(&t, at, AT(g_again), AT(guest_begin));
        }
    }
    CHECK(at == t.count);
    check_roots(&t, before, W_ENTRY, W_ENTRY);
    trace_close(&t);
}

/* What KVM writes is dirty memory.  So is what the CPU walks through: look before
   the guest runs, which a buffer that the first marker fills keeps it from. */
static void dirty(uint64_t entry, bool expected)
{
    struct exit_bts_trace *exit;
    uint64_t bitmap = 0;
    struct kvm_dirty_log log = { .dirty_bitmap = &bitmap };
    struct kvm_userspace_memory_region region = {
        .flags = KVM_MEM_LOG_DIRTY_PAGES, .memory_size = VM_SIZE,
    };
    struct trace t;

    open_guest(&t, entry, 0);
    exit = (void *)&t.vm.run->io;
    region.userspace_addr = (uintptr_t)t.vm.memory;
    CHECK(ioctl(t.vm.vm, KVM_SET_USER_MEMORY_REGION, &region) == 0);
    set_regs(&t, VM_CODE, ROOT(0), 1);
    trace_set_buffer(&t, 100, 1);
    trace_start(&t);
    CHECK(ioctl(t.vm.vcpu, KVM_RUN, 0) == 0);
    CHECK(t.vm.run->exit_reason == EXIT_X86_BTS_TRACE);
    CHECK(exit->reason == EXIT_FULL);
    CHECK(*vm_entry(&t.vm, ROOT(0), W_INDEX) == W_ENTRY);
    CHECK(ioctl(t.vm.vm, KVM_GET_DIRTY_LOG, &log) == 0);
    CHECK(bitmap == (expected ? 1ull << (ROOT(0) / 4096) : 0));
    trace_close(&t);
}

/* What the guest has there stays; where it has nothing, the host can trace. */
static void taken(uint64_t entry)
{
    uint8_t before[8192];
    struct trace t;
    unsigned at;

    open_guest(&t, 0, entry);
    memcpy(before, t.vm.memory + VM_ROOT, sizeof(before));
    set_regs(&t, VM_CODE, ROOT(0), 2);
    trace_start(&t);
    CHECK(trace_run(&t) == 0x10);
    at = trace_expect_marker(&t, 0, MARKER_ON, 0, ROOT(0));
    at = trace_expect(&t, at, AT(g_jmp0), AT(g_to0));
    at = trace_expect_marker(&t, at, MARKER_OFF, OFF_ADDRESS_SPACE, ROOT(0));
    at = trace_expect_marker(&t, at, MARKER_ON, 0, ROOT(0));
    at = trace_expect(&t, at, AT(g_jmp0), AT(g_to0));
    at = trace_expect_marker(&t, at, MARKER_OFF, OFF_ADDRESS_SPACE, ROOT(0));
    CHECK(at == t.count);
    check_roots(&t, before, W_ENTRY, entry);
    trace_close(&t);
}

/* The guest clears it again and again: KVM writes it a few times, then gives up
   until CR3 is loaded. */
static void cleared(void)
{
    unsigned ons = 0, records = 0, last = 0;
    struct trace t;

    open_guest(&t, 0, 0);
    set_regs(&t, AT(g_clear), ROOT(0) + 8 * W_INDEX, 1000);
    trace_start(&t);
    CHECK(trace_run(&t) == 0x10);
    for (unsigned i = 0; i < t.count; i++) {
        uint64_t from = t.list[i].from;

        ons += from == MARKER(MARKER_ON, 0);
        records += from == AT(g_jmp2);
        CHECK(!IS_MARKER(from) || from == MARKER(MARKER_ON, 0) ||
              from == MARKER(MARKER_OFF, OFF_UNMAPPED));
        last = i;
    }
    printf("cleared 1000 times: installed %u times, %u records\n", ons,
           records);
    fflush(stdout);
    CHECK(ons >= 2 && ons < 20 && records < 1000);
    CHECK(t.list[last].from == MARKER(MARKER_OFF, OFF_UNMAPPED));
    CHECK(*vm_entry(&t.vm, ROOT(0), W_INDEX) == 0);

    trace_forget(&t);
    set_regs(&t, VM_CODE, ROOT(0), 1);
    CHECK(trace_run(&t) == 0x10);
    CHECK(trace_expect_marker(&t, 0, MARKER_ON, 0, ROOT(0)) + 3 == t.count);
    trace_close(&t);
}

/* The top-level table is in memory that can only be read. */
static void read_only(void)
{
    struct kvm_userspace_memory_region region = {
        .slot = 2, .guest_phys_addr = 0x100000, .memory_size = 4096,
        .flags = KVM_MEM_READONLY,
    };
    struct kvm_sregs sregs;
    struct trace t;
    void *page;

    open_guest(&t, 0, 0);
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                -1, 0);
    CHECK(page != MAP_FAILED);
    memcpy(page, t.vm.memory + VM_ROOT, 4096);
    region.userspace_addr = (uintptr_t)page;
    CHECK(ioctl(t.vm.vm, KVM_SET_USER_MEMORY_REGION, &region) == 0);
    CHECK(ioctl(t.vm.vcpu, KVM_GET_SREGS, &sregs) == 0);
    sregs.cr3 = 0x100000;
    CHECK(ioctl(t.vm.vcpu, KVM_SET_SREGS, &sregs) == 0);
    set_regs(&t, AT(g_out), 0, 0);
    trace_start(&t);
    CHECK(trace_run(&t) == 0x10);
    CHECK(trace_expect_marker(&t, 0, MARKER_OFF, OFF_ADDRESS_SPACE, 0) ==
          t.count);
    CHECK(((uint64_t *)page)[W_INDEX] == 0);
    munmap(page, 4096);
    trace_close(&t);
}

/* Where NX is a reserved bit, the entry leads nowhere. */
static void without_nx(void)
{
    struct kvm_sregs sregs;
    struct trace t;

    open_guest(&t, 0, 0);
    CHECK(ioctl(t.vm.vcpu, KVM_GET_SREGS, &sregs) == 0);
    sregs.efer &= ~EFER_NXE;
    CHECK(ioctl(t.vm.vcpu, KVM_SET_SREGS, &sregs) == 0);
    set_regs(&t, VM_CODE, ROOT(0), 2);
    trace_start(&t);
    CHECK(trace_run(&t) == 0x10);
    CHECK(trace_expect_marker(&t, 0, MARKER_OFF, OFF_MODE, 0) == t.count);
    CHECK(*vm_entry(&t.vm, ROOT(0), W_INDEX) == 0);
    CHECK(*vm_entry(&t.vm, ROOT(1), W_INDEX) == 0);
    trace_close(&t);
}

int main(void)
{
    trace_or_skip();
    installed(0, 0);
    installed(0, W_ENTRY);
    installed(W_ENTRY & ~PTE_A, 0);
    dirty(0, true);
    dirty(W_ENTRY, false);
    taken(VM_SPARE | PTE_P | PTE_W);
    taken(W_ENTRY & ~PTE_P);
    taken(W_ENTRY & ~PTE_NX);
    taken(PTE_A);
    cleared();
    read_only();
    without_nx();
    kmsg_is_calm();
    return 0;
}
