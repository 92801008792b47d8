/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Guests in 64-bit mode that the host traces by BTS: their own page tables map
 * the window that the records go to
 */
#ifndef KVM_TRACE_H
#define KVM_TRACE_H

#include "kvm-bts.h"

#define CAP_X86_BTS_TRACE   240
#define EXIT_X86_BTS_TRACE  40

enum { EXIT_FULL = 1, EXIT_OFF };

/* The host's headers do not have this. */
struct exit_bts_trace {
    uint32_t reason, off_reason;
};

#define VCPU_BTS_TRACE      1
#define TRACE_ENABLE        1
#define TRACE_ON            2

struct bts_trace {
    uint32_t flags, root_index;
    uint64_t root_entry, ds_area, gpa, size, reserved[8];
};

#define MARKER(type, reason)    (0x4254530000000000 | (reason) << 8 | (type))
#define IS_MARKER(from)         ((from) >> 16 == 0x425453000000)

enum { MARKER_CR3 = 1, MARKER_OFF, MARKER_ON };

enum {
    OFF_MODE = 1, OFF_SMM, OFF_NESTED, OFF_GUEST, OFF_ADDRESS_SPACE,
    OFF_UNMAPPED, OFF_EPT_FAULT, OFF_OVERFLOW, OFF_CORRUPT, OFF_MEMORY
};

/* Where the guest has what: VM_CODE, VM_DS and VM_BUFFER, and */
#define VM_DATA     0x2000
#define VM_GDT      0x5000
#define VM_IDT      0x5100
#define VM_STACK    0x8000      /* below it */
#define VM_ROOT     0x8000      /* a second one behind it */
#define VM_PDPT     0xa000
#define VM_PD       0xb000
#define VM_PT       0xc000
#define VM_SPARE    0xd000

#define ROOT(n)     (VM_ROOT + 0x1000ull * (n))

/* The window; behind it the tables that map it, of which the root entry is the
   first */
#define W_LINEAR    0xffff800000000000
#define W_INDEX     256
#define W_GPA       0x1000000
#ifndef W_SIZE
#define W_SIZE      0x10000
#endif
#define W_TABLES    (W_GPA + W_SIZE)
#define W_ENTRY     (W_TABLES | PTE_P | PTE_W | PTE_A | PTE_NX)

#define PTE_P       1ull
#define PTE_W       2ull
#define PTE_U       4ull
#define PTE_A       0x20ull
#define PTE_AD      0x60ull
#define PTE_NX      (1ull << 63)

#define CR0_PG      (1ull << 31)
#define CR4_PAE     (1ull << 5)
#define CR4_PCIDE   (1ull << 17)
#define EFER_64     0xd01       /* NXE, LMA, LME, SCE */
#define EFER_NXE    0x800

#define MSR_STAR    0xc0000081
#define MSR_LSTAR   0xc0000082

/* Code of a guest, R15 rounds: to the CR3 in R12, a branch, to that in R13,
   another branch */
#define SWITCH_ADDRESS_SPACES                   \
    "guest_begin: movq %r12, %cr3\n"            \
    "g_jmp0: jmp g_to0\n"                       \
    "   nop\n"                                  \
    "g_to0: movq %r13, %cr3\n"                  \
    "g_jmp1: jmp g_to1\n"                       \
    "   nop\n"                                  \
    "g_to1: decl %r15d\n"                       \
    "g_again: jnz guest_begin\n"

extern const char g_jmp0[], g_to0[], g_jmp1[], g_to1[], g_again[];

struct trace {
    struct vm vm;
    struct bts_trace config;
    uint8_t *window;
    volatile struct ds_area *ds;

    /* What has been drained */
    struct record *list;
    unsigned count, full;
};

static inline volatile uint64_t *vm_entry(struct vm *vm, uint64_t table,
                                          unsigned n)
{
    return (volatile uint64_t *)(vm->memory + table) + n;
}

static inline volatile uint64_t *window_table(struct trace *t, unsigned n)
{
    return (volatile uint64_t *)(t->window + W_SIZE + n * 4096);
}

/* The first MiBs as they are, for user mode, too; two roots alike */
static inline void trace_tables(struct trace *t)
{
    const uint64_t bits = PTE_P | PTE_W | PTE_U | PTE_AD;

    for (unsigned n = 0; n < 2; n++) {
        *vm_entry(&t->vm, ROOT(n), 0) = VM_PDPT | bits;
        *vm_entry(&t->vm, ROOT(n), W_INDEX) = W_ENTRY;
    }
    *vm_entry(&t->vm, VM_PDPT, 0) = VM_PD | bits;
    *vm_entry(&t->vm, VM_PD, 0) = VM_PT | bits;
    for (unsigned i = 0; i < VM_SIZE / 4096; i++) {
        *vm_entry(&t->vm, VM_PT, i) = i * 4096 | bits;
    }
    window_table(t, 0)[0] = (W_TABLES + 0x1000) | PTE_P | PTE_W | PTE_A;
    window_table(t, 1)[0] = (W_TABLES + 0x2000) | PTE_P | PTE_W | PTE_A;
    for (unsigned i = 0; i < W_SIZE / 4096; i++) {
        window_table(t, 2)[i] = (W_GPA + i * 4096) | PTE_P | PTE_W | PTE_AD |
                                PTE_NX;
    }
}

static inline void vm_set_idt(struct vm *vm, unsigned vector, uint64_t handler)
{
    *vm_entry(vm, VM_IDT, 2 * vector) = (handler & 0xffff) | 8 << 16 |
        0xee00ull << 32 | (handler >> 16) << 48;
    *vm_entry(vm, VM_IDT, 2 * vector + 1) = 0;
}

/* SYSCALL and SYSRET go to 8 and 0x2b. */
static inline void vm_set_long_mode(struct vm *vm, uint64_t cr4)
{
    struct kvm_segment flat = {
        .limit = 0xffffffff, .selector = 0x10, .type = 3, .present = 1,
        .db = 1, .s = 1, .g = 1
    };
    struct kvm_sregs sregs;
    volatile uint64_t *gdt = vm_entry(vm, VM_GDT, 0);

    gdt[1] = 0xaf9b000000ffff;
    gdt[2] = 0xcf93000000ffff;
    gdt[4] = 0xcff3000000ffff;
    gdt[5] = 0xaffb000000ffff;
    CHECK(ioctl(vm->vcpu, KVM_GET_SREGS, &sregs) == 0);
    sregs.ds = sregs.es = sregs.fs = sregs.gs = sregs.ss = sregs.cs = flat;
    sregs.cs.selector = 8;
    sregs.cs.type = 11;
    sregs.cs.db = 0;
    sregs.cs.l = 1;
    sregs.gdt.base = VM_GDT;
    sregs.gdt.limit = 47;
    sregs.idt.base = VM_IDT;
    sregs.idt.limit = 32 * 16 - 1;
    sregs.cr0 = CR0_PG | 0x10031;       /* WP, NE, ET, PE */
    sregs.cr3 = ROOT(0);
    sregs.cr4 = CR4_PAE | cr4;
    sregs.efer = EFER_64;
    CHECK(ioctl(vm->vcpu, KVM_SET_SREGS, &sregs) == 0);
    CHECK(vm_set_msr(vm, MSR_STAR, 0x001b000800000000) == 1);
}

/* So many records fit; the interrupt comes with this one. */
static inline void trace_set_buffer(struct trace *t, unsigned records,
                                    unsigned threshold)
{
    CHECK((records + 1) * sizeof(struct record) <= W_SIZE - 4096);
    t->ds->base = t->ds->index = W_LINEAR + 4096;
    t->ds->maximum = t->ds->base + records * sizeof(struct record);
    t->ds->threshold = t->ds->base + threshold * sizeof(struct record);
}

static inline int trace_attr(struct trace *t, unsigned long request,
                             struct bts_trace *config)
{
    struct kvm_device_attr attr = {
        .group = VCPU_BTS_TRACE,
        .addr = (uintptr_t)config,
    };

    return ioctl(t->vm.vcpu, request, &attr);
}

static inline void trace_start(struct trace *t)
{
    CHECK(trace_attr(t, KVM_SET_DEVICE_ATTR, &t->config) == 0);
}

static inline void trace_stop(struct trace *t)
{
    struct bts_trace none = { 0 };

    CHECK(trace_attr(t, KVM_SET_DEVICE_ATTR, &none) == 0);
}

static inline uint32_t trace_flags(struct trace *t)
{
    struct bts_trace config;

    CHECK(trace_attr(t, KVM_GET_DEVICE_ATTR, &config) == 0);
    return config.flags;
}

static inline void vm_prefault_range(struct vm *vm, uint64_t gpa, uint64_t size)
{
    struct pre_fault_memory range = { .gpa = gpa, .size = size };

    CHECK(ioctl(vm->vcpu, PRE_FAULT_MEMORY, &range) == 0);
}

/* A guest in 64-bit mode at the start of the code, with a window */
static inline void trace_open_with(struct trace *t, const void *code,
                                   size_t size, uint64_t cr4, bool irqchip)
{
    struct kvm_userspace_memory_region region = {
        .slot = 1, .guest_phys_addr = W_GPA, .memory_size = W_SIZE + 0x3000,
    };
    struct kvm_regs regs = { .rip = VM_CODE, .rsp = VM_STACK, .rflags = 2 };
    struct kvm_cpuid2 *cpuid;

    memset(t, 0, sizeof(*t));
    t->vm = vm_open_with(code, size, irqchip);
    cpuid = vm_supported_cpuid(&t->vm);
    CHECK(ioctl(t->vm.vcpu, KVM_SET_CPUID2, cpuid) == 0);
    free(cpuid);
    t->window = mmap(NULL, region.memory_size, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(t->window != MAP_FAILED);
    region.userspace_addr = (uintptr_t)t->window;
    CHECK(ioctl(t->vm.vm, KVM_SET_USER_MEMORY_REGION, &region) == 0);
    t->ds = (void *)t->window;
    t->config = (struct bts_trace){
        .flags = TRACE_ENABLE, .root_index = W_INDEX,
        .ds_area = W_LINEAR, .gpa = W_GPA, .size = W_SIZE,
    };
    trace_tables(t);
    trace_set_buffer(t, 2000, 1000);
    vm_set_long_mode(&t->vm, cr4);
    CHECK(ioctl(t->vm.vcpu, KVM_SET_REGS, &regs) == 0);
    memset(t->window + 4096, 0, W_SIZE - 4096);
    vm_prefault(&t->vm);
    vm_prefault_range(&t->vm, W_GPA, region.memory_size);
}

static inline void trace_open(struct trace *t, const void *code, size_t size,
                              uint64_t cr4)
{
    trace_open_with(t, code, size, cr4, false);
}

static inline void trace_close(struct trace *t)
{
    munmap(t->window, W_SIZE + 0x3000);
    munmap(t->vm.memory, VM_SIZE);
    close(t->vm.vcpu);
    close(t->vm.vm);
    close(t->vm.kvm);
    free(t->list);
}

/* Take what the buffer has. */
static inline void trace_drain(struct trace *t)
{
    unsigned n = (t->ds->index - t->ds->base) / sizeof(struct record);

    t->list = realloc(t->list, (t->count + n) * sizeof(struct record));
    CHECK(t->count + n == 0 || t->list != NULL);
    memcpy(t->list + t->count, t->window + (t->ds->base - W_LINEAR),
           n * sizeof(struct record));
    t->count += n;
    t->ds->index = t->ds->base;
}

static inline void trace_forget(struct trace *t)
{
    t->count = t->full = 0;
}

/* Run until something is not about a full buffer; returns why. */
static inline unsigned trace_run_once(struct trace *t)
{
    struct exit_bts_trace *exit = (void *)&t->vm.run->io;

    for (;;) {
        CHECK(ioctl(t->vm.vcpu, KVM_RUN, 0) == 0);
        if (t->vm.run->exit_reason != EXIT_X86_BTS_TRACE ||
            exit->reason != EXIT_FULL) {
            return t->vm.run->exit_reason;
        }
        CHECK(exit->off_reason == 0);
        CHECK(t->ds->index >= t->ds->threshold);
        trace_drain(t);
        t->full++;
    }
}

/* Run until the guest writes to a port, and drain; returns which. */
static inline unsigned trace_run(struct trace *t)
{
    unsigned reason = trace_run_once(t);

    if (reason != KVM_EXIT_IO) {
        fail("the guest exits for reason %u (%x)", reason,
             t->vm.run->internal.suberror);
    }
    trace_drain(t);
    return t->vm.run->io.port;
}

/* Run until KVM gives up; returns why. */
static inline unsigned trace_run_until_off(struct trace *t)
{
    struct exit_bts_trace *exit = (void *)&t->vm.run->io;
    unsigned reason = trace_run_once(t);

    if (reason != EXIT_X86_BTS_TRACE) {
        fail("the guest exits for reason %u", reason);
    }
    CHECK(exit->reason == EXIT_OFF);
    CHECK(trace_flags(t) == 0);
    return exit->off_reason;
}

/* What was drained has this at AT; returns what comes next. */
static inline unsigned trace_expect(struct trace *t, unsigned at, uint64_t from,
                                    uint64_t to)
{
    if (at >= t->count) {
        fail("there are %u records only, no %llx -> %llx", t->count,
             (unsigned long long)from, (unsigned long long)to);
    }
    if (t->list[at].from != from || t->list[at].to != to) {
        fail("record %u of %u is %llx -> %llx, not %llx -> %llx", at, t->count,
             (unsigned long long)t->list[at].from,
             (unsigned long long)t->list[at].to, (unsigned long long)from,
             (unsigned long long)to);
    }
    return at + 1;
}

static inline unsigned trace_expect_marker(struct trace *t, unsigned at,
                                           unsigned type, unsigned reason,
                                           uint64_t cr3)
{
    return trace_expect(t, at, MARKER(type, reason), cr3);
}

/* End here if KVM cannot trace guests. */
static inline void trace_or_skip(void)
{
    int kvm = open("/dev/kvm", O_RDWR);

    CHECK(kvm >= 0);
    if (ioctl(kvm, KVM_CHECK_EXTENSION, CAP_X86_BTS_TRACE) != 1) {
        printf("this KVM cannot trace guests by BTS\n");
        exit(77);
    }
    close(kvm);
}

#endif
