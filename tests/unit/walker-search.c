/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Searches of walkers, compared with all records of the trace
 */

#include "walker-sample.h"

static void search(unsigned lost)
{
    struct walker_sample f = walker_sample_begin(lost);

    for (unsigned i = 0; i < 300; i++) {
        /* Also some that never run */
        uint64_t addresses[] = {
            walker_sample_address() + 4 * (i % 3),
            i % 7 ? walker_sample_address() : 0x77,
        };
        unsigned from = g_test_rand_int_range(0, f.steps->len);
        unsigned n = 1 + i % 2;
        bool forward = g_test_rand_bit();
        int found = walker_sample_search(&f, from, forward, addresses, n);
        enum walker_answer answer;

        walker_sample_go(&f, from);
        answer = walker_search(f.walker, addresses, n, forward,
                               walker_sample_go_on, NULL);
        g_assert_cmpint(answer, ==, found < 0 ? WALKER_END : WALKER_FOUND);
        walker_sample_at(&f, found >= 0 ? (unsigned)found :
                   forward ? f.steps->len - 1 : 0);
    }
    walker_sample_end(&f);
}

static void test_search(void)
{
    search(0);
    search(9);
}

static void test_interrupted(void)
{
    struct walker_sample f = walker_sample_begin(0);
    const uint64_t address = walker_sample_address() + 8;
    unsigned left = 0;

    walker_sample_go(&f, 1234);
    g_assert_cmpint(walker_search(f.walker, &address, 1, false,
                                  walker_sample_go_on, &left), ==,
                    WALKER_INTERRUPTED);
    walker_sample_at(&f, 1234);
    walker_sample_end(&f);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/walker-search/search", test_search);
    g_test_add_func("/walker-search/interrupted", test_interrupted);
    return g_test_run();
}
