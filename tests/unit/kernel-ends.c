/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Times without a kernel, and what a stream says of the records of them:
 * lib/internal/kernel-ends.h
 */

#include <glib.h>
#include <string.h>

#include "lib/internal/kernel-ends.h"
#include "lib/agent/trace-files.h"
#include "trace-samples.h"

/* A piece of sideband; @known: what ENDED has, 0 for no data */
struct piece {
    uint16_t kind;
    uint16_t kernel;
    uint64_t time;
    uint64_t known;
};

#define SYMBOLS     BTRAIL_SIDEBAND_SYMBOLS
#define PROCESSES   BTRAIL_SIDEBAND_PROCESSES
#define ENDED       BTRAIL_SIDEBAND_ENDED
#define MOST        8

static char *path;

static struct btrail_writer *begin(unsigned tick, const struct piece *pieces)
{
    g_autofree char *meta = g_strdup_printf("{\"tick_ns\": %u}", tick);
    struct btrail_writer *w;

    g_assert_cmpint(btrail_writer_open(&w, path, BTRAIL_WRITER_REPLACE), ==, 0);
    g_assert_cmpint(btrail_writer_meta(w, meta, strlen(meta)), ==, 0);
    for (unsigned i = 0; i < MOST && pieces[i].kind; i++) {
        uint64_t known = GUINT64_TO_LE(pieces[i].known);
        const struct btrail_sideband_info info = {
            .kind = pieces[i].kind, .kernel = pieces[i].kernel,
            .size = known ? sizeof(known) : 0, .time = pieces[i].time,
        };

        g_assert_cmpint(btrail_writer_sideband(w, &info, &known), ==, 0);
    }
    return w;
}

static struct btrail_trace *end(struct btrail_writer *w)
{
    struct btrail_trace *t;

    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&t, path), ==, 0);
    return t;
}

/* @want: FROM-LAST of all times without a kernel, in order */
static const struct times_case {
    const char *want;
    unsigned tick;
    struct piece pieces[MOST];
} times_cases[] = {
    { "", 0, { { SYMBOLS, 1, 100, 0 }, { SYMBOLS, 2, 200, 0 } } },
    { "201-299 ", 0, { { SYMBOLS, 1, 100, 0 }, { ENDED, 1, 200, 250 },
                       { SYMBOLS, 1, 240, 0 }, { SYMBOLS, 1, 250, 0 },
                       { SYMBOLS, 2, 300, 0 } } },
    /* A record can be from a tick after its time. */
    { "191-299 ", 10, { { SYMBOLS, 2, 300, 0 }, { ENDED, 1, 200, 250 },
                        { SYMBOLS, 1, 100, 0 } } },
    { "1-299 ", 10, { { ENDED, 1, 5, 250 }, { SYMBOLS, 2, 300, 0 } } },
    /* Processes are found before symbols, and both are needed. */
    { "201-299 ", 0, { { SYMBOLS, 1, 100, 0 }, { ENDED, 1, 200, 250 },
                       { PROCESSES, 2, 260, 0 }, { SYMBOLS, 2, 300, 0 } } },
    { "201-259 ", 0, { { PROCESSES, 1, 100, 0 }, { ENDED, 1, 200, 250 },
                       { PROCESSES, 1, 240, 0 }, { PROCESSES, 2, 260, 0 } } },
    { "201- ", 0, { { SYMBOLS, 1, 100, 0 }, { ENDED, 1, 200, 250 } } },
    /* The same kernel again; twice; times that overlap */
    { "201-299 401- ", 0, { { SYMBOLS, 1, 100, 0 }, { ENDED, 1, 200, 250 },
                            { SYMBOLS, 1, 300, 0 }, { ENDED, 1, 400, 450 } } },
    { "151-299 ", 0, { { ENDED, 1, 200, 210 }, { ENDED, 1, 150, 220 },
                       { ENDED, 1, 200, 210 }, { SYMBOLS, 2, 300, 0 } } },
    /* Without data that can be read, it is known at once; never before */
    { "201-209 ", 0, { { ENDED, 1, 200, 0 }, { SYMBOLS, 1, 210, 0 } } },
    { "201-209 ", 0, { { ENDED, 1, 200, 5 }, { SYMBOLS, 1, 150, 0 },
                       { SYMBOLS, 1, 210, 0 } } },
    { "", 0, { { ENDED, 1, UINT64_MAX, UINT64_MAX } } },
    { "201- ", 0, { { ENDED, 1, 200, UINT64_MAX }, { SYMBOLS, 1, 300, 0 } } },
};

static void test_times(void)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(times_cases); i++) {
        const struct times_case *c = &times_cases[i];
        g_autoptr(GString) got = g_string_new(NULL);
        struct btrail_trace *t = end(begin(c->tick, c->pieces));
        const GArray *ends = btrail_trace_kernel_ends(t);
        uint64_t from = 0, last, next = 0;

        g_test_message("case %u", i);
        do {
            bool none = btrail_kernel_ends_at(ends, next, &from, &last);

            g_assert_cmpuint(from, ==, next);
            g_assert_true(btrail_kernel_ends_at(ends, last, NULL, NULL) ==
                          none);
            if (none) {
                g_string_append_printf(got, "%" G_GUINT64_FORMAT "-", from);
            }
            if (none && last != UINT64_MAX) {
                g_string_append_printf(got, "%" G_GUINT64_FORMAT, last);
            }
            g_string_append(got, none ? " " : "");
            next = last + 1;
        } while (last != UINT64_MAX);
        g_assert_cmpstr(got->str, ==, c->want);
        btrail_trace_close(t);
    }
}

/* Two records at each time, and an event before them, if any */
static const struct {
    uint64_t time;
    uint16_t type;
    uint16_t reason;
    uint64_t data;
    const char *want;           /* KERNEL TID of both */
} steps[] = {
    { 0, 0, 0, 0, "? -" },
    { 150, BTRAIL_EVENT_TASK, 0, 7, "? 7" },
    { 200, 0, 0, 0, "? 7" },
    { 201, 0, 0, 0, "ended -" },
    { 202, BTRAIL_EVENT_TASK, 0, 8, "ended -" },
    { 299, 0, 0, 0, "ended -" },
    { 300, 0, 0, 0, "? 8" },
    /* Events say better than times which kernel runs. */
    { 450, 0, 0, 0, "ended -" },
    { 460, BTRAIL_EVENT_KERNEL, 0, 2, "2 -" },
    { 470, BTRAIL_EVENT_TASK, 0, 9, "2 9" },
    { 475, BTRAIL_EVENT_KERNEL, 0, 0, "0 -" },
    { 480, BTRAIL_EVENT_KERNEL, BTRAIL_KERNEL_UNKNOWN, 0, "ended -" },
    { 500, 0, 0, 0, "? -" },
};

static void test_stream(void)
{
    enum { N = G_N_ELEMENTS(steps) };
    static const struct piece pieces[MOST] = {
        { SYMBOLS, 1, 100, 0 }, { ENDED, 1, 200, 250 }, { SYMBOLS, 2, 300, 0 },
        { ENDED, 2, 400, 450 }, { SYMBOLS, 3, 500, 0 },
    };
    struct btrail_writer *w = begin(0, pieces);
    struct btrail_cursor *cursor;
    struct btrail_trace *t;
    struct btrail_batch b;
    unsigned n = 0;

    for (unsigned i = 0; i < N; i++) {
        const struct btrail_record records[2] = { { 1, 2, 0 }, { 3, 4, 0 } };
        const struct btrail_event events[2] = {
            { .index = 2 * i, .type = BTRAIL_EVENT_TIME,
              .data = { steps[i].time, 0, BTRAIL_NO_ICOUNT } },
            { .index = 2 * i, .type = steps[i].type, .reason = steps[i].reason,
              .data = { steps[i].data } },
        };
        const struct btrail_slab slab = {
            .first_index = 2 * i, .records = records, .n_records = 2,
            .events = events, .n_events = 1 + !!steps[i].type,
        };

        g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
    }
    t = end(w);
    g_assert_cmpint(btrail_cursor_open(&cursor, t, 0, 0), ==, 0);
    while (!btrail_cursor_next(cursor, &b)) {
        g_autofree char *got = NULL, *tid = NULL;

        if (b.event) {
            continue;
        }
        tid = b.task.known ? g_strdup_printf("%u", b.task.tid) : g_strdup("-");
        got = b.ended ? g_strdup_printf("ended %s", tid) :
              b.kernel.known ? g_strdup_printf("%u %s", b.kernel.number, tid) :
              g_strdup_printf("? %s", tid);
        g_test_message("at %" G_GUINT64_FORMAT, steps[n].time);
        g_assert_cmpstr(got, ==, steps[n].want);
        g_assert_true(!b.ended || (b.kernel.known && !b.kernel.number));
        g_assert_cmpuint(b.count, ==, 2);
        n++;
    }
    g_assert_cmpuint(n, ==, N);
    btrail_cursor_close(cursor);
    btrail_trace_close(t);
}

int main(int argc, char **argv)
{
    int ret;

    g_test_init(&argc, &argv, NULL);
    path = sample_path();
    g_test_add_func("/kernel-ends/times", test_times);
    g_test_add_func("/kernel-ends/stream", test_stream);
    ret = g_test_run();
    sample_remove(path);
    return ret;
}
