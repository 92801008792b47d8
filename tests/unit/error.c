/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Each error of the library has a text.
 */

#include <glib.h>
#include <limits.h>

#include "backtrail/trace.h"

static void test_words(void)
{
    const char *unknown = btrail_strerror(INT_MAX);
    int e;

    g_assert_cmpstr(btrail_strerror(0), ==, "no error");
    for (e = BTRAIL_ERR_ARGUMENT; e <= BTRAIL_ERR_RANGE; e++) {
        g_assert_cmpstr(btrail_strerror(e), !=, unknown);
        g_assert_cmpstr(btrail_strerror(e), ==, btrail_strerror(-e));
    }
    g_assert_cmpstr(btrail_strerror(e), ==, unknown);
    g_assert_cmpstr(btrail_strerror(INT_MIN), ==, unknown);
}

static void test_version(void)
{
    g_assert_cmpstr(btrail_version(), ==, BACKTRAIL_VERSION);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/error/words", test_words);
    g_test_add_func("/error/version", test_version);
    return g_test_run();
}
