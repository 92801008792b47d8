/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest that does its worst to the window through which the host traces it
 * harms its own trace alone: that of another guest stays exact, the kernel has
 * nothing to say, and nothing outside of the hostile guest's memory changes
 *
 * rig: cpus=2
 * rig: timeout=1200
 * rig: linux=kvm_intel.bts_trace=1
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "kvm-hostile.h"
#include "kvm-trace.h"

extern const char guest_begin[], g_jmp[], g_to[], g_out[], g_again[],
    g_fault[], guest_end[];

/* R15 branches, each in an address space that has just been loaded */
asm(
    "   .pushsection .rodata\n"
    "   .code64\n"
    "guest_begin: movq %cr3, %rax\n"
    "   movq    %rax, %cr3\n"
    "g_jmp: jmp g_to\n"
    "   nop\n"
    "g_to: decl %r15d\n"
    "g_again: jnz guest_begin\n"
    "   movl    $10, %r15d\n"
    "g_out: outb %al, $0x10\n"
    "   jmp     guest_begin\n"
    "g_fault: movl $0x8000, %esp\n"
    "   outb    %al, $0x11\n"
    "   jmp     guest_begin\n"
    "guest_end:\n"
    "   .popsection\n");

#define ROUNDS  10

static struct trace bad;
static atomic_bool stop, gone;
static atomic_uint runs, faults, offs[11], others, stops;

static void restart(struct trace *t)
{
    struct kvm_regs regs = {
        .rip = VM_CODE, .rsp = VM_STACK, .rflags = 2, .r15 = ROUNDS,
    };
    struct kvm_vcpu_events events = { 0 };

    CHECK(ioctl(t->vm.vcpu, KVM_SET_VCPU_EVENTS, &events) == 0);
    memcpy(t->vm.memory + VM_CODE, guest_begin, guest_end - guest_begin);
    trace_tables(t);
    *vm_entry(&t->vm, VM_PD, 8) = W_GPA | PTE_P | PTE_W | PTE_AD | 0x80;
    vm_set_long_mode(&t->vm, 0);
    for (unsigned vector = 0; vector < 32; vector++) {
        vm_set_idt(&t->vm, vector, AT(g_fault));
    }
    CHECK(ioctl(t->vm.vcpu, KVM_SET_REGS, &regs) == 0);
}

static void *run_bad(void *opaque)
{
    struct exit_bts_trace *exit = (void *)&bad.vm.run->io;

    (void)opaque;
    while (!stop) {
        int result = ioctl(bad.vm.vcpu, KVM_RUN, 0);

        runs++;
        if (result != 0 && errno == EINTR) {
            continue;
        }
        if (result == 0 && bad.vm.run->exit_reason == KVM_EXIT_IO) {
            faults += bad.vm.run->io.port == 0x11;
            continue;
        }
        if (result == 0 && bad.vm.run->exit_reason == EXIT_X86_BTS_TRACE &&
            exit->reason == EXIT_FULL) {
            bad.ds->index = bad.ds->base;
            continue;
        }
        if (result == 0 && bad.vm.run->exit_reason == EXIT_X86_BTS_TRACE) {
            CHECK(exit->off_reason == OFF_CORRUPT ||
                  exit->off_reason == OFF_MEMORY);
            offs[exit->off_reason]++;
        } else if (result == 0 &&
                   bad.vm.run->exit_reason == KVM_EXIT_SHUTDOWN) {
            stops++;
        } else {
            others++;
        }
        restart(&bad);
        trace_set_buffer(&bad, 500, 400);
        /* It may be corrupt already. */
        (void)trace_attr(&bad, KVM_SET_DEVICE_ATTR, &bad.config);
    }
    gone = true;
    return NULL;
}

/* An address or an entry that may mean something, or anything */
static uint64_t odd_value(void)
{
    switch (dice() % 6) {
    case 0:
        return W_LINEAR + 4096 + dice() % W_SIZE;
    case 1:
        return W_LINEAR + 4096 + dice() % 500 * 24;
    case 2:
        return dice() % VM_SIZE;
    case 3:
        return 0;
    case 4:
        return (W_GPA + dice() % (W_SIZE + 0x4000)) | (dice() & 0xfff);
    default:
        return dice();
    }
}

static void set_window(unsigned flags, uint64_t size)
{
    struct kvm_userspace_memory_region region = {
        .slot = 1, .guest_phys_addr = W_GPA, .memory_size = size,
        .userspace_addr = (uintptr_t)bad.window, .flags = flags,
    };

    CHECK(ioctl(bad.vm.vm, KVM_SET_USER_MEMORY_REGION, &region) == 0);
}

/* Ways to be hostile, each done again and again while the guest runs */
static void plain(void)
{
}

static void ds_area(void)
{
    ((volatile uint64_t *)bad.ds)[dice() % 4] = odd_value();
}

static void ds_index(void)
{
    bad.ds->index = odd_value();
}

static void root_entry(void)
{
    volatile uint64_t *entry = vm_entry(&bad.vm, ROOT(0), W_INDEX);

    *entry = dice() % 2 ? W_ENTRY : odd_value();
}

static void tables(void)
{
    window_table(&bad, dice() % 3)[dice() % 16] = odd_value();
}

/* The code, the descriptors, the tables and the stack as the buffer */
static void over_itself(void)
{
    bad.ds->index = 0x1000 * (1 + dice() % 15) + dice() % 256 * 16;
}

static void memory_gone(void)
{
    set_window(0, 0);
    if (dice() % 2) {
        set_window(KVM_MEM_READONLY, W_SIZE + 0x3000);
        set_window(0, 0);
    }
    set_window(dice() % 2 ? KVM_MEM_LOG_DIRTY_PAGES : 0, W_SIZE + 0x3000);
}

static void all_of_it(void)
{
    static void (*const acts[])(void) = {
        ds_area, ds_index, root_entry, tables, over_itself, memory_gone,
    };

    acts[dice() % 6]();
}

static const struct {
    const char *name;
    void (*act)(void);
    unsigned off;       /* What KVM must have given up for at least once, or 0 */
} ways[] = {
    { "plain", plain, 0 },
    { "DS area", ds_area, OFF_CORRUPT },
    { "index", ds_index, OFF_CORRUPT },
    { "root entry", root_entry, 0 },
    { "tables", tables, 0 },
    { "over itself", over_itself, OFF_CORRUPT },
    { "memory", memory_gone, OFF_MEMORY },
    { "all", all_of_it, OFF_CORRUPT },
};

/* The other guest, of which each record is known */
static void run_good(struct trace *t)
{
    unsigned at = 0;

    trace_forget(t);
    CHECK(trace_run(t) == 0x10);
    if (t->list[0].from == AT(g_out) + 2) {
        at = trace_expect(t, 0, AT(g_out) + 2, AT(guest_begin));
    }
    for (unsigned i = 1; i <= ROUNDS; i++) {
        at = trace_expect(t, at, AT(g_jmp), AT(g_to));
        if (i < ROUNDS) {
            at = trace_expect(t, at, AT(g_again), AT(guest_begin));
        }
    }
    CHECK(at == t->count);
}

static void fight(unsigned way, struct trace *good)
{
    unsigned messages = kmsg_is_calm();
    pthread_t thread;

    runs = faults = stops = others = 0;
    memset(offs, 0, sizeof(offs));
    stop = gone = false;
    trace_open(&bad, guest_begin, guest_end - guest_begin, 0);
    restart(&bad);
    trace_set_buffer(&bad, 500, 400);
    trace_start(&bad);
    CHECK(pthread_create(&thread, NULL, run_bad, NULL) == 0);
    /* On one CPU, all of the fight can be over before the thread begins. */
    while (!runs) {
        pthread_kill(thread, SIGUSR1);
        usleep(1000);
    }
    for (unsigned i = 0; i < 200 || (i < 2000 && ways[way].off &&
                                     !offs[ways[way].off]); i++) {
        ways[way].act();
        if (i % 4 == 0) {
            run_good(good);
        }
        if (i % 32 == 0) {
            pthread_kill(thread, SIGUSR1);
        }
    }
    stop = true;
    while (!gone) {
        pthread_kill(thread, SIGUSR1);
        usleep(1000);
    }
    CHECK(pthread_join(thread, NULL) == 0);
    printf("%s: %u exits, %u faults, %u corrupt, %u without memory, "
           "%u shutdowns, %u others\n", ways[way].name, runs, faults,
           offs[OFF_CORRUPT], offs[OFF_MEMORY], stops, others);
    fflush(stdout);
    CHECK(kmsg_is_calm() < messages + 10);
    CHECK(runs > 0);
    CHECK(!ways[way].off || offs[ways[way].off]);
    CHECK(way || !(faults || stops || others || offs[OFF_CORRUPT]));
    trace_close(&bad);
}

int main(void)
{
    struct trace good;

    trace_or_skip();
    signal(SIGUSR1, nothing);
    trace_open(&good, guest_begin, guest_end - guest_begin, 0);
    restart(&good);
    trace_start(&good);
    CHECK(trace_run(&good) == 0x10);
    for (unsigned i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        fight(i, &good);
    }
    return 0;
}
