/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sets of address spaces: what is listed, what is too many, what is equal.
 */

#include <glib.h>

#include "lib/internal/cr3set.h"

static void test_switch(void)
{
    struct btrail_cr3set set = { 0 };

    /* Flags and PCID are no other address space. */
    btrail_cr3set_switch(&set, 0x1000, 0x1fff);
    btrail_cr3set_switch(&set, 0x1000, 0x6000000000001000ull);
    g_assert_cmpuint(set.n, ==, 0);
    btrail_cr3set_switch(&set, 0x1000, 0x3018);
    btrail_cr3set_switch(&set, 0x3000, 0x1000);
    btrail_cr3set_switch(&set, 0x1000, 0x6000000000003000ull);
    btrail_cr3set_switch(&set, 0x1000, 0);
    g_assert_cmpuint(set.n, ==, 3);
    g_assert_cmphex(set.roots[0], ==, 0x3000);
    g_assert_cmphex(set.roots[1], ==, 0x1000);
    g_assert_cmphex(set.roots[2], ==, 0);
}

/* Those of PAE can be in one page. */
static void test_pae(void)
{
    struct btrail_cr3set set = { 0 };

    btrail_cr3set_switch(&set, BTRAIL_CR3_PAE | 0x1000,
                         BTRAIL_CR3_PAE | 0x1018);
    g_assert_cmpuint(set.n, ==, 0);
    btrail_cr3set_switch(&set, BTRAIL_CR3_PAE | 0x1000,
                         BTRAIL_CR3_PAE | 0x1020);
    btrail_cr3set_switch(&set, BTRAIL_CR3_PAE | 0x1020, 0x1020);
    btrail_cr3set_switch(&set, 0x1020, BTRAIL_CR3_PAE | 0x1038);
    g_assert_cmpuint(set.n, ==, 2);
    g_assert_cmphex(set.roots[0], ==, BTRAIL_CR3_PAE | 0x1020);
    g_assert_cmphex(set.roots[1], ==, 0x1000);
}

static void test_many(void)
{
    struct btrail_cr3set set = { 0 };
    uint64_t i;

    for (i = 0; i < BTRAIL_CR3SET_MAX; i++) {
        btrail_cr3set_switch(&set, i << 12, (i + 1) << 12);
        g_assert_cmpuint(set.n, ==, i + 1);
        g_assert_cmpuint(btrail_cr3set_listed(set.n), ==, i + 1);
    }
    /* Those that it has are no more. */
    btrail_cr3set_switch(&set, 0, i << 12);
    g_assert_cmpuint(set.n, ==, BTRAIL_CR3SET_MAX);
    btrail_cr3set_switch(&set, 0, (i + 1) << 12);
    g_assert_cmpuint(set.n, ==, BTRAIL_CR3SET_MANY);
    g_assert_cmpuint(btrail_cr3set_listed(set.n), ==, 0);
    btrail_cr3set_switch(&set, 0, 1ull << 12);
    g_assert_cmpuint(set.n, ==, BTRAIL_CR3SET_MANY);
}

static void test_equal(void)
{
    struct btrail_cr3set a = { 2, { 0x1000, 0x2000, 0x3000 } };
    struct btrail_cr3set b = { 2, { 0x1000, 0x2000, 0x4000 } };

    g_assert_true(btrail_cr3set_equal(&a, &b));
    b.n = 3;
    g_assert_false(btrail_cr3set_equal(&a, &b));
    a.n = 3;
    g_assert_false(btrail_cr3set_equal(&a, &b));
    a.n = b.n = BTRAIL_CR3SET_MANY;
    g_assert_true(btrail_cr3set_equal(&a, &b));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/cr3set/switch", test_switch);
    g_test_add_func("/cr3set/pae", test_pae);
    g_test_add_func("/cr3set/many", test_many);
    g_test_add_func("/cr3set/equal", test_equal);
    return g_test_run();
}
