/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of symbolize/record-set.h: sets at random, compared with a bit for each
 * record
 */

#include <glib.h>
#include <string.h>

#include "backtrail/trace.h"
#include "symbolize/record-set.h"

enum { VCPUS = 3, N = 300, ROUNDS = 200 };

/* Asks for each record, and for where the answer changes. */
static void check(const struct record_set *s, unsigned vcpu, const bool *in)
{
    for (uint64_t i = 0; i < N; i++) {
        uint64_t until = 0, want = i + 1;

        while (want < N && in[want] == in[i]) {
            want++;
        }
        g_assert_cmpint(record_set_has(s, vcpu, i, &until), ==, in[i]);
        g_assert_cmpint(record_set_has(s, vcpu, i, NULL), ==, in[i]);
        if (want < N) {
            g_assert_cmpuint(until, ==, want);
        }
    }
}

static void test_random(void)
{
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct record_set *s = record_set_new();
        bool in[VCPUS][N + 1] = { { false } };
        unsigned n = g_test_rand_int_range(0, 40);

        for (unsigned i = 0; i < n; i++) {
            unsigned vcpu = g_test_rand_int_range(0, VCPUS);
            unsigned begin = g_test_rand_int_range(0, N - 1);
            unsigned end = begin + g_test_rand_int_range(0, 20);

            end = MIN(end, N - 1);
            record_set_add(s, vcpu, begin, end);
            memset(in[vcpu] + begin, true, end - begin);
        }
        record_set_seal(s);
        for (unsigned vcpu = 0; vcpu < VCPUS; vcpu++) {
            check(s, vcpu, in[vcpu]);
        }
        record_set_free(s);
    }
}

static void test_ends(void)
{
    struct record_set *s = record_set_new();
    uint64_t until;

    record_set_add(s, 1, 5, 5);
    record_set_add(s, 1, 7, 6);
    g_assert_cmpuint(record_set_ranges(s), ==, 0);
    record_set_add(s, 1, 10, UINT64_MAX);
    record_set_seal(s);
    g_assert_false(record_set_has(s, 1, 9, &until));
    g_assert_cmpuint(until, ==, 10);
    g_assert_true(record_set_has(s, 1, UINT64_MAX - 1, &until));
    g_assert_cmpuint(until, ==, UINT64_MAX);
    g_assert_false(record_set_has(s, 0, 10, &until));
    g_assert_cmpuint(until, ==, UINT64_MAX);
    g_assert_false(record_set_has(s, BTRAIL_MAX_VCPUS, 10, &until));
    record_set_free(s);
    record_set_free(NULL);
}

/* What follows the last range, or is in it, takes no memory. */
static void test_ranges(void)
{
    struct record_set *s = record_set_new();

    for (unsigned i = 0; i < 100; i++) {
        record_set_add(s, 0, 2 * i, 2 * i + 2);
        record_set_add(s, 0, i, i + 1);
    }
    record_set_seal(s);
    g_assert_cmpuint(record_set_ranges(s), ==, 1);
    record_set_free(s);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/random", test_random);
    g_test_add_func("/ends", test_ends);
    g_test_add_func("/ranges", test_ranges);
    return g_test_run();
}
