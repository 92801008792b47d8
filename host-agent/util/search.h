/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Comparison of numbers, and search in arrays that are in the order of one
 */

#ifndef BTRAIL_SEARCH_H
#define BTRAIL_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* For functions that compare: below, equal to or above 0 */
#define BTRAIL_COMPARE(a, b)    (((a) > (b)) - ((a) < (b)))

static inline size_t btrail_up_to(const void *array, size_t n, size_t size,
                                  bool pointers, size_t member, uint64_t key)
{
    size_t low = 0, high = n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const char *element = (const char *)array + middle * size;

        if (pointers) {
            element = *(const char *const *)element;
        }
        if (*(const uint64_t *)(element + member) <= key) {
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
    btrail_up_to(array, n, sizeof(type), false, offsetof(type, member), key)

/* The same of a GPtrArray whose elements point to structs */
#define BTRAIL_PTRS_UP_TO(array, type, member, key) \
    btrail_up_to((array)->pdata, (array)->len, sizeof(void *), true, \
                 offsetof(type, member), key)

#endif /* BTRAIL_SEARCH_H */
