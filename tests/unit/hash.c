/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Hashes: neighbours are spread over the upper bits, and so are keys that
 * somebody has chosen; each argument counts
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

/* What a hash without a seed would put into one slot */
static uint64_t chosen(uint64_t i)
{
    uint64_t inverse = UINT64_C(0x9e3779b97f4a7c15);

    for (unsigned k = 0; k < 5; k++) {
        inverse *= 2 - UINT64_C(0x9e3779b97f4a7c15) * inverse;
    }
    g_assert_cmpuint(inverse * UINT64_C(0x9e3779b97f4a7c15), ==, 1);
    return btrail_hash(inverse * i);
}

static uint64_t chosen_pair(uint64_t i)
{
    uint64_t pair[2] = { i * UINT64_C(0xff51afd7ed558ccd),
                         i * UINT64_C(0x9e3779b97f4a7c15) };

    return (uint64_t)btrail_pair_hash(pair) << 32;
}

static uint64_t numbered(uint64_t i)
{
    char name[32];

    g_snprintf(name, sizeof(name), "/usr/lib/thread-%" G_GUINT64_FORMAT, i);
    return (uint64_t)btrail_str_hash(name) << 32;
}

/* Two characters that GLib's hash takes for two others, seven times */
static uint64_t chosen_string(uint64_t i)
{
    char name[23] = { 0 };

    for (unsigned k = 0; k < 11; k++) {
        memcpy(name + 2 * k, i >> k & 1 ? "bA" : "ab", 2);
    }
    g_assert_cmpuint(g_str_hash(name), ==, g_str_hash("abababababababababababab"
                                                      + 2));
    return (uint64_t)btrail_str_hash(name) << 32;
}

static void test_chosen(void)
{
    check_spread(chosen);
    check_spread(chosen_pair);
    check_spread(numbered);
    check_spread(chosen_string);
}

static void test_bytes(void)
{
    g_autoptr(GBytes) bytes = g_bytes_new_static("a string", 8);
    uint64_t number = 77, same = 77;
    char text[] = " a string";

    g_assert_cmpuint(btrail_str_hash("a string"), ==,
                     btrail_str_hash(text + 1));
    g_assert_cmpuint(btrail_bytes_hash(bytes), ==,
                     btrail_str_hash(text + 1));
    g_assert_cmpuint(btrail_int64_hash(&number), ==,
                     btrail_int64_hash(&same));
    g_assert_true(btrail_hash_bytes("a\0", 2) != btrail_hash_bytes("a", 1));
    g_assert_true(btrail_hash_bytes("", 0) != btrail_hash_bytes("\0", 1));
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
    g_test_add_func("/hash/chosen", test_chosen);
    g_test_add_func("/hash/bytes", test_bytes);
    g_test_add_func("/hash/order", test_order);
    g_test_add_func("/hash/pair", test_pair);
    return g_test_run();
}
