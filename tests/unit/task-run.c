/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where tasks continue, in a trace of two vCPUs that is made here
 */

#include <string.h>

#include "find/task-run.h"
#include "trace-samples.h"

#define SLAB    10u
#define SLABS   12u
#define MS      UINT64_C(1000000)

/* What each vCPU runs, a slab each.  Slab i begins at (i + 1) * 10 ms. */
static const unsigned tasks[2][SLABS] = {
    { 1, 2, 3, 1, 2, 1, 0, 0, 7, 0, 0, 5 },
    { 4, 4, 1, 4, 3, 2, 3, 7, 3, 8, 4, 4 },
};
/* A gap on vCPU 0 before this slab */
#define GAP     11u

static void write_slab(struct btrail_writer *w, unsigned vcpu, unsigned i)
{
    struct btrail_record records[SLAB];
    struct btrail_event events[3];
    struct btrail_slab slab = {
        .first_index = i * SLAB, .records = records, .n_records = SLAB,
        .events = events,
    };
    unsigned tid = tasks[vcpu][i];

    memset(records, 0, sizeof(records));
    memset(events, 0, sizeof(events));
    if (!vcpu && i == GAP) {
        events[slab.n_events++] = (struct btrail_event) {
            .type = BTRAIL_EVENT_GAP, .reason = BTRAIL_GAP_DEBUGGER,
            .index = i * SLAB,
        };
    }
    /* The time of vCPU 1 is half of a slab later. */
    events[slab.n_events++] = (struct btrail_event) {
        .type = BTRAIL_EVENT_TIME, .index = i * SLAB,
        .data = { (i + 1) * 10 * MS + vcpu * 5 * MS, 0,
                  BTRAIL_NO_ICOUNT },
    };
    events[slab.n_events++] = (struct btrail_event) {
        .type = BTRAIL_EVENT_TASK, .index = i * SLAB,
        .data = { tid | (uint64_t)tid << 32 },
    };
    g_assert_cmpint(btrail_writer_append(w, vcpu, &slab), ==, 0);
    g_assert_cmpint(btrail_writer_flush(w), ==, 0);
}

static struct btrail_trace *open_trace(void)
{
    char *path = sample_path();
    struct btrail_trace *trace;
    struct btrail_writer *w;

    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    for (unsigned i = 0; i < SLABS; i++) {
        for (unsigned vcpu = 0; vcpu < 2; vcpu++) {
            write_slab(w, vcpu, i);
        }
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    sample_remove(path);
    return trace;
}

/* The run of a task in a slab of a vCPU */
static struct task_run run_at(const struct btrail_trace *trace, unsigned vcpu,
                              unsigned slab)
{
    struct btrail_cursor *cursor;
    struct btrail_batch b;
    struct task_run run;

    g_assert_cmpint(btrail_cursor_open(&cursor, trace, vcpu, 0), ==, 0);
    g_assert_cmpint(btrail_cursor_seek(cursor, slab * SLAB + 3), ==, 0);
    g_assert_cmpint(btrail_cursor_next(cursor, &b), ==, 0);
    g_assert_true(task_run_at(trace, vcpu, &b, &run));
    btrail_cursor_close(cursor);
    return run;
}

static void test_at(void)
{
    struct btrail_trace *trace = open_trace();
    struct task_run run = run_at(trace, 1, 2);

    g_assert_cmpuint(run.vcpu, ==, 1);
    g_assert_cmpuint(run.index, ==, 2 * SLAB + 3);
    g_assert_cmpuint(run.after, ==, 35 * MS);
    g_assert_cmpuint(run.before, ==, 45 * MS);
    g_assert_cmpuint(run_at(trace, 0, SLABS - 1).before, ==, UINT64_MAX);
    btrail_trace_close(trace);
}

/* The slab in which a task continues; -1 if that is not sure */
static int next_of(const struct btrail_trace *trace, unsigned vcpu,
                   unsigned slab, unsigned next_vcpu)
{
    struct task_run run = run_at(trace, vcpu, slab), next;

    if (!task_run_next(trace, tasks[vcpu][slab], &run, (slab + 1) * SLAB,
                       &next)) {
        return -1;
    }
    g_assert_cmpuint(next.vcpu, ==, next_vcpu);
    g_assert_cmpuint(next.index % SLAB, ==, 0);
    return next.index / SLAB;
}

static void test_next(void)
{
    struct btrail_trace *trace = open_trace();

    /*
     * On the other vCPU at 35 ms, and on the same one at 40 ms, which is not
     * surely later
     */
    g_assert_cmpint(next_of(trace, 0, 0, 1), ==, -1);
    /* On the same one at 50 ms, and on the other at 65 ms */
    g_assert_cmpint(next_of(trace, 0, 1, 0), ==, 4);
    /* On the other one at 55 ms; on both before */
    g_assert_cmpint(next_of(trace, 0, 2, 1), ==, 4);
    g_assert_cmpint(next_of(trace, 0, 4, 1), ==, 5);
    g_assert_cmpint(next_of(trace, 1, 6, 1), ==, 8);
    /* It can begin on the other one while it runs, so before that, too. */
    g_assert_cmpint(next_of(trace, 1, 7, 0), ==, -1);
    /* It can have run where events are missing. */
    g_assert_cmpint(next_of(trace, 1, 10, 1), ==, -1);
    /* It does not run again. */
    g_assert_cmpint(next_of(trace, 0, 5, 0), ==, -1);
    g_assert_cmpint(next_of(trace, 1, 9, 1), ==, -1);
    /* Idle tasks */
    g_assert_cmpint(next_of(trace, 0, 6, 0), ==, -1);
    btrail_trace_close(trace);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/at", test_at);
    g_test_add_func("/next", test_next);
    return g_test_run();
}
