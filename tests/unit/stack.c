/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A real program, one instruction after the other, and the program's own count
 * of who has called whom
 *
 * usage: stack SAMPLE...
 *
 * Beside a sample NAME that is compiled in some way, there is NAME-stripped,
 * which is the same without symbols.
 */
#include <glib.h>
#include <glib/gstdio.h>
#include <stdlib.h>
#include <string.h>

#include "scratch.h"
#include "stepped.h"
#include "symbolize/stack.h"

/* Gaps, and pieces of a program's records */
#define GAPS    (g_test_slow() ? 200u : 25u)
#define PIECES  (g_test_slow() ? 20000u : 4000u)

static char *folder;

/* How often a tree has a call of @callee by @caller; all below @node */
static uint64_t count(const struct stack_node *node, const char *caller,
                      const char *callee)
{
    uint64_t sum = 0;

    for (; node; node = node->next) {
        const struct function *parent = node->parent ?
                                        node->parent->function : NULL;

        if (node->function && !strcmp(node->function->name, callee) &&
            !strcmp(parent ? parent->name : "[none]", caller)) {
            sum += node->calls;
        }
        sum += count(node->child, caller, callee);
    }
    return sum;
}

static uint64_t sum_records(const struct stack_node *node)
{
    uint64_t sum = 0;

    for (; node; node = node->next) {
        g_assert_cmpuint(node->depth, ==,
                         node->parent ? node->parent->depth + 1 : 0);
        sum += node->records + sum_records(node->child);
    }
    return sum;
}

/* Stacks, and the edges of what is fed to them */
struct fed {
    struct symbolizer *s;
    struct stack_edges *edges;
    struct stacks *st;
};

static struct fed fed_new(struct symbolizer *s)
{
    return (struct fed) {
        s, stack_edges_new(s, 0),
        stacks_new(&(struct stacks_options) { false }),
    };
}

static void fed_free(struct fed *f)
{
    stacks_free(f->st);
    stack_edges_free(f->edges);
}

static void feed_batch(struct fed *f, unsigned vcpu,
                       const struct btrail_batch *b, uint64_t ticks)
{
    g_autofree const struct stack_edge **edges =
        g_new(const struct stack_edge *, b->count);
    g_autofree struct stack_run *runs = g_new(struct stack_run, b->count);
    struct btrail_batch part = { .count = 0 };
    struct stack_part out = {
        .vcpu = vcpu, .edges = edges, .runs = runs, .ticks = ticks,
    };

    stacks_begin(f->st);
    while (symbolizer_part(f->s, vcpu, b, &part, &out.task)) {
        stack_edges_get_all(f->edges, out.task.process, &out.task.where,
                            part.records, part.count, edges, runs);
        out.first = part.index - b->index;
        out.n = part.count;
        stacks_add(f->st, &out);
    }
}

static void feed(struct fed *f, const struct stepped *run, size_t first,
                 size_t n)
{
    const struct btrail_batch batch = {
        .records = (const struct btrail_record *)run->records->data + first,
        .count = n, .index = first, .cr3 = STEPPED_CR3,
    };

    feed_batch(f, 0, &batch, 2);
}

/* What of @what has to be found; @exact: nothing was left without a return */
static void check(const char *sample, const char *what, bool exact,
                  unsigned signals, unsigned switches)
{
    struct stepped run = { NULL };
    struct symbolizer *s;
    struct fed f;
    const struct stack_counts *counts;
    g_auto(GStrv) lines = NULL;
    unsigned i, found = 0;

    if (!stepped_run(&run, folder, sample, what)) {
        g_test_skip("programs cannot be traced here");
        stepped_free(&run);
        return;
    }
    s = stepped_names(&run, NULL);
    f = fed_new(s);
    feed(&f, &run, 0, run.records->len);
    lines = g_strsplit(run.out, "\n", -1);
    for (i = 0; lines[i] && *lines[i]; i++) {
        g_auto(GStrv) words = g_strsplit(lines[i], " ", -1);
        uint64_t n = count(stacks_roots(f.st), words[0], words[1]);

        if (n != strtoull(words[2], NULL, 10)) {
            g_test_message("%s calls %s %s times, found %lu", words[0],
                           words[1], words[2], n);
            g_test_fail();
        }
        found++;
    }
    g_assert_cmpuint(found, >=, 2);
    g_assert_cmpuint(sum_records(stacks_roots(f.st)), ==, run.records->len);
    counts = stacks_counts(f.st);
    g_test_message("%u records, %lu calls, %lu returns, %lu nested, %lu "
                   "unknown, %lu astray, %lu signals, %lu switches",
                   run.records->len, counts->calls, counts->returns,
                   counts->nested, counts->unknown, counts->astray,
                   counts->signals, counts->switches);
    g_assert_cmpuint(counts->astray, ==, 0);
    g_assert_cmpuint(counts->no_code, ==, 0);
    g_assert_cmpuint(counts->unknown, ==, 0);
    g_assert_cmpuint(counts->signals, ==, signals);
    g_assert_cmpuint(counts->switches, ==, switches);
    if (exact) {
        g_assert_cmpuint(counts->nested, ==, 0);
    }
    fed_free(&f);
    symbolizer_free(s);
    stepped_free(&run);
}

static void test_recursion(gconstpointer sample)
{
    check(sample, "recursion", true, 0, 0);
}

static void test_longjmp(gconstpointer sample)
{
    check(sample, "longjmp", false, 0, 0);
}

static void test_signals(gconstpointer sample)
{
    check(sample, "signals", false, 8, 0);
}

/* A handler has a function called by what it has interrupted. */
static void test_injected(gconstpointer sample)
{
    check(sample, "injected", true, 8, 0);
}

/* Another handler begins when one ends. */
static void test_second(gconstpointer sample)
{
    check(sample, "second", true, 8, 0);
}

/* A handler has code continue in a caller. */
static void test_retry(gconstpointer sample)
{
    check(sample, "retry", false, 3, 0);
}

static void test_tail(gconstpointer sample)
{
    check(sample, "tail", true, 0, 0);
}

static void test_stacks(gconstpointer sample)
{
    check(sample, "stacks", false, 0, 30);
}

/* Stacks that a scheduler jumps to */
static void test_goroutines(gconstpointer sample)
{
    check(sample, "goroutines", false, 0, 29);
}

static void test_pointers(gconstpointer sample)
{
    check(sample, "pointers", true, 0, 0);
}

static uint64_t start_of(const char *sample, const char *name)
{
    struct elf_file *elf = elf_file_open(sample);
    const struct elf_symbol *symbols;
    uint64_t start = 0;
    size_t n;

    symbols = elf_file_symbols(elf, &n);
    for (size_t i = 0; i < n; i++) {
        if (!strcmp(symbols[i].name, name)) {
            start = symbols[i].start;
        }
    }
    g_assert_cmphex(start, !=, 0);
    elf_file_close(elf);
    return start;
}

/* How many functions it is in whenever it goes to @to; 0: or anywhere */
static GArray *depths(const struct stepped *run, uint64_t to)
{
    GArray *found = g_array_new(FALSE, FALSE, sizeof(unsigned));
    struct symbolizer *s = stepped_names(run, NULL);
    struct fed f = fed_new(s);

    for (size_t i = 0; i < run->records->len; i++) {
        feed(&f, run, i, 1);
        if (!to ||
            g_array_index(run->records, struct btrail_record, i).to == to) {
            unsigned n = stacks_calls(f.st, 0, NULL, 0);

            g_array_append_val(found, n);
        }
    }
    g_assert_cmpuint(stacks_counts(f.st)->nested, ==, 0);
    g_assert_cmpuint(stacks_counts(f.st)->unknown, ==, 0);
    g_assert_cmpuint(stacks_counts(f.st)->switches, ==, 0);
    fed_free(&f);
    symbolizer_free(s);
    return found;
}

/* From here on, the program is taken for one without symbols. */
static void strip(const struct stepped *run, const char *sample)
{
    g_autofree char *stripped = g_strdup_printf("%s-stripped", sample);
    g_autofree char *maps = NULL, *text = NULL;
    g_auto(GStrv) parts = NULL;

    g_assert_true(g_file_get_contents(run->map, &maps, NULL, NULL));
    parts = g_strsplit(maps, sample, -1);
    g_assert_cmpuint(g_strv_length(parts), >, 1);
    text = g_strjoinv(stripped, parts);
    g_assert_true(g_file_set_contents(run->map, text, -1, NULL));
}

/* Without symbols, stacks are as deep as with them. */
static void test_stripped(gconstpointer opaque)
{
    const char *sample = opaque;
    uint64_t leaf = start_of(sample, "leaf");
    g_autoptr(GArray) known = NULL, found = NULL;
    struct stepped run = { NULL };

    if (!stepped_run(&run, folder, sample, "pointers")) {
        g_test_skip("programs cannot be traced here");
        stepped_free(&run);
        return;
    }
    known = depths(&run, leaf);
    strip(&run, sample);
    found = depths(&run, leaf);
    g_assert_cmpuint(known->len, >, 50);
    g_assert_cmpmem(known->data, known->len * sizeof(unsigned),
                    found->data, found->len * sizeof(unsigned));
    stepped_free(&run);
}

/* Does the function in which a record ends return soon? */
static bool returns_soon(const GArray *depths, size_t i)
{
    unsigned depth = g_array_index(depths, unsigned, i);

    for (size_t k = i; k < MIN(i + 40, depths->len); k++) {
        if (g_array_index(depths, unsigned, k) < depth) {
            return true;
        }
    }
    return false;
}

/*
 * The kernel interrupts code here and there, and continues it a bit later.
 * @depths, after each record, become those of the records that are returned:
 * what continues elsewhere looks like a handler until the function returns.
 */
static GArray *with_interrupts(const GArray *records, GArray *depths)
{
    GArray *more = g_array_new(FALSE, FALSE, sizeof(struct btrail_record));
    g_autoptr(GArray) old = g_array_copy(depths);
    const struct btrail_record *r = (const void *)records->data;
    unsigned in = 0;            /* depth that was interrupted, or 0 */

    g_array_set_size(depths, 0);
    for (size_t i = 0; i < records->len; i++) {
        unsigned depth = g_array_index(old, unsigned, i);
        unsigned n = depth + (in && depth >= in);

        in = depth >= in ? in : 0;
        g_array_append_val(more, r[i]);
        g_array_append_val(depths, n);
        if (i + 1 < records->len && !in && returns_soon(old, i) &&
            !((r[i].to | r[i + 1].from) >> 63) && r[i].to < r[i + 1].from &&
            g_test_rand_int_range(0, 4)) {
            const struct btrail_record through[2] = {
                { r[i].to, STEPPED_KERNEL, 0 },
                { STEPPED_KERNEL + 0x10, r[i + 1].from, 0 },
            };
            const unsigned deeper[2] = { depth + 1, depth + 1 };

            g_array_append_vals(more, through, 2);
            g_array_append_vals(depths, deeper, 2);
            in = depth;
        }
    }
    return more;
}

/* Code without a symbol that continues elsewhere is left by its return. */
static void test_elsewhere(gconstpointer opaque)
{
    const char *sample = opaque;
    g_autoptr(GArray) known = NULL, found = NULL, records = NULL;
    struct stepped run = { NULL };

    if (!stepped_run(&run, folder, sample, "pointers")) {
        g_test_skip("programs cannot be traced here");
        stepped_free(&run);
        return;
    }
    known = depths(&run, 0);
    strip(&run, sample);
    records = run.records;
    run.records = with_interrupts(records, known);
    g_assert_cmpuint(run.records->len, >, records->len + 100);
    found = depths(&run, 0);
    for (size_t i = 0; i < found->len; i++) {
        if (g_array_index(run.records, struct btrail_record, i).to !=
            STEPPED_KERNEL) {
            g_assert_cmpuint(g_array_index(found, unsigned, i), ==,
                             g_array_index(known, unsigned, i));
        }
    }
    stepped_free(&run);
}

/* What is missing makes stacks unknown for a while, and no longer. */
static void test_gaps(gconstpointer sample)
{
    struct stepped run = { NULL };
    struct symbolizer *s;
    unsigned i;

    if (!stepped_run(&run, folder, sample, "recursion")) {
        g_test_skip("programs cannot be traced here");
        stepped_free(&run);
        return;
    }
    s = stepped_names(&run, NULL);
    for (i = 0; i < GAPS; i++) {
        size_t n = run.records->len;
        size_t begin = g_test_rand_int_range(0, n);
        size_t end = g_test_rand_int_range(begin, n);
        struct fed f = fed_new(s);

        feed(&f, &run, 0, begin);
        stacks_gap(f.st, 0);
        feed(&f, &run, end, n - end);
        g_assert_cmpuint(sum_records(stacks_roots(f.st)), ==, begin + n - end);
        g_assert_cmpuint(stacks_counts(f.st)->gaps, ==, 1);
        /* It ends where it began: in the caller of all. */
        if (begin > n / 4 && end < n / 2) {
            g_assert_cmpuint(stacks_counts(f.st)->unknown, <=, 40);
        }
        fed_free(&f);
    }
    symbolizer_free(s);
    stepped_free(&run);
}

/* Records that no program makes; frames and nodes stay bounded. */
static void test_random(gconstpointer sample)
{
    struct stepped run = { NULL };
    struct symbolizer *s;
    struct fed f;
    unsigned i, k, n;

    if (!stepped_run(&run, folder, sample, "stacks")) {
        g_test_skip("programs cannot be traced here");
        stepped_free(&run);
        return;
    }
    s = stepped_names(&run, NULL);
    f = fed_new(s);
    n = run.records->len;
    for (i = 0; i < PIECES; i++) {
        unsigned vcpu = g_test_rand_int_range(0, 4);
        unsigned first = g_test_rand_int_range(0, n);
        unsigned some = g_test_rand_int_range(1, MIN(n - first, 20) + 1);
        struct btrail_record records[20];
        struct btrail_batch batch = {
            .records = records, .count = some, .index = i,
            .cr3 = (uint64_t)g_test_rand_int_range(0, 3) << 12,
        };

        memcpy(records, (struct btrail_record *)run.records->data + first,
               some * sizeof(*records));
        if (i % 3 == 0) {
            for (k = 0; k < some; k++) {
                records[k].to = g_array_index(run.records,
                                              struct btrail_record,
                                              g_test_rand_int_range(0, n)).to;
            }
        }
        feed_batch(&f, vcpu, &batch, 1);
        stacks_wait(f.st, g_test_rand_int_range(0, 8), 5);
        if (i % 100 == 0) {
            stacks_gap(f.st, g_test_rand_int_range(0, 8));
        }
    }
    g_assert_cmpuint(stacks_nodes(f.st), <=, STACK_MAX_NODES + 64);
    fed_free(&f);
    stacks_free(NULL);

    /* A call of itself, again and again */
    f = fed_new(s);
    for (i = 0; i < n; i++) {
        const struct btrail_record *r = &g_array_index(run.records,
                                                       struct btrail_record,
                                                       i);
        const struct btrail_batch batch = {
            .records = r, .count = 1, .cr3 = STEPPED_CR3
        };

        for (k = 0; k < (i < 3000 ? 20 : 0); k++) {
            feed_batch(&f, 0, &batch, 1);
        }
    }
    fed_free(&f);
    symbolizer_free(s);
    stepped_free(&run);
}

static void add_test(const char *name, const char *sample,
                     GTestDataFunc test)
{
    g_autofree char *base = g_path_get_basename(sample);
    g_autofree char *path = g_strdup_printf("/%s/%s", base, name);

    g_test_add_data_func(path, sample, test);
}

int main(int argc, char **argv)
{
    g_autoptr(GPtrArray) samples = g_ptr_array_new_with_free_func(free);
    int ret;

    g_test_init(&argc, &argv, NULL);
    g_assert_cmpint(argc, >, 1);
    folder = scratch_new();
    for (int i = 1; i < argc; i++) {
        char *sample = realpath(argv[i], NULL);

        g_assert_nonnull(sample);
        g_ptr_array_add(samples, sample);
        add_test("pointers", sample, test_pointers);
        add_test("stripped", sample, test_stripped);
    }
    add_test("elsewhere", samples->pdata[0], test_elsewhere);
    add_test("recursion", samples->pdata[0], test_recursion);
    add_test("longjmp", samples->pdata[0], test_longjmp);
    add_test("signals", samples->pdata[0], test_signals);
    add_test("injected", samples->pdata[0], test_injected);
    add_test("second", samples->pdata[0], test_second);
    add_test("retry", samples->pdata[0], test_retry);
    add_test("tail", samples->pdata[0], test_tail);
    add_test("stacks", samples->pdata[0], test_stacks);
    add_test("goroutines", samples->pdata[0], test_goroutines);
    add_test("gaps", samples->pdata[0], test_gaps);
    add_test("random", samples->pdata[0], test_random);
    ret = g_test_run();
    scratch_remove(folder);
    return ret;
}
