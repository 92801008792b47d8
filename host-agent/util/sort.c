/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sorting arrays, and removing duplicates: see sort.h
 */

#include <stdint.h>
#include <string.h>

#include "util/sort.h"

static gint compare_vcpus(gconstpointer a, gconstpointer b)
{
    unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;

    return x < y ? -1 : x > y;
}

static gint compare_roots(gconstpointer a, gconstpointer b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
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

void btrail_sort_cr3(GArray *cr3)
{
    sort_once(cr3, sizeof(uint64_t), compare_roots);
}
