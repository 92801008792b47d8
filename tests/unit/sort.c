/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of util/sort.h, compared with qsort() of the C library
 */

#include <stdint.h>
#include <stdlib.h>

#include "util/sort.h"

static int compare(const void *p, const void *q)
{
    const uint64_t *a = p, *b = q;

    return (*a > *b) - (*a < *b);
}

/* Numbers of which all bytes, or a few, differ, and many are the same */
static uint64_t some_number(unsigned kind)
{
    uint64_t number = (uint64_t)g_test_rand_int() << 32 |
                      (uint32_t)g_test_rand_int();

    switch (kind) {
    case 0:
        return number;
    case 1:
        return number & 0xff00;
    case 2:
        return UINT64_MAX - (number & 3);
    case 3:
        return (number & 7) << 56;
    default:
        return number & UINT64_C(0xff000000000000ff);
    }
}

static void check(unsigned n, unsigned kind)
{
    g_autoptr(GArray) ordered = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    g_autofree uint64_t *numbers = g_new0(uint64_t, n + 1);
    g_autoptr(GArray) sorted = NULL;
    unsigned once = 0;

    for (unsigned i = 0; i < n; i++) {
        numbers[i] = some_number(kind);
    }
    g_array_append_vals(ordered, numbers, n);
    btrail_order_u64(ordered);
    sorted = btrail_sorted_u64(numbers, n);
    qsort(numbers, n, sizeof(*numbers), compare);
    g_assert_cmpmem(ordered->data, ordered->len * sizeof(uint64_t), numbers,
                    n * sizeof(uint64_t));
    for (unsigned i = 0; i < n; i++) {
        if (!i || numbers[i] != numbers[i - 1]) {
            g_assert_cmpuint(once, <, sorted->len);
            g_assert_cmpuint(g_array_index(sorted, uint64_t, once++), ==,
                             numbers[i]);
        }
    }
    g_assert_cmpuint(sorted->len, ==, once);
}

static void test_numbers(void)
{
    for (unsigned kind = 0; kind < 5; kind++) {
        for (unsigned n = 0; n < 40; n++) {
            check(n, kind);
        }
        check(5000, kind);
    }
}

static void test_vcpus(void)
{
    static const unsigned given[] = { 3, 0, 3, UINT32_MAX, 1, 0 };
    static const unsigned want[] = { 0, 1, 3, UINT32_MAX };
    g_autoptr(GArray) vcpus = g_array_new(FALSE, FALSE, sizeof(unsigned));

    btrail_sort_vcpus(vcpus);
    g_assert_cmpuint(vcpus->len, ==, 0);
    g_array_append_vals(vcpus, given, G_N_ELEMENTS(given));
    btrail_sort_vcpus(vcpus);
    g_assert_cmpmem(vcpus->data, vcpus->len * sizeof(unsigned), want,
                    sizeof(want));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/sort/numbers", test_numbers);
    g_test_add_func("/sort/vcpus", test_vcpus);
    return g_test_run();
}
