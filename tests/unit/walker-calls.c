/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Walkers in the records of a real program: where calls have begun and ended,
 * by the program's stack pointer
 *
 * usage: walker-calls SAMPLE
 */

#include <stdlib.h>

#include "gdb/walker.h"
#include "scratch.h"
#include "stepped.h"
#include "symbolize/stack-edge.h"

/* What is pushed on one stack is closer together than two stacks. */
#define NEAR    16384

/* Places of each kind that are looked at */
#define PLACES  (g_test_slow() ? 400u : 40u)

static char *folder;

/**
 * struct call
 * @pointer: to what it returns to
 * @first:   record that has called, or where a handler's signal came
 * @handler: it ends when the kernel continues what it has interrupted
 * @returned: record where the handler has returned; 0: it has not
 * @last:    record that has ended it; 0: none
 */
struct call {
    uint64_t pointer;
    unsigned first;
    bool handler;
    unsigned returned;
    unsigned last;
};

/* One of the program's stacks; @calls: numbers of those that have not ended */
struct region {
    uint64_t pointer;
    GArray *calls;
};

/**
 * struct truth - by the stack pointer
 * @calls: of struct call, from 1 on
 * @in:    of each record, in which call it leads
 * @ended: of each record, the first one of the calls that it has ended
 */
struct truth {
    struct stepped run;
    GArray *calls;
    GArray *in;
    GArray *ended;
    GArray *regions;
};

static struct call *call_at(const struct truth *t, unsigned i)
{
    return &g_array_index(t->calls, struct call, i);
}

static struct region *region_of(struct truth *t, uint64_t pointer)
{
    struct region fresh = { pointer, NULL };

    for (unsigned i = 0; i < t->regions->len; i++) {
        struct region *r = &g_array_index(t->regions, struct region, i);

        if (pointer + NEAR > r->pointer && pointer < r->pointer + NEAR) {
            r->pointer = pointer;
            return r;
        }
    }
    fresh.calls = g_array_new(FALSE, FALSE, sizeof(unsigned));
    g_array_append_val(t->regions, fresh);
    return &g_array_index(t->regions, struct region, t->regions->len - 1);
}

static unsigned last_of(const struct region *r)
{
    return r->calls->len ? g_array_index(r->calls, unsigned,
                                         r->calls->len - 1) : 0;
}

/* Ends calls whose return address is no longer on the stack. */
static unsigned end_calls(struct truth *t, const struct region *r, unsigned i)
{
    unsigned ended = 0;

    for (unsigned n; (n = last_of(r)); ) {
        struct call *c = call_at(t, n);

        if (c->handler && !c->returned && r->pointer > c->pointer) {
            c->returned = i;
        }
        if (r->pointer <= c->pointer + (c->handler ? 8 : 0)) {
            break;
        }
        c->last = i;
        ended = n;
        g_array_set_size(r->calls, r->calls->len - 1);
    }
    return ended;
}

static void follow(struct truth *t, unsigned i)
{
    const struct stepped_stack *s = &g_array_index(t->run.stack,
                                                   struct stepped_stack, i);
    unsigned in = 0, ended = 0;

    if (s->pointer) {
        const struct region *r = region_of(t, s->pointer);

        ended = end_calls(t, r, i);
        if (s->calls || s->handler) {
            const struct call c = {
                s->pointer, i - s->handler, s->handler, 0, 0,
            };

            in = t->calls->len;
            g_array_append_val(t->calls, c);
            g_array_append_val(r->calls, in);
        }
        in = last_of(r);
    }
    g_array_append_val(t->in, in);
    g_array_append_val(t->ended, ended);
}

static unsigned in_at(const struct truth *t, unsigned i)
{
    return g_array_index(t->in, unsigned, i);
}

static unsigned ended_at(const struct truth *t, unsigned i)
{
    return g_array_index(t->ended, unsigned, i);
}

static void find_truth(struct truth *t)
{
    t->calls = g_array_new(FALSE, TRUE, sizeof(struct call));
    g_array_set_size(t->calls, 1);
    t->in = g_array_new(FALSE, FALSE, sizeof(unsigned));
    t->ended = g_array_new(FALSE, FALSE, sizeof(unsigned));
    t->regions = g_array_new(FALSE, FALSE, sizeof(struct region));
    for (unsigned i = 0; i < t->run.records->len; i++) {
        follow(t, i);
    }
}

static void truth_free(struct truth *t)
{
    for (unsigned i = 0; t->regions && i < t->regions->len; i++) {
        g_array_unref(g_array_index(t->regions, struct region, i).calls);
    }
    g_clear_pointer(&t->regions, g_array_unref);
    g_clear_pointer(&t->calls, g_array_unref);
    g_clear_pointer(&t->in, g_array_unref);
    g_clear_pointer(&t->ended, g_array_unref);
    stepped_free(&t->run);
}

/* From record @from on */
static void write_trace(const struct truth *t, unsigned from, const char *path)
{
    struct btrail_event event = {
        .type = BTRAIL_EVENT_CR3, .data = { STEPPED_CR3 },
    };
    const struct btrail_slab slab = {
        .records = (struct btrail_record *)t->run.records->data + from,
        .n_records = t->run.records->len - from, .events = &event, .n_events = 1,
    };
    struct btrail_writer *w;

    g_assert_cmpint(btrail_writer_open(&w, path, BTRAIL_WRITER_REPLACE), ==,
                    0);
    g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
}

static bool always(void *opaque)
{
    return true;
}

struct walk {
    const struct truth *truth;
    struct btrail_trace *trace;
    struct symbolizer *names;
    struct walker *walker;
    struct stack_edges *edges;
};

static const struct walker_stops stops = { NULL, 0, always, NULL };

static bool go(const struct walk *w, unsigned i)
{
    const struct walker_spot spot = { { 0, i }, 0 };

    return walker_go(w->walker, &spot) &&
           walker_record(w->walker)->at.index == i;
}

/* Is it before the branch of a record? */
static void require_before(const struct walk *w, unsigned i)
{
    const struct lane_record *next = walker_next_record(w->walker);

    g_assert_nonnull(next);
    g_assert_cmpuint(next->at.index, ==, i);
    g_assert_cmphex(walker_pc(w->walker), ==, next->record.from);
}

static void check_caller(const struct walk *w, unsigned i)
{
    unsigned in = in_at(w->truth, i);

    /* Before the first record, nothing is known. */
    if (in && call_at(w->truth, in)->first && go(w, i)) {
        g_assert_cmpint(walker_caller(w->walker, w->edges, UINT64_MAX, &stops),
                        ==, WALKER_CALLER);
        require_before(w, call_at(w->truth, in)->first);
    }
}

static void check_return(const struct walk *w, unsigned i)
{
    const struct call *c = call_at(w->truth, in_at(w->truth, i));
    unsigned end = c->returned > i ? c->returned : c->last;

    if (in_at(w->truth, i) && go(w, i)) {
        enum walker_way way = walker_return(w->walker, w->edges, UINT64_MAX,
                                            &stops);

        g_assert_cmpint(way, ==, end ? WALKER_CALLER : WALKER_NOWHERE);
        g_assert_cmpuint(walker_record(w->walker)->at.index, ==, end ?: i);
    }
}

static void check_over(const struct walk *w, unsigned i)
{
    unsigned ended = ended_at(w->truth, i);

    if (ended && go(w, i)) {
        g_assert_cmpint(walker_way_back(w->walker, w->edges, true, UINT64_MAX,
                                        &stops), ==, WALKER_SAME);
        require_before(w, call_at(w->truth, ended)->first);
    }
}

/* Some of a list of records, as many as PLACES, from all of its parts */
static unsigned some_of(const GArray *all, unsigned i)
{
    return g_array_index(all, unsigned,
                         all->len <= PLACES ? i : i * all->len / PLACES);
}

/* Which records to look at: some, in an order that is not that of the trace */
static void check_some(const struct walk *w,
                       void (*check)(const struct walk *, unsigned))
{
    g_autoptr(GArray) ends = g_array_new(FALSE, FALSE, sizeof(unsigned));
    unsigned n = w->truth->run.records->len;

    for (unsigned i = 0; i < PLACES; i++) {
        check(w, g_test_rand_int_range(0, n));
    }
    /* Calls that have ended together are what this is about. */
    for (unsigned i = 1; i < n; i++) {
        unsigned ended = ended_at(w->truth, i), before = i - 1;

        if (ended && in_at(w->truth, call_at(w->truth, ended)->first) !=
                     in_at(w->truth, i) && i + 1 < n) {
            g_array_append_val(ends, before);
        }
        if ((ended && call_at(w->truth, ended)->handler) ||
            g_array_index(w->truth->run.stack, struct stepped_stack,
                          i).handler) {
            g_array_append_val(ends, i);
        }
    }
    for (unsigned i = 0; i < MIN(ends->len, PLACES); i++) {
        check(w, some_of(ends, i));
    }
}

/* A walk through a trace that begins at a record */
static void begin_walk(struct walk *w, const struct truth *t, unsigned from)
{
    g_autofree char *path = g_build_filename(folder, "trace", NULL);

    write_trace(t, from, path);
    w->truth = t;
    g_assert_cmpint(btrail_trace_open(&w->trace, path), ==, 0);
    w->names = stepped_names(&t->run, w->trace);
    w->walker = walker_new(w->trace, w->names,
                           lane_new_vcpu(w->trace, w->names, 0));
    w->edges = stack_edges_new(w->names, 0);
}

static void end_walk(struct walk *w)
{
    walker_free(w->walker);
    stack_edges_free(w->edges);
    symbolizer_free(w->names);
    btrail_trace_close(w->trace);
}

/* Where an interrupt comes to */
#define HANDLER "asm_sysvec_apic_timer_interrupt"
#define HANDLER_AT  (STEPPED_KERNEL + 0x1000)

static bool is_branch_of(const struct stepped *run, unsigned i)
{
    const struct btrail_record *r = &g_array_index(run->records,
                                                   struct btrail_record, i);

    return r->from < STEPPED_KERNEL && r->to < STEPPED_KERNEL;
}

/* After each branch of the program an interrupt comes at once. */
static void interrupt(struct stepped *run)
{
    GArray *records = g_array_new(FALSE, FALSE, sizeof(struct btrail_record));
    GArray *stack = g_array_new(FALSE, FALSE, sizeof(struct stepped_stack));
    g_autofree char *map = NULL, *text = NULL;

    for (unsigned i = 0; i < run->records->len; i++) {
        const struct btrail_record *r = &g_array_index(run->records,
                                                       struct btrail_record, i);
        struct stepped_stack s = g_array_index(run->stack,
                                               struct stepped_stack, i);
        const struct btrail_record in[] = {
            { r->to, HANDLER_AT, 0 }, { HANDLER_AT + 8, r->to, 0 },
        };
        const struct stepped_stack then[] = {
            { 0 }, { .pointer = s.pointer },
        };

        g_array_append_val(records, *r);
        g_array_append_val(stack, s);
        if (is_branch_of(run, i)) {
            g_array_append_vals(records, in, 2);
            g_array_append_vals(stack, then, 2);
        }
    }
    g_array_unref(run->records);
    g_array_unref(run->stack);
    run->records = records;
    run->stack = stack;
    g_assert_true(g_file_get_contents(run->map, &text, NULL, NULL));
    map = g_strdup_printf("%" G_GINT64_MODIFIER "x T " HANDLER "\n%s",
                          HANDLER_AT, text);
    g_assert_true(g_file_set_contents(run->map, map, -1, NULL));
}

/*
 * Over the call that record @i has ended, which was interrupted as it began and
 * as it had returned
 */
static void check_interrupted(const struct walk *w, unsigned i)
{
    unsigned ended = ended_at(w->truth, i);
    const struct call *c = call_at(w->truth, ended);
    const struct walker_spot before = { { 0, c->first - 1 }, UINT_MAX };

    if (!ended || c->handler || !c->first || !is_branch_of(&w->truth->run, i) ||
        i + 3 >= w->truth->run.records->len) {
        return;
    }
    /* After the return are the interrupt and its end. */
    g_assert_true(go(w, i + 2));
    g_assert_cmpint(walker_way_back(w->walker, w->edges, true, UINT64_MAX,
                                    &stops), ==, WALKER_SAME);
    require_before(w, c->first);
    g_assert_true(walker_go(w->walker, &before));
    require_before(w, c->first);
    g_assert_cmpint(walker_way_on(w->walker, w->edges, true, UINT64_MAX,
                                  &stops), ==, WALKER_SAME);
    g_assert_cmpuint(walker_record(w->walker)->at.index, ==, i + 2);
}

static bool run(struct truth *t, const char *sample, const char *what)
{
    if (!stepped_run(&t->run, folder, sample, what)) {
        g_test_skip("programs cannot be traced here");
        truth_free(t);
        return false;
    }
    find_truth(t);
    return true;
}

static void check_sample(const char *sample, const char *what)
{
    struct truth t = { .calls = NULL };
    struct walk w;

    if (run(&t, sample, what)) {
        begin_walk(&w, &t, 0);
        check_some(&w, check_caller);
        check_some(&w, check_return);
        check_some(&w, check_over);
        end_walk(&w);
        truth_free(&t);
    }
}

/* What was called before the trace begins is not gone over, nor into. */
static void test_cut(gconstpointer sample)
{
    struct truth t = { .calls = NULL };
    g_autoptr(GArray) ends = g_array_new(FALSE, FALSE, sizeof(unsigned));
    unsigned from = 0, longest = 0, unknown = 0;
    struct walk w;

    if (!run(&t, sample, "recursion")) {
        return;
    }
    for (unsigned i = 0; i < t.run.records->len; i++) {
        unsigned ended = ended_at(&t, i);
        unsigned first = ended ? call_at(&t, ended)->first : i;

        if (i - first > longest) {
            longest = i - first;
            from = first + 1;
        }
    }
    begin_walk(&w, &t, from);
    for (unsigned i = from + 1; i < t.run.records->len; i++) {
        unsigned ended = ended_at(&t, i);

        if (ended && call_at(&t, ended)->first < from) {
            g_array_append_val(ends, i);
        }
    }
    for (unsigned k = 0; k < MIN(ends->len, PLACES); k++) {
        unsigned i = some_of(ends, k);

        if (go(&w, i - from)) {
            enum walker_way way = walker_way_back(w.walker, w.edges, true,
                                                  UINT64_MAX, &stops);

            g_assert_cmpint(way, ==, WALKER_NOWHERE);
            g_assert_cmpuint(walker_record(w.walker)->at.index, ==, i - from);
            unknown++;
        }
    }
    g_assert_cmpuint(unknown, >, 0);
    end_walk(&w);
    truth_free(&t);
}

/* Interrupts come where it is not seen that a function has begun or ended. */
static void test_interrupted(gconstpointer sample)
{
    static const char *const programs[] = { "recursion", "longjmp", "stacks" };

    for (unsigned k = 0; k < G_N_ELEMENTS(programs); k++) {
        struct truth t = { .calls = NULL };
        struct walk w;
        unsigned n = 0;

        if (!stepped_run(&t.run, folder, sample, programs[k])) {
            g_test_skip("programs cannot be traced here");
            truth_free(&t);
            return;
        }
        interrupt(&t.run);
        find_truth(&t);
        begin_walk(&w, &t, 0);
        check_some(&w, check_interrupted);
        for (unsigned i = 0; i < t.run.records->len && n < PLACES; i++) {
            n += ended_at(&t, i) > 0;
            check_interrupted(&w, i);
        }
        g_assert_cmpuint(n, ==, PLACES);
        end_walk(&w);
        truth_free(&t);
    }
}

static void test_recursion(gconstpointer sample)
{
    check_sample(sample, "recursion");
}

static void test_longjmp(gconstpointer sample)
{
    check_sample(sample, "longjmp");
}

static void test_signals(gconstpointer sample)
{
    check_sample(sample, "signals");
}

static void test_tail(gconstpointer sample)
{
    check_sample(sample, "tail");
}

static void test_stacks(gconstpointer sample)
{
    check_sample(sample, "stacks");
}

static void test_pointers(gconstpointer sample)
{
    check_sample(sample, "pointers");
}

int main(int argc, char **argv)
{
    int ret;

    g_test_init(&argc, &argv, NULL);
    g_assert_cmpint(argc, ==, 2);
    folder = scratch_new();
    g_test_add_data_func("/walker-calls/recursion", argv[1], test_recursion);
    g_test_add_data_func("/walker-calls/longjmp", argv[1], test_longjmp);
    g_test_add_data_func("/walker-calls/signals", argv[1], test_signals);
    g_test_add_data_func("/walker-calls/tail", argv[1], test_tail);
    g_test_add_data_func("/walker-calls/stacks", argv[1], test_stacks);
    g_test_add_data_func("/walker-calls/pointers", argv[1], test_pointers);
    g_test_add_data_func("/walker-calls/cut", argv[1], test_cut);
    g_test_add_data_func("/walker-calls/interrupted", argv[1],
                         test_interrupted);
    ret = g_test_run();
    scratch_remove(folder);
    return ret;
}
