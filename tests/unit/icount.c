/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Instruction counts of records: their upper bits come from the TIME event in
 * force
 */

#include <glib.h>

#include "backtrail/trace.h"

#define FIRST   (UINT64_C(1) << 48)

static uint64_t get(uint64_t time, uint64_t flags)
{
    const struct btrail_record r = { 1, 2, flags };
    const struct btrail_time t = { 1, 2, time };

    return btrail_record_icount(&r, &t);
}

static void check(uint64_t time, uint64_t count)
{
    g_assert_cmphex(get(time, count << BTRAIL_RECORD_ICOUNT_SHIFT), ==, count);
    g_assert_cmphex(get(time, count << BTRAIL_RECORD_ICOUNT_SHIFT |
                        BTRAIL_RECORD_PREDICTED), ==, count);
}

static void test_near(void)
{
    static const uint64_t times[] = {
        0, 1, 1000, FIRST - 1, FIRST, FIRST + 1, 3 * FIRST - 5, INT64_MAX - 9,
    };
    static const uint64_t more[] = { 1, 2, 65536, 1u << 31, FIRST / 2 - 1 };

    for (unsigned i = 0; i < G_N_ELEMENTS(times); i++) {
        if (times[i] & (FIRST - 1)) {
            check(times[i], times[i]);
        }
        for (unsigned k = 0; k < G_N_ELEMENTS(more); k++) {
            uint64_t count = times[i] + more[k];

            if (count & (FIRST - 1)) {
                check(times[i], count);
            }
            /* A TIME event that comes after the record */
            if (times[i] > more[k] && (times[i] - more[k]) & (FIRST - 1)) {
                check(times[i], times[i] - more[k]);
            }
        }
    }
}

static void test_none(void)
{
    const struct btrail_record r = { 1, 2, 1 << BTRAIL_RECORD_ICOUNT_SHIFT };
    const struct btrail_time t = { 1, 2, 3 };

    g_assert_cmphex(get(5, 0), ==, BTRAIL_NO_ICOUNT);
    g_assert_cmphex(get(5, BTRAIL_RECORD_PREDICTED), ==, BTRAIL_NO_ICOUNT);
    g_assert_cmphex(get(BTRAIL_NO_ICOUNT, UINT64_MAX), ==, BTRAIL_NO_ICOUNT);
    g_assert_cmphex(btrail_record_icount(NULL, &t), ==, BTRAIL_NO_ICOUNT);
    g_assert_cmphex(btrail_record_icount(&r, NULL), ==, BTRAIL_NO_ICOUNT);
    g_assert_cmphex(btrail_record_icount(&r, &t), ==, 1);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/icount/near", test_near);
    g_test_add_func("/icount/none", test_none);
    return g_test_run();
}
