/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of drain/any-pauses.h: how long any vCPU was paused
 */

#include "drain/any-pauses.h"

#define TIMES   2000

static void add(struct any_pauses *p, uint64_t begin, uint64_t end)
{
    const struct btrail_pause pause = { .begin = begin, .end = end };

    any_pauses_add(p, &pause);
}

static void test_some(void)
{
    struct any_pauses *p = any_pauses_new();

    g_assert_cmpuint(any_pauses_in(p, 0, 100), ==, 0);
    add(p, 10, 20);
    add(p, 40, 50);
    g_assert_cmpuint(any_pauses_in(p, 0, 100), ==, 20);
    g_assert_cmpuint(any_pauses_in(p, 15, 45), ==, 10);
    g_assert_cmpuint(any_pauses_in(p, 12, 18), ==, 6);
    g_assert_cmpuint(any_pauses_in(p, 20, 40), ==, 0);
    g_assert_cmpuint(any_pauses_in(p, 45, 15), ==, 0);
    /* Another vCPU's, which overlaps both */
    add(p, 18, 42);
    g_assert_cmpuint(any_pauses_in(p, 0, 100), ==, 40);
    any_pauses_free(p);
}

/* Any pauses of some vCPUs, compared with a map of each moment */
static void test_random(void)
{
    struct any_pauses *p = any_pauses_new();
    bool paused[TIMES] = { false };

    for (unsigned i = 0; i < 200; i++) {
        unsigned begin = (unsigned)g_test_rand_int_range(0, TIMES - 10);
        unsigned end = begin + (unsigned)g_test_rand_int_range(1, 10);
        uint64_t want = 0;

        add(p, begin, end);
        for (unsigned t = begin; t < end; t++) {
            paused[t] = true;
        }
        begin = (unsigned)g_test_rand_int_range(0, TIMES);
        end = (unsigned)g_test_rand_int_range(0, TIMES);
        for (unsigned t = begin; t < end; t++) {
            want += paused[t];
        }
        g_assert_cmpuint(any_pauses_in(p, begin, end), ==, want);
    }
    any_pauses_free(p);
}

/* If there are too many, more counts as paused and never less. */
static void test_many(void)
{
    struct any_pauses *p = any_pauses_new();
    uint64_t n = ANY_PAUSES_MAX + 10;

    for (uint64_t i = 0; i < n; i++) {
        add(p, 10 * i, 10 * i + 4);
    }
    g_assert_cmpuint(any_pauses_in(p, 0, 10 * n), ==, 4 * n + 6 * 10);
    g_assert_cmpuint(any_pauses_in(p, 10 * 11, 10 * n), ==, 4 * (n - 11));
    any_pauses_free(p);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/any-pauses/some", test_some);
    g_test_add_func("/any-pauses/random", test_random);
    g_test_add_func("/any-pauses/many", test_many);
    return g_test_run();
}
