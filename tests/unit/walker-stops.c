/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What ends the way of a walker, compared with all records of the trace
 */

#include "walker-sample.h"
#include "gdb/walker-parts.h"

/* Addresses of which some are in a range, by each of them */
static void test_has(void)
{
    for (unsigned i = 0; i < 2000; i++) {
        uint64_t sorted[8], first, last, at = 0;
        unsigned n = g_test_rand_int_range(0, G_N_ELEMENTS(sorted));
        bool any = false;

        for (unsigned k = 0; k < n; k++) {
            at += g_test_rand_int_range(0, 4);
            sorted[k] = at;
        }
        first = g_test_rand_int_range(0, 20);
        last = first + g_test_rand_int_range(-2, 6);
        for (unsigned k = 0; k < n; k++) {
            any |= first <= sorted[k] && sorted[k] <= last;
        }
        g_assert_cmpint(walker_has(sorted, n, first, last), ==, any);
    }
    g_assert_true(walker_has((uint64_t[]) { UINT64_MAX }, 1, 0, UINT64_MAX));
    g_assert_false(walker_has(NULL, 0, 0, UINT64_MAX));
}

/* Stops of the block where it is: it has two instructions. */
static void test_block(void)
{
    struct walker_sample f = walker_sample_begin(0);

    for (unsigned i = 0; i < 300; i++) {
        unsigned k = g_test_rand_int_range(0, WALKER_SAMPLE_N - 1);
        unsigned which = g_test_rand_int_range(0, 3);
        uint64_t address = which == 2 ? 0x77 :
                           walker_sample_step(&f, 2 * k + which)->pc;
        struct walker_stops stops = { &address, 1, walker_sample_go_on, NULL };
        bool forward = g_test_rand_bit();
        unsigned from = g_test_rand_int_range(0, 4);
        bool found = which < 2 && (forward ? which >= from : which < from);

        walker_sample_go(&f, 2 * k);
        g_assert_cmpint(walker_at_stop(f.walker, &stops), ==, which == 0);
        g_assert_cmpint(walker_stop_in_block(f.walker, &stops, forward, from),
                        ==, found);
        walker_sample_at(&f, 2 * k + (found ? which : 0));
    }
    walker_sample_end(&f);
}

/* It asks now and then, and never more once there is none left. */
static void test_patience(void)
{
    unsigned left = 3, n = 0;
    struct walker_stops stops = { NULL, 0, walker_sample_go_on, &left };

    for (uint64_t i = 1; i < 1u << 20 && walker_has_patience(&stops, i); i++) {
        n++;
    }
    g_assert_cmpuint(n, >, 100000);
    g_assert_cmpuint(n, <, 1u << 20);
    g_assert_false(walker_has_patience(&stops, 0));
}

/*
 * Nothing here is a call or returns, so that a way ends at a stop or at records
 * that are missing; the first block of which nothing is known ends one, too.
 */
static void ways(unsigned lost)
{
    struct walker_sample f = walker_sample_begin(lost);

    for (unsigned i = 0; i < 300; i++) {
        const uint64_t addresses[] = { walker_sample_address() + 4 * (i % 2) };
        struct walker_stops stops = {
            addresses, i % 5 ? 1 : 0, walker_sample_go_on, NULL,
        };
        unsigned half = WALKER_SAMPLE_N;
        unsigned from = g_test_rand_int_range(0, f.steps->len);
        bool forward = i % 3;
        int found = walker_sample_search(&f, from, forward, addresses, stops.n);
        enum walker_way way;

        /* Of which the second half begins after what is missing. */
        if (found >= 0 && lost && (from < half) != (found < (int)half)) {
            found = -1;
        }
        walker_sample_go(&f, from);
        way = forward ? walker_return(f.walker, f.edges, UINT64_MAX, &stops) :
                        walker_caller(f.walker, f.edges, UINT64_MAX, &stops);
        g_assert_cmpint(way, ==, found < 0 ? WALKER_NOWHERE : WALKER_STOP);
        walker_sample_at(&f, found < 0 ? from : (unsigned)found);
    }
    walker_sample_end(&f);
}

static void test_ways(void)
{
    ways(0);
    ways(9);
}

/* A walker with no patience left stays where it was. */
static void test_impatient(void)
{
    struct walker_sample f = walker_sample_begin(0);
    const uint64_t address = walker_sample_address() + 8;
    struct walker_stops stops = { &address, 1, walker_sample_go_on, NULL };

    walker_sample_go(&f, 1234);
    g_assert_cmpint(walker_return(f.walker, f.edges, 100, &stops), ==,
                    WALKER_NOWHERE);
    walker_sample_at(&f, 1234);
    g_assert_cmpint(walker_caller(f.walker, f.edges, 100, &stops), ==,
                    WALKER_NOWHERE);
    walker_sample_at(&f, 1234);
    walker_sample_end(&f);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/walker-stops/has", test_has);
    g_test_add_func("/walker-stops/block", test_block);
    g_test_add_func("/walker-stops/patience", test_patience);
    g_test_add_func("/walker-stops/ways", test_ways);
    g_test_add_func("/walker-stops/impatient", test_impatient);
    return g_test_run();
}
