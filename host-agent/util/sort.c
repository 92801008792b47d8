/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Sorting arrays, and removing duplicates: see sort.h
 */

#include <stdint.h>
#include <string.h>

#include "util/search.h"
#include "util/sort.h"

/* Of a number of 64 bits, and of a byte */
#define BYTES   8
#define VALUES  256

static gint compare_vcpus(gconstpointer a, gconstpointer b)
{
    return BTRAIL_COMPARE(*(const unsigned *)a, *(const unsigned *)b);
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

/* How many numbers have each value of each byte */
static void count_bytes(const uint64_t *from, unsigned n,
                        unsigned counts[BYTES][VALUES])
{
    memset(counts, 0, BYTES * sizeof(*counts));
    for (unsigned i = 0; i < n; i++) {
        for (unsigned byte = 0; byte < BYTES; byte++) {
            counts[byte][from[i] >> 8 * byte & (VALUES - 1)]++;
        }
    }
}

/*
 * By one byte after the other, the lowest first, which needs no comparisons.
 * Bytes that all numbers have in common need no work.
 */
static void sort_bytes(uint64_t *numbers, unsigned n)
{
    g_autofree uint64_t *other = g_new(uint64_t, n);
    uint64_t *from = numbers, *to = other;
    unsigned counts[BYTES][VALUES];

    count_bytes(from, n, counts);
    for (unsigned byte = 0; byte < BYTES; byte++) {
        unsigned *place = counts[byte], shift = 8 * byte, before = 0;
        uint64_t *swap = from;

        if (place[*from >> shift & (VALUES - 1)] == n) {
            continue;
        }
        for (unsigned i = 0; i < VALUES; i++) {
            unsigned here = place[i];

            place[i] = before;
            before += here;
        }
        for (unsigned i = 0; i < n; i++) {
            to[place[from[i] >> shift & (VALUES - 1)]++] = from[i];
        }
        from = to;
        to = swap;
    }
    if (from != numbers) {
        memcpy(numbers, from, n * sizeof(*numbers));
    }
}

void btrail_order_u64(GArray *numbers)
{
    if (numbers->len) {
        sort_bytes((uint64_t *)numbers->data, numbers->len);
    }
}

void btrail_sort_u64(GArray *numbers)
{
    uint64_t *all = (uint64_t *)numbers->data;
    unsigned n = 0;

    btrail_order_u64(numbers);
    for (unsigned i = 0; i < numbers->len; i++) {
        if (!n || all[n - 1] != all[i]) {
            all[n++] = all[i];
        }
    }
    g_array_set_size(numbers, n);
}

GArray *btrail_sorted_u64(const uint64_t *numbers, size_t n)
{
    GArray *sorted = g_array_new(FALSE, FALSE, sizeof(*numbers));

    g_array_append_vals(sorted, numbers, n);
    btrail_sort_u64(sorted);
    return sorted;
}
