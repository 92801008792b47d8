/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where the kernel switches to another task, or wakes one, in a trace of two
 * vCPUs that is made here
 */

#include <string.h>

#include "backtrail/transport.h"
#include "find/switches.h"
#include "trace-samples.h"

#define SLAB    10u

#define BLOCKED     (BTRAIL_TASK_LEFT_BLOCKED | \
                     BTRAIL_TASK_LEFT_INTERRUPTIBLE)
#define PREEMPTED   BTRAIL_TASK_LEFT_RUNNABLE
#define DEAD        BTRAIL_TASK_LEFT_DEAD
#define NOBODY      99u         /* is not known */

/* What a vCPU runs in each slab; 0 for what it ran before.  Why the one before
 * left, and who is woken in the middle, are in other traces. */
static const struct run {
    unsigned tid;
    const char *name;
    unsigned lost;
    unsigned left;
    unsigned wakes;
} runs[2][6] = {
    { { 1, "one" }, { 0, .wakes = 3 }, { 2, "two", 0, BLOCKED, 4 },
      { 2, "renamed", .wakes = 1 }, { 1, "one", 0, PREEMPTED, NOBODY },
      { 1, "one", 5, DEAD } },
    { { 3, "two" }, { 1, "one", 0, 0, 3 }, { 3, "two", 0, PREEMPTED },
      { 0, .wakes = 1 }, { 4, "new", 0, DEAD }, { 0 } },
};

static void write_slab(struct btrail_writer *w, unsigned vcpu, unsigned i,
                       uint64_t *index, bool more)
{
    const struct run *run = &runs[vcpu][i];
    struct btrail_record records[SLAB];
    struct btrail_event events[4];
    struct btrail_slab slab = {
        .records = records, .n_records = SLAB, .events = events,
    };

    memset(records, 0, sizeof(records));
    memset(events, 0, sizeof(events));
    *index += run->lost;
    slab.first_index = *index;
    if (run->lost) {
        events[slab.n_events++] = (struct btrail_event) {
            .type = BTRAIL_EVENT_GAP, .reason = BTRAIL_GAP_OVERFLOW,
            .index = *index, .data = { run->lost },
        };
    }
    events[slab.n_events++] = (struct btrail_event) {
        .type = BTRAIL_EVENT_TIME, .index = *index,
        .data = { 1000 + 10 * i + vcpu, 0, BTRAIL_NO_ICOUNT },
    };
    if (run->tid) {
        struct btrail_event *e = &events[slab.n_events++];

        e->type = BTRAIL_EVENT_TASK;
        e->index = *index;
        e->reason = more ? run->left : 0;
        e->data[0] = run->tid | (uint64_t)run->tid << 32;
        memcpy(&e->data[1], run->name, strlen(run->name));
    }
    if (run->wakes && more) {
        uint64_t tid = run->wakes == NOBODY ? 0 : run->wakes;

        events[slab.n_events++] = (struct btrail_event) {
            .type = BTRAIL_EVENT_WAKE, .index = *index + SLAB / 2,
            .reason = !tid ? BTRAIL_WAKE_UNKNOWN :
                      tid == 4 ? BTRAIL_WAKE_NEW : 0,
            .data = { tid | tid << 32 },
        };
    }
    g_assert_cmpint(btrail_writer_append(w, vcpu, &slab), ==, 0);
    g_assert_cmpint(btrail_writer_flush(w), ==, 0);
    *index += SLAB;
}

/* @more: also why tasks leave, and who is woken */
static struct btrail_trace *open_trace(bool more)
{
    char *path = sample_path();
    uint64_t index[2] = { 0 };
    struct btrail_trace *trace;
    struct btrail_writer *w;

    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    for (unsigned i = 0; i < G_N_ELEMENTS(runs[0]); i++) {
        for (unsigned vcpu = 0; vcpu < 2; vcpu++) {
            write_slab(w, vcpu, i, &index[vcpu], more);
        }
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    sample_remove(path);
    return trace;
}

static void want(struct switches *s, unsigned vcpu, uint64_t index,
                 unsigned from, unsigned to)
{
    struct task_switch found;

    g_assert_true(switches_next(s, &found, NULL));
    g_assert_cmpuint(found.at.vcpu, ==, vcpu);
    g_assert_cmpuint(found.at.index, ==, index);
    g_assert_cmpuint(found.at.task.tid, ==, to);
    g_assert_true(found.from.known == !!from);
    g_assert_cmpuint(found.from.tid, ==, from);
}

static struct switches *look(const struct btrail_trace *trace,
                             struct switches_wanted wanted)
{
    g_autoptr(GError) error = NULL;
    struct switches *s = switches_new(trace, &wanted, &error);

    g_assert_no_error(error);
    return s;
}

/* There are no more, and that many may be meant. */
static void want_end(struct switches *s, unsigned unknown)
{
    g_autoptr(GError) error = NULL;
    struct task_switch found;

    g_assert_false(switches_next(s, &found, &error));
    g_assert_no_error(error);
    g_assert_cmpuint(switches_unknown(s), ==, unknown);
    switches_free(s);
}

/* There are none, because the trace does not say it. */
static void want_error(const struct btrail_trace *trace,
                       struct switches_wanted wanted, const char *message)
{
    g_autoptr(GError) error = NULL;
    struct switches *s = switches_new(trace, &wanted, &error);
    struct task_switch found;

    if (s) {
        g_assert_false(switches_next(s, &found, &error));
    }
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_NAMES);
    g_assert_cmpstr(error->message, ==, message);
    switches_free(s);
}

static void test_all(void)
{
    struct btrail_trace *trace = open_trace(false);
    struct switches *s = look(trace, (struct switches_wanted) { false });

    want(s, 0, 0, 0, 1);
    want(s, 1, 0, 0, 3);
    want(s, 1, 9, 3, 1);
    want(s, 0, 19, 1, 2);
    want(s, 1, 19, 1, 3);
    want(s, 0, 39, 2, 1);
    want(s, 1, 39, 3, 4);
    /* What ran before the gap is not known. */
    want(s, 0, 54, 0, 1);
    want_end(s, 0);

    s = look(trace, (struct switches_wanted) { .to = "two" });
    switches_limit(s, 1, 5, UINT64_MAX);
    want(s, 0, 19, 1, 2);
    want(s, 1, 19, 1, 3);
    want_end(s, 0);

    want_error(trace, (struct switches_wanted) { .to = "tow" },
               "the trace names no task tow (did you mean 'two'?)");
    want_error(trace, (struct switches_wanted) { .from = "98" },
               "the trace names no task 98");
    want_error(trace, (struct switches_wanted) { .wakes = true },
               "the trace does not say who is woken: it has no WAKE events");
    want_error(trace, (struct switches_wanted) { .why = SWITCH_BLOCKED },
               "the trace does not say why tasks leave their vCPU");
    btrail_trace_close(trace);
}

/* Who leaves, and why */
static void test_from(void)
{
    struct btrail_trace *trace = open_trace(true);
    struct switches *s = look(trace, (struct switches_wanted) {
        .from = "one" });

    want(s, 0, 19, 1, 2);
    want(s, 1, 19, 1, 3);
    /* After the gap */
    want_end(s, 1);

    s = look(trace, (struct switches_wanted) { .from = "3" });
    want(s, 1, 9, 3, 1);
    want(s, 1, 39, 3, 4);
    want_end(s, 1);

    s = look(trace, (struct switches_wanted) { .why = SWITCH_BLOCKED });
    want(s, 0, 19, 1, 2);
    /* The second run of task 1 begins without a reason. */
    want_end(s, 1);

    s = look(trace, (struct switches_wanted) { .why = SWITCH_PREEMPTED,
                                               .to = "1" });
    want(s, 0, 39, 2, 1);
    want_end(s, 1);

    s = look(trace, (struct switches_wanted) { .why = SWITCH_DEAD,
                                               .from = "two" });
    want(s, 1, 39, 3, 4);
    want_end(s, 2);
    btrail_trace_close(trace);
}

static void want_wake(struct switches *s, unsigned vcpu, uint64_t index,
                      unsigned by, unsigned tid, const char *name)
{
    struct task_switch found;

    g_assert_true(switches_next(s, &found, NULL));
    g_assert_cmpuint(found.at.vcpu, ==, vcpu);
    g_assert_cmpuint(found.at.index, ==, index);
    g_assert_cmpuint(found.at.task.tid, ==, by);
    g_assert_true(found.woken.known == !!tid);
    g_assert_cmpuint(found.woken.tid, ==, tid);
    g_assert_true(found.woken.is_new == (tid == 4));
    g_assert_cmpstr(found.name, ==, name);
}

static void test_wakes(void)
{
    struct btrail_trace *trace = open_trace(true);
    struct switches *s = look(trace, (struct switches_wanted) { true });

    want_wake(s, 0, 14, 1, 3, "two");
    want_wake(s, 1, 14, 1, 3, "two");
    want_wake(s, 0, 24, 2, 4, "new");
    want_wake(s, 0, 34, 2, 1, "one");
    want_wake(s, 1, 34, 3, 1, "one");
    want_wake(s, 0, 44, 1, 0, "");
    want_end(s, 0);

    s = look(trace, (struct switches_wanted) { true, .to = "one" });
    want_wake(s, 0, 34, 2, 1, "one");
    want_wake(s, 1, 34, 3, 1, "one");
    want_end(s, 1);

    s = look(trace, (struct switches_wanted) { true, .to = "4" });
    want_wake(s, 0, 24, 2, 4, "new");
    want_end(s, 1);

    s = look(trace, (struct switches_wanted) { true, .from = "two" });
    want_wake(s, 0, 24, 2, 4, "new");
    want_wake(s, 1, 34, 3, 1, "one");
    want_end(s, 0);

    want_error(trace, (struct switches_wanted) { true, .to = "newer" },
               "the trace names no task newer");
    btrail_trace_close(trace);
}

static void test_nameless(void)
{
    char *path = sample_path();
    struct btrail_trace *trace;

    sample_write(path, 3);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    want_error(trace, (struct switches_wanted) { false },
               "the trace names no tasks, so it does not show where they are "
               "switched");
    btrail_trace_close(trace);
    sample_remove(path);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/all", test_all);
    g_test_add_func("/from", test_from);
    g_test_add_func("/wakes", test_wakes);
    g_test_add_func("/nameless", test_nameless);
    return g_test_run();
}
