/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Budgets: as large as the files allow, and never overdrawn
 */

#include <glib.h>

#include "lib/agent/budget.h"

#define MIB     (UINT64_C(1) << 20)

static void check_size(uint64_t size, uint64_t want)
{
    struct btrail_budget *b = btrail_budget_new(size);

    g_assert_false(btrail_budget_take(b, want + 1));
    g_assert_true(btrail_budget_take(b, want));
    g_assert_false(btrail_budget_take(b, 1));
    g_assert_true(btrail_budget_take(b, 0));
    btrail_budget_unref(b);
}

static void test_sizes(void)
{
    check_size(0, 256 * MIB);
    check_size(1, 256 * MIB + 64);
    check_size(MIB, 320 * MIB);
    check_size(28 * MIB, 2048 * MIB);
    check_size(28 * MIB - 1, 2048 * MIB - 64);
    check_size(UINT64_MAX, 2048 * MIB);
}

static void test_decoding(void)
{
    static const struct { uint64_t size, want; } cases[] = {
        { 0, 2048 * MIB }, { 1, 2048 * MIB + 64 }, { MIB, 2112 * MIB },
        { 1024 * MIB, (2048 + 64 * 1024) * MIB },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct btrail_budget *b = btrail_budget_new_decoding(cases[i].size);

        g_assert_false(btrail_budget_take(b, cases[i].want + 1));
        g_assert_true(btrail_budget_take(b, cases[i].want));
        g_assert_false(btrail_budget_take(b, 1));
        btrail_budget_unref(b);
    }
    btrail_budget_unref(btrail_budget_new_decoding(UINT64_MAX));
}

static void test_give(void)
{
    struct btrail_budget *b = btrail_budget_new(0);

    g_assert_true(btrail_budget_take(b, 200 * MIB));
    g_assert_false(btrail_budget_take(b, 57 * MIB));
    btrail_budget_give(b, MIB);
    g_assert_true(btrail_budget_take(b, 57 * MIB));
    g_assert_false(btrail_budget_take(b, 1));
    btrail_budget_unref(btrail_budget_ref(b));
    btrail_budget_give(b, 1);
    g_assert_true(btrail_budget_take(b, 1));
    btrail_budget_unref(b);
    btrail_budget_unref(NULL);
}

static gpointer take_all(gpointer data)
{
    gsize n = 0;

    while (btrail_budget_take(data, 4096)) {
        n++;
    }
    return GSIZE_TO_POINTER(n);
}

/* Several threads get all of it together, and no more. */
static void test_threads(void)
{
    struct btrail_budget *b = btrail_budget_new(0);
    GThread *threads[4];
    gsize n = 0;

    for (unsigned i = 0; i < G_N_ELEMENTS(threads); i++) {
        threads[i] = g_thread_new("take", take_all, b);
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(threads); i++) {
        n += GPOINTER_TO_SIZE(g_thread_join(threads[i]));
    }
    g_assert_cmpuint(n, ==, 256 * MIB / 4096);
    btrail_budget_unref(b);
}

static void test_guest(void)
{
    struct btrail_budget *b = btrail_budget_new_fixed(4 * MIB, 4);

    g_assert_cmpuint(btrail_budget_size(b), ==, 4 * MIB);
    g_assert_false(btrail_budget_keep(b, 3 * MIB));
    g_assert_cmpuint(btrail_budget_refused(b), ==, 1);
    g_assert_true(btrail_budget_keep(b, 3 * MIB - BTRAIL_BUDGET_ENTRY));
    g_assert_false(btrail_budget_keep(b, 0));
    /* What is spare is for what is not kept. */
    g_assert_true(btrail_budget_take(b, MIB));
    g_assert_cmpuint(btrail_budget_left(b), ==, 0);
    btrail_budget_drop(b, 3 * MIB - BTRAIL_BUDGET_ENTRY);
    g_assert_true(btrail_budget_keep(b, 2 * MIB - BTRAIL_BUDGET_ENTRY));
    g_assert_false(btrail_budget_keep(b, 0));
    g_assert_cmpuint(btrail_budget_left(b), ==, MIB);
    g_assert_cmpuint(btrail_budget_refused(b), ==, 3);
    btrail_budget_unref(b);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/budget/sizes", test_sizes);
    g_test_add_func("/budget/decoding", test_decoding);
    g_test_add_func("/budget/give", test_give);
    g_test_add_func("/budget/threads", test_threads);
    g_test_add_func("/budget/guest", test_guest);
    return g_test_run();
}
