/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * BTS of the host and of guests at the same time, and of several guests: each
 * has its own records, all of them, and no others
 *
 * rig: cpus=2
 * rig: walk=walk_begin walk_end (T T)*2 T N T*2 N
 */
#include <pthread.h>
#include <sched.h>

#include "kvm-bts.h"
#include "kvm-walk.h"

extern const char guest_begin[], g_ds[], g_start[], g_count[], g_dec[],
    g_loop[], g_out[], g_again[], guest_end[];

/* Endlessly: some branches, then an exit */
asm(
    "   .pushsection .rodata\n"
    "   .code16\n"
    "guest_begin:\n"
    "   movl    $0x600, %ecx\n"         /* DS_AREA */
    "g_ds: movl $0x3000, %eax\n"
    "   xorl    %edx, %edx\n"
    "   wrmsr\n"
    "   movl    $0x1d9, %ecx\n"         /* DEBUGCTL: TR, BTS */
    "   movl    $0xc0, %eax\n"
    "   wrmsr\n"
    "g_start: nop\n"
    "g_count: movw $5, %bx\n"
    "g_dec: decw %bx\n"
    "g_loop: jnz g_dec\n"
    "g_out: outb %al, $0x10\n"
    "g_again: jmp g_start\n"
    "guest_end:\n"
    "   .code64\n"
    "   .popsection\n");

/* A guest with so many rounds of its loop and its DS area there */
struct guest {
    struct vm vm;
    unsigned loops;
    volatile struct ds_area *ds;
    struct record *buffer;
    unsigned runs;          /* that one of the threads below does */
    bool bounce;            /* moving to the other CPU for each */
};

static struct guest guest(unsigned loops, uint16_t at)
{
    struct guest g = { .loops = loops };

    g.vm = vm_open(guest_begin, guest_end - guest_begin);
    vm_have_bts(&g.vm);
    memcpy(g.vm.memory + AT(g_ds) + 2, &at, sizeof(at));
    g.vm.memory[AT(g_count) + 1] = loops;
    g.ds = (void *)(g.vm.memory + at);
    g.ds->base = g.ds->index = at + 0x400;
    g.ds->maximum = g.ds->base + 40 * sizeof(struct record);
    g.ds->threshold = -1ull >> 1;
    g.buffer = (void *)(g.vm.memory + at + 0x400);
    CHECK(vm_run(&g.vm) == 0x10);
    CHECK(g.ds->index == g.ds->base + (loops - 1) * sizeof(struct record));
    g.ds->index = g.ds->base;
    return g;
}

/* The guest has run so often since its buffer was emptied. */
static void check(struct guest *g, unsigned runs)
{
    const struct record *r = g->buffer;
    unsigned n = (g->ds->index - g->ds->base) / sizeof(*r);

    if (n != runs * g->loops) {
        fail("a guest has %u records, not %u", n, runs * g->loops);
    }
    for (unsigned i = 0; i < n; i++) {
        bool jmp = i % g->loops == 0;

        if (r[i].from != (jmp ? AT(g_again) : AT(g_loop)) ||
            r[i].to != (jmp ? AT(g_start) : AT(g_dec))) {
            fail("record %u of a guest is %llx -> %llx", i,
                 (unsigned long long)r[i].from, (unsigned long long)r[i].to);
        }
    }
    memset(g->buffer, 0, n * sizeof(*r));
    g->ds->index = g->ds->base;
}

static void use_cpu(unsigned cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    CHECK(sched_setaffinity(0, sizeof(set), &set) == 0);
}

/* The host in user mode: what ../walk says, although its thread runs a guest
   that traces itself */
static void user(struct guest *g)
{
    struct aux aux = aux_open(false, true, 64 * 4096, 0);
    struct record *list;
    size_t count;

    traced(aux.fd, g->vm.vcpu);
    check(g, 3);
    list = aux_records(&aux, &count);
    aux_is_walk(list, count);
    free(list);
    munmap(aux.data, aux.size);
    munmap(aux.page, 2 * 4096);
    close(aux.fd);
}

/* The same with the kernel: what of it is in user mode is the same, and all of
   it is one way through code, from where a branch went to the next one; except
   for VM entries: a VM exit clears DEBUGCTL, and a little later KVM gives the
   host its own back, always at the same place. */
static void kernel(struct guest *g)
{
    struct aux aux = aux_open(true, true, 512 * 4096, 0);
    size_t count, users = 0, gaps = 0, last = 0;
    struct record *list;

    traced(aux.fd, g->vm.vcpu);
    check(g, 3);
    list = aux_records(&aux, &count);
    for (size_t n = 0; n < count; n++) {
        if (list[n].from < 0x10000 || list[n].to < 0x10000) {
            fail("record %zu is the guest's: %llx -> %llx", n,
                 (unsigned long long)list[n].from,
                 (unsigned long long)list[n].to);
        }
        if (n && list[n].from - list[n - 1].to > 4096) {
            if (gaps && (list[n - 1].to != list[last - 1].to ||
                         list[n].from != list[last].from)) {
                fail("record %zu, %llx -> %llx, cannot follow ... -> %llx", n,
                     (unsigned long long)list[n].from,
                     (unsigned long long)list[n].to,
                     (unsigned long long)list[n - 1].to);
            }
            last = n;
            gaps++;
        }
    }
    printf("%zu records of KVM and this program, %zu VM entries\n", count,
           gaps);
    fflush(stdout);
    CHECK(count > 1000);
    CHECK(gaps >= 3 && gaps < 10);
    for (size_t n = 0; n < count; n++) {
        if (!(list[n].to >> 63)) {
            list[users++] = list[n];
        }
    }
    aux_is_walk(list, users);
    free(list);
    munmap(aux.data, aux.size);
    munmap(aux.page, 2 * 4096);
    close(aux.fd);
}

static void *runs(void *opaque)
{
    struct guest *g = opaque;

    for (unsigned i = 0; i < g->runs; i++) {
        if (g->bounce) {
            use_cpu(i % 2);
        }
        CHECK(vm_run(&g->vm) == 0x10);
        check(g, 1);
    }
    return NULL;
}

/* Two guests, each in a thread of its own, while this one does WORK */
static void two(struct guest g[2], void (*work)(struct guest *g),
                struct guest *own)
{
    pthread_t threads[2];

    for (unsigned i = 0; i < 2; i++) {
        CHECK(pthread_create(&threads[i], NULL, runs, &g[i]) == 0);
    }
    for (unsigned i = 0; work && i < 5; i++) {
        work(own);
    }
    for (unsigned i = 0; i < 2; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
}

int main(void)
{
    struct guest own, other[2];

    bts_or_skip();
    own = guest(5, 0x3000);
    use_cpu(0);
    user(&own);
    kernel(&own);

    /* Each run on another CPU than the last one */
    own.runs = 500;
    own.bounce = true;
    runs(&own);

    /* Side by side, each CPU with a guest, then sharing one, then moving */
    other[0] = guest(3, 0x3000);
    other[1] = guest(11, 0x5000);
    for (unsigned i = 0; i < 3; i++) {
        other[0].runs = other[1].runs = i == 2 ? 300 : 1000;
        other[0].bounce = other[1].bounce = i == 2;
        use_cpu(0);
        if (i == 0) {
            cpu_set_t both;

            CPU_ZERO(&both);
            CPU_SET(0, &both);
            CPU_SET(1, &both);
            CHECK(sched_setaffinity(0, sizeof(both), &both) == 0);
        }
        two(other, user, &own);
    }
    kmsg_is_calm();
    return 0;
}
