/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names of tasks, in a trace of two vCPUs that is made here
 */

#include <string.h>

#include "backtrail/transport.h"
#include "find/task-names.h"
#include "trace-samples.h"

#define RECORDS 10u

/* What a vCPU runs from a time on */
static const struct run {
    unsigned vcpu;
    uint64_t host;
    unsigned pid;
    unsigned tid;
    const char *name;
} runs[] = {
    { 0, 1000, 1, 1, "shell" },
    { 1, 1500, 7, 8, "thread" },
    { 0, 2000, 5, 5, "shell" },
    { 1, 2500, 1, 1, "shell" },
    { 0, 3000, 5, 5, "program" },
    { 1, 3500, 7, 7, "main" },
    { 0, 4000, 5, 5, "shell" },
};

static struct btrail_trace *open_trace(bool more)
{
    char *path = sample_path();
    uint64_t index[2] = { 0 };
    struct btrail_trace *trace;
    struct btrail_writer *w;

    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    for (unsigned i = 0; i < G_N_ELEMENTS(runs); i++) {
        const struct run *run = &runs[i];
        struct btrail_record records[RECORDS];
        uint64_t first = index[run->vcpu];
        struct btrail_event events[3] = {
            { .type = BTRAIL_EVENT_TIME, .index = first,
              .data = { run->host, 0, BTRAIL_NO_ICOUNT } },
            { .type = BTRAIL_EVENT_TASK, .index = first,
              .reason = more ? BTRAIL_TASK_LEFT_RUNNABLE : 0,
              .data = { run->tid | (uint64_t)run->pid << 32 } },
            { .type = BTRAIL_EVENT_WAKE, .index = first, .data = { 9 } },
        };
        struct btrail_slab slab = {
            .first_index = first, .records = records, .n_records = RECORDS,
            .events = events, .n_events = 2 + more,
        };

        memset(records, 0, sizeof(records));
        memcpy(&events[1].data[1], run->name, strlen(run->name));
        g_assert_cmpint(btrail_writer_append(w, run->vcpu, &slab), ==, 0);
        g_assert_cmpint(btrail_writer_flush(w), ==, 0);
        index[run->vcpu] += RECORDS;
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    sample_remove(path);
    return trace;
}

static void test_names(void)
{
    struct btrail_trace *trace = open_trace(false);
    struct task_names *t = task_names_new(trace, 0, NULL);

    g_assert_true(t->tasks);
    g_assert_false(t->wakes);
    g_assert_false(t->lefts);
    /* Before it has run, it has the name with which it begins to. */
    g_assert_cmpstr(task_names_at(t, 0, 5, 5, 0), ==, "shell");
    g_assert_cmpstr(task_names_at(t, 0, 5, 5, 2000), ==, "shell");
    g_assert_cmpstr(task_names_at(t, 0, 5, 5, 2001), ==, "program");
    g_assert_cmpstr(task_names_at(t, 0, 5, 5, 3001), ==, "shell");
    g_assert_cmpstr(task_names_at(t, 0, 5, 5, 9999), ==, "shell");
    g_assert_cmpstr(task_names_at(t, 0, 7, 8, 9999), ==, "thread");
    g_assert_cmpstr(task_names_at(t, 0, 7, 7, 0), ==, "main");
    g_assert_null(task_names_at(t, 0, 8, 8, 1000));
    g_assert_null(task_names_at(t, 1, 5, 5, 2000));
    task_names_free(t);
    btrail_trace_close(trace);
}

static void test_facts(void)
{
    struct btrail_trace *trace = open_trace(true);
    struct task_names *t = task_names_new(trace, 0, NULL);

    g_assert_true(t->tasks);
    g_assert_true(t->wakes);
    g_assert_true(t->lefts);
    task_names_free(t);
    g_assert_true(task_names_any(trace));
    btrail_trace_close(trace);
}

/* Nobody is named, or that nobody is known. */
static void test_none(void)
{
    for (unsigned unknown = 0; unknown < 2; unknown++) {
        const struct btrail_record record = { 0 };
        const struct btrail_event events[] = {
            { .type = BTRAIL_EVENT_TIME, .data = { 1, 0, BTRAIL_NO_ICOUNT } },
            { .type = BTRAIL_EVENT_TASK, .reason = BTRAIL_TASK_UNKNOWN },
        };
        const struct btrail_slab slab = {
            .records = &record, .n_records = 1, .events = events,
            .n_events = 1 + unknown,
        };
        char *path = sample_path();
        struct btrail_trace *trace;
        struct btrail_writer *w;

        g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
        g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
        g_assert_cmpint(btrail_writer_close(w), ==, 0);
        g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
        g_assert_false(task_names_any(trace));
        btrail_trace_close(trace);
        sample_remove(path);
    }
}

/* What has no room is not known, and nothing else is wrong for it. */
static void test_limit(void)
{
    struct btrail_trace *trace = open_trace(false);
    struct task_names *t = task_names_new(trace, 2, NULL);

    g_assert_cmpuint(t->n, ==, 2);
    g_assert_cmpstr(task_names_at(t, 0, 1, 1, 9999), ==, "shell");
    g_assert_cmpstr(task_names_at(t, 0, 7, 8, 0), ==, "thread");
    g_assert_null(task_names_at(t, 0, 5, 5, 0));
    task_names_free(t);
    btrail_trace_close(trace);
}

static void test_meant(void)
{
    struct btrail_trace *trace = open_trace(false);
    struct task_names *t = task_names_new(trace, 0, NULL);
    g_autoptr(GError) error = NULL;

    g_assert_true(task_names_means("thread", "thread", 7, 8));
    g_assert_true(task_names_means("8", "thread", 7, 8));
    g_assert_true(task_names_means("7", NULL, 7, 8));
    g_assert_false(task_names_means("thread", NULL, 7, 8));
    g_assert_false(task_names_means("9", "thread", 7, 8));
    g_assert_true(task_names_check(t, "program", NULL));
    g_assert_true(task_names_check(t, "7", NULL));
    g_assert_false(task_names_check(t, "porgram", &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_NAMES);
    g_assert_cmpstr(error->message, ==, "the trace names no task porgram "
                    "(did you mean 'program'?)");
    task_names_free(t);
    btrail_trace_close(trace);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/names", test_names);
    g_test_add_func("/facts", test_facts);
    g_test_add_func("/none", test_none);
    g_test_add_func("/limit", test_limit);
    g_test_add_func("/meant", test_meant);
    return g_test_run();
}
