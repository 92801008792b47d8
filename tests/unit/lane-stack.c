/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The call stack along a lane: random calls of tasks that take turns on several
 * vCPUs, against lists of the calls of each
 */

#include <string.h>

#include "code-samples.h"
#include "gdb/lane-stack.h"
#include "trace-samples.h"

#define VCPUS       2u
#define TASKS       2u
#define FUNCTIONS   6u
#define DEPTH       24u
#define TURNS       1500u
#define LONGEST     40u
#define CR3         0x5000u

/**
 * struct made - a record of the lane, as it was made
 * @calls: it calls; or else, it returns
 * @at:   where it is in the lane
 * @lost: what was before it is not known
 * @missing: so many records of its run before it are missing
 */
struct made {
    bool calls;
    struct lane_at at;
    bool lost;
    uint64_t missing;
};

struct frame {
    unsigned function;
    uint64_t from;              /* where its caller has called it */
};

struct task_calls {
    struct frame frames[DEPTH];
    unsigned n;
};

/**
 * struct scene
 * @host: of the last TIME event of each vCPU
 * @made: of struct made: the records of task 0
 * @runs: its runs
 */
struct scene {
    struct task_calls tasks[TASKS];
    uint64_t next[VCPUS];
    uint64_t clock;
    uint64_t host[VCPUS];
    GArray *made;
    GArray *runs;
    char *path;
    struct btrail_trace *trace;
    struct symbolizer *symbols;
    struct stack_edges *edges;
    struct lane *lane;
    struct lane_stack *stack;
};

/* Returns whether it is a call; otherwise it is a return. */
static bool make_record(struct task_calls *t, struct btrail_record *r)
{
    const struct frame *f = &t->frames[t->n - 1];

    if (t->n == 1 || (t->n < DEPTH && g_test_rand_bit())) {
        unsigned callee = g_test_rand_int_range(1, FUNCTIONS);

        r->from = sample_function(f->function) +
                  16u * (uint64_t)g_test_rand_int_range(1, SAMPLE_CALLS + 1);
        r->to = sample_function(callee);
        t->frames[t->n++] = (struct frame) { callee, r->from };
        return true;
    }
    r->from = sample_function(f->function) + SAMPLE_RET;
    r->to = f->from + 2;
    t->n--;
    return false;
}

/* A record of the lane, in the run of the one before it if that goes on, also
 * where some of its vCPU are missing in between */
static void add_made(struct scene *s, unsigned vcpu, uint64_t index,
                     bool calls, bool lost, uint64_t missing)
{
    struct lane_run *run = s->runs->len ?
        &g_array_index(s->runs, struct lane_run, s->runs->len - 1) : NULL;
    struct made m = { .calls = calls, .lost = lost };

    if (!run || run->vcpu != vcpu || run->end + missing != index) {
        const struct lane_run new = {
            .vcpu = vcpu, .begin = index, .end = index,
            .time = { s->host[vcpu], 0, BTRAIL_NO_ICOUNT },
        };

        g_array_append_val(s->runs, new);
        run = &g_array_index(s->runs, struct lane_run, s->runs->len - 1);
    }
    m.missing = index - run->end;
    run->end = index + 1;
    m.at = (struct lane_at) { s->runs->len - 1, index };
    g_array_append_val(s->made, m);
}

static void take_turn(struct scene *s, struct btrail_writer *w, bool gaps)
{
    unsigned vcpu = g_test_rand_int_range(0, VCPUS);
    unsigned task = g_test_rand_int_range(0, TASKS);
    bool gap = gaps && !g_test_rand_int_range(0, 60);
    uint64_t lost = gap && g_test_rand_bit() ? 7 : 0;
    struct btrail_record records[LONGEST] = { { 0 } };
    struct btrail_event events[3];
    struct btrail_slab slab = {
        .cr3 = CR3, .records = records, .events = events,
        .n_records = g_test_rand_int_range(1, LONGEST + 1),
    };

    s->clock += 1000;
    slab.first_index = s->next[vcpu] += lost;
    if (gap) {
        events[slab.n_events++] = (struct btrail_event) {
            .index = slab.first_index, .type = BTRAIL_EVENT_GAP,
            .reason = lost ? BTRAIL_GAP_OVERFLOW : BTRAIL_GAP_RESET,
            .data = { lost },
        };
    }
    if (!s->host[vcpu] || g_test_rand_bit()) {
        s->host[vcpu] = s->clock;
        events[slab.n_events++] = (struct btrail_event) {
            .index = slab.first_index, .type = BTRAIL_EVENT_TIME,
            .data = { s->clock, 0, BTRAIL_NO_ICOUNT },
        };
    }
    events[slab.n_events++] = (struct btrail_event) {
        .index = slab.first_index, .type = BTRAIL_EVENT_TASK,
        .data = { (uint64_t)(task + 1) << 32 | (task + 1), 'a' + task },
    };
    for (unsigned i = 0; i < slab.n_records; i++) {
        bool calls = make_record(&s->tasks[task], &records[i]);

        if (!task) {
            add_made(s, vcpu, slab.first_index + i, calls, gap && !i,
                     i ? 0 : lost);
        }
    }
    s->next[vcpu] += slab.n_records;
    g_assert_cmpint(btrail_writer_append(w, vcpu, &slab), ==, 0);
}

/* @many: of edges; 0: as usual */
static void scene_init(struct scene *s, unsigned turns, bool gaps,
                       unsigned many)
{
    static const char meta[] = "{\"tick_ns\": 0, \"privilege\": \"all\"}";
    struct btrail_writer *w;
    GArray *runs;

    memset(s, 0, sizeof(*s));
    s->clock = 1000000;
    s->made = g_array_new(FALSE, FALSE, sizeof(struct made));
    s->runs = g_array_new(FALSE, FALSE, sizeof(struct lane_run));
    for (unsigned i = 0; i < TASKS; i++) {
        s->tasks[i].n = 1;
    }
    s->path = sample_path();
    g_assert_cmpint(btrail_writer_open(&w, s->path, 0), ==, 0);
    g_assert_cmpint(btrail_writer_meta(w, meta, strlen(meta)), ==, 0);
    sample_functions_of(w, CR3, FUNCTIONS, VCPUS);
    for (unsigned i = 0; i < turns || !s->made->len; i++) {
        take_turn(s, w, gaps);
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&s->trace, s->path), ==, 0);
    s->symbols = sample_symbolizer(s->trace, "");
    s->edges = stack_edges_new(s->symbols, many);
    runs = g_array_copy(s->runs);
    s->lane = lane_new(s->trace, s->symbols, runs);
    s->stack = lane_stack_new(s->lane, s->symbols, s->edges);
}

static void scene_clear(struct scene *s)
{
    lane_stack_free(s->stack);
    lane_free(s->lane);
    stack_edges_free(s->edges);
    symbolizer_free(s->symbols);
    btrail_trace_close(s->trace);
    sample_remove(s->path);
    g_array_unref(s->made);
    g_array_unref(s->runs);
}

static const struct made *made_at(const struct scene *s, unsigned i)
{
    return &g_array_index(s->made, struct made, i);
}

static bool is_at(const struct lane_at *a, const struct lane_at *b)
{
    return a->run == b->run && a->index == b->index;
}

static unsigned find(const struct scene *s, const struct lane_at *at)
{
    unsigned i = 0;

    while (!is_at(&made_at(s, i)->at, at)) {
        i++;
        g_assert_cmpuint(i, <, s->made->len);
    }
    return i;
}

/**
 * struct truth - the calls that are known, since record @first
 * @calls: numbers of the records that have called
 * @ended: that of the one that the last record has ended; or -1
 */
struct truth {
    unsigned first;
    unsigned calls[DEPTH];
    unsigned n;
    int ended;
    bool whole;
};

static void follow_truth(const struct scene *s, struct truth *t, unsigned i)
{
    const struct made *m = made_at(s, i);

    t->ended = -1;
    if (m->lost) {
        t->n = 0;
        t->whole = true;
    }
    if (m->calls) {
        t->calls[t->n++] = i;
    } else if (t->n) {
        t->ended = t->calls[--t->n];
    }
}

static struct truth truth_of(const struct scene *s, unsigned first,
                             unsigned last)
{
    struct truth t = { .first = first, .whole = !first };

    for (unsigned i = first; i <= last; i++) {
        follow_truth(s, &t, i);
    }
    return t;
}

/* After a record */
static void check(const struct scene *s, const struct truth *t, unsigned i)
{
    const struct stack_state state = lane_stack_state(s->stack);
    const struct lane_record *last = lane_stack_last(s->stack);
    struct lane_at at;

    if (last) {
        g_assert_true(is_at(&last->at, &made_at(s, i)->at));
        g_assert_cmpint(lane_stack_edge(s->stack)->kind, ==,
                        made_at(s, i)->calls ? STACK_EDGE_CALL :
                        STACK_EDGE_RET);
    }
    g_assert_cmpuint(state.depth, ==, t->n);
    g_assert_cmpint(lane_stack_whole(s->stack), ==, t->whole);
    if (t->n) {
        at = lane_stack_where(s->stack, state.call);
        g_assert_true(is_at(&at, &made_at(s, t->calls[t->n - 1])->at));
    } else {
        g_assert_cmpuint(state.call, ==, 0);
    }
    if (t->ended >= 0) {
        at = lane_stack_where(s->stack, state.ended);
        g_assert_true(is_at(&at, &made_at(s, t->ended)->at));
    } else {
        g_assert_cmpuint(state.ended, ==, 0);
    }
}

/* Follows a record, which is returned. */
static void next(const struct scene *s, struct truth *t, unsigned i)
{
    const struct lane_record *r = lane_stack_next(s->stack);

    g_assert_nonnull(r);
    g_assert_true(r == lane_stack_last(s->stack));
    follow_truth(s, t, i);
    check(s, t, i);
}

/* Begins some records before one; returns the first that is followed. */
static unsigned begin(struct scene *s, unsigned at, uint64_t back)
{
    const struct lane_record *r;
    uint64_t before = 0;
    unsigned first;

    lane_stack_begin(s->stack, &made_at(s, at)->at, back);
    g_assert_null(lane_stack_last(s->stack));
    r = lane_stack_next(s->stack);
    g_assert_nonnull(r);
    first = find(s, &r->at);
    g_assert_cmpuint(first, <=, at);
    for (unsigned i = first; i < at; i++) {
        before += 1 + made_at(s, i + 1)->missing;
    }
    g_assert_true(before >= back || !first);
    return first;
}

/* Each record from its begin to its end, one after the other */
static void check_all(struct scene *s)
{
    struct truth t = { .whole = true };

    g_assert_cmpuint(begin(s, 0, 0), ==, 0);
    follow_truth(s, &t, 0);
    check(s, &t, 0);
    for (unsigned i = 1; i < s->made->len; i++) {
        next(s, &t, i);
    }
    g_assert_null(lane_stack_next(s->stack));
    g_assert_null(lane_stack_next(s->stack));
}

static void test_next(void)
{
    struct scene s;

    for (unsigned gaps = 0; gaps < 2; gaps++) {
        scene_init(&s, TURNS, gaps, gaps ? 8 : 0);
        /* It is read in pieces. */
        g_assert_cmpuint(s.made->len, >, 8192);
        check_all(&s);
        scene_clear(&s);
    }
}

/* From random places on to others, and from there one by one */
static void test_follow(void)
{
    for (unsigned round = 0; round < 120; round++) {
        static struct scene s;
        unsigned at, first, to;
        struct truth t;

        if (!(round % 60)) {
            scene_init(&s, TURNS, round, 0);
        }
        at = g_test_rand_int_range(1, s.made->len);
        first = begin(&s, at, g_test_rand_bit() ?
                      g_test_rand_int_range(0, 50) :
                      g_test_rand_int_range(0, 5000));
        to = first + g_test_rand_int_range(1, 6000);
        to = MIN(to, s.made->len - 1);
        if (to > first) {
            g_assert_true(lane_stack_follow(s.stack, &made_at(&s, to)->at));
            t = truth_of(&s, first, to - 1);
            check(&s, &t, to - 1);
            /* It is there already, and does not go back. */
            g_assert_true(lane_stack_follow(s.stack, &made_at(&s, to)->at));
            check(&s, &t, to - 1);
            g_assert_false(lane_stack_follow(s.stack,
                                             &made_at(&s, first)->at));
            check(&s, &t, to - 1);
            for (unsigned i = to; i < MIN(to + 200, s.made->len); i++) {
                next(&s, &t, i);
            }
        }
        if (round % 60 == 59) {
            scene_clear(&s);
        }
    }
}

/* From each record of short lanes on */
static void test_begin(void)
{
    for (unsigned round = 0; round < 60; round++) {
        struct scene s;

        scene_init(&s, 8, true, 0);
        for (unsigned i = 0; i < s.made->len; i++) {
            unsigned first = begin(&s, i, g_test_rand_int_range(0, 3));
            struct truth t = truth_of(&s, first, first);

            check(&s, &t, first);
            for (unsigned k = first + 1; k < MIN(first + 4, s.made->len);
                 k++) {
                next(&s, &t, k);
            }
        }
        scene_clear(&s);
    }
}

/* What the lane does not have is not reached. */
static void test_end(void)
{
    struct lane_at after;
    struct truth t;
    struct scene s;
    unsigned last;

    scene_init(&s, 20, false, 0);
    last = s.made->len - 1;
    begin(&s, 0, 0);
    after = made_at(&s, last)->at;
    after.index++;
    g_assert_false(lane_stack_follow(s.stack, &after));
    t = truth_of(&s, 0, last);
    check(&s, &t, last);
    g_assert_null(lane_stack_next(s.stack));
    g_assert_null(lane_stack_last(s.stack));
    check(&s, &t, last);
    /* Another begin forgets that. */
    g_assert_cmpuint(begin(&s, 0, 100), ==, 0);
    t = truth_of(&s, 0, 0);
    check(&s, &t, 0);
    scene_clear(&s);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/lane-stack/next", test_next);
    g_test_add_func("/lane-stack/follow", test_follow);
    g_test_add_func("/lane-stack/begin", test_begin);
    g_test_add_func("/lane-stack/end", test_end);
    return g_test_run();
}
