/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of find/spans.h: threads that a kernel moves between two vCPUs at
 * random, each with a list of its records.  Spans and their records are
 * found again by a search through these lists.
 *
 * Time has slots of a millisecond.  A vCPU runs one thread in a slot, so all
 * records of a slot but those of other vCPUs are before or after a moment.
 */

#include <math.h>
#include <string.h>

#include "find/spans.h"
#include "trace-samples.h"

#define SLOT    UINT64_C(1000000)

enum { VCPUS = 2, SLOTS = 60, THREADS = 4, MOST = 30, VALUES = 3 };

/* A vCPU in a slot of time */
static struct run {
    unsigned thread;
    unsigned n;                 /* records */
    uint64_t first;             /* index */
} runs[SLOTS][VCPUS];

static uint64_t ends[VCPUS];

/* A moment, by its record */
struct point {
    bool begin;
    unsigned slot;
    unsigned vcpu;
    unsigned offset;
    uint64_t value;
};

struct wanted {
    struct point begin;
    struct point end;
    bool ended;
};

static uint64_t index_of(const struct point *p)
{
    return runs[p->slot][p->vcpu].first + p->offset;
}

static unsigned thread_of(const struct point *p)
{
    return runs[p->slot][p->vcpu].thread;
}

/* When a record is over, in slots */
static double time_of(unsigned slot, unsigned vcpu, unsigned offset)
{
    return slot + (offset + 1.) / runs[slot][vcpu].n;
}

static struct btrail_task task_of(unsigned thread)
{
    struct btrail_task task = {
        .known = true, .tid = 100 + thread, .pid = 100 + thread / 2,
    };

    g_snprintf(task.name, sizeof(task.name), "t%u", thread);
    return task;
}

/* No thread is on two vCPUs at a time. */
static void make_runs(void)
{
    memset(ends, 0, sizeof(ends));
    for (unsigned slot = 0; slot < SLOTS; slot++) {
        unsigned first = g_test_rand_int_range(0, THREADS);

        for (unsigned vcpu = 0; vcpu < VCPUS; vcpu++) {
            runs[slot][vcpu] = (struct run) {
                (first + vcpu) % THREADS, g_test_rand_int_range(2, MOST),
                ends[vcpu],
            };
            ends[vcpu] += runs[slot][vcpu].n;
        }
    }
}

/* Without names, each thread has page tables of its own, and of the kernel. */
static void write_vcpu(struct btrail_writer *w, unsigned vcpu, bool named)
{
    struct btrail_record records[MOST];
    struct btrail_event events[2];

    for (unsigned slot = 0; slot < SLOTS; slot++) {
        const struct run *run = &runs[slot][vcpu];
        struct btrail_task task = task_of(run->thread);
        const struct btrail_slab slab = {
            .first_index = run->first, .records = records,
            .n_records = run->n, .events = events, .n_events = 1 + named,
            .cr3 = named ? 0x1000 : 0x2000 * (run->thread + 1) + 0x1000 *
                   g_test_rand_int_range(0, 2),
        };

        for (unsigned i = 0; i < run->n; i++) {
            records[i] = (struct btrail_record) { 0x1000, 0x2000 };
        }
        events[0] = (struct btrail_event) {
            .type = BTRAIL_EVENT_TIME, .index = run->first,
            .data = { (slot + 1) * SLOT, 0, BTRAIL_NO_ICOUNT },
        };
        events[1] = (struct btrail_event) {
            .type = BTRAIL_EVENT_TASK, .index = run->first,
            .data = { task.tid | (uint64_t)task.pid << 32 },
        };
        memcpy(&events[1].data[1], task.name, strlen(task.name));
        g_assert_cmpint(btrail_writer_append(w, vcpu, &slab), ==, 0);
    }
}

static struct btrail_trace *make_trace(bool named)
{
    char *path = sample_path();
    struct btrail_trace *trace;
    struct btrail_writer *w;

    make_runs();
    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    for (unsigned vcpu = 0; vcpu < VCPUS; vcpu++) {
        write_vcpu(w, vcpu, named);
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    sample_remove(path);
    return trace;
}

/* Points at random, in order; if @apart is set, no two in a slot */
static GArray *make_points(bool apart)
{
    GArray *points = g_array_new(FALSE, FALSE, sizeof(struct point));

    for (unsigned slot = 0; slot + 1 < SLOTS; slot++) {
        unsigned only = g_test_rand_int_range(0, VCPUS);

        for (unsigned vcpu = 0; vcpu < VCPUS; vcpu++) {
            unsigned offset = g_test_rand_int_range(0, 4);

            while (offset + 1 < runs[slot][vcpu].n &&
                   (!apart || vcpu == only)) {
                const struct point p = {
                    g_test_rand_int_range(0, 2), slot, vcpu, offset,
                    g_test_rand_int_range(0, VALUES),
                };

                g_array_append_val(points, p);
                offset += apart ? MOST : 1 + g_test_rand_int_range(0, MOST);
            }
        }
    }
    return points;
}

static bool matches(enum spans_pair pair, const struct point *a,
                    const struct point *b)
{
    return pair == SPANS_ANY ||
           (pair == SPANS_VALUE ? a->value == b->value :
            thread_of(a) == thread_of(b));
}

/* B ends the last one that matches and continues. */
static GArray *find_wanted(const GArray *points, enum spans_pair pair,
                           unsigned *unbegun)
{
    GArray *found = g_array_new(FALSE, FALSE, sizeof(struct wanted));

    *unbegun = 0;
    for (guint i = 0; i < points->len; i++) {
        const struct point *p = &g_array_index(points, struct point, i);
        struct wanted one = { .begin = *p }, *last = NULL;

        for (guint k = 0; !p->begin && k < found->len; k++) {
            struct wanted *w = &g_array_index(found, struct wanted, k);

            last = !w->ended && matches(pair, &w->begin, p) ? w : last;
        }
        if (p->begin) {
            g_array_append_val(found, one);
        } else if (last) {
            last->end = *p;
            last->ended = true;
        } else {
            ++*unbegun;
        }
    }
    return found;
}

static bool is_in(const struct wanted *w, enum spans_pair pair, unsigned slot,
                  unsigned vcpu, unsigned offset)
{
    const struct run *run = &runs[slot][vcpu];
    double time = time_of(slot, vcpu, offset);
    uint64_t index = run->first + offset;
    const struct point *a = &w->begin, *b = &w->end;

    if (pair != SPANS_ANY && run->thread != thread_of(a) &&
        (pair != SPANS_VALUE || run->thread != thread_of(b))) {
        return false;
    }
    return (vcpu == a->vcpu ? index >= index_of(a) :
            time >= time_of(a->slot, a->vcpu, a->offset)) &&
           (vcpu == b->vcpu ? index < index_of(b) :
            time < time_of(b->slot, b->vcpu, b->offset));
}

/* Counts the records of a span, and marks them. */
static uint64_t count(const struct wanted *w, enum spans_pair pair,
                      bool *in[VCPUS])
{
    uint64_t n = 0;

    for (unsigned slot = 0; slot < SLOTS; slot++) {
        for (unsigned vcpu = 0; vcpu < VCPUS; vcpu++) {
            const struct run *run = &runs[slot][vcpu];

            for (unsigned i = 0; i < run->n; i++) {
                if (is_in(w, pair, slot, vcpu, i)) {
                    in[vcpu][run->first + i] = true;
                    n++;
                }
            }
        }
    }
    return n;
}

static void add_point(struct spans *s, const struct point *p, bool named)
{
    const struct moment at = {
        .vcpu = p->vcpu, .index = index_of(p), .icount = BTRAIL_NO_ICOUNT,
        .time = { .host = (p->slot + 1) * SLOT,
                  .icount = BTRAIL_NO_ICOUNT },
        .task = named ? task_of(thread_of(p)) :
                (struct btrail_task) { .known = false },
    };

    g_assert_true(spans_add(s, p->begin, &at, 0x2000 * (thread_of(p) + 1),
                            &p->value));
}

/* It has the time of its records, which are as long as it is. */
static void check_time(const struct span *span)
{
    const struct times_span time = span_time(span);
    uint64_t record = span->begin->time - span->begin->begun;

    g_assert_cmpuint(time.begin, ==, span->begin->time - record);
    g_assert_cmpuint(time.end, >=, time.begin);
    g_assert_cmpuint(time.end - time.begin, <=, span_duration(span) + 1);
    if (span->begin->vcpu == span->end->vcpu) {
        g_assert_cmpuint(time.end - time.begin + SLOT, >, span_duration(span));
    }
}

static void check_span(const struct span *span, const struct wanted *w,
                       enum spans_pair pair, bool *in[VCPUS])
{
    double time;
    int64_t off;

    g_assert_cmpuint(span->begin->vcpu, ==, w->begin.vcpu);
    g_assert_cmpuint(span->begin->index, ==, index_of(&w->begin));
    g_assert_cmpuint(span->begin->value, ==, w->begin.value);
    g_assert_cmpint(!!span->end, ==, w->ended);
    if (!w->ended) {
        g_assert_cmpuint(span->records, ==, 0);
        return;
    }
    g_assert_cmpuint(span->end->vcpu, ==, w->end.vcpu);
    g_assert_cmpuint(span->end->index, ==, index_of(&w->end));
    time = time_of(w->end.slot, w->end.vcpu, w->end.offset) -
           time_of(w->begin.slot, w->begin.vcpu, w->begin.offset);
    g_assert_cmpfloat(fabs(time * SLOT - span_duration(span)), <, 100);
    check_time(span);
    /* Where two vCPUs are compared, times are rounded. */
    off = span->records - count(w, pair, in);
    g_assert_cmpint(ABS(off), <=, pair == SPANS_THREAD ? 0 : 2);
}

static void check_set(const struct record_set *set, bool *in[VCPUS])
{
    for (unsigned vcpu = 0; vcpu < VCPUS; vcpu++) {
        for (uint64_t i = 0; i < ends[vcpu]; i++) {
            g_assert_cmpint(record_set_has(set, vcpu, i, NULL), ==,
                            in[vcpu][i]);
        }
    }
}

static void check(enum spans_pair pair, bool named)
{
    struct btrail_trace *trace = make_trace(named);
    g_autoptr(GArray) points = make_points(pair != SPANS_THREAD);
    struct spans *s = spans_new(trace, SLOT, pair);
    struct record_set *set = record_set_new();
    g_autoptr(GArray) wanted = NULL;
    g_autoptr(GError) error = NULL;
    bool *in[VCPUS];
    unsigned unbegun;

    for (guint i = 0; i < points->len; i++) {
        add_point(s, &g_array_index(points, struct point, i), named);
    }
    spans_pair(s);
    g_assert_true(spans_count(s, set, NULL, &error));
    g_assert_no_error(error);
    wanted = find_wanted(points, pair, &unbegun);
    for (unsigned i = 0; i < VCPUS; i++) {
        in[i] = g_new0(bool, ends[i]);
    }
    g_assert_cmpuint(wanted->len, >, 0);
    for (guint i = 0; i < wanted->len; i++) {
        const struct wanted *w = &g_array_index(wanted, struct wanted, i);
        const struct span *span = NULL;

        for (size_t k = 0; !span || span->begin->vcpu != w->begin.vcpu ||
             span->begin->index != index_of(&w->begin); k++) {
            span = spans_get(s, k);
            g_assert_nonnull(span);
        }
        check_span(span, w, pair, in);
    }
    g_assert_null(spans_get(s, wanted->len));
    g_assert_cmpuint(spans_unbegun(s), ==, unbegun);
    g_assert_cmpuint(spans_unvalued(s), ==, 0);
    if (pair == SPANS_THREAD) {
        check_set(set, in);
    }
    for (unsigned i = 0; i < VCPUS; i++) {
        g_free(in[i]);
    }
    record_set_free(set);
    spans_free(s);
    btrail_trace_close(trace);
}

static void test_threads(void)
{
    for (unsigned i = 0; i < 30; i++) {
        check(SPANS_THREAD, true);
    }
}

static void test_nameless(void)
{
    for (unsigned i = 0; i < 30; i++) {
        check(SPANS_THREAD, false);
    }
}

static void test_values(void)
{
    for (unsigned i = 0; i < 30; i++) {
        check(SPANS_VALUE, true);
    }
}

static void test_any(void)
{
    for (unsigned i = 0; i < 30; i++) {
        check(SPANS_ANY, true);
    }
}

/*
 * A moment that is both A and B ends a span and begins one; without a value, it
 * does neither if they are paired by that.
 */
static void test_both(void)
{
    struct btrail_trace *trace = make_trace(true);
    struct spans *s = spans_new(trace, SLOT, SPANS_ANY);
    struct spans *valued = spans_new(trace, SLOT, SPANS_VALUE);

    for (unsigned slot = 0; slot < 5; slot++) {
        const struct point p = { true, slot, 0, 0, 0 };
        const struct moment at = {
            .vcpu = 0, .index = index_of(&p), .icount = BTRAIL_NO_ICOUNT,
            .time.host = (slot + 1) * SLOT,
        };

        for (unsigned begin = 0; begin < 2; begin++) {
            g_assert_true(spans_add(s, begin, &at, 0, NULL));
            g_assert_true(spans_add(valued, begin, &at, 0, NULL));
        }
    }
    spans_pair(s);
    spans_pair(valued);
    for (unsigned i = 0; i < 5; i++) {
        const struct span *span = spans_get(s, i);

        g_assert_cmpuint(span->begin->index, ==, runs[i][0].first);
        g_assert_cmpint(!!span->end, ==, i < 4);
        g_assert_true(i == 4 || span->end->index == runs[i + 1][0].first);
    }
    g_assert_null(spans_get(s, 5));
    g_assert_cmpuint(spans_unbegun(s), ==, 1);
    g_assert_null(spans_get(valued, 0));
    g_assert_cmpuint(spans_unvalued(valued), ==, 10);
    spans_free(s);
    spans_free(valued);
    btrail_trace_close(trace);
}

/*
 * On two vCPUs, B that seems to be before A can end it if no clock is between
 * them; then the span has no time.
 */
static void test_uncertain(void)
{
    static const struct {
        unsigned vcpu;
        uint64_t host;          /* the clock before A */
        bool ended;
    } cases[] = {
        { 1, 2 * SLOT, true }, { 0, 2 * SLOT, false }, { 1, 3 * SLOT, false },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct btrail_trace *trace = make_trace(true);
        struct spans *s = spans_new(trace, SLOT, SPANS_VALUE);
        const uint64_t value = 7;
        struct moment end = {
            .icount = BTRAIL_NO_ICOUNT, .index = runs[1][0].first,
            .time.host = 2 * SLOT,
        };
        struct moment begin = {
            .vcpu = cases[i].vcpu, .icount = BTRAIL_NO_ICOUNT,
            .index = runs[2][cases[i].vcpu].first, .time.host = cases[i].host,
        };
        const struct span *span;

        g_assert_true(spans_add(s, false, &end, 0, &value));
        g_assert_true(spans_add(s, true, &begin, 0, &value));
        spans_pair(s);
        span = spans_get(s, 0);
        g_assert_cmpint(!!span->end, ==, cases[i].ended);
        g_assert_cmpuint(spans_unbegun(s), ==, !cases[i].ended);
        if (span->end) {
            g_assert_cmpuint(span_duration(span), ==, 0);
        }
        spans_free(s);
        btrail_trace_close(trace);
    }
}

/* A vCPU with two clocks and two records between them */
static void write_clocks(struct btrail_writer *w, unsigned vcpu,
                         uint64_t first, uint64_t second)
{
    const struct btrail_record records[2] = { { 0x1000, 0x2000 } };
    const struct btrail_event events[] = {
        { .type = BTRAIL_EVENT_TIME, .index = 0,
          .data = { first, 0, BTRAIL_NO_ICOUNT } },
        { .type = BTRAIL_EVENT_TIME, .index = 2,
          .data = { second, 0, BTRAIL_NO_ICOUNT } },
    };
    const struct btrail_slab slab = {
        .records = records, .n_records = 2, .events = events, .n_events = 2,
        .cr3 = 0x1000,
    };

    g_assert_cmpint(btrail_writer_append(w, vcpu, &slab), ==, 0);
}

/*
 * The host takes the CPU from a vCPU for 99 slots.  What it did is estimated to
 * be in the first two, but can have been at any time of these.
 */
static void test_late(void)
{
    for (unsigned slot = 98; slot <= 101; slot++) {
        char *path = sample_path();
        const uint64_t value = 7;
        const struct moment end = {
            .vcpu = 1, .icount = BTRAIL_NO_ICOUNT, .time.host = SLOT,
        };
        const struct moment begin = {
            .icount = BTRAIL_NO_ICOUNT, .time.host = slot * SLOT,
        };
        bool ended = slot < 100;
        struct btrail_trace *trace;
        struct btrail_writer *w;
        struct spans *s;

        g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
        write_clocks(w, 0, slot * SLOT, (slot + 1) * SLOT);
        write_clocks(w, 1, SLOT, 100 * SLOT);
        g_assert_cmpint(btrail_writer_close(w), ==, 0);
        g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
        s = spans_new(trace, SLOT, SPANS_VALUE);
        g_assert_true(spans_add(s, false, &end, 0, &value));
        g_assert_true(spans_add(s, true, &begin, 0, &value));
        spans_pair(s);
        g_assert_cmpint(!!spans_get(s, 0)->end, ==, ended);
        g_assert_cmpuint(spans_unbegun(s), ==, !ended);
        spans_free(s);
        btrail_trace_close(trace);
        sample_remove(path);
    }
}

/*
 * Millions of moments are refused, and hundreds of thousands that nest are
 * quick.
 */
static void test_many(void)
{
    struct btrail_trace *trace = make_trace(true);
    struct spans *s = spans_new(trace, SLOT, SPANS_THREAD);
    struct moment at = {
        .task = task_of(runs[0][0].thread), .icount = BTRAIL_NO_ICOUNT,
        .time.host = SLOT,
    };
    const struct span *span;
    g_autoptr(GError) error = NULL;

    for (unsigned i = 0; i < SPANS_MAX_POINTS; i++) {
        g_assert_true(spans_add(s, true, &at, 0, NULL));
    }
    g_assert_false(spans_add(s, true, &at, 0, NULL));
    at.index = 1;
    for (unsigned i = 0; i < SPANS_MAX_POINTS; i++) {
        g_assert_true(spans_add(s, false, &at, 0, NULL));
    }
    spans_pair(s);
    g_assert_true(spans_count(s, NULL, NULL, &error));
    span = spans_get(s, SPANS_MAX_POINTS - 1);
    g_assert_cmpuint(span->records, ==, 1);
    g_assert_nonnull(span->end);
    g_assert_null(spans_get(s, SPANS_MAX_POINTS));
    spans_free(s);
    btrail_trace_close(trace);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/threads", test_threads);
    g_test_add_func("/nameless", test_nameless);
    g_test_add_func("/values", test_values);
    g_test_add_func("/any", test_any);
    g_test_add_func("/both", test_both);
    g_test_add_func("/uncertain", test_uncertain);
    g_test_add_func("/late", test_late);
    g_test_add_func("/many", test_many);
    return g_test_run();
}
