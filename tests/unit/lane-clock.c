/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of analyze/lane-clock.h: the time of a vCPU whose batches are read
 *
 * The oracle has the clocks of a random stream, and finds by them alone when
 * each record begins and when the vCPU waits.
 */

#include <string.h>

#include <glib.h>

#include "analyze/lane-clock.h"
#include "lib/agent/meta.h"
#include "trace-samples.h"

#define MS          UINT64_C(1000000)
#define START       (100 * MS)
#define CLOCKS      60
#define TICK        MS

/* The clocks of a stream: from @index[i] on it is @host[i] */
struct truth {
    uint64_t index[CLOCKS];
    uint64_t host[CLOCKS];
};

static void write_clocks(const char *path, const struct truth *t)
{
    struct btrail_event events[CLOCKS];
    uint64_t n = t->index[CLOCKS - 1] + 10;
    g_autofree struct btrail_record *records = g_new0(struct btrail_record,
                                                      n);
    const struct btrail_slab slab = { 0, 0x1000, records, n, events, CLOCKS };
    struct btrail_writer *w;

    for (unsigned i = 0; i < CLOCKS; i++) {
        events[i] = (struct btrail_event) {
            .type = BTRAIL_EVENT_TIME, .index = t->index[i],
            .data = { t->host[i], 0, BTRAIL_NO_ICOUNT },
        };
    }
    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
}

/* When the records between two clocks are over */
static uint64_t busy_until(const struct truth *t, unsigned i)
{
    return t->host[i] + MIN(t->host[i + 1] - t->host[i],
                            btrail_busy_time(TICK));
}

/* When a record begins */
static double truth_at(const struct truth *t, uint64_t index)
{
    unsigned i = 0;

    while (i + 2 < CLOCKS && t->index[i + 1] <= index) {
        i++;
    }
    return t->host[i] + (double)(busy_until(t, i) - t->host[i]) *
           (index - t->index[i]) / (t->index[i + 1] - t->index[i]);
}

/* How long it waits before the clock at @end, in [@from, @to) */
static uint64_t truth_waits(const struct truth *t, uint64_t end, uint64_t from,
                            uint64_t to)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i + 1 < CLOCKS && t->index[i + 1] <= end; i++) {
        uint64_t begin = MAX(busy_until(t, i), from);
        uint64_t until = MIN(t->host[i + 1], to);

        sum += until > begin ? until - begin : 0;
    }
    return sum;
}

static struct btrail_trace *random_trace(struct truth *t, char *path)
{
    struct btrail_trace *trace;

    t->host[0] = START;
    t->index[0] = 0;
    for (unsigned i = 1; i < CLOCKS; i++) {
        t->index[i] = t->index[i - 1] + g_test_rand_int_range(1, 400);
        t->host[i] = t->host[i - 1] + g_test_rand_int_range(
            1, g_test_rand_bit() ? MS / 2 : 40 * MS);
    }
    write_clocks(path, t);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    return trace;
}

static void check_random(void)
{
    g_autofree struct lane_clock *clocks = g_new0(struct lane_clock,
                                                  BTRAIL_MAX_VCPUS);
    char *path = sample_path();
    struct truth t;
    struct btrail_trace *trace = random_trace(&t, path);
    uint64_t last = t.index[CLOCKS - 1], waits = 0, index = 0;
    uint64_t from = START + g_test_rand_int_range(0, 100 * MS);
    const struct times_span span = {
        from, from + g_test_rand_int_range(1, 500 * MS),
    };
    g_autoptr(GArray) spans = g_array_new(FALSE, FALSE, sizeof(span));
    struct lane_clock *c = &clocks[0];
    struct times *times;

    g_array_append_val(spans, span);
    times = times_new(&(struct window) { .end = UINT64_MAX }, spans);
    g_assert_cmpint(lane_clocks_open(clocks, trace, TICK, 0), ==, 0);
    g_assert_cmpuint(lane_clock_now(c), ==, 0);
    while (index < last) {
        uint64_t n = g_test_rand_int_range(1, 300);

        waits += lane_clock_record(c, index, times);
        g_assert_cmpfloat_with_epsilon(lane_clock_now(c), truth_at(&t, index),
                                       2);
        g_assert_cmpuint(waits / PACE_TICKS, ==,
                         truth_waits(&t, index, span.begin, span.end));
        n = MIN(n, c->pace->end - index);
        c->n += n;
        index += n;
    }
    waits += lane_clock_end(c, times);
    g_assert_cmpuint(waits / PACE_TICKS, ==,
                     truth_waits(&t, last, span.begin, span.end));
    lane_clocks_close(clocks);
    times_free(times);
    btrail_trace_close(trace);
    sample_remove(path);
}

static void test_random(void)
{
    for (unsigned i = 0; i < 30; i++) {
        check_random();
    }
}

/* An event at the index of a clock is before or after that clock. */
static void test_events(void)
{
    g_autofree struct lane_clock *clocks = g_new0(struct lane_clock,
                                                  BTRAIL_MAX_VCPUS);
    char *path = sample_path();
    struct truth t;
    struct btrail_trace *trace;
    struct lane_clock *c = &clocks[0];
    struct btrail_batch b = { .index = 0 };

    for (unsigned i = 0; i < CLOCKS; i++) {
        t.index[i] = i * 100;
        t.host[i] = START + i * MS;
    }
    write_clocks(path, &t);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_assert_cmpint(lane_clocks_open(clocks, trace, TICK, 0), ==, 0);
    /* Nothing is known before something was read, nor without a time. */
    b.index = 150;
    lane_clock_begin(c, &b);
    g_assert_null(c->pace);
    b.time.host = START + MS;
    g_assert_cmpuint(lane_clock_event(c, &b, NULL), ==, 0);
    g_assert_null(c->pace);
    lane_clock_begin(c, &b);
    g_assert_cmpuint(lane_clock_now(c), ==, START + MS);
    /* All of its records were read, and its end is an event later. */
    g_assert_cmpuint(lane_clock_record(c, 150, NULL), ==, 0);
    c->n = 100;
    b.index = 200;
    lane_clock_event(c, &b, NULL);
    g_assert_cmpuint(c->pace->begin, ==, 100);
    g_assert_cmpuint(lane_clock_now(c), ==, START + 2 * MS);
    b.time.host = START + 2 * MS;
    lane_clock_event(c, &b, NULL);
    g_assert_cmpuint(c->pace->begin, ==, 200);
    g_assert_cmpuint(c->n, ==, 0);
    /* It does not begin again. */
    b.index = 5000;
    lane_clock_begin(c, &b);
    g_assert_cmpuint(c->pace->begin, ==, 200);
    lane_clocks_close(clocks);
    btrail_trace_close(trace);
    sample_remove(path);
}

/* Numbers that a file can have: nothing overflows. */
static void test_limits(void)
{
    struct pace pace = { .time = 1, .ticks = UINT64_MAX / 3 };
    struct lane_clock c = { NULL, &pace, UINT64_MAX };

    g_assert_cmpuint(lane_clock_ticks(&c, 0), ==, 0);
    g_assert_cmpuint(lane_clock_ticks(&c, UINT64_MAX), <=, UINT64_MAX / 4);
    g_assert_cmpuint(lane_clock_now(&c), >=, 1);
    pace.ticks = 1;
    g_assert_cmpuint(lane_clock_ticks(&c, UINT64_MAX), ==, UINT64_MAX / 4);
    pace.ticks = 0;
    g_assert_cmpuint(lane_clock_ticks(&c, UINT64_MAX), ==, 0);
    g_assert_cmpuint(lane_clock_now(&c), ==, 1);
    pace.time = 0;
    g_assert_cmpuint(lane_clock_now(&c), ==, 0);
}

static void test_open(void)
{
    g_autofree struct lane_clock *clocks = g_new0(struct lane_clock,
                                                  BTRAIL_MAX_VCPUS);
    struct times *times = times_new(&(struct window) { .end = UINT64_MAX },
                                    NULL);

    /* What was not opened */
    g_assert_cmpuint(lane_clock_end(&clocks[1], times), ==, 0);
    lane_clocks_close(clocks);
    times_free(times);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/lane-clock/random", test_random);
    g_test_add_func("/lane-clock/events", test_events);
    g_test_add_func("/lane-clock/limits", test_limits);
    g_test_add_func("/lane-clock/open", test_open);
    return g_test_run();
}
