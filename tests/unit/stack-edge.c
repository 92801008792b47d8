/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of symbolize/stack-edge.h: kinds of edges of a real program
 *
 * usage: stack-edge SAMPLE RETPOLINES, programs that lie where they say
 */
#include <glib.h>
#include <glib/gstdio.h>
#include <stdlib.h>

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
    ret = g_test_run();
    g_rmdir(folder);
    return ret;
}
