/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of guest-time.c: nanoseconds of ticks
 */

#include <glib.h>

#include "find/guest-time.h"

static void test_ns(void)
{
    const uint64_t ghz = UINT64_C(1000000000);

    g_assert_cmpuint(guest_time_ns(0, ghz), ==, 0);
    g_assert_cmpuint(guest_time_ns(1234567890123, ghz), ==, 1234567890123);
    g_assert_cmpuint(guest_time_ns(UINT64_MAX / 2, ghz), ==, UINT64_MAX / 2);
    /* At 2.5 GHz */
    g_assert_cmpuint(guest_time_ns(2499999999, 2500000000), ==, 999999999);
    g_assert_cmpuint(guest_time_ns(2500000000, 2500000000), ==, ghz);
    g_assert_cmpuint(guest_time_ns(UINT64_MAX, 15000000000), ==,
                     1229782938247303441);
    /* At 1 MHz, the most ticks are more than can be said. */
    g_assert_cmpuint(guest_time_ns(UINT64_MAX, 1000000), ==, UINT64_MAX);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/guest-time/ns", test_ns);
    return g_test_run();
}
