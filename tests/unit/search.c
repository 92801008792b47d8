/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Searching in what is in the order of a number: structs, and pointers to them
 */

#include <glib.h>

#include "util/search.h"

struct element {
    char name;
    uint64_t key;
};

static size_t up_to(const struct element *array, size_t n, uint64_t key)
{
    return BTRAIL_UP_TO(array, n, struct element, key, key);
}

/* Each length, with keys that are there, between others, and twice */
static void test_up_to(void)
{
    struct element array[20];
    size_t n, i, want;
    uint64_t key;

    for (n = 0; n <= G_N_ELEMENTS(array); n++) {
        for (i = 0; i < n; i++) {
            array[i].key = i / 3 * 10 + 5;
        }
        for (key = 0; key < 80; key++) {
            for (want = 0; want < n && array[want].key <= key; want++) {
                /* Count them. */
            }
            g_assert_cmpuint(up_to(array, n, key), ==, want);
        }
    }
}

/* The same elements, by pointers */
static void test_pointers(void)
{
    g_autoptr(GPtrArray) pointers = g_ptr_array_new();
    struct element array[20];
    size_t n;
    uint64_t key;

    for (n = 0; n <= G_N_ELEMENTS(array); n++) {
        for (key = 0; key < 80; key++) {
            g_assert_cmpuint(BTRAIL_PTRS_UP_TO(pointers, struct element, key,
                                               key), ==,
                             up_to(array, n, key));
        }
        if (n < G_N_ELEMENTS(array)) {
            array[n].key = n / 3 * 10 + 5;
            g_ptr_array_add(pointers, &array[n]);
        }
    }
}

static void test_extremes(void)
{
    const struct element array[] = { { 0, 0 }, { 0, UINT64_MAX } };

    g_assert_cmpuint(up_to(NULL, 0, 0), ==, 0);
    g_assert_cmpuint(up_to(NULL, 0, UINT64_MAX), ==, 0);
    g_assert_cmpuint(up_to(array, 2, 0), ==, 1);
    g_assert_cmpuint(up_to(array, 2, UINT64_MAX - 1), ==, 1);
    g_assert_cmpuint(up_to(array, 2, UINT64_MAX), ==, 2);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/search/up-to", test_up_to);
    g_test_add_func("/search/pointers", test_pointers);
    g_test_add_func("/search/extremes", test_extremes);
    return g_test_run();
}
