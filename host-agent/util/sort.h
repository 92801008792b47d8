/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Sorting arrays, and removing duplicates
 */

#ifndef BTRAIL_SORT_H
#define BTRAIL_SORT_H

#include <glib.h>

/* Of unsigned */
void btrail_sort_vcpus(GArray *vcpus);

/* Of uint64_t, without removing any */
void btrail_order_u64(GArray *numbers);

/* Of uint64_t */
void btrail_sort_u64(GArray *numbers);

/* The same of a copy, which is the caller's */
GArray *btrail_sorted_u64(const uint64_t *numbers, size_t n);

#endif /* BTRAIL_SORT_H */
