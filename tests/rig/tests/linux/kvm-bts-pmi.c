/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The interrupt of a guest's BTS buffer: not one is lost, not one comes that
 * is not due, whatever else happens to the vCPU
 *
 * With the buffer's threshold at T records, the guest's handler finds T + 1:
 * those of the loop, and that of the interrupt itself.  It empties the buffer
 * with BTS off; the record of its IRET is the first one in there again.
 *
 * In the strict model the interrupt has no record, for KVM injects it, and comes
 * with record T + 1, or with a VM exit before that: the handler finds T or
 * T + 1 records of the loop.
 *
 * rig: linux=kvm_intel.bts=1
 */
#include <signal.h>
#include <sys/time.h>

#include "kvm-bts.h"

extern const char guest_begin[], g_lvtpc[], g_first[], g_patch[], g_loop[],
    g_after[], g_handler[], g_quiet[], g_unmask[], g_iret[], guest_end[];

/* Words for the guest, behind its code */
#define VM_LOOPS    0x2000
#define VM_CALLS    0x2004
#define VM_TOTAL    0x2008
#define VM_TELL     0x200c

#define VECTOR      0x40

/* What an interrupt adds to the records of the loop: itself, and its IRET */
#define RECORDS_OF_CALL (BTS_STRICT ? 1 : 2)

asm(
    "   .pushsection .rodata\n"
    "   .code16\n"
    "guest_begin:\n"
    "   xorl    %edx, %edx\n"
    "   movl    $0x80f, %ecx\n"         /* the APIC is on */
    "   movl    $0x1ff, %eax\n"
    "   wrmsr\n"
    "   movl    $0x834, %ecx\n"         /* LVTPC */
    "g_lvtpc: movl $0x40, %eax\n"
    "   wrmsr\n"
    "   movl    $0x600, %ecx\n"         /* DS_AREA */
    "   movl    $0x3000, %eax\n"
    "   wrmsr\n"
    "   movl    0x2000, %esi\n"
    "g_first: sti\n"
    "   movl    $0x1d9, %ecx\n"         /* DEBUGCTL: TR, BTS, BTINT */
    "   movl    $0x1c0, %eax\n"
    "   wrmsr\n"
    "1:\n"
    "g_patch: nop\n"
    "   nop\n"
    "   decl    %esi\n"
    "g_loop: jnz 1b\n"
    "g_after: sti\n"
    "   nop\n"
    "   movl    $0x1d9, %ecx\n"
    "   xorl    %eax, %eax\n"
    "   wrmsr\n"
    "2: outb    %al, $0x10\n"
    "   jmp     2b\n"
    "g_handler:\n"
    "   movl    $0x1d9, %ecx\n"
    "   xorl    %eax, %eax\n"
    "   xorl    %edx, %edx\n"
    "   wrmsr\n"
    "   incl    0x2004\n"
    "   movl    0x3008, %eax\n"         /* index - base */
    "   subl    0x3000, %eax\n"
    "   addl    %eax, 0x2008\n"
    "   cmpb    $0, 0x200c\n"
    "   je      g_quiet\n"
    "   outb    %al, $0x11\n"           /* let the host check them */
    "g_quiet: movl 0x3000, %eax\n"
    "   movl    %eax, 0x3008\n"
    "   movl    $0x80b, %ecx\n"         /* EOI */
    "   xorl    %eax, %eax\n"
    "   wrmsr\n"
    "   movl    $0x834, %ecx\n"         /* LVTPC has masked itself */
    "g_unmask: movl $0x40, %eax\n"
    "   wrmsr\n"
    "   movl    $0x1d9, %ecx\n"
    "   movl    $0x1c0, %eax\n"
    "   wrmsr\n"
    "g_iret: iretw\n"
    "guest_end:\n"
    "   .code64\n"
    "   .popsection\n");

/* Kicks after which they come half as often */
#define KICKS 500

static volatile sig_atomic_t kicks, kick_usecs;
static struct kvm_run *volatile kicked;

static void kick_each(unsigned usecs);

/* A kernel that checks itself may need longer than a period to enter the guest,
   which would never end. */
static void kick(int number)
{
    (void)number;
    kicks++;
    if (kicked) {
        kicked->immediate_exit = 1;
    }
    if (kick_usecs && kicks % KICKS == 0) {
        kick_each(kick_usecs * 2);
    }
}

static void kick_each(unsigned usecs)
{
    struct itimerval timer = { { 0, usecs }, { 0, usecs } };

    kick_usecs = usecs;
    signal(SIGALRM, kick);
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
}

/* This vCPU stops, then or as soon as it runs. */
static void kick_once(struct kvm_run *run, unsigned usecs)
{
    struct itimerval timer = { .it_value = { 0, usecs } };

    kicked = run;
    kick_usecs = 0;
    signal(SIGALRM, kick);
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
}

static volatile uint32_t *word(struct vm *vm, uint32_t at)
{
    return (void *)(vm->memory + at);
}

static struct vm guest(unsigned loops, unsigned threshold, bool tell)
{
    struct vm vm = vm_open_with(guest_begin, guest_end - guest_begin, true);
    struct kvm_sregs sregs;

    vm_have_bts(&vm);
    CHECK(ioctl(vm.vcpu, KVM_GET_SREGS, &sregs) == 0);
    sregs.apic_base |= 0xc00;
    CHECK(ioctl(vm.vcpu, KVM_SET_SREGS, &sregs) == 0);
    *word(&vm, VECTOR * 4) = AT(g_handler);
    *word(&vm, VM_LOOPS) = loops;
    *word(&vm, VM_TELL) = tell;
    vm_ds_area(&vm, 100, threshold);
    return vm;
}

static void guest_free(struct vm *vm)
{
    munmap(vm->run, ioctl(vm->kvm, KVM_GET_VCPU_MMAP_SIZE, 0));
    close(vm->vcpu);
    close(vm->vm);
    close(vm->kvm);
    munmap(vm->memory, 0x10000);
}

static void put(struct vm *vm, const char *code, uint8_t byte)
{
    vm->memory[AT(code)] = byte;
}

/* LVTPC asks for an NMI, as Linux has it, not for a vector. */
static void use_nmi(struct vm *vm)
{
    put(vm, g_lvtpc + 2, 0);
    put(vm, g_lvtpc + 3, 4);
    put(vm, g_unmask + 2, 0);
    put(vm, g_unmask + 3, 4);
    *word(vm, 2 * 4) = AT(g_handler);
    *word(vm, VECTOR * 4) = 0;
}

/* One record of the buffer */
static void is(struct vm *vm, unsigned i, uint64_t from, uint64_t to)
{
    const struct record *r = (void *)(vm->memory + VM_BUFFER);

    if (r[i].from != from || r[i].to != to) {
        fail("call %u, record %u is %llx -> %llx, not %llx -> %llx",
             *word(vm, VM_CALLS), i, (unsigned long long)r[i].from,
             (unsigned long long)r[i].to, (unsigned long long)from,
             (unsigned long long)to);
    }
}

/* The handler shows what it has found: all of the buffer is as it must be,
   from the IRET of the last call to the interrupt. */
static void look(struct vm *vm, unsigned threshold)
{
    const struct ds_area *ds = (void *)(vm->memory + VM_DS);
    const struct record *r = (void *)(vm->memory + VM_BUFFER);
    unsigned n = (ds->index - ds->base) / sizeof(*r), i = 0;

    if (n != threshold + 1 && !(BTS_STRICT && n == threshold)) {
        fail("call %u is for %u records, not %u", *word(vm, VM_CALLS), n,
             threshold + 1);
    }
    if (*word(vm, VM_CALLS) > 1) {
        /* In the strict model the exit for the port may bring the interrupt. */
        bool behind = BTS_STRICT && r[0].to == AT(g_patch) + 2;

        is(vm, i++, AT(g_iret), AT(g_patch) + 2 * behind);
    }
    for (; i < n - !BTS_STRICT; i++) {
        is(vm, i, AT(g_loop), AT(g_patch));
    }
    if (!BTS_STRICT) {
        is(vm, i, AT(g_patch), AT(g_handler));
    }
}

/* How many records there were, with those that the handler has taken out */
static unsigned records_of(struct vm *vm)
{
    const struct ds_area *ds = (void *)(vm->memory + VM_DS);

    return (*word(vm, VM_TOTAL) + ds->index - ds->base) /
           sizeof(struct record);
}

/* All is done: no call was lost, and no record; returns how many calls there
   were.  The first one takes T branches of the loop; each further one has a
   record of the IRET before it. */
static unsigned done(struct vm *vm, unsigned loops, unsigned threshold)
{
    const struct ds_area *ds = (void *)(vm->memory + VM_DS);
    unsigned calls = *word(vm, VM_CALLS), records = records_of(vm);

    if (!BTS_STRICT) {
        unsigned want = loops - 1 < threshold ? 0 :
                        1 + (loops - 1 - threshold) / (threshold - 1);

        if (calls != want) {
            fail("%u interrupts, not %u", calls, want);
        }
    } else if (ds->index >= ds->threshold) {
        fail("%u interrupts, and then none for %u records", calls,
             (unsigned)((ds->index - ds->base) / sizeof(struct record)));
    }
    if (records != loops - 1 + RECORDS_OF_CALL * calls) {
        fail("%u records, not %u", records,
             loops - 1 + RECORDS_OF_CALL * calls);
    }
    return calls;
}

/* Run a guest to its end; returns how many exits to this program there were. */
static unsigned run(struct vm *vm, unsigned threshold)
{
    unsigned exits;

    for (exits = 0;; exits++) {
        if (ioctl(vm->vcpu, KVM_RUN, 0) != 0) {
            CHECK(errno == EINTR);
            continue;
        }
        CHECK(vm->run->exit_reason == KVM_EXIT_IO);
        switch (vm->run->io.port) {
        case 0x10:
            return exits;
        case 0x11:
            look(vm, threshold);
            break;
        default:
            CHECK(vm->run->io.port == 0x12);
        }
    }
}

/* The same with a vCPU that kick_once stops; false if it has been. */
static bool run_until_kick(struct vm *vm, unsigned threshold)
{
    bool over = false;

    while (!over && ioctl(vm->vcpu, KVM_RUN, 0) == 0) {
        CHECK(vm->run->exit_reason == KVM_EXIT_IO);
        over = vm->run->io.port == 0x10;
        if (!over) {
            look(vm, threshold);
        }
    }
    CHECK(over || errno == EINTR);
    kick_each(0);
    kicked = NULL;
    vm->run->immediate_exit = 0;
    return over;
}

static void whole(const char *what, unsigned loops, unsigned threshold,
                  bool tell, bool pio, unsigned usecs)
{
    struct vm vm = guest(loops, threshold, tell);
    unsigned exits, calls;
    unsigned long nmis;

    if (pio) {
        put(&vm, g_patch, 0xe6);        /* outb %al, $0x12 */
        put(&vm, g_patch + 1, 0x12);
    }
    nmis = aux_nmis();
    kicks = 0;
    kick_each(usecs);
    exits = run(&vm, threshold);
    kick_each(0);
    calls = done(&vm, loops, threshold);
    nmis = aux_nmis() - nmis;
    printf("%s: %u interrupts, %lu NMIs, %u exits, %d kicks\n", what, calls,
           nmis, exits, (int)kicks);
    fflush(stdout);
    CHECK(nmis >= calls);
    CHECK(!usecs || kicks >= 10);
    guest_free(&vm);
}

/* The guest does not take interrupts until its loop is over. */
static void held_back(void)
{
    struct vm vm = guest(11, 5, false);
    const struct record *r = (void *)(vm.memory + VM_BUFFER);

    put(&vm, g_first, 0x90);
    run(&vm, 5);
    CHECK(*word(&vm, VM_CALLS) == 1);
    CHECK(*word(&vm, VM_TOTAL) == (9 + RECORDS_OF_CALL) * sizeof(*r));
    for (unsigned i = 1; i < 10; i++) {
        is(&vm, i, AT(g_loop), AT(g_patch));
    }
    if (!BTS_STRICT) {
        is(&vm, 10, AT(g_after) + 2, AT(g_handler));
    }
    guest_free(&vm);
}

/* A guest whose LVTPC is masked gets nothing, and fills its buffer to the end
   and no further. */
static void nobody_listens(void)
{
    struct vm vm = guest(201, 5, false);
    const struct ds_area *ds = (void *)(vm.memory + VM_DS);

    put(&vm, g_lvtpc + 4, 1);           /* bit 16 of LVTPC */
    memset(vm.memory + VM_BUFFER + 100 * sizeof(struct record), 0x5a, 64);
    run(&vm, 5);
    CHECK(*word(&vm, VM_CALLS) == 0);
    CHECK(ds->index == ds->maximum);
    for (unsigned i = 0; i < 100; i++) {
        is(&vm, i, AT(g_loop), AT(g_patch));
    }
    CHECK(vm.memory[VM_BUFFER + 100 * sizeof(struct record)] == 0x5a);
    guest_free(&vm);
}

/* Where an interrupt is */
enum whereabouts { NOWHERE, PENDING, INJECTED, IN_SERVICE };

static bool in_lapic(const struct kvm_lapic_state *lapic, unsigned registers)
{
    return lapic->regs[registers + VECTOR / 32 * 16 + VECTOR % 32 / 8] >>
           VECTOR % 8 & 1;
}

/* All that a vCPU is goes to another one, or back to itself; the order is
   userspace's choice.  Returns where the interrupt is meanwhile. */
static enum whereabouts move(struct vm *from, struct vm *to, bool events_first)
{
    static const uint32_t msrs[] = { MSR_DS_AREA, MSR_DEBUGCTL };
    struct kvm_vcpu_events events;
    struct kvm_lapic_state lapic;
    struct kvm_sregs sregs;
    struct kvm_regs regs;
    uint64_t values[2];

    if (events_first) {
        CHECK(ioctl(from->vcpu, KVM_GET_VCPU_EVENTS, &events) == 0);
    }
    CHECK(ioctl(from->vcpu, KVM_GET_REGS, &regs) == 0);
    CHECK(ioctl(from->vcpu, KVM_GET_SREGS, &sregs) == 0);
    CHECK(ioctl(from->vcpu, KVM_GET_LAPIC, &lapic) == 0);
    if (!events_first) {
        CHECK(ioctl(from->vcpu, KVM_GET_VCPU_EVENTS, &events) == 0);
    }
    for (unsigned i = 0; i < 2; i++) {
        values[i] = vm_get_msr(from, msrs[i]);
    }
    if (from != to) {
        memcpy(to->memory, from->memory, 0x10000);
    }
    CHECK(ioctl(to->vcpu, KVM_SET_REGS, &regs) == 0);
    CHECK(ioctl(to->vcpu, KVM_SET_SREGS, &sregs) == 0);
    CHECK(ioctl(to->vcpu, KVM_SET_LAPIC, &lapic) == 0);
    for (unsigned i = 0; i < 2; i++) {
        CHECK(vm_set_msr(to, msrs[i], values[i]) == 1);
    }
    CHECK(ioctl(to->vcpu, KVM_SET_VCPU_EVENTS, &events) == 0);
    if (events.interrupt.injected || events.nmi.injected) {
        return INJECTED;
    } else if (events.nmi.pending || in_lapic(&lapic, 0x200)) {     /* IRR */
        return PENDING;
    } else if (events.nmi.masked || in_lapic(&lapic, 0x100)) {      /* ISR */
        return IN_SERVICE;
    }
    return NOWHERE;
}

/* Run it once, so that all of its pages are mapped.  A record that waits in a
   VMCS for a page would not be moved (see docs/kvm.md). */
static void warm(struct vm *vm, unsigned threshold)
{
    struct kvm_regs regs = { .rip = VM_CODE, .rsp = 0x8000, .rflags = 2 };

    run(vm, threshold);
    *word(vm, VM_CALLS) = *word(vm, VM_TOTAL) = 0;
    vm_ds_area(vm, 100, threshold);
    CHECK(ioctl(vm->vcpu, KVM_SET_REGS, &regs) == 0);
}

/* Each kick moves the guest, right where it is, also between a PMI that the
   host got and the interrupt that it is in the guest. */
static void moved(unsigned loops, unsigned threshold, bool nmi)
{
    struct vm vm[2], *now = &vm[0];
    unsigned n = 0;

    for (unsigned i = 0; i < 2; i++) {
        vm[i] = guest(loops, threshold, false);
        if (nmi) {
            use_nmi(&vm[i]);
        }
        warm(&vm[i], threshold);
    }
    kick_each(300);
    while (ioctl(now->vcpu, KVM_RUN, 0) != 0) {
        struct vm *next = &vm[now == &vm[0]];

        CHECK(errno == EINTR);
        move(now, next, n / 2 % 2);
        now = next;
        n++;
    }
    kick_each(0);
    CHECK(now->run->exit_reason == KVM_EXIT_IO);
    CHECK(now->run->io.port == 0x10);
    printf("moved %u times\n", n);
    fflush(stdout);
    done(now, loops, threshold);
    CHECK(n >= 10);
    guest_free(&vm[0]);
    guest_free(&vm[1]);
}

/* A vCPU as it was made, at the begin of its program */
static void afresh(struct vm *vm, unsigned threshold,
                   struct kvm_lapic_state *lapic)
{
    struct kvm_regs regs = { .rip = VM_CODE, .rsp = 0x8000, .rflags = 2 };
    struct kvm_vcpu_events events = {
        .flags = KVM_VCPUEVENT_VALID_NMI_PENDING
    };

    *word(vm, VM_CALLS) = *word(vm, VM_TOTAL) = 0;
    vm_ds_area(vm, 100, threshold);
    CHECK(vm_set_msr(vm, MSR_DEBUGCTL, 0) == 1);
    CHECK(ioctl(vm->vcpu, KVM_SET_LAPIC, lapic) == 0);
    CHECK(ioctl(vm->vcpu, KVM_SET_VCPU_EVENTS, &events) == 0);
    CHECK(ioctl(vm->vcpu, KVM_SET_REGS, &regs) == 0);
}

/* The guest runs again and again, has one interrupt each time, and is saved
   once each time, from before its first instruction to behind its last one,
   2 microseconds (200 instructions) apart.  It goes on in another VM, or where
   it was.

   If it is COLD, the store of the first record waits for a page.  The record
   is lost if the guest is moved just then (see docs/kvm.md; in the strict model
   in any case), no other one is, and none is there twice. */
static void swept(const char *what, bool nmi, bool later, bool cold)
{
    const unsigned loops = 8, threshold = 5;
    unsigned seen[4] = { 0 }, lost = 0;
    struct kvm_lapic_state lapic;
    struct vm vm[2];
    bool over = false;

    for (unsigned i = 0; i < 2; i++) {
        vm[i] = guest(loops, threshold, !later);
        CHECK(ioctl(vm[i].vcpu, KVM_GET_LAPIC, &lapic) == 0);
        if (nmi) {
            use_nmi(&vm[i]);
        }
        if (later) {
            put(&vm[i], g_first, 0x90);
        }
        warm(&vm[i], threshold);
    }
    for (unsigned n = 0; !over; n++) {
        unsigned usecs = 1 + n / 2 * 2, short_of;
        struct vm *to = &vm[n % 2];

        for (unsigned i = 0; i < 2; i++) {
            afresh(&vm[i], threshold, &lapic);
        }
        if (cold) {
            /* KVM takes the page from the guest's page tables. */
            CHECK(mprotect(vm[0].memory + VM_BUFFER, 4096, PROT_READ) == 0);
            CHECK(mprotect(vm[0].memory + VM_BUFFER, 4096,
                           PROT_READ | PROT_WRITE) == 0);
        }
        kick_once(vm[0].run, usecs);
        over = run_until_kick(&vm[0], threshold);
        if (over) {
            to = &vm[0];
        } else {
            seen[move(&vm[0], to, n / 4 % 2)]++;
            run(to, threshold);
        }
        CHECK(*word(to, VM_CALLS) == 1);
        short_of = loops - 1 + RECORDS_OF_CALL - records_of(to);
        if (short_of > (cold && (BTS_STRICT || to != &vm[0]))) {
            fail("%s: moved after %u us, to %s VM: %d records too few", what,
                 usecs, to == &vm[0] ? "the same" : "another",
                 (int)short_of);
        }
        lost += short_of;
    }
    printf("%s: saved %u times before the interrupt or behind it, %u times "
           "while it is pending, %u times injected, %u times in service\n",
           what, seen[NOWHERE], seen[PENDING], seen[INJECTED],
           seen[IN_SERVICE]);
    fflush(stdout);
    CHECK(seen[NOWHERE] && seen[PENDING] && seen[IN_SERVICE]);
    /* It was saved in mid-store. */
    CHECK(!cold || lost);
    guest_free(&vm[0]);
    guest_free(&vm[1]);
}

/* The host traces itself, KVM and all, and has PMIs of its own; none of the
   guest's branches is in there, nor is anything lost. */
static void traced_host(bool kernel)
{
    /* The kernel makes some thousand records of each interrupt. */
    struct aux aux = aux_open(kernel, true, (kernel ? 4096 : 1024) * 4096,
                              kernel ? 64 * 1024 : 4096);
    struct record *list;
    size_t count;

    CHECK(ioctl(aux.fd, PERF_EVENT_IOC_ENABLE, 0) == 0);
    whole("host is traced", kernel ? 600 : 2000, 20, false, false, 0);
    CHECK(ioctl(aux.fd, PERF_EVENT_IOC_DISABLE, 0) == 0);
    list = aux_records(&aux, &count);
    printf("%zu records of the host\n", count);
    CHECK(count > 100);
    for (size_t n = 0; n < count; n++) {
        if (list[n].from < 0x10000 || list[n].to < 0x10000) {
            fail("record %zu is the guest's: %llx -> %llx", n,
                 (unsigned long long)list[n].from,
                 (unsigned long long)list[n].to);
        }
    }
    free(list);
    aux_close(&aux);
}

/* The host's buffer gets full while the guest runs.  Its event stops for good,
   also if that is after KVM has noted what to load into DEBUGCTL again. */
static void stopped_host(void)
{
    unsigned long nmis = aux_nmis();
    unsigned interrupts = 0;

    for (unsigned n = 0; n < 60; n++) {
        struct vm vm = guest(400, 20, false);
        struct aux aux = aux_open(true, true, 4 * 4096, 4096);

        CHECK(ioctl(aux.fd, PERF_EVENT_IOC_ENABLE, 0) == 0);
        /* It is elsewhere each time that there is no more room. */
        for (volatile unsigned i = 0; i < n; i++) {
        }
        run(&vm, 20);
        CHECK(ioctl(aux.fd, PERF_EVENT_IOC_DISABLE, 0) == 0);
        interrupts += done(&vm, 400, 20);
        guest_free(&vm);
        aux_close(&aux);
    }
    nmis = aux_nmis() - nmis;
    printf("host stops: %u interrupts, %lu NMIs\n", interrupts, nmis);
    fflush(stdout);
    CHECK(nmis < 3 * interrupts + 60 * 10);
}

int main(void)
{
    bts_or_skip();
    whole("alone", 4000, 20, false, false, 0);
    whole("records", 2000, 50, true, false, 0);
    whole("port", 2000, 20, false, true, 0);
    held_back();
    nobody_listens();
    if (!BTS_STRICT) {
        /* The host's own driver truncates its trace if interrupts are late. */
        traced_host(false);
        traced_host(true);
        stopped_host();
    }
    whole("kicked", 4000, 20, false, false, 100);
    whole("kicked, records, port", 2000, 10, true, true, 300);
    for (unsigned loops = 5; loops < 12; loops++) {
        whole("at the end", loops, 5, false, false, 0);
    }
    moved(4000, 5, false);
    moved(4000, 5, true);
    swept("vector", false, false, false);
    swept("vector, taken later", false, true, false);
    swept("NMI", true, false, false);
    swept("in mid-store", false, false, true);
    kmsg_is_calm();
    return 0;
}
