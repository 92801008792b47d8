/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Rows of a report: values are summed up for each combination of names
 */

#ifndef BTRAIL_ROWS_H
#define BTRAIL_ROWS_H

#include <glib.h>
#include <stdint.h>

#define ROWS_MAX_COLUMNS    12
#define ROWS_MAX_VALUES     4

/* @values: sums; @names: one for each column */
struct row {
    uint64_t values[ROWS_MAX_VALUES];
    const char *names[];
};

struct rows;

struct rows *rows_new(unsigned columns);
void rows_free(struct rows *r);

/*
 * Adds ROWS_MAX_VALUES values to the row with these names, which are copied.
 */
void rows_add(struct rows *r, const char *const *names,
              const uint64_t *values);

/*
 * All rows, those with the largest @value first.  They belong to @r; @n gets
 * their number.
 */
struct row **rows_sorted(struct rows *r, unsigned value, size_t *n);

#endif /* BTRAIL_ROWS_H */
