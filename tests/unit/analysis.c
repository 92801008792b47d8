/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Test what is said of a trace that cannot be read
 */

#include <errno.h>

#include "cli/analysis.h"
#include "lib/agent/budget.h"
#include "lib/agent/trace-files.h"
#include "trace-samples.h"

#define MIB     (UINT64_C(1) << 20)

/* A small trace has so much to be decoded, says docs/trace-format.md */
#define DECODING_MIB    2048

static void say(unsigned n, int error)
{
    char *path = sample_path();
    struct analysis a = { .trace.path = "x" };
    struct btrail_budget *b;
    struct btrail_cursor *cursor;
    struct btrail_batch batch;

    sample_write(path, 3);
    g_assert_cmpint(btrail_trace_open(&a.trace.trace, path), ==, 0);
    b = btrail_trace_decoding(a.trace.trace);
    g_assert_cmpuint(btrail_budget_size(b) / MIB, ==, DECODING_MIB);
    /* As if others had been read that take all of it */
    g_assert_true(btrail_budget_take(b, btrail_budget_left(b)));
    for (unsigned i = 0; i < n; i++) {
        g_assert_cmpint(btrail_cursor_open(&cursor, a.trace.trace, 0, 0), ==,
                        0);
        g_assert_cmpint(btrail_cursor_next(cursor, &batch), ==,
                        -BTRAIL_ERR_MEMORY);
        btrail_cursor_close(cursor);
    }
    errno = EIO;
    g_assert_cmpint(analysis_failed(&a, error), ==, CLI_FAILED);
    btrail_budget_give(b, btrail_budget_size(b));
    btrail_trace_close(a.trace.trace);
    sample_remove(path);
}

static void check_says(const char *name, const char *text)
{
    g_test_trap_subprocess(name, 0, G_TEST_SUBPROCESS_DEFAULT);
    g_test_trap_assert_passed();
    g_test_trap_assert_stderr(text);
}

static void say_budget(void)
{
    say(1, -BTRAIL_ERR_MEMORY);
}

static void say_memory(void)
{
    say(0, -BTRAIL_ERR_MEMORY);
}

static void say_other(void)
{
    say(1, -BTRAIL_ERR_IO);
}

static void test_failed(void)
{
    check_says("/analysis/failed/subprocess/budget",
               "*: x: out of memory: to decode the records of its 2 vCPUs at "
               "the same time takes more than the 2048 MiB that are for a trace "
               "of its size\n*");
    /* The host has none. */
    check_says("/analysis/failed/subprocess/memory", "*: x: out of memory\n*");
    check_says("/analysis/failed/subprocess/other",
               "*: x: Input/output error\n*");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/analysis/failed", test_failed);
    g_test_add_func("/analysis/failed/subprocess/budget", say_budget);
    g_test_add_func("/analysis/failed/subprocess/memory", say_memory);
    g_test_add_func("/analysis/failed/subprocess/other", say_other);
    return g_test_run();
}
