/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Walkers: where they go, compared with all records of the trace.
 */

#include "walker-sample.h"

static void walk(unsigned lost)
{
    struct walker_sample f = walker_sample_begin(lost);
    unsigned n = f.steps->len;

    walker_sample_go(&f, 0);
    g_assert_false(walker_back(f.walker));
    for (unsigned i = 1; i < n; i++) {
        g_assert_true(walker_step(f.walker));
        walker_sample_at(&f, i);
    }
    g_assert_false(walker_step(f.walker));
    walker_sample_at(&f, n - 1);
    for (unsigned i = n - 1; i--;) {
        g_assert_true(walker_back(f.walker));
        walker_sample_at(&f, i);
    }
    g_assert_false(walker_back(f.walker));
    walker_sample_at(&f, 0);
    walker_sample_end(&f);
}

static void test_walk(void)
{
    walk(0);
}

/* The hole is longer than what is read at once. */
static void test_lost(void)
{
    walk(7);
    walk(100000);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/walker/walk", test_walk);
    g_test_add_func("/walker/lost", test_lost);
    return g_test_run();
}
