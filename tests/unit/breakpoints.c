/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Breakpoints: what there is after some were added and removed
 */

#include <glib.h>

#include "gdb/breakpoints.h"

static void set(GHashTable *table, unsigned type, uint64_t address,
                const char *conditions)
{
    g_autofree char *key = breakpoints_key(type, address, 1);

    breakpoints_set(table, key, conditions);
}

static uint64_t address_at(const GArray *addresses, unsigned i)
{
    return g_array_index(addresses, uint64_t, i);
}

static void test_keys(void)
{
    g_autofree char *key = breakpoints_key(0, 0xffffffff81000010, 0x1f);
    g_autofree char *least = breakpoints_key(0, 0, 0);

    g_assert_cmpstr(key, ==, "0,ffffffff81000010,1f");
    g_assert_cmpstr(least, ==, "0,0,0");
}

static void test_set(void)
{
    g_autoptr(GHashTable) table = breakpoints_new();

    set(table, 0, 0x1000, "");
    set(table, 1, 0x1000, ";X1,00");
    set(table, 0, 0x1000, ";X1,01");
    g_assert_cmpuint(g_hash_table_size(table), ==, 2);
    g_assert_cmpstr(g_hash_table_lookup(table, "0,1000,1"), ==, ";X1,01");
    set(table, 0, 0x2000, NULL);
    set(table, 1, 0x1000, NULL);
    g_assert_cmpuint(g_hash_table_size(table), ==, 1);
}

static void test_addresses(void)
{
    g_autoptr(GHashTable) table = breakpoints_new();
    g_autoptr(GArray) none = breakpoints_addresses(table), two = NULL,
                      again = NULL;

    g_assert_cmpuint(none->len, ==, 0);
    set(table, 0, 0xffffffff81000010, "");
    set(table, 1, 0x10, ";X1,00");
    two = breakpoints_addresses(table);
    g_assert_cmpuint(two->len, ==, 2);
    g_assert_cmphex(address_at(two, 0) ^ address_at(two, 1), ==,
                    0xffffffff81000010 ^ 0x10);
    g_assert_true(address_at(two, 0) == 0x10 || address_at(two, 1) == 0x10);
    /* A watchpoint, also one whose type begins like another one */
    for (unsigned type = 2; type < 0x20; type++) {
        set(table, type, 0x20, "");
        g_assert_null(breakpoints_addresses(table));
        set(table, type, 0x20, NULL);
    }
    again = breakpoints_addresses(table);
    g_assert_cmpuint(again->len, ==, 2);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/breakpoints/keys", test_keys);
    g_test_add_func("/breakpoints/set", test_set);
    g_test_add_func("/breakpoints/addresses", test_addresses);
    return g_test_run();
}
