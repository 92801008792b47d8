/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Hashes of numbers: neighbours are spread over the upper bits, and each
 * argument counts
 */

#include <glib.h>
#include <stdbool.h>

#include "util/hash.h"

#define SLOTS   4096

/* As many as half of the slots: by chance some 1600 are taken. */
static void check_spread(uint64_t (*hash)(uint64_t))
{
    g_autofree bool *taken = g_new0(bool, SLOTS);
    unsigned i, n = 0;

    for (i = 0; i < SLOTS / 2; i++) {
        bool *slot = &taken[hash(i) >> 32 & (SLOTS - 1)];

        n += !*slot;
        *slot = true;
    }
    g_assert_cmpuint(n, >, SLOTS / 4);
}

static uint64_t pages(uint64_t i)
{
    return btrail_hash(UINT64_C(0xffff888000000000) + (i << 12));
}

static uint64_t second(uint64_t i)
{
    return btrail_hash2(7, i << 4);
}

static uint64_t third(uint64_t i)
{
    return btrail_hash3(7, 8, i << 12);
}

static void test_spread(void)
{
    check_spread(btrail_hash);
    check_spread(pages);
    check_spread(second);
    check_spread(third);
}

static void test_order(void)
{
    g_assert_true(btrail_hash2(1, 2) != btrail_hash2(2, 1));
    g_assert_true(btrail_hash3(1, 2, 3) != btrail_hash3(1, 3, 2));
}

static void test_pair(void)
{
    const uint64_t a[] = { 1, 2, 3 }, same[] = { 1, 2, 4 };
    const uint64_t first[] = { 2, 2, 3 }, second[] = { 1, 3, 3 };

    g_assert_cmpuint(btrail_pair_hash(a), ==, btrail_pair_hash(same));
    g_assert_true(btrail_pair_equal(a, same));
    g_assert_false(btrail_pair_equal(a, first));
    g_assert_false(btrail_pair_equal(a, second));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/hash/spread", test_spread);
    g_test_add_func("/hash/order", test_order);
    g_test_add_func("/hash/pair", test_pair);
    return g_test_run();
}
