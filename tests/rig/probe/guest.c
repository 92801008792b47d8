/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What does this CPU do with BTS where Intel's manual leaves it open?
 *
 * Asks by a guest of KVM that has BTS, and prints each answer.  It judges none:
 * docs/probe.md says what each one means.
 *
 * As "guest-bad" it asks what becomes of stores that fault, otherwise all else.
 * An argument says why there can be no guest; it answers that to each question.
 */
#include <sys/wait.h>

#include "kvm-trace.h"

#define RECORD      sizeof(struct record)
#define PMI_ROUNDS  10
#define COST_LOOPS  20000
#define INTERRUPT   0x40
#define SOFTWARE    0x43
#define TSS         0x5800
#define USER_STACK  0x7000
#define BOUNDARY    0x7fffffffffff      /* the last canonical address below */
#define PTE_ALL     (PTE_P | PTE_W | PTE_U | PTE_AD)

#define DEBUGCTL_OFF_OS     (1 << 9)
#define DEBUGCTL_OFF_USR    (1 << 10)

extern const char guest_begin[], g_three1[], g_three2[], g_three3[],
    g_exit[], g_exit1[], g_exit2[], g_exit3[], g_pmi[], g_pmi_to[],
    g_pmi_loop[], g_nmi[], g_cost[], g_trip[], g_trip1[], g_user[], g_user1[],
    g_int[], g_out[], g_iret[], g_fault[], g_fault_iret[], g_jump[],
    g_event[], g_gp[], g_gp_iret[], guest_end[];

/* Ports: 0x10 is the end, 0x11 an event without an error code, 0x12 one with,
   0x13 #GP */
asm(
    "   .pushsection .rodata\n"
    "   .code64\n"
    /* Three branches, each to the next */
    "guest_begin: jmp g_three1\n"
    "   nop\n"
    "g_three1: jmp g_three2\n"
    "   nop\n"
    "g_three2: jmp g_three3\n"
    "   nop\n"
    "g_three3: outb %al, $0x10\n"
    /* A VM exit between two branches */
    "g_exit: jmp g_exit1\n"
    "   nop\n"
    "g_exit1: xorl %eax, %eax\n"
    "   cpuid\n"
    "g_exit2: jmp g_exit3\n"
    "   nop\n"
    "g_exit3: outb %al, $0x10\n"
    /* LVTPC is EDI, DEBUGCTL is EBX; ESI - 1 branches */
    "g_pmi: xorl %edx, %edx\n"
    "   movl    $0x80f, %ecx\n"         /* the APIC is on */
    "   movl    $0x1ff, %eax\n"
    "   wrmsr\n"
    "   movl    $0x834, %ecx\n"         /* LVTPC */
    "   movl    %edi, %eax\n"
    "   wrmsr\n"
    "   movl    $0x1d9, %ecx\n"         /* DEBUGCTL */
    "   movl    %ebx, %eax\n"
    "   wrmsr\n"
    "g_pmi_to: decl %esi\n"
    "g_pmi_loop: jnz g_pmi_to\n"
    "   xorl    %eax, %eax\n"
    "   wrmsr\n"
    "   outb    %al, $0x10\n"
    "g_nmi: movl $0x1d9, %ecx\n"
    "   xorl    %eax, %eax\n"
    "   xorl    %edx, %edx\n"
    "   wrmsr\n"
    "   outb    %al, $0x11\n"
    /* ESI branches; RAX is how long they take */
    "g_cost: rdtsc\n"
    "   movl    %eax, %ebx\n"
    "1: decl    %esi\n"
    "   jnz     1b\n"
    "   rdtsc\n"
    "   subl    %ebx, %eax\n"
    "   outb    %al, $0x10\n"
    /* To user mode and back */
    "g_trip: jmp g_trip1\n"
    "   nop\n"
    "g_trip1: iretq\n"
    "g_user: jmp g_user1\n"
    "   nop\n"
    "g_user1: nop\n"
    "g_int: int $0x43\n"
    "g_out: outb %al, $0x10\n"
    /* Handlers */
    "g_event: outb %al, $0x11\n"
    "g_iret: iretq\n"
    "g_fault: outb %al, $0x12\n"
    "   addq    $8, %rsp\n"
    "g_fault_iret: iretq\n"
    "g_gp: outb %al, $0x13\n"
    "   addq    $8, %rsp\n"
    "g_gp_iret: iretq\n"
    "g_jump: jmp *%rdx\n"
    "guest_end:\n"
    "   .popsection\n");

static const struct {
    const char *name, *label;
} places[] = {
#define PLACE(name) { #name, g_##name }
    { "three", guest_begin },
    PLACE(three1), PLACE(three2), PLACE(three3), PLACE(exit), PLACE(exit1),
    PLACE(exit2), PLACE(exit3), PLACE(pmi_to), PLACE(pmi_loop), PLACE(nmi),
    PLACE(trip), PLACE(trip1), PLACE(user), PLACE(user1), PLACE(int),
    PLACE(out), PLACE(iret), PLACE(fault), PLACE(fault_iret), PLACE(jump),
    PLACE(event), PLACE(gp), PLACE(gp_iret),
};

/* An address of the guest as its label, if it has one */
static const char *place(uint64_t address)
{
    static char text[4][32];
    static unsigned n;

    for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        if (address == AT(places[i].label)) {
            return places[i].name;
        }
    }
    n = (n + 1) % 4;
    snprintf(text[n], sizeof(text[n]), "0x%llx", (unsigned long long)address);
    return text[n];
}

static void __attribute__((format(printf, 2, 3)))
answer(const char *name, const char *format, ...)
{
    va_list list;

    printf("probe: %s ", name);
    va_start(list, format);
    vprintf(format, list);
    va_end(list);
    printf("\n");
    fflush(stdout);
}

static const struct record *record(struct trace *t, unsigned n)
{
    return (const struct record *)(t->window + 4096) + n;
}

static unsigned records(struct trace *t)
{
    return (t->ds->index - t->ds->base) / RECORD;
}

/* All that there are, at most 8 */
static void answer_records(const char *name, struct trace *t)
{
    char text[8 * 70] = "";
    size_t used = 0;

    for (unsigned n = 0; n < records(t) && n < 8; n++) {
        used += snprintf(text + used, sizeof(text) - used, " %s>%s",
                         place(record(t, n)->from), place(record(t, n)->to));
    }
    answer(name, "%u records%s", records(t), text);
}

static void set_up(struct trace *t, bool irqchip)
{
    struct kvm_sregs sregs;

    trace_open_with(t, guest_begin, guest_end - guest_begin, 0, irqchip);
    vm_have_bts(&t->vm);
    CHECK(ioctl(t->vm.vcpu, KVM_GET_SREGS, &sregs) == 0);
    sregs.idt.limit = (SOFTWARE + 1) * 16 - 1;
    sregs.tr.base = TSS;
    sregs.tr.limit = 0x67;
    sregs.tr.type = 11;
    sregs.tr.present = 1;
    sregs.tr.s = 0;
    if (irqchip) {
        sregs.apic_base |= 0xc00;       /* x2APIC */
    }
    CHECK(ioctl(t->vm.vcpu, KVM_SET_SREGS, &sregs) == 0);
    *(uint64_t *)(t->vm.memory + TSS + 4) = VM_STACK;
    for (unsigned vector = 0; vector < 32; vector++) {
        bool code = vector == 8 || (vector >= 10 && vector <= 14);

        vm_set_idt(&t->vm, vector, code ? AT(g_fault) : AT(g_event));
    }
    vm_set_idt(&t->vm, 2, AT(g_nmi));
    vm_set_idt(&t->vm, 13, AT(g_gp));
    vm_set_idt(&t->vm, INTERRUPT, AT(g_event));
    vm_set_idt(&t->vm, SOFTWARE, AT(g_out));
    CHECK(vm_set_msr(&t->vm, MSR_DS_AREA, W_LINEAR) == 1);
    vm_prefault(&t->vm);
    vm_prefault_range(&t->vm, W_GPA, W_SIZE + 0x3000);
}

static void set_debugctl(struct trace *t, uint64_t value)
{
    CHECK(vm_set_msr(&t->vm, MSR_DEBUGCTL, value) == 1);
}

/* The guest continues there, in user mode or not; user mode may use ports. */
static void go_to(struct trace *t, const char *at, bool user)
{
    struct kvm_sregs sregs;
    struct kvm_regs regs = {
        .rip = AT(at), .rflags = 0x3202, .rsp = user ? USER_STACK : VM_STACK,
    };

    CHECK(ioctl(t->vm.vcpu, KVM_GET_SREGS, &sregs) == 0);
    sregs.cs.selector = user ? 0x2b : 0x08;
    sregs.ss.selector = user ? 0x23 : 0x10;
    sregs.cs.dpl = sregs.ss.dpl = user ? 3 : 0;
    CHECK(ioctl(t->vm.vcpu, KVM_SET_SREGS, &sregs) == 0);
    CHECK(ioctl(t->vm.vcpu, KVM_SET_REGS, &regs) == 0);
}

static struct kvm_regs get_regs(struct trace *t)
{
    struct kvm_regs regs;

    CHECK(ioctl(t->vm.vcpu, KVM_GET_REGS, &regs) == 0);
    return regs;
}

/* The port that the guest writes to, or 0: KVM_RUN ends for another reason */
static unsigned go_on(struct trace *t)
{
    CHECK(ioctl(t->vm.vcpu, KVM_RUN, 0) == 0);
    return t->vm.run->exit_reason == KVM_EXIT_IO ? t->vm.run->io.port : 0;
}

static void answer_exit(const char *name, struct trace *t)
{
    answer(name, "unexpected exit %u port 0x%x at %s", t->vm.run->exit_reason,
           t->vm.run->exit_reason == KVM_EXIT_IO ? t->vm.run->io.port : 0,
           place(get_regs(t).rip));
}

/* Stores that find their pages ----------------------------------------- */

static void three_branches(const char *name)
{
    uint64_t any = 0, all = -1;
    struct trace t;

    set_up(&t, false);
    set_debugctl(&t, DEBUGCTL_ON);
    if (go_on(&t) != 0x10) {
        answer_exit(name, &t);
        return;
    }
    answer_records(name, &t);
    for (unsigned n = 0; n < records(&t); n++) {
        any |= record(&t, n)->flags;
        all &= record(&t, n)->flags;
    }
    answer("record-flags", "any 0x%llx all 0x%llx", (unsigned long long)any,
           (unsigned long long)all);
}

static void exit_between(const char *name)
{
    struct trace t;

    set_up(&t, false);
    set_debugctl(&t, DEBUGCTL_ON);
    go_to(&t, g_exit, false);
    if (go_on(&t) != 0x10) {
        answer_exit(name, &t);
        return;
    }
    answer_records(name, &t);
}

/* The window is the supervisor's. */
static void user_mode(const char *name)
{
    struct trace t;

    set_up(&t, false);
    set_debugctl(&t, DEBUGCTL_ON);
    go_to(&t, guest_begin, true);
    if (go_on(&t) != 0x10) {
        answer_exit(name, &t);
        return;
    }
    answer_records(name, &t);
}

/* To user mode and back, with a filter by CPL */
static void filter(const char *name, unsigned bit)
{
    struct trace t;
    uint64_t *frame;

    set_up(&t, false);
    set_debugctl(&t, DEBUGCTL_ON | bit);
    go_to(&t, g_trip, false);
    frame = (uint64_t *)(t.vm.memory + VM_STACK - 40);
    frame[0] = AT(g_user);
    frame[1] = 0x2b;
    frame[2] = 0x3202;
    frame[3] = USER_STACK;
    frame[4] = 0x23;
    {
        struct kvm_regs regs = get_regs(&t);

        regs.rsp = VM_STACK - 40;
        CHECK(ioctl(t.vm.vcpu, KVM_SET_REGS, &regs) == 0);
    }
    if (go_on(&t) != 0x10) {
        answer_exit(name, &t);
        return;
    }
    answer_records(name, &t);
}

static void filter_none(const char *name)
{
    filter(name, 0);
}

static void filter_os(const char *name)
{
    filter(name, DEBUGCTL_OFF_OS);
}

static void filter_user(const char *name)
{
    filter(name, DEBUGCTL_OFF_USR);
}

/* Do events that VM entry injects make a record?  With what "from"? */
static void injected(const char *name, bool exception)
{
    struct kvm_interrupt interrupt = { .irq = INTERRUPT };
    struct kvm_vcpu_events events;
    struct trace t;

    set_up(&t, false);
    set_debugctl(&t, DEBUGCTL_ON);
    go_to(&t, guest_begin, false);
    if (exception) {
        CHECK(ioctl(t.vm.vcpu, KVM_GET_VCPU_EVENTS, &events) == 0);
        events.exception.injected = 1;
        events.exception.nr = 6;        /* #UD, a fault without error code */
        events.exception.has_error_code = 0;
        CHECK(ioctl(t.vm.vcpu, KVM_SET_VCPU_EVENTS, &events) == 0);
    } else {
        CHECK(ioctl(t.vm.vcpu, KVM_INTERRUPT, &interrupt) == 0);
    }
    if (go_on(&t) != 0x11 || go_on(&t) != 0x10) {
        answer_exit(name, &t);
        return;
    }
    answer_records(name, &t);
}

static void injected_interrupt(const char *name)
{
    injected(name, false);
}

static void injected_exception(const char *name)
{
    injected(name, true);
}

/* A loop of so many branches, an NMI at the threshold; true: it has come, and
   the guest is in its handler. */
static bool pmi(struct trace *t, unsigned debugctl, unsigned lvtpc,
                unsigned loops, unsigned size, unsigned threshold)
{
    struct kvm_regs regs;
    unsigned port;

    set_up(t, true);
    trace_set_buffer(t, size, threshold);
    go_to(t, g_pmi, false);
    regs = get_regs(t);
    regs.rbx = debugctl;
    regs.rdi = lvtpc;
    regs.rsi = loops;
    CHECK(ioctl(t->vm.vcpu, KVM_SET_REGS, &regs) == 0);
    port = go_on(t);
    CHECK(port == 0x10 || port == 0x11);
    return port == 0x11;
}

/* How many records of the loop are there beyond the threshold when the guest
   gets its interrupt? */
static void pmi_late(const char *name)
{
    unsigned least = -1, most = 0, none = 0, recorded = 0;

    for (unsigned i = 0; i < PMI_ROUNDS; i++) {
        unsigned threshold = 1 + i * i * 3, late = 0;
        struct trace t;

        if (!pmi(&t, DEBUGCTL_ON | DEBUGCTL_BTINT, 0x400, 1000, 2000,
                 threshold)) {
            none++;
        } else {
            for (unsigned n = 0; n < records(&t); n++) {
                late += record(&t, n)->from == AT(g_pmi_loop);
                recorded += record(&t, n)->to == AT(g_nmi);
            }
            late -= threshold;
            least = late < least ? late : least;
            most = late > most ? late : most;
        }
        trace_close(&t);
    }
    answer(name, "%d to %d records", (int)least, (int)most);
    answer("pmi-missing", "%u of %u", none, PMI_ROUNDS);
    answer("injected-nmi", "%u of %u recorded", recorded, PMI_ROUNDS - none);
}

/* Nobody takes the interrupt, and the buffer fills up. */
static void full_buffer(const char *name)
{
    const struct record *beyond;
    struct trace t;

    pmi(&t, DEBUGCTL_ON | DEBUGCTL_BTINT, 0x10400, 10, 4, 2);
    beyond = record(&t, 4);
    answer(name, "index at %u of 4 records beyond %s", records(&t),
           beyond->from || beyond->to || beyond->flags ? "written" :
                                                         "untouched");
}

/* A circular buffer whose threshold lies within */
static void without_btint(const char *name)
{
    struct trace t;

    if (pmi(&t, DEBUGCTL_ON, 0x400, 100, 50, 5)) {
        answer(name, "interrupt");
    } else {
        answer(name, "none");
    }
}

/* The time that a record takes, of the TSC */
static void cost(const char *name)
{
    uint64_t best[2] = { -1, -1 };
    struct trace t;

    set_up(&t, false);
    trace_set_buffer(&t, 2000, 2001);
    for (unsigned round = 0; round < 10; round++) {
        struct kvm_regs regs;

        set_debugctl(&t, round % 2 ? DEBUGCTL_ON : 0);
        go_to(&t, g_cost, false);
        regs = get_regs(&t);
        regs.rsi = COST_LOOPS;
        CHECK(ioctl(t.vm.vcpu, KVM_SET_REGS, &regs) == 0);
        CHECK(go_on(&t) == 0x10);
        regs = get_regs(&t);
        if (regs.rax < best[round % 2]) {
            best[round % 2] = regs.rax;
        }
    }
    answer(name, "%lld cycles", ((long long)best[1] - (long long)best[0]) /
           COST_LOOPS);
}

/* Erratum BU8: an event behind the instruction at the lower canonical
   boundary */
static void boundary(const char *name)
{
    struct kvm_regs regs;
    struct trace t;

    set_up(&t, false);
    *vm_entry(&t.vm, ROOT(0), 255) = 0xd000 | PTE_ALL;
    *vm_entry(&t.vm, 0xd000, 511) = 0xe000 | PTE_ALL;
    *vm_entry(&t.vm, 0xe000, 511) = 0xf000 | PTE_ALL;
    *vm_entry(&t.vm, 0xf000, 511) = VM_DATA | PTE_ALL;
    memset(t.vm.memory + VM_DATA, 0x90, 4096);
    set_debugctl(&t, DEBUGCTL_ON);
    go_to(&t, g_jump, false);
    regs = get_regs(&t);
    regs.rdx = BOUNDARY;
    CHECK(ioctl(t.vm.vcpu, KVM_SET_REGS, &regs) == 0);
    if (go_on(&t) != 0x13) {
        answer_exit(name, &t);
        return;
    }
    answer_records(name, &t);
}

/* Stores that the host has to mend ------------------------------------- */

#define TRACING "/sys/kernel/tracing/"

static void trace_write(const char *file, const char *text)
{
    int fd = open(file, O_WRONLY | O_TRUNC);

    CHECK(fd >= 0);
    CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

/* What the kernel's own event says of the first EPT violation */
static bool ept_violation(uint64_t *rip, uint64_t *qualification)
{
    FILE *file = fopen(TRACING "trace", "r");
    unsigned long long a, b;
    bool found = false;
    char line[512];

    CHECK(file != NULL);
    while (!found && fgets(line, sizeof(line), file)) {
        const char *at = strstr(line, "reason EPT_VIOLATION rip ");

        if (at && sscanf(at, "reason EPT_VIOLATION rip %llx info1 %llx", &a,
                         &b) == 2) {
            *rip = a;
            *qualification = b;
            found = true;
        }
    }
    fclose(file);
    return found;
}

/* The host takes a page away, to which the guest's first store goes next. */
static void ept(const char *name, uint64_t page)
{
    bool events = access(TRACING "events/kvm/kvm_exit/enable", W_OK) == 0;
    uint64_t rip, qualification;
    char more[64];
    struct trace t;

    set_up(&t, false);
    set_debugctl(&t, DEBUGCTL_ON);
    CHECK(go_on(&t) == 0x10);           /* all else is mapped now */
    t.ds->index = t.ds->base;
    go_to(&t, guest_begin, false);
    CHECK(mprotect(t.window + page, 4096, PROT_READ) == 0);
    CHECK(mprotect(t.window + page, 4096, PROT_READ | PROT_WRITE) == 0);
    if (events) {
        trace_write(TRACING "trace", "");
        trace_write(TRACING "events/kvm/kvm_exit/enable", "1");
    }
    if (go_on(&t) != 0x10) {
        answer_exit(name, &t);
        return;
    }
    answer_records(name, &t);
    snprintf(more, sizeof(more), "%s-exit", name);
    if (!events) {
        answer(more, "not-asked this kernel has no events");
        return;
    }
    trace_write(TRACING "events/kvm/kvm_exit/enable", "0");
    if (!ept_violation(&rip, &qualification)) {
        answer(more, "none");
        return;
    }
    answer(more, "bit16 %d qualification 0x%llx rip %s",
           (int)(qualification >> 16 & 1), (unsigned long long)qualification,
           place(rip));
}

static void ept_area(const char *name)
{
    ept(name, 0);
}

static void ept_buffer(const char *name)
{
    ept(name, 4096);
}

/* Stores that fault, while KVM intercepts the faults ------------------- */

/* The branches are user mode's, and those of CPL 0 are filtered, so that the
   delivery of the fault does not fault, too.  Of one page, these bits of its
   entry are taken away; or the buffer is somewhere else. */
static void fault(const char *name, unsigned page, uint64_t bits,
                  uint64_t elsewhere)
{
    volatile uint64_t *entry;
    struct kvm_sregs sregs;
    const uint64_t *frame;
    struct kvm_regs regs;
    char more[64];
    unsigned port;
    struct trace t;

    set_up(&t, false);
    set_debugctl(&t, DEBUGCTL_ON | DEBUGCTL_OFF_OS);
    go_to(&t, guest_begin, true);
    entry = &window_table(&t, 2)[page];
    *entry &= ~bits;
    if (elsewhere) {
        t.ds->base = t.ds->index = elsewhere;
        t.ds->maximum = elsewhere + 10 * RECORD;
        t.ds->threshold = elsewhere + 20 * RECORD;
    }
    port = go_on(&t);
    regs = get_regs(&t);
    if (port == 0x10) {
        answer(name, "no fault");
    } else if ((port != 0x12 && port != 0x13) || regs.rsp > VM_STACK - 48) {
        answer_exit(name, &t);
        return;
    } else {
        CHECK(ioctl(t.vm.vcpu, KVM_GET_SREGS, &sregs) == 0);
        frame = (const uint64_t *)(t.vm.memory + regs.rsp);
        answer(name, "%s error 0x%llx address 0x%llx rip %s",
               port == 0x12 ? "#PF" : "#GP", (unsigned long long)frame[0],
               port == 0x12 ? sregs.cr2 - W_LINEAR : 0ull, place(frame[1]));
    }
    *entry |= bits;
    if (elsewhere) {
        trace_set_buffer(&t, 2000, 1000);
    }
    snprintf(more, sizeof(more), "%s-then", name);
    if (port != 0x10 && go_on(&t) != 0x10) {
        answer_exit(more, &t);
        return;
    }
    answer_records(more, &t);
}

static void area_unmapped(const char *name)
{
    fault(name, 0, PTE_P, 0);
}

static void area_read_only(const char *name)
{
    fault(name, 0, PTE_W, 0);
}

static void buffer_unmapped(const char *name)
{
    fault(name, 1, PTE_P, 0);
}

static void buffer_read_only(const char *name)
{
    fault(name, 1, PTE_W, 0);
}

static void buffer_not_canonical(const char *name)
{
    fault(name, 1, 0, 1ull << 62);
}

static const struct question {
    const char *name;
    void (*ask)(const char *name);
    bool bad;
} questions[] = {
    { "three-branches", three_branches, false },
    { "exit-between", exit_between, false },
    { "user-mode", user_mode, false },
    { "filter-none", filter_none, false },
    { "filter-os", filter_os, false },
    { "filter-user", filter_user, false },
    { "injected-interrupt", injected_interrupt, false },
    { "injected-exception", injected_exception, false },
    { "pmi-late", pmi_late, false },
    { "full-buffer", full_buffer, false },
    { "without-btint", without_btint, false },
    { "record-cost", cost, false },
    { "boundary", boundary, false },
    { "ept-area", ept_area, false },
    { "ept-buffer", ept_buffer, false },
    { "fault-area-unmapped", area_unmapped, true },
    { "fault-area-read-only", area_read_only, true },
    { "fault-buffer-unmapped", buffer_unmapped, true },
    { "fault-buffer-read-only", buffer_read_only, true },
    { "fault-buffer-not-canonical", buffer_not_canonical, true },
};

/* One that fails, or does not end, is no reason not to ask the next. */
static void ask(const struct question *question)
{
    int status = 0;
    pid_t child;

    fflush(stdout);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(30);
        question->ask(question->name);
        exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    if (WIFSIGNALED(status)) {
        answer(question->name, "failed by signal %d", WTERMSIG(status));
    } else if (status) {
        answer(question->name, "failed");
    }
}

int main(int argc, char **argv)
{
    bool bad = strstr(argv[0], "guest-bad") != NULL;
    const char *cannot = argc > 1 ? argv[1] : NULL;

    for (unsigned i = 0; i < sizeof(questions) / sizeof(questions[0]); i++) {
        if (questions[i].bad != bad) {
            continue;
        } else if (cannot) {
            answer(questions[i].name, "not-asked %s", cannot);
        } else {
            ask(&questions[i]);
        }
    }
    return 0;
}
