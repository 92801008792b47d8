/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The ways of a walker from one instruction to another
 */

#include "walker-sample.h"

/*
 * The instructions after and before one.  Nothing here is a call or returns, so
 * all are those of one function; tests/unit/walker-calls has others.
 */
static void go_all(unsigned lost, bool over)
{
    struct walker_sample f = walker_sample_begin(lost);
    const struct walker_stops stops = { NULL, 0, walker_sample_go_on, NULL };
    unsigned n = f.steps->len;

    walker_sample_go(&f, 0);
    g_assert_cmpint(walker_way_back(f.walker, f.edges, over, UINT64_MAX,
                                    &stops), ==, WALKER_NOWHERE);
    walker_sample_at(&f, 0);
    for (unsigned i = 1; i < n; i++) {
        g_assert_cmpint(walker_way_on(f.walker, f.edges, over, UINT64_MAX,
                                      &stops), ==, WALKER_SAME);
        walker_sample_at(&f, i);
    }
    g_assert_cmpint(walker_way_on(f.walker, f.edges, over, UINT64_MAX,
                                  &stops), ==, WALKER_NOWHERE);
    walker_sample_at(&f, n - 1);
    for (unsigned i = n - 1; i--;) {
        g_assert_cmpint(walker_way_back(f.walker, f.edges, over, UINT64_MAX,
                                        &stops), ==, WALKER_SAME);
        walker_sample_at(&f, i);
    }
    walker_sample_end(&f);
}

static void test_jumps(void)
{
    go_all(0, false);
    go_all(0, true);
}

/* Where records are missing, the next one that is known follows. */
static void test_lost(void)
{
    go_all(7, false);
    go_all(100000, true);
}

/* A walker that is nowhere stays there. */
static void test_nowhere(void)
{
    struct walker_sample f = walker_sample_begin(0);
    const struct walker_stops stops = { NULL, 0, walker_sample_go_on, NULL };
    struct walker *w = walker_new(f.trace, f.symbols,
                                  lane_new_vcpu(f.trace, f.symbols, 0));

    g_assert_null(walker_spot(w));
    for (unsigned over = 0; over < 2; over++) {
        g_assert_cmpint(walker_way_on(w, f.edges, over, 100, &stops), ==,
                        WALKER_NOWHERE);
        g_assert_cmpint(walker_way_back(w, f.edges, over, 100, &stops), ==,
                        WALKER_NOWHERE);
    }
    g_assert_null(walker_spot(w));
    walker_free(w);
    walker_sample_end(&f);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/walker-ways/jumps", test_jumps);
    g_test_add_func("/walker-ways/lost", test_lost);
    g_test_add_func("/walker-ways/nowhere", test_nowhere);
    return g_test_run();
}
