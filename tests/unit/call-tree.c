/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of analyze/call-tree.h: whatever is in a trace, each record is counted
 * once, each move begins where the one before has ended, and the times of
 * nodes add up to the time of the trace
 */
#include <unistd.h>

#include "analyze/call-tree.h"
#include "cli/cli.h"
#include "random-trace.h"
#include "trace-samples.h"

struct seen {
    uint64_t spent;
    GHashTable *nodes;          /* struct stack_node to its records */
    uint64_t moves;
    const struct stack_node *last[BTRAIL_MAX_VCPUS];
};

static void moved(void *opaque, unsigned vcpu, uint64_t time,
                  const struct stack_node *from, const struct stack_node *to,
                  uint64_t stack)
{
    struct seen *seen = opaque;

    g_assert_true(from != to);
    if (seen->last[vcpu] && from) {
        g_assert_true(seen->last[vcpu]->process == from->process ||
                      seen->last[vcpu] == from);
    }
    seen->last[vcpu] = to;
    seen->moves++;
}

static void spent(void *opaque, unsigned vcpu, uint64_t time,
                  const struct stack_node *node, uint64_t stack,
                  uint64_t records)
{
    struct seen *seen = opaque;

    g_assert_nonnull(node);
    g_assert_cmpuint(records, >, 0);
    seen->spent += records;
    g_hash_table_insert(seen->nodes, (gpointer)node, GSIZE_TO_POINTER(
        records + GPOINTER_TO_SIZE(g_hash_table_lookup(seen->nodes, node))));
}

/* The callbacks add up to what the tree has. */
static void check_nodes(const struct seen *seen, const struct stack_node *n)
{
    for (; n; n = n->next) {
        g_assert_cmpuint(GPOINTER_TO_SIZE(g_hash_table_lookup(seen->nodes, n)),
                         ==, n->records);
        check_nodes(seen, n->child);
    }
}

static uint64_t sum_roots(const struct call_tree *t)
{
    g_autofree struct call_sum *sums = call_tree_sums(t);
    const struct stack_node *n;
    uint64_t all = 0;

    for (n = stacks_roots(t->stacks); n; n = n->next) {
        g_assert_null(n->function);
        all += sums[n->id].records;
    }
    return all;
}

static uint64_t count(const struct cli_trace *t)
{
    struct btrail_stream_info info;
    uint64_t records = 0;
    unsigned i;

    for (i = 0; !btrail_trace_stream(t->trace, i, &info); i++) {
        records += info.records;
    }
    return records;
}

static void check(const struct cli_trace *t, const char *filter,
                  uint64_t *chosen)
{
    static const struct call_tree_ops ops = { moved, spent };
    const struct symbolizer_options none = { NULL };
    struct symbolizer *s = symbolizer_new(&none, NULL, NULL);
    struct seen seen = { .nodes = g_hash_table_new(NULL, NULL) };
    struct filter *f = filter ? filter_parse(filter, NULL) : NULL;
    const struct call_tree_options options = {
        .names = s, .filter = f, .window = WINDOW_ALL(t->start), .ops = &ops,
        .opaque = &seen,
    };
    struct call_tree tree;

    g_assert_cmpint(call_tree_read(&tree, t->trace, &options), ==, 0);
    g_assert_cmpuint(tree.records, ==, count(t));
    *chosen = sum_roots(&tree);
    if (!filter) {
        g_assert_cmpuint(*chosen, ==, tree.records);
    }
    g_assert_cmpuint(seen.spent, ==, *chosen);
    check_nodes(&seen, stacks_roots(tree.stacks));
    g_hash_table_unref(seen.nodes);
    call_tree_clear(&tree);
    filter_free(f);
    symbolizer_free(s);
}

static void test_random(void)
{
    unsigned round;

    for (round = 0; round < 8; round++) {
        struct random_trace *random = random_trace_new(1 + round % 3, 40);
        char *paths[] = { random->path, NULL };
        uint64_t all, some, others;
        struct cli_trace t;

        g_assert_true(cli_trace_open(&t, paths));
        check(&t, NULL, &all);
        check(&t, "index < 50 || from < 0x8", &some);
        check(&t, "!(index < 50 || from < 0x8)", &others);
        g_assert_cmpuint(some + others, ==, all);
        check(&t, "cpu == 99", &some);
        g_assert_cmpuint(some, ==, 0);
        cli_trace_close(&t);
        random_trace_free(random);
    }
}

/* A trace with a clock every millisecond: @CHUNKS of them on two vCPUs */
static void test_time(void)
{
    enum { CHUNKS = 10 };
    char *path = sample_path(), *paths[] = { path, NULL };
    const struct symbolizer_options none = { NULL };
    struct symbolizer *s = symbolizer_new(&none, NULL, NULL);
    struct call_tree_options options = { .names = s };
    struct call_tree tree;
    struct cli_trace t;
    const struct stack_node *n;
    uint64_t ticks = 0;

    sample_write(path, CHUNKS);
    g_assert_true(cli_trace_open(&t, paths));
    options.window = WINDOW_ALL(t.start);
    options.tick = t.tick;
    g_assert_cmpint(call_tree_read(&tree, t.trace, &options), ==, 0);
    {
        g_autofree struct call_sum *sums = call_tree_sums(&tree);

        for (n = stacks_roots(tree.stacks); n; n = n->next) {
            ticks += sums[n->id].ticks;
        }
    }
    g_assert_cmpuint(ticks / STACK_TICKS, >=, 2 * CHUNKS * 999000);
    g_assert_cmpuint(ticks / STACK_TICKS, <=, 2 * CHUNKS * 1001000);
    call_tree_clear(&tree);
    /* A window of it */
    options.window = (struct window) { t.start, 3000000, 5000000 };
    g_assert_cmpint(call_tree_read(&tree, t.trace, &options), ==, 0);
    g_assert_cmpuint(tree.records, ==, 2 * 2 * SAMPLE_CHUNK_RECORDS);
    call_tree_clear(&tree);
    cli_trace_close(&t);
    symbolizer_free(s);
    sample_remove(path);
}

/* Each record is another edge; those before are forgotten again and again. */
static void test_edges(void)
{
    enum { RECORDS = 200000 };
    char *path = sample_path(), *paths[] = { path, NULL };
    g_autofree struct btrail_record *records = g_new0(struct btrail_record,
                                                      RECORDS);
    const struct symbolizer_options none = { NULL };
    struct symbolizer *s = symbolizer_new(&none, NULL, NULL);
    const struct btrail_slab slab = {
        .cr3 = 0x1000, .records = records, .n_records = RECORDS,
    };
    struct call_tree_options options = { .names = s };
    struct btrail_writer *w;
    struct call_tree tree;
    struct cli_trace t;

    for (unsigned i = 0; i < RECORDS; i++) {
        records[i].from = 0x1000 + 16 * i;
        records[i].to = records[i].from + 8;
    }
    g_assert_cmpint(btrail_writer_open(&w, path, BTRAIL_WRITER_REPLACE), ==, 0);
    g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_true(cli_trace_open(&t, paths));
    options.window = WINDOW_ALL(t.start);
    /* Two threads must not wait for each other. */
    alarm(60);
    for (options.many_edges = 1; options.many_edges < 2 * RECORDS;
         options.many_edges *= 7) {
        g_assert_cmpint(call_tree_read(&tree, t.trace, &options), ==, 0);
        g_assert_cmpuint(tree.records, ==, RECORDS);
        g_assert_cmpuint(sum_roots(&tree), ==, RECORDS);
        call_tree_clear(&tree);
    }
    alarm(0);
    cli_trace_close(&t);
    symbolizer_free(s);
    sample_remove(path);
}

/*
 * A kernel calls and returns, and then another one runs.  All of it is one
 * batch, and is filtered in pieces: the last record of each goes nowhere else.
 */
static void test_leaves(void)
{
    enum { PAIRS = 4000, F = 0, G = 0x100, CALL = 0x10, BACK = 0x15 };
    const uint64_t kernel = UINT64_C(0xffffffff81000000);
    char *path = sample_path(), *paths[] = { path, NULL };
    g_autofree char *map = g_strdup_printf("%s.map", path);
    g_autofree char *text = g_strdup_printf(
        "%" G_GINT64_MODIFIER "x T f\n%" G_GINT64_MODIFIER "x T g\n",
        kernel + F, kernel + G);
    g_autofree struct btrail_record *records =
        g_new0(struct btrail_record, 2 * PAIRS + 1);
    struct btrail_event events[] = {
        { .type = BTRAIL_EVENT_KERNEL, .data = { 1 } },
        { .type = BTRAIL_EVENT_KERNEL, .index = 2 * PAIRS + 1, .data = { 2 } },
    };
    const struct btrail_slab slab = {
        .cr3 = 0x1000, .records = records, .n_records = 2 * PAIRS + 1,
        .events = events, .n_events = G_N_ELEMENTS(events),
    };
    const struct symbolizer_options options = { .map = map };
    struct filter *filter = filter_parse("index >= 0", NULL);
    const struct stack_counts *counts;
    struct symbolizer *s;
    struct btrail_writer *w;
    struct call_tree tree;
    struct cli_trace t;

    for (unsigned i = 0; i < PAIRS; i++) {
        records[2 * i].from = kernel + F + CALL;
        records[2 * i].to = kernel + G;
        records[2 * i + 1].from = kernel + G + CALL;
        records[2 * i + 1].to = kernel + F + BACK;
    }
    /* It would be one more call. */
    records[2 * PAIRS] = records[0];
    g_assert_true(g_file_set_contents(map, text, -1, NULL));
    g_assert_cmpint(btrail_writer_open(&w, path, BTRAIL_WRITER_REPLACE), ==, 0);
    g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_true(cli_trace_open(&t, paths));
    s = symbolizer_new(&options, t.trace, NULL);
    g_assert_nonnull(s);
    for (unsigned i = 0; i < 2; i++) {
        const struct call_tree_options read = {
            .names = s, .filter = i ? filter : NULL,
            .window = WINDOW_ALL(t.start),
        };

        g_assert_cmpint(call_tree_read(&tree, t.trace, &read), ==, 0);
        counts = stacks_counts(tree.stacks);
        g_assert_cmpuint(counts->calls, ==, PAIRS);
        g_assert_cmpuint(counts->returns, ==, PAIRS);
        g_assert_cmpuint(counts->astray, ==, 0);
        call_tree_clear(&tree);
    }
    filter_free(filter);
    symbolizer_free(s);
    cli_trace_close(&t);
    sample_remove(path);
}

/* In a window, who was called before it has the callers that it has in all. */
static void test_window(void)
{
    enum { EACH = 1000, RECORDS = 3 * EACH, F = 0, G = 0x100 };
    const uint64_t kernel = UINT64_C(0xffffffff81000000), start = 1000000000;
    char *path = sample_path(), *paths[] = { path, NULL };
    g_autofree char *map = g_strdup_printf("%s.map", path);
    g_autofree char *text = g_strdup_printf(
        "%" G_GINT64_MODIFIER "x T f\n%" G_GINT64_MODIFIER "x T g\n",
        kernel + F, kernel + G);
    struct btrail_record records[RECORDS];
    const struct symbolizer_options options = { .map = map };
    struct call_tree_options read = { 0 };
    const struct stack_node *g;
    struct btrail_writer *w;
    struct call_tree tree;
    struct cli_trace t;

    for (unsigned i = 0; i < RECORDS; i++) {
        records[i] = i ? (struct btrail_record) {
            .from = kernel + G + 8, .to = kernel + G + 4,
        } : (struct btrail_record) { .from = kernel + 8, .to = kernel + G };
    }
    g_assert_true(g_file_set_contents(map, text, -1, NULL));
    g_assert_cmpint(btrail_writer_open(&w, path, BTRAIL_WRITER_REPLACE), ==, 0);
    for (unsigned i = 0; i < 3; i++) {
        const struct btrail_event event = {
            .type = BTRAIL_EVENT_TIME, .index = i * EACH,
            .data = { start + i * 1000000, i, BTRAIL_NO_ICOUNT },
        };
        const struct btrail_slab slab = {
            .cr3 = 0x1000, .first_index = i * EACH, .n_records = EACH,
            .records = records + i * EACH, .events = &event, .n_events = 1,
        };

        g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
        g_assert_cmpint(btrail_writer_flush(w), ==, 0);
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_true(cli_trace_open(&t, paths));
    read.names = symbolizer_new(&options, t.trace, NULL);
    read.window = (struct window) { start, 1000000, 2000000 };
    g_assert_cmpint(call_tree_read(&tree, t.trace, &read), ==, 0);
    g = stacks_where(tree.stacks, 0);
    g_assert_cmpstr(g->function->name, ==, "g");
    g_assert_cmpuint(g->records, ==, EACH);
    g_assert_cmpuint(g->calls, ==, 0);
    g_assert_nonnull(g->parent->function);
    g_assert_cmpstr(g->parent->function->name, ==, "f");
    g_assert_cmpuint(g->parent->records, ==, 0);
    g_assert_cmpuint(tree.records, ==, EACH);
    g_assert_cmpuint(tree.chosen, ==, EACH);
    g_assert_cmpuint(stacks_counts(tree.stacks)->calls, ==, 0);
    call_tree_clear(&tree);
    symbolizer_free(read.names);
    cli_trace_close(&t);
    sample_remove(path);
}

/*
 * Records of a vCPU, 100 us each from a time on.  In the text, each is a task
 * that begins to run there, "-" the idle one, or "." none.
 */
static void append_tasks(struct btrail_writer *w, unsigned vcpu,
                         uint64_t *index, unsigned us, const char *text)
{
    static const struct btrail_record loop = {
        UINT64_C(0xffffffff81000008), UINT64_C(0xffffffff81000004), 0
    };
    const unsigned n = strlen(text);
    struct btrail_record records[80];
    struct btrail_event events[82] = {
        { .index = *index, .type = BTRAIL_EVENT_TIME,
          .data = { us * 1000, 0, BTRAIL_NO_ICOUNT } },
    };
    struct btrail_slab slab = {
        .first_index = *index, .cr3 = 0x1000, .records = records,
        .n_records = n, .events = events, .n_events = 1,
    };

    for (unsigned i = 0; i < n; i++) {
        uint64_t tid = text[i] == '-' ? 0 : text[i];

        records[i] = loop;
        if (text[i] != '.') {
            events[slab.n_events++] = (struct btrail_event) {
                .index = *index + i, .type = BTRAIL_EVENT_TASK,
                .data = { tid << 32 | tid, 'x' },
            };
        }
    }
    *index += n;
    events[slab.n_events++] = (struct btrail_event) {
        .index = *index, .type = BTRAIL_EVENT_TIME,
        .data = { (us + n * 100) * 1000, 0, BTRAIL_NO_ICOUNT },
    };
    g_assert_cmpint(btrail_writer_append(w, vcpu, &slab), ==, 0);
}

/* Tasks that run on another vCPU before the one that they have left makes
 * records of another task */
static const struct {
    struct {
        unsigned vcpu;
        unsigned us;
        const char *text;
    } slabs[10];
    unsigned times;             /* that task a was away */
    unsigned us;
} moves[] = {
    /* It leaves before it begins, for 200 us. */
    { { { 0, 1000, "a..-......" }, { 1, 1000, "-....a...." },
        { 1, 2000, "a........." } }, 1, 200 },
    /* By estimated times, it begins before it has left. */
    { { { 0, 1000, "a......-.." }, { 1, 1000, "-....a...." },
        { 1, 2000, "a........." } }, 0, 0 },
    /* The vCPU that it has left makes records much later, */
    { { { 0, 1000, "a.." }, { 0, 5000, "-........." },
        { 1, 1000, "-....a...." }, { 1, 2000, "a........." },
        { 1, 4800, "a........." } }, 1, 200 },
    /* when the task has left the other one, and is back; */
    { { { 0, 1000, "a.." }, { 0, 5000, "-........." },
        { 1, 1000, "-....a...." }, { 1, 2000, "a....-...." },
        { 1, 3000, "a........." }, { 1, 4800, "a........." } }, 2, 700 },
    /* or is away until later. */
    { { { 0, 1000, "a.." }, { 0, 5000, "-........." },
        { 1, 1000, "-....a...." }, { 1, 2000, "a....-...." },
        { 1, 6000, "a........." } }, 2, 3700 },
    /* A third vCPU has it then. */
    { { { 0, 1000, "a.." }, { 0, 5000, "-........." },
        { 1, 1000, "-....a...." }, { 1, 2000, "a....-...." },
        { 2, 3000, "a........." }, { 2, 4800, "a........." } }, 2, 700 },
    /* The vCPU that it has left has it again. */
    { { { 0, 1000, "a.." }, { 0, 5000, "a........." },
        { 1, 1000, "-....a...." }, { 1, 2000, "a....-...." } }, 2, 2700 },
};

static void check_moves(unsigned i, bool reverse)
{
    const uint64_t kernel = UINT64_C(0xffffffff81000000);
    char *path = sample_path(), *paths[] = { path, NULL };
    g_autofree char *map = g_strdup_printf("%s.map", path);
    g_autofree char *text = g_strdup_printf("%" G_GINT64_MODIFIER "x T f\n",
                                            kernel);
    const struct symbolizer_options options = { .map = map };
    struct call_tree_options read = { .off_cpu = true };
    uint64_t index[3] = { 0 }, ticks = 0, times = 0;
    const struct off_cpu_sum *sum;
    struct btrail_writer *w;
    struct symbolizer *s;
    struct call_tree tree;
    struct cli_trace t;

    g_assert_true(g_file_set_contents(map, text, -1, NULL));
    g_assert_cmpint(btrail_writer_open(&w, path, BTRAIL_WRITER_REPLACE), ==, 0);
    for (unsigned k = 0; k < 10 && moves[i].slabs[k].text; k++) {
        unsigned vcpu = moves[i].slabs[k].vcpu;

        append_tasks(w, reverse ? 2 - vcpu : vcpu, &index[vcpu],
                     moves[i].slabs[k].us, moves[i].slabs[k].text);
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_true(cli_trace_open(&t, paths));
    s = symbolizer_new(&options, t.trace, NULL);
    g_assert_nonnull(s);
    read.names = s;
    read.window = (struct window)WINDOW_ALL(t.start);
    g_assert_cmpint(call_tree_read(&tree, t.trace, &read), ==, 0);
    for (unsigned k = 0; (sum = off_cpu_sums_get(tree.away, k)); k++) {
        times += sum->times;
        ticks += sum->ticks;
    }
    g_test_message("move %u, %d", i, reverse);
    g_assert_cmpuint(times, ==, moves[i].times);
    g_assert_cmpuint(ticks, ==, moves[i].us * 1000 * STACK_TICKS);
    call_tree_clear(&tree);
    symbolizer_free(s);
    cli_trace_close(&t);
    sample_remove(path);
}

/* How long a task is away that is seen in another order than it has moved */
static void test_moves(void)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(moves); i++) {
        check_moves(i, false);
        check_moves(i, true);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/call-tree/random", test_random);
    g_test_add_func("/call-tree/time", test_time);
    g_test_add_func("/call-tree/edges", test_edges);
    g_test_add_func("/call-tree/leaves", test_leaves);
    g_test_add_func("/call-tree/window", test_window);
    g_test_add_func("/call-tree/moves", test_moves);
    return g_test_run();
}
