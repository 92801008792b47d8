/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Sorting arrays, and removing duplicates: see sort.h
 */

#include <stdint.h>
#include <string.h>

#include "util/search.h"
#include "util/sort.h"

static gint compare_vcpus(gconstpointer a, gconstpointer b)
{
    return BTRAIL_COMPARE(*(const unsigned *)a, *(const unsigned *)b);
}

static gint compare_u64(gconstpointer a, gconstpointer b)
{
    return BTRAIL_COMPARE(*(const uint64_t *)a, *(const uint64_t *)b);
}

static void sort_once(GArray *array, size_t size, GCompareFunc compare)
{
    unsigned i, n = 0;

    g_array_sort(array, compare);
    for (i = 0; i < array->len; i++) {
        if (!n || compare(array->data + (n - 1) * size,
                          array->data + i * size)) {
            memmove(array->data + n++ * size, array->data + i * size, size);
        }
    }
    g_array_set_size(array, n);
}

void btrail_sort_vcpus(GArray *vcpus)
{
    sort_once(vcpus, sizeof(unsigned), compare_vcpus);
}

void btrail_sort_u64(GArray *numbers)
{
    sort_once(numbers, sizeof(uint64_t), compare_u64);
}
