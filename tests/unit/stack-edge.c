/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of symbolize/stack-edge.h: kinds of edges of a real program
 *
 * usage: stack-edge SAMPLE RETPOLINES, programs that lie where they say
 */
#include <glib.h>
#include <glib/gstdio.h>
#include <stdlib.h>

#include "code-samples.h"
#include "symbolize/instruction.h"
#include "symbolize/stack-edge.h"

#define CR3     0x1000
#define KERNEL  UINT64_C(0xffffffff81000000)
#define HANDLER (KERNEL + 0x200)
#define PROGRAM (KERNEL + 0x300)

/* This many edges are not many yet. */
#define MANY    20000

static const char *sample;
static const char *retpolines;
static char *folder;

struct setup {
    struct symbolizer *s;
    const struct process *process;
    struct stack_edges *edges;
    struct elf_file *elf;
};

static void setup(struct setup *x, const char *program)
{
    g_autofree char *map = g_build_filename(folder, "map", NULL);
    g_autofree char *text = g_strdup_printf(
        "%" G_GINT64_MODIFIER "x T entry\n"
        "%" G_GINT64_MODIFIER "x T next\n"
        "%" G_GINT64_MODIFIER "x T asm_sysvec_apic_timer_interrupt\n"
        "%" G_GINT64_MODIFIER "x t bpf_prog_0123456789abcdef_tail\n"
        "%" G_GINT64_MODIFIER "x t bpf_prog_run\n"
        "cr3 %x pid=5 sample\n"
        "400000-800000 r-xp 0 0:0 0 %s\n", KERNEL, KERNEL + 0x100,
        HANDLER, PROGRAM, PROGRAM + 0x100, CR3,
        program);
    char *roots[] = { (char *)"/", NULL };
    const struct symbolizer_options options = {
        .map = map, .files.sysroots = roots,
    };
    const struct symbolizer_where where = { .cr3 = CR3 };
    enum btrail_certainty certainty;

    g_assert_true(g_file_set_contents(map, text, -1, NULL));
    x->s = symbolizer_new(&options, NULL, NULL);
    g_assert_nonnull(x->s);
    x->process = symbolizer_process(x->s, &where, &certainty);
    x->edges = stack_edges_new(x->s, MANY + 1);
    x->elf = elf_file_open(program);
    g_unlink(map);
}

static void teardown(struct setup *x)
{
    stack_edges_free(x->edges);
    symbolizer_free(x->s);
    elf_file_close(x->elf);
}

static const struct stack_edge *get(struct setup *x, uint64_t from,
                                    uint64_t to)
{
    const struct symbolizer_where where = { .cr3 = CR3 };
    const struct btrail_record r = { from, to, 0 };
    const struct stack_edge *e = stack_edges_get(x->edges, x->process, &where,
                                                 &r);

    g_assert_cmphex(e->from, ==, from);
    g_assert_cmphex(e->to, ==, to);
    return e;
}

struct found {
    unsigned calls;
    unsigned returns;
    unsigned jumps;
};

/* Each instruction of a function, and what comes of it */
static void check_function(struct setup *x, const struct elf_symbol *f,
                           struct found *found)
{
    struct instruction insn;
    uint64_t at;

    for (at = f->start; at < f->end; at += insn.length) {
        uint8_t bytes[INSTRUCTION_MAX];
        size_t n = elf_file_read(x->elf, at, bytes, sizeof(bytes));
        const struct stack_edge *e;

        if (!instruction_decode(bytes, n, 64, at, &insn)) {
            return;
        }
        /* Anything can be interrupted, and continues where it was. */
        e = get(x, at, KERNEL);
        g_assert_cmpint(e->kind, ==, STACK_EDGE_ENTRY);
        g_assert_cmphex(e->back, ==, insn.kind == INSTRUCTION_SYSCALL ||
                        insn.kind == INSTRUCTION_INT ? at + insn.length : at);
        g_assert_cmphex(e->from_fn->start, ==, f->start);
        if (insn.kind == INSTRUCTION_CALL && insn.direct &&
            insn.target != at + insn.length) {
            e = get(x, at, insn.target);
            g_assert_cmpint(e->kind, ==, STACK_EDGE_CALL);
            g_assert_cmphex(e->back, ==, at + insn.length);
            found->calls++;
        } else if (insn.kind == INSTRUCTION_RET) {
            g_assert_cmpint(get(x, at, f->start)->kind, ==, STACK_EDGE_RET);
            found->returns++;
        } else if (insn.kind == INSTRUCTION_CONDITIONAL) {
            g_assert_cmpint(get(x, at, insn.target)->kind, ==,
                            STACK_EDGE_JUMP);
            found->jumps++;
        }
    }
}

static void test_instructions(void)
{
    const struct elf_symbol *symbols;
    struct found found = { 0 };
    struct setup x;
    size_t i, n;

    setup(&x, sample);
    symbols = elf_file_symbols(x.elf, &n);
    for (i = 0; i < MIN(n, 200); i++) {
        check_function(&x, &symbols[i], &found);
    }
    g_test_message("%u calls, %u returns, %u jumps", found.calls,
                   found.returns, found.jumps);
    g_assert_cmpuint(found.calls, >, 100);
    g_assert_cmpuint(found.returns, >, 100);
    g_assert_cmpuint(found.jumps, >, 100);
    teardown(&x);
}

/* The last call of a function before a return of it, and what they are */
static bool check_thunk(struct setup *x, const struct elf_symbol *f,
                        enum stack_edge_kind last)
{
    struct instruction insn;
    bool called = false;

    for (uint64_t at = f->start; at < f->end; at += insn.length) {
        uint8_t bytes[INSTRUCTION_MAX];
        size_t n = elf_file_read(x->elf, at, bytes, sizeof(bytes));

        if (!instruction_decode(bytes, n, 64, at, &insn)) {
            return false;
        }
        if (insn.kind == INSTRUCTION_CALL) {
            g_assert_cmpint(get(x, at, insn.target)->kind, ==,
                            STACK_EDGE_JUMP);
            called = true;
        } else if (insn.kind == INSTRUCTION_RET) {
            g_assert_true(called);
            g_assert_cmpint(get(x, at, f->start)->kind, ==, last);
            return true;
        }
    }
    return false;
}

/* The return of a retpoline is a jump, that of a return thunk is none. */
static void test_retpolines(void)
{
    const struct elf_symbol *symbols;
    unsigned jumps = 0, returns = 0;
    struct setup x;
    size_t n;

    setup(&x, retpolines);
    symbols = elf_file_symbols(x.elf, &n);
    for (size_t i = 0; i < n; i++) {
        if (g_str_has_prefix(symbols[i].name, "__x86_indirect_thunk_")) {
            jumps += check_thunk(&x, &symbols[i], STACK_EDGE_JUMP_FAR);
        } else if (!strcmp(symbols[i].name, "__x86_return_thunk")) {
            returns += check_thunk(&x, &symbols[i], STACK_EDGE_RET);
        }
    }
    g_assert_cmpuint(jumps, >, 0);
    g_assert_cmpuint(returns, ==, 1);
    teardown(&x);
}

/* What is known of the kernel is names alone. */
static void test_kernel(void)
{
    const struct stack_edge *e;
    struct setup x;

    setup(&x, sample);
    g_assert_cmpint(get(&x, KERNEL + 0x110, 0x400123)->kind, ==,
                    STACK_EDGE_EXIT);
    g_assert_cmpint(get(&x, KERNEL + 0x110, KERNEL + 0x120)->kind, ==,
                    STACK_EDGE_UNKNOWN);
    /* Functions return into a handler; only interrupts go to its beginning. */
    g_assert_cmpint(get(&x, KERNEL + 0x110, HANDLER + 0x10)->kind, ==,
                    STACK_EDGE_UNKNOWN);
    e = get(&x, KERNEL + 0x110, HANDLER);
    g_assert_cmpint(e->kind, ==, STACK_EDGE_INTERRUPT);
    g_assert_cmphex(e->back, ==, e->from);
    /* Another BPF program jumps over the first instructions of one. */
    g_assert_true(get(&x, KERNEL + 0x110, PROGRAM + 16)->start);
    g_assert_false(get(&x, KERNEL + 0x110, PROGRAM + 32)->start);
    g_assert_false(get(&x, PROGRAM + 0x40, PROGRAM + 16)->start);
    g_assert_false(get(&x, KERNEL + 0x110, PROGRAM + 0x110)->start);
    teardown(&x);
}

/* What was found out is kept; addresses of another process are others. */
static void test_many(void)
{
    const struct symbolizer_where where = { .cr3 = 0x2000 };
    enum btrail_certainty certainty;
    const struct process *other;
    struct btrail_record r = { 0x400100, 0x400200, 0 };
    const struct stack_edge *a;
    struct setup x;
    unsigned i;

    setup(&x, sample);
    other = symbolizer_process(x.s, &where, &certainty);
    for (i = 0; i < MANY; i++) {
        get(&x, 0x400000 + i, 0x400000 + 7 * i);
    }
    for (i = 0; i < MANY; i++) {
        a = get(&x, 0x400000 + i, 0x400000 + 7 * i);
        g_assert_true(get(&x, 0x400000 + i, 0x400000 + 7 * i) == a);
        g_assert_cmpuint(a->space, ==, x.process->id);
    }
    g_assert_false(stack_edges_many(x.edges));
    a = stack_edges_get(x.edges, other, &where, &r);
    g_assert_cmpuint(a->space, ==, other->id);
    g_assert_cmpint(a->kind, ==, STACK_EDGE_UNKNOWN);
    g_assert_false(a->to_fn->known);

    g_assert_true(stack_edges_many(x.edges));
    stack_edges_reset(x.edges);
    g_assert_false(stack_edges_many(x.edges));
    a = get(&x, 0x400001, 0x400007);
    g_assert_cmpuint(a->space, ==, x.process->id);
    g_assert_cmpuint(a->to, ==, 0x400007);
    teardown(&x);
}

/* How long the call is that a vCPU makes on a page with content @k */
static const uint8_t calls[][7] = {
    { 0xff, 0x15, 0, 0, 0, 0, 0x90 },           /* call [rip] */
    { 0xff, 0xd0, 0x90, 0x90, 0x90, 0x90, 0x90 },   /* call rax */
    { 0xff, 0x14, 0x25, 0, 0, 0, 0 },           /* call [0] */
};
static const unsigned lengths[] = { 6, 2, 7 };

enum { VCPUS = 2, PAGES = 3, INDICES = 300, CALLER = 0x20 };

static const uint64_t pages[PAGES] = { KERNEL, KERNEL + 0x1000, 0x400000 };

/* A vCPU finds another content of each page now and then. */
static void write_changes(struct btrail_writer *w,
                          unsigned model[VCPUS][INDICES][PAGES])
{
    g_autoptr(GArray) all = g_array_new(FALSE, FALSE,
                                        sizeof(struct sample_code));
    static uint8_t bytes[G_N_ELEMENTS(calls)][BTRAIL_CODE_PAGE_SIZE];

    for (unsigned k = 0; k < G_N_ELEMENTS(calls); k++) {
        /* A call ends on this page, one is on it, and one begins there. */
        memset(bytes[k], 0x90, BTRAIL_CODE_PAGE_SIZE);
        memcpy(bytes[k], calls[k] + 1, sizeof(calls[k]) - 1);
        memcpy(bytes[k] + CALLER, calls[k], sizeof(calls[k]));
        bytes[k][BTRAIL_CODE_PAGE_SIZE - 1] = calls[k][0];
    }
    for (unsigned v = 0; v < VCPUS; v++) {
        for (unsigned i = 0; i < INDICES; i++) {
            for (unsigned p = 0; p < PAGES; p++) {
                bool changes = !i || !g_test_rand_int_range(0, 30);
                unsigned k = changes ? (unsigned)g_test_rand_int_range(
                    0, G_N_ELEMENTS(calls)) : model[v][i - 1][p];
                const struct sample_code code = {
                    v, i, CR3, pages[p], bytes[k], BTRAIL_CODE_PAGE_SIZE,
                };

                model[v][i][p] = k;
                if (changes) {
                    g_array_append_val(all, code);
                }
            }
        }
    }
    sample_code(w, (struct sample_code *)all->data, all->len);
}

/* The same edge is another one where the code is another one. */
static void test_changes(void)
{
    static unsigned model[VCPUS][INDICES][PAGES];
    g_autofree char *path = g_build_filename(folder, "changes.btrail", NULL);
    struct btrail_writer *w;
    struct btrail_trace *trace;
    enum btrail_certainty certainty;
    struct stack_edges *edges;
    struct symbolizer *s;

    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    write_changes(w, model);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    s = sample_symbolizer(trace, SAMPLE_KERNEL);
    edges = stack_edges_new(s, 0);
    for (unsigned n = 0; n < 20000; n++) {
        struct symbolizer_where where = {
            .vcpu = g_test_rand_int_range(0, VCPUS), .cr3 = CR3,
            .index = g_test_rand_int_range(0, INDICES),
        };
        unsigned p = g_test_rand_int_range(0, PAGES);
        bool crosses = !p && g_test_rand_bit();
        const struct btrail_record r = {
            crosses ? pages[1] - 1 : pages[p] + CALLER,
            p == 2 ? UINT64_C(0x400800) : KERNEL + 0x700, 0,
        };
        struct btrail_record all[8];
        const struct stack_edge *several[G_N_ELEMENTS(all)];
        struct stack_run runs[G_N_ELEMENTS(all)];
        size_t many = MIN(G_N_ELEMENTS(all), INDICES - where.index);
        const struct process *process = symbolizer_process(s, &where,
                                                           &certainty);
        const struct stack_edge *e = stack_edges_get(edges, process, &where,
                                                     &r);

        p += crosses;
        g_assert_cmphex(e->back, ==,
                        r.from + lengths[model[where.vcpu][where.index][p]]);
        for (size_t i = 0; i < many; i++) {
            all[i] = r;
        }
        stack_edges_get_all(edges, process, &where, all, many, several, runs);
        for (size_t i = 0; i < many; i++) {
            g_assert_cmpint(several[i]->kind, ==, STACK_EDGE_CALL);
            g_assert_cmphex(several[i]->back, ==, r.from + lengths[
                model[where.vcpu][where.index + i][p]]);
        }
    }
    stack_edges_free(edges);
    symbolizer_free(s);
    btrail_trace_close(trace);
    g_unlink(path);
}

int main(int argc, char **argv)
{
    int ret;

    g_test_init(&argc, &argv, NULL);
    g_assert_cmpint(argc, ==, 3);
    sample = g_canonicalize_filename(argv[1], NULL);
    retpolines = g_canonicalize_filename(argv[2], NULL);
    folder = g_dir_make_tmp("backtrail-XXXXXX", NULL);
    g_test_add_func("/stack-edge/instructions", test_instructions);
    g_test_add_func("/stack-edge/retpolines", test_retpolines);
    g_test_add_func("/stack-edge/kernel", test_kernel);
    g_test_add_func("/stack-edge/many", test_many);
    g_test_add_func("/stack-edge/changes", test_changes);
    ret = g_test_run();
    g_rmdir(folder);
    return ret;
}
