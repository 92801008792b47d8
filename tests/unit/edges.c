/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of analyze/edges.h: counting, merging, budgets, the most frequent edges
 */
#include <glib.h>

#include "analyze/edges.h"

static void count(struct edges *e, uint64_t from, uint64_t to, unsigned n)
{
    struct btrail_record r = { from, to, 0 };

    while (n--) {
        edges_count(e, &r, 1);
    }
}

static void test_top(void)
{
    size_t budget = 1000;
    struct edges *e = edges_new(&budget);
    struct edge top[4];

    g_assert_cmpuint(edges_top(e, top, 4), ==, 0);
    count(e, 1, 2, 5);
    count(e, 2, 1, 7);
    count(e, 0, 0, 6);
    count(e, 3, 3, 5);
    count(e, 9, 9, 1);
    g_assert_cmpuint(edges_top(e, top, 0), ==, 0);
    g_assert_cmpuint(edges_top(e, top, 4), ==, 4);
    g_assert_cmpuint(top[0].from, ==, 2);
    g_assert_cmpuint(top[0].to, ==, 1);
    g_assert_cmpuint(top[0].count, ==, 7);
    g_assert_cmpuint(top[1].from, ==, 0);
    g_assert_cmpuint(top[1].count, ==, 6);
    /* Equal ones in order of address */
    g_assert_cmpuint(top[2].from, ==, 1);
    g_assert_cmpuint(top[3].from, ==, 3);
    edges_free(e);
    edges_free(NULL);
}

/* Against GLib's hash table, with as many edges as make it grow */
static void test_many(void)
{
    size_t budget = 100000;
    struct edges *e = edges_new(&budget);
    GHashTable *table = g_hash_table_new_full(g_int64_hash, g_int64_equal,
                                              g_free, NULL);
    struct edge *top = g_new(struct edge, 100000);
    size_t i, n;

    for (i = 0; i < 200000; i++) {
        gint64 key = g_test_rand_int_range(0, 20000);
        struct btrail_record r = { key / 7 << 12, key % 7 << 40 | key, 0 };

        edges_count(e, &r, 1);
        g_hash_table_insert(table, g_memdup2(&key, sizeof(key)),
                            GSIZE_TO_POINTER(GPOINTER_TO_SIZE(
                                g_hash_table_lookup(table, &key)) + 1));
    }
    n = edges_top(e, top, 100000);
    g_assert_cmpuint(n, ==, g_hash_table_size(table));
    for (i = 0; i < n; i++) {
        gint64 key = top[i].to & 0xffffffff;

        g_assert_cmpuint(top[i].count, ==, GPOINTER_TO_SIZE(
            g_hash_table_lookup(table, &key)));
        g_assert_true(!i || top[i].count <= top[i - 1].count);
    }
    g_assert_cmpuint(edges_others(e), ==, 0);
    g_free(top);
    g_hash_table_unref(table);
    edges_free(e);
}

/* Two that share what there is */
static void test_budget(void)
{
    size_t budget = 3;
    struct edges *e = edges_new(&budget);
    struct edges *other = edges_new(&budget);
    struct edge top[3];

    count(e, 1, 1, 1);
    count(other, 1, 1, 1);
    count(e, 2, 2, 2);
    g_assert_cmpuint(budget, ==, 0);
    count(other, 2, 2, 1);
    g_assert_cmpuint(edges_others(other), ==, 1);
    count(e, 3, 3, 3);
    count(e, 1, 1, 4);
    g_assert_cmpuint(edges_top(e, top, 3), ==, 2);
    g_assert_cmpuint(top[0].count, ==, 5);
    g_assert_cmpuint(edges_others(e), ==, 3);
    edges_free(other);
    edges_free(e);
}

/* Counting in two halves and merging them is counting the whole. */
static void test_merge(void)
{
    size_t budget = 2000, half_budget = 2000, few = 100;
    struct edges *whole = edges_new(&budget);
    struct edges *half[2] = { edges_new(&half_budget),
                              edges_new(&half_budget) };
    struct edges *small = edges_new(&few);
    struct edge want[1000], got[1000];
    unsigned i;

    for (i = 0; i < 20000; i++) {
        unsigned n = g_test_rand_int_range(0, 1000);

        count(whole, n / 30, n % 30, 1);
        count(half[g_test_rand_bit()], n / 30, n % 30, 1);
    }
    g_assert_false(edges_merge(small, half[0], false));
    g_assert_cmpuint(few, ==, 0);
    g_assert_true(edges_merge(half[0], half[1], false));
    g_assert_cmpuint(edges_top(whole, want, 1000), ==,
                     edges_top(half[0], got, 1000));
    g_assert_cmpmem(want, (2000 - budget) * sizeof(*want), got,
                    (2000 - budget) * sizeof(*got));
    g_assert_cmpuint(budget, <, 1100);

    /* Others can be counted without their addresses. */
    count(small, 5000, 5000, 3);
    g_assert_true(edges_merge(whole, half[1], false));
    half_budget = 0;
    count(half[1], 6000, 6000, 2);
    g_assert_true(edges_merge(whole, half[1], false));
    g_assert_cmpuint(edges_others(whole), ==, 2);
    g_assert_cmpuint(edges_others(small), ==, 3);
    edges_free(whole);
    edges_free(half[0]);
    edges_free(half[1]);
    edges_free(small);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/edges/top", test_top);
    g_test_add_func("/edges/many", test_many);
    g_test_add_func("/edges/budget", test_budget);
    g_test_add_func("/edges/merge", test_merge);
    return g_test_run();
}
