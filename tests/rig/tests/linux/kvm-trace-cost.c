/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What it costs that the host traces a guest, in VM exits and in instructions of
 * the host: the machine's time-stamp counter counts instructions.  ../../cost
 * compares a KVM with our patches and one without; lines that begin with TABLE
 * are those of docs/kvm.md.
 *
 * rig: linux=kvm_intel.bts_trace=1
 */
#define W_SIZE 0x21000          /* as QEMU has it */

#include "kvm-cost.h"
#include "kvm-trace.h"

#define BUFFER_RECORDS  (0x20000 / 24 - 1)
#define THRESHOLD       (BUFFER_RECORDS - 256)

extern const char guest_begin[], g_exits[], g_records[], g_switches[],
    g_syscalls[], g_user[], g_kernel[], g_plain[], guest_end[];

/*
 * Exits; R15 branches; R15 times the CR3 in R12 and that in R13; R15 system
 * calls of a kernel that loads the CR3 in R12 when it is entered, and that in
 * R13 when it returns, or of one that does not
 */
asm(
    "   .pushsection .rodata\n"
    "   .code64\n"
    "guest_begin:\n"
    "g_exits:\n"
    VM_EXITS
    "g_records: decl %r15d\n"
    "   jnz     g_records\n"
    "   jmp     3b\n"
    "g_switches: movq %r12, %cr3\n"
    "   movq    %r13, %cr3\n"
    "   decl    %r15d\n"
    "   jnz     g_switches\n"
    "   jmp     3b\n"
    "g_syscalls: leaq g_user(%rip), %rcx\n"
    "   movl    $2, %r11d\n"
    "   sysretq\n"
    "g_user: syscall\n"
    "   jmp     g_user\n"
    "g_kernel: movq %r12, %cr3\n"
    "   decl    %r15d\n"
    "   jz      3b\n"
    "   movq    %r13, %cr3\n"
    "   sysretq\n"
    "g_plain: decl %r15d\n"
    "   jz      3b\n"
    "   sysretq\n"
    "guest_end:\n"
    "   .popsection\n");

#define RUNS    3

struct cost {
    double exits, host;
};

/* Run the guest until it has done what it does; counts KVM_RUN alone, as what
   userspace does with the records is not KVM's. */
static struct cost run(struct trace *t, const char *code, uint64_t cr3_0,
                       uint64_t cr3_1, unsigned rounds)
{
    struct exit_bts_trace *exit = (void *)&t->vm.run->io;
    struct kvm_regs regs = {
        .rip = AT(code), .rsp = VM_STACK, .rflags = 2,
        .r12 = cr3_0, .r13 = cr3_1, .r15 = rounds,
    };
    struct cost cost = { .exits = -(double)kvm_count("exits") };

    CHECK(ioctl(t->vm.vcpu, KVM_SET_REGS, &regs) == 0);
    for (;;) {
        uint64_t begin = time_stamp();

        CHECK(ioctl(t->vm.vcpu, KVM_RUN, 0) == 0);
        cost.host += time_stamp() - begin;
        if (t->vm.run->exit_reason == KVM_EXIT_IO) {
            break;
        }
        CHECK(t->vm.run->exit_reason == EXIT_X86_BTS_TRACE);
        CHECK(exit->reason == EXIT_FULL);
        t->count += (t->ds->index - t->ds->base) / sizeof(struct record);
        t->ds->index = t->ds->base;
    }
    t->count += (t->ds->index - t->ds->base) / sizeof(struct record);
    t->ds->index = t->ds->base;
    cost.exits += kvm_count("exits");
    return cost;
}

/* The least of some: the host's timer comes in between. */
static struct cost least(struct trace *t, const char *code, uint64_t cr3_0,
                         uint64_t cr3_1, unsigned rounds)
{
    struct cost least = { .exits = 1e9, .host = 1e12 };

    for (unsigned i = 0; i < RUNS; i++) {
        struct cost cost = run(t, code, cr3_0, cr3_1, rounds);

        if (cost.host < least.host) {
            least = cost;
        }
    }
    return least;
}

/* What a round costs, of which the guest executes so many instructions */
static struct cost measure(struct trace *t, const char *code, uint64_t cr3_0,
                           uint64_t cr3_1, unsigned rounds, unsigned guest)
{
    struct cost none = least(t, code, cr3_0, cr3_1, 1), cost;

    t->count = 0;
    cost = least(t, code, cr3_0, cr3_1, 1 + rounds);
    cost.exits = (cost.exits - none.exits) / rounds;
    cost.host = (cost.host - none.host) / rounds - guest;
    return cost;
}

static void exits(struct trace *t, const char *what)
{
    *(volatile uint32_t *)(t->vm.memory + VM_LEAST) = -1u;
    run(t, g_exits, 0, 0, 0);
    measure_exits(&t->vm, what);
}

static struct trace open_guest(uint64_t cr4)
{
    struct trace t;

    trace_open(&t, guest_begin, guest_end - guest_begin, cr4);
    trace_set_buffer(&t, BUFFER_RECORDS, THRESHOLD);
    return t;
}

/*
 * A line of the table: what it costs off and on.  RECORDS is how many records and
 * markers a round makes while it is traced.
 */
static void row(const char *what, const char *code, const char *syscalls,
                uint64_t cr4, uint64_t cr3_0, uint64_t cr3_1, unsigned rounds,
                unsigned guest, unsigned records, double unit)
{
    struct trace t = open_guest(cr4);
    struct cost off, on = { 0 };
    double made;

    CHECK(vm_set_msr(&t.vm, MSR_LSTAR, AT(syscalls)) == 1);
    off = measure(&t, code, cr3_0, cr3_1, rounds, guest);
    if (ioctl(t.vm.kvm, KVM_CHECK_EXTENSION, CAP_X86_BTS_TRACE) > 0) {
        trace_start(&t);
        on = measure(&t, code, cr3_0, cr3_1, rounds, guest);
        made = (double)t.count / (RUNS * rounds);
        if (made < records || made > records + 0.1) {
            fail("%s: %f records in a round", what, made);
        }
    }
    printf("TABLE | %s | %.2f | %.0f | %.2f | %.0f |\n", what,
           off.exits * unit, off.host * unit, on.exits * unit, on.host * unit);
    /* What KVM does about branches and about loads of CR3 is nothing. */
    CHECK(off.exits < 0.01 && off.host < 10);
    trace_close(&t);
}

#define NOFLUSH (1ull << 63)

int main(void)
{
    struct trace t = open_guest(0);

    exits(&t, "unused");
    if (ioctl(t.vm.kvm, KVM_CHECK_EXTENSION, CAP_X86_BTS_TRACE) > 0) {
        trace_start(&t);
        exits(&t, "used");
    }
    trace_close(&t);

    row("a million records", g_records, g_plain, 0, 0, 0, 200000, 2, 1, 1e6);
    row("a load of CR3, no PCID", g_switches, g_plain, 0, ROOT(0), ROOT(1), 500,
        4, 3, 0.5);
    row("a load of CR3 that flushes nothing, with PCID", g_switches, g_plain,
        CR4_PCIDE, ROOT(0) | NOFLUSH, ROOT(1) | 5 | NOFLUSH, 500, 4, 3, 0.5);
    row("a system call, no KPTI", g_syscalls, g_plain, 0, ROOT(0), ROOT(0), 500,
        5, 3, 1);
    row("a system call, KPTI and PCID", g_syscalls, g_kernel, CR4_PCIDE,
        ROOT(0) | NOFLUSH, ROOT(1) | 0x800 | NOFLUSH, 500, 7, 5, 1);
    return 0;
}
