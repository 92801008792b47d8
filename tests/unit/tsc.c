/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Test the guest's clock of guest-tools/names/tsc.c
 */

#include <glib.h>

#include "tsc.h"

static void add(struct tsc_clock *c, uint64_t ns, uint64_t tsc)
{
    c->moments[c->n++ % TSC_MOMENTS] = (struct tsc_moment) { ns, tsc };
}

static void test_between(void)
{
    struct tsc_clock c = { .n = 0 };

    g_assert_cmpuint(tsc_clock_at(&c, 5), ==, 0);
    add(&c, 1000, 30000);
    g_assert_cmpuint(tsc_clock_at(&c, 999), ==, 30000);
    g_assert_cmpuint(tsc_clock_at(&c, 1001), ==, 30000);
    add(&c, 2000, 33000);
    add(&c, 3000, 35000);
    g_assert_cmpuint(tsc_clock_at(&c, 0), ==, 30000);
    g_assert_cmpuint(tsc_clock_at(&c, 1000), ==, 30000);
    g_assert_cmpuint(tsc_clock_at(&c, 1500), ==, 31500);
    g_assert_cmpuint(tsc_clock_at(&c, 2000), ==, 33000);
    g_assert_cmpuint(tsc_clock_at(&c, 2500), ==, 34000);
    /* A little after the last moment, the clock continues as before. */
    g_assert_cmpuint(tsc_clock_at(&c, 3100), ==, 35200);
    for (unsigned i = 0; i < 3 * TSC_MOMENTS; i++) {
        add(&c, 4000 + i * 10, UINT64_MAX / 2 + i * 7);
    }
    g_assert_cmpuint(tsc_clock_at(&c, 4000 + 20 * TSC_MOMENTS + 15), ==,
                     UINT64_MAX / 2 + 14 * TSC_MOMENTS + 10);
    g_assert_cmpuint(tsc_clock_at(&c, 4000), ==,
                     UINT64_MAX / 2 + 14 * TSC_MOMENTS);
}

/* Before there were moments it was rather later than that. */
static void test_before(void)
{
    struct tsc_clock c = { .n = 0 };
    uint64_t second = 1000000000, at;

    g_assert_cmpuint(tsc_clock_before(&c, 5), ==, 0);
    add(&c, 100 * second, 1000 * second);
    g_assert_cmpuint(tsc_clock_before(&c, 5), ==, 0);
    add(&c, 101 * second, 1003 * second);
    at = tsc_clock_before(&c, 90 * second);
    g_assert_cmpuint(at, >=, 970 * second);
    g_assert_cmpuint(at, <, 970 * second + second / 20);
    g_assert_cmpuint(tsc_clock_before(&c, 100 * second + second / 2), ==,
                     1001 * second + second / 2);
    /* The TSC was set to 0 later than that. */
    c.moments[0].tsc -= 990 * second;
    c.moments[1].tsc -= 990 * second;
    g_assert_cmpuint(tsc_clock_before(&c, 1), ==, 1);
}

/* The clocks of this machine: no time converts to one before another's. */
static void test_real(void)
{
    struct tsc_clock c = { .n = 0 };
    uint64_t last = 0;

    tsc_clock_update(&c);
    for (unsigned i = 0; i < 2000; i++) {
        uint64_t before = tsc_now();
        uint64_t ns = tsc_clock_ns();
        uint64_t after = tsc_now(), at;

        tsc_clock_update(&c);
        at = tsc_clock_at(&c, ns);
        g_assert_cmpuint(at, >=, last);
        /* Some microseconds, if the hypervisor takes its time */
        g_assert_cmpuint(at + 100000, >, before);
        g_assert_cmpuint(at, <, after + 100000);
        last = at;
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/tsc/between", test_between);
    g_test_add_func("/tsc/before", test_before);
    g_test_add_func("/tsc/real", test_real);
    return g_test_run();
}
