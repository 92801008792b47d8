/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest that traces itself in a loop, each round of which ends in an exit
 */
#ifndef KVM_BTS_LOOP_H
#define KVM_BTS_LOOP_H

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

static inline struct guest guest(unsigned loops, uint16_t at)
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
static inline void check(struct guest *g, unsigned runs)
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

/* The host in user mode: what ../walk says, although its thread runs a guest
   that traces itself */
static inline void guest_in_walk(struct guest *g)
{
    struct aux aux = aux_open(false, true, 64 * 4096, 0);
    struct record *list;
    size_t count;

    traced(aux.fd, g->vm.vcpu);
    check(g, 3);
    list = aux_records(&aux, &count);
    aux_is_walk(list, count);
    free(list);
    aux_close(&aux);
}

#endif
