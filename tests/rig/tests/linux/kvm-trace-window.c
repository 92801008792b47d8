/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The window that the host traces into lies in the guest's address space, where
 * the guest's kernel can do with it what it wants: no fault of a store reaches
 * the guest, KVM notices what it can, and says so
 *
 * rig: linux=kvm_intel.bts_trace=1
 */
#include "kvm-trace.h"

extern const char guest_begin[], g_to[], g_out[], g_last[], g_last_to[],
    g_cr3[], g_again[], g_fault[], g_begin2[], g_to2[], guest_end[];

/* A branch; an entry of a page table is changed (R12: where, R13: to what) and
   INVLPG for R14 done; a branch; the entry is put back (RBX) and CR3 loaded; a
   branch */
asm(
    "   .pushsection .rodata\n"
    "   .code64\n"
    "guest_begin: jmp g_to\n"
    "   nop\n"
    "g_to: movq %r13, (%r12)\n"
    "   invlpg  (%r14)\n"
    "g_begin2: jmp g_to2\n"
    "   nop\n"
    "g_to2: nop\n"
    "   movq    %rbx, (%r12)\n"
    "   movq    %cr3, %rax\n"
    "g_cr3: movq %rax, %cr3\n"
    "g_last: jmp g_last_to\n"
    "   nop\n"
    "g_last_to: nop\n"
    "g_out: outb %al, $0x10\n"
    "g_again: jmp guest_begin\n"
    "g_fault: outb %al, $0x11\n"
    "guest_end:\n"
    "   .popsection\n");

static void open_guest(struct trace *t)
{
    trace_open(t, guest_begin, guest_end - guest_begin, 0);
    for (unsigned vector = 8; vector < 15; vector++) {
        vm_set_idt(&t->vm, vector, AT(g_fault));
    }
    /* The tables of the window, where the guest can change them */
    *vm_entry(&t->vm, VM_PD, 8) = W_GPA | PTE_P | PTE_W | PTE_AD | 0x80;
}

static void set_regs(struct trace *t, uint64_t entry, uint64_t value,
                     uint64_t back)
{
    struct kvm_regs regs = {
        .rip = VM_CODE, .rsp = VM_STACK, .rflags = 2,
        .r12 = entry, .r13 = value, .rbx = back, .r14 = t->ds->base,
    };

    CHECK(ioctl(t->vm.vcpu, KVM_SET_REGS, &regs) == 0);
}

/* The guest changes an entry for a while: this is noticed when a store faults,
   and when CR3 is loaded.  The branches of this while are lost, no more. */
static void unmapped(uint64_t entry, uint64_t value, uint64_t back,
                     const char *what)
{
    struct trace t;
    unsigned at;

    open_guest(&t);
    set_regs(&t, entry, value, back);
    trace_start(&t);
    CHECK(trace_run(&t) == 0x10);
    at = trace_expect_marker(&t, 0, MARKER_ON, 0, ROOT(0));
    at = trace_expect(&t, at, AT(guest_begin), AT(g_to));
    at = trace_expect_marker(&t, at, MARKER_OFF, OFF_UNMAPPED, ROOT(0));
    at = trace_expect_marker(&t, at, MARKER_ON, 0, ROOT(0));
    at = trace_expect(&t, at, AT(g_last), AT(g_last_to));
    CHECK(at == t.count);
    printf("%s: noticed\n", what);
    fflush(stdout);
    trace_close(&t);
}

/* The root entry is not there, or another one, from the start, and right after
   CR3 has been loaded: nothing is stored, what the guest has there stays. */
static void other_root(uint64_t value, uint64_t gpa)
{
    struct trace t;
    unsigned at;

    open_guest(&t);
    *vm_entry(&t.vm, ROOT(0), W_INDEX) = value;
    set_regs(&t, ROOT(0) + 8 * W_INDEX, value, W_ENTRY);
    trace_start(&t);
    CHECK(trace_run(&t) == 0x10);
    at = trace_expect_marker(&t, 0, MARKER_OFF, OFF_ADDRESS_SPACE, 0);
    at = trace_expect_marker(&t, at, MARKER_ON, 0, ROOT(0));
    at = trace_expect(&t, at, AT(g_last), AT(g_last_to));
    CHECK(at == t.count);

    trace_forget(&t);
    set_regs(&t, ROOT(0) + 8 * W_INDEX, W_ENTRY, value);
    CHECK(trace_run(&t) == 0x10);
    at = trace_expect(&t, 0, AT(guest_begin), AT(g_to));
    at = trace_expect(&t, at, AT(g_begin2), AT(g_to2));
    at = trace_expect_marker(&t, at, MARKER_OFF, OFF_ADDRESS_SPACE, ROOT(0));
    CHECK(at == t.count);
    CHECK(*vm_entry(&t.vm, ROOT(0), W_INDEX) == value);
    if (gpa) {
        for (unsigned i = 0; i < 512; i++) {
            CHECK(*vm_entry(&t.vm, gpa, i) == 0);
        }
    }
    trace_close(&t);
}

/* A wrong level of the window's tables, or a wrong bit in one of their entries,
   is found before anything is stored. */
static void wrong_tables(void)
{
    static const struct {
        unsigned table, entry;
        uint64_t clear, set;
    } ways[] = {
        { 0, 0, PTE_P, 0 },
        { 0, 0, PTE_W, 0 },
        { 0, 0, 0, 0x80 },
        { 1, 0, PTE_P, 0 },
        { 1, 0, 0, 0x80 },
        { 2, 0, PTE_P, 0 },
        { 2, 0, PTE_W, 0 },
        { 2, 0, 0, 0x1000 },
        { 2, W_SIZE / 4096 - 1, PTE_P, 0 },
        { 2, W_SIZE / 4096 - 1, PTE_W, 0 },
        { 2, 3, 0x1000, 0 },
        { 2, 5, 0, 1ull << 51 },
    };

    for (unsigned i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        volatile uint64_t *entry;
        struct trace t;

        open_guest(&t);
        entry = &window_table(&t, ways[i].table)[ways[i].entry];
        *entry = (*entry & ~ways[i].clear) | ways[i].set;
        set_regs(&t, VM_DATA, 0, 0);
        trace_start(&t);
        CHECK(trace_run(&t) == 0x10);
        CHECK(trace_expect_marker(&t, 0, MARKER_OFF, OFF_ADDRESS_SPACE, 0) ==
              t.count);
        trace_close(&t);
    }
}

/* The guest overwrites the DS area: KVM gives up, the guest goes on. */
static void corrupt(unsigned field, uint64_t value)
{
    struct trace t;

    open_guest(&t);
    set_regs(&t, 0x1000000 /* where it can get at it */ + 8 * field, value, value);
    trace_start(&t);
    CHECK(trace_run_until_off(&t) == OFF_CORRUPT);
    CHECK(field == 1 || ((volatile uint64_t *)t.ds)[field] == value);
    CHECK(trace_run_once(&t) == KVM_EXIT_IO);
    CHECK(t.vm.run->io.port == 0x10);
    CHECK(vm_get_msr(&t.vm, MSR_DEBUGCTL) == 0);

    /* It can be started again. */
    trace_forget(&t);
    trace_set_buffer(&t, 2000, 1000);
    set_regs(&t, VM_DATA, 0, 0);
    trace_start(&t);
    CHECK(trace_run(&t) == 0x10);
    CHECK(t.count == 4);
    trace_close(&t);
}

static void set_window(struct trace *t, uint64_t size, unsigned flags)
{
    struct kvm_userspace_memory_region region = {
        .slot = 1, .guest_phys_addr = W_GPA, .memory_size = size,
        .userspace_addr = (uintptr_t)t->window, .flags = flags,
    };

    CHECK(ioctl(t->vm.vm, KVM_SET_USER_MEMORY_REGION, &region) == 0);
}

/* The memory of the window goes away, or can only be read. */
static void memory(bool read_only)
{
    struct trace t;

    open_guest(&t);
    /* What leads there stays. */
    for (unsigned n = 0; n < 3; n++) {
        memcpy(t.vm.memory + VM_SPARE + 0x1000 * n,
               t.window + W_SIZE + 0x1000 * n, 4096);
    }
    *vm_entry(&t.vm, ROOT(0), W_INDEX) = VM_SPARE | PTE_P | PTE_W | PTE_A;
    *vm_entry(&t.vm, VM_SPARE, 0) = (VM_SPARE + 0x1000) | PTE_P | PTE_W | PTE_A;
    *vm_entry(&t.vm, VM_SPARE + 0x1000, 0) = (VM_SPARE + 0x2000) | PTE_P |
                                             PTE_W | PTE_A;
    set_regs(&t, VM_DATA, 0, 0);
    trace_start(&t);
    CHECK(trace_run(&t) == 0x10);
    CHECK(t.count == 4);
    set_window(&t, 0, 0);
    if (read_only) {
        set_window(&t, W_SIZE + 0x3000, KVM_MEM_READONLY);
    }
    CHECK(trace_run_until_off(&t) == OFF_MEMORY);
    CHECK(trace_attr(&t, KVM_SET_DEVICE_ATTR, &t.config) == -1 &&
          errno == EINVAL);
    CHECK(trace_run_once(&t) == KVM_EXIT_IO);
    CHECK(t.vm.run->io.port == 0x10);
    trace_close(&t);
}

/* What follows AT is these records.  Pairs of markers say where some may be
   missing, because a store has waited for a page; under the strict model only,
   some are. */
static void expect_with_gaps(struct trace *t, unsigned at,
                             const uint64_t (*want)[2], unsigned n,
                             unsigned *pairs, unsigned *lost)
{
    bool gap = false;

    for (unsigned i = 0; i < n; at++) {
        if (at < t->count &&
            t->list[at].from == MARKER(MARKER_OFF, OFF_EPT_FAULT)) {
            at = trace_expect_marker(t, at + 1, MARKER_ON, 0, ROOT(0)) - 1;
            gap = true;
            (*pairs)++;
            continue;
        }
        while (BTS_STRICT && gap && i < n &&
               (at == t->count || t->list[at].from != want[i][0])) {
            i++;
            (*lost)++;
        }
        if (i == n) {
            break;
        }
        trace_expect(t, at, want[i][0], want[i][1]);
        i++;
    }
    CHECK(at == t->count);
}

#define TABLES_GPA  0x1400000

/* The tables of the window, in memory of their own; returns that. */
static uint8_t *move_tables(struct trace *t)
{
    struct kvm_userspace_memory_region region = {
        .slot = 2, .guest_phys_addr = TABLES_GPA, .memory_size = 0x3000,
    };
    uint8_t *tables = mmap(NULL, 0x3000, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    CHECK(tables != MAP_FAILED);
    memcpy(tables, t->window + W_SIZE, 0x3000);
    for (unsigned n = 0; n < 2; n++) {
        *(uint64_t *)(tables + 0x1000 * n) += TABLES_GPA - W_TABLES;
    }
    region.userspace_addr = (uintptr_t)tables;
    CHECK(ioctl(t->vm.vm, KVM_SET_USER_MEMORY_REGION, &region) == 0);
    *vm_entry(&t->vm, ROOT(0), W_INDEX) = TABLES_GPA | PTE_P | PTE_W | PTE_A;
    vm_prefault_range(&t->vm, TABLES_GPA, 0x3000);
    return tables;
}

/* Map the file, and take away all pages that were mapped there. */
static void map_file(uint8_t *memory, size_t size, int fd)
{
    CHECK(mmap(memory, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
               fd, 0) == memory);
}

/* A file with what is in memory */
static int make_file(const uint8_t *memory, size_t size)
{
    static const char name[] = "/tmp/memory";
    int fd = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);

    CHECK(fd >= 0);
    CHECK(unlink(name) == 0);
    CHECK(write(fd, memory, size) == (ssize_t)size);
    return fd;
}

/* The host takes pages of the window away, or of the tables that map it: the
   guest has them again, and where a store may have waited for one, the trace says
   that records may be missing. */
static void pages_taken(bool of_tables)
{
    const uint64_t want[][2] = {
        { AT(guest_begin), AT(g_to) },
        { AT(g_begin2), AT(g_to2) },
        { AT(g_last), AT(g_last_to) },
        { AT(g_again), AT(guest_begin) },
        { AT(guest_begin), AT(g_to) },
        { AT(g_begin2), AT(g_to2) },
        { AT(g_last), AT(g_last_to) },
    };
    size_t size = of_tables ? 0x3000 : W_SIZE;
    unsigned pairs = 0, lost = 0;
    uint8_t *tables, *memory;
    struct trace t;
    int fd;

    open_guest(&t);
    tables = move_tables(&t);
    memory = of_tables ? tables : t.window;
    fd = make_file(memory, size);
    set_regs(&t, VM_DATA, 0, 0);
    trace_start(&t);
    CHECK(trace_run(&t) == 0x10);
    for (unsigned i = 0; i < 20; i++) {
        trace_forget(&t);
        set_regs(&t, VM_DATA, 0, 0);
        map_file(memory, size, fd);
        CHECK(trace_run(&t) == 0x10);
        CHECK(trace_run(&t) == 0x10);
        expect_with_gaps(&t, 0, want, 7, &pairs, &lost);
    }
    printf("pages of %s taken: %u gaps, %u of 140 records lost\n",
           of_tables ? "the tables" : "the window", pairs, lost);
    fflush(stdout);
    CHECK(pairs >= 20);
    CHECK(BTS_STRICT ? lost > 0 && lost < 140 : lost == 0);
    close(fd);
    munmap(tables, 0x3000);
    trace_close(&t);
}

/* A buffer that was full: the trace says so. */
static void overflow(void)
{
    struct trace t;
    unsigned at;

    open_guest(&t);
    set_regs(&t, VM_DATA, 0, 0);
    trace_start(&t);
    CHECK(trace_run(&t) == 0x10);
    trace_forget(&t);
    t.ds->index = t.ds->maximum;
    set_regs(&t, VM_DATA, 0, 0);
    CHECK(trace_run(&t) == 0x10);
    CHECK(t.full == 1);
    at = trace_expect_marker(&t, 2000, MARKER_OFF, OFF_OVERFLOW, ROOT(0));
    at = trace_expect_marker(&t, at, MARKER_ON, 0, ROOT(0));
    at = trace_expect(&t, at, AT(guest_begin), AT(g_to));
    CHECK(at + 2 == t.count);
    trace_close(&t);
}

int main(void)
{
    trace_or_skip();
    unmapped(ROOT(0) + 8 * W_INDEX, 0, W_ENTRY, "root entry cleared");
    unmapped(W_TABLES, 0, (W_TABLES + 0x1000) | PTE_P | PTE_W | PTE_A,
             "third level cleared");
    unmapped(W_TABLES + 0x2008, 0, (W_GPA + 4096) | PTE_P | PTE_W | PTE_AD,
             "page of the buffer cleared");
    unmapped(W_TABLES + 0x2008, (W_GPA + 4096) | PTE_P | PTE_AD,
             (W_GPA + 4096) | PTE_P | PTE_W | PTE_AD,
             "page of the buffer read-only");
    unmapped(W_TABLES + 0x2008, (W_GPA + 4096) | PTE_P | PTE_AD | PTE_W |
             1ull << 51, (W_GPA + 4096) | PTE_P | PTE_W | PTE_AD,
             "reserved bit");
    other_root(0, 0);
    other_root(VM_SPARE | PTE_P | PTE_W | PTE_A, VM_SPARE);
    wrong_tables();
    for (unsigned field = 0; field < 4; field++) {
        corrupt(field, 0);
        corrupt(field, -1ull);
        corrupt(field, 1ull << 63);
        corrupt(field, W_LINEAR + 4096 + 8);
        corrupt(field, W_LINEAR + W_SIZE);
        corrupt(field, VM_STACK - 0x1000);
    }
    memory(false);
    memory(true);
    pages_taken(false);
    pages_taken(true);
    overflow();
    kmsg_is_calm();
    return 0;
}
