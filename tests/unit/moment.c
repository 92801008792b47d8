/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of moment.c: which of two moments is before the other one
 */

#include <glib.h>

#include "find/moment.h"

static struct moment moment(unsigned vcpu, uint64_t index, uint64_t icount,
                            uint64_t host)
{
    return (struct moment) {
        .vcpu = vcpu, .index = index, .icount = icount, .time.host = host,
    };
}

static void check(struct moment a, struct moment b, int order)
{
    g_assert_cmpint(moment_compare(&a, &b), ==, order);
    g_assert_cmpint(moment_compare(&b, &a), ==, -order);
}

static void test_compare(void)
{
    const uint64_t none = BTRAIL_NO_ICOUNT;

    /* Records of one vCPU are in order, whatever else is known. */
    check(moment(0, 1, 7, 7), moment(0, 2, 7, 7), -1);
    check(moment(0, 2, none, 7), moment(0, 2, none, 7), 0);
    check(moment(0, 9, 5, 50), moment(1, 1, 6, 40), -1);
    check(moment(0, 9, none, 50), moment(1, 1, none, 40), 1);
    check(moment(0, 9, 5, 50), moment(1, 1, none, 60), -1);
    check(moment(0, 9, none, 50), moment(1, 1, none, 50), 0);
}

/* An estimated time is finer than those that are known, and not than counts. */
static void test_clock(void)
{
    const uint64_t none = BTRAIL_NO_ICOUNT;
    struct moment a = moment(0, 9, none, 50), b = moment(1, 1, none, 40);

    a.clock = 55;
    check(a, b, 1);
    b.clock = 56;
    check(a, b, -1);
    a.icount = 5;
    check(a, b, -1);
    b.icount = 4;
    check(a, b, 1);
    a.icount = 4;
    check(a, b, -1);
    a.exact = b.exact = true;
    check(a, b, 0);
    b.vcpu = 0;
    check(a, b, 1);
}

static void test_after(void)
{
    const struct btrail_record records[] = { { 1, 2, 0 }, { 3, 4, 0 } };
    const struct btrail_batch b = {
        .records = records, .count = 2, .index = 40,
        .time = { 11, 12, BTRAIL_NO_ICOUNT }, .task = { .tid = 5 },
    };
    struct moment m = moment_after(3, &b, 1);

    g_assert_cmpuint(m.vcpu, ==, 3);
    g_assert_cmpuint(m.index, ==, 41);
    g_assert_cmpuint(m.icount, ==, BTRAIL_NO_ICOUNT);
    g_assert_false(m.exact);
    g_assert_cmpuint(m.time.tsc, ==, 12);
    g_assert_cmpuint(m.task.tid, ==, 5);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/moment/compare", test_compare);
    g_test_add_func("/moment/clock", test_clock);
    g_test_add_func("/moment/after", test_after);
    return g_test_run();
}
