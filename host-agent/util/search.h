/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Search in arrays that are in the order of a number
 */

#ifndef BTRAIL_SEARCH_H
#define BTRAIL_SEARCH_H

#include <stddef.h>
#include <stdint.h>

static inline size_t btrail_up_to(const void *array, size_t n, size_t size,
                                  size_t member, uint64_t key)
{
    const char *bytes = array;
    size_t low = 0, high = n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (*(const uint64_t *)(bytes + middle * size + member) <= key) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static inline size_t btrail_ptrs_up_to(void *const *array, size_t n,
                                       size_t member, uint64_t key)
{
    size_t low = 0, high = n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (*(const uint64_t *)((const char *)array[middle] + member) <= key) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/*
 * How many elements have a uint64_t @member that is not above @key: the place
 * of the first one that has.  @array can be NULL if @n is 0.
 */
#define BTRAIL_UP_TO(array, n, type, member, key) \
    btrail_up_to(array, n, sizeof(type), offsetof(type, member), key)

/* The same of a GPtrArray whose elements point to structs */
#define BTRAIL_PTRS_UP_TO(array, type, member, key) \
    btrail_ptrs_up_to((array)->pdata, (array)->len, offsetof(type, member), \
                      key)

#endif /* BTRAIL_SEARCH_H */
