/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where the kernel switches to another task, in a trace of two vCPUs that is
 * made here
 */

#include <string.h>

#include "find/switches.h"
#include "trace-samples.h"

#define SLAB    10u

/* What a vCPU runs in each slab; 0 for what it ran before */
static const struct run {
    unsigned tid;
    const char *name;
    unsigned lost;
} runs[2][6] = {
    { { 1, "one" }, { 0 }, { 2, "two" }, { 2, "renamed" }, { 1, "one" },
      { 1, "one", 5 } },
    { { 3, "two" }, { 1, "one" }, { 3, "two" }, { 0 }, { 0 }, { 0 } },
};

static void write_slab(struct btrail_writer *w, unsigned vcpu, unsigned i,
                       uint64_t *index)
{
    const struct run *run = &runs[vcpu][i];
    struct btrail_record records[SLAB];
    struct btrail_event events[3];
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
        e->data[0] = run->tid | (uint64_t)run->tid << 32;
        memcpy(&e->data[1], run->name, strlen(run->name));
    }
    g_assert_cmpint(btrail_writer_append(w, vcpu, &slab), ==, 0);
    g_assert_cmpint(btrail_writer_flush(w), ==, 0);
    *index += SLAB;
}

static struct btrail_trace *open_trace(void)
{
    char *path = sample_path();
    uint64_t index[2] = { 0 };
    struct btrail_trace *trace;
    struct btrail_writer *w;

    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    for (unsigned i = 0; i < G_N_ELEMENTS(runs[0]); i++) {
        for (unsigned vcpu = 0; vcpu < 2; vcpu++) {
            write_slab(w, vcpu, i, &index[vcpu]);
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

static void test_all(void)
{
    struct btrail_trace *trace = open_trace();
    struct switches *s = switches_new(trace, NULL, NULL);
    struct task_switch found;
    GError *error = NULL;

    want(s, 0, 0, 0, 1);
    want(s, 1, 0, 0, 3);
    want(s, 1, 9, 3, 1);
    want(s, 0, 19, 1, 2);
    want(s, 1, 19, 1, 3);
    want(s, 0, 39, 2, 1);
    /* What ran before the gap is not known. */
    want(s, 0, 54, 0, 1);
    g_assert_false(switches_next(s, &found, &error));
    g_assert_no_error(error);
    switches_free(s);

    s = switches_new(trace, "two", NULL);
    switches_limit(s, 1, 5, UINT64_MAX);
    want(s, 0, 19, 1, 2);
    want(s, 1, 19, 1, 3);
    g_assert_false(switches_next(s, &found, &error));
    switches_free(s);
    btrail_trace_close(trace);
}

static void test_nameless(void)
{
    char *path = sample_path();
    struct btrail_trace *trace;
    struct task_switch found;
    struct switches *s;
    GError *error = NULL;

    sample_write(path, 3);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    s = switches_new(trace, NULL, NULL);
    g_assert_false(switches_next(s, &found, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_NAMES);
    g_error_free(error);
    switches_free(s);
    btrail_trace_close(trace);
    sample_remove(path);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/all", test_all);
    g_test_add_func("/nameless", test_nameless);
    return g_test_run();
}
