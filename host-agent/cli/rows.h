/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Rows of a report: what has the same names is summed up
 */

#ifndef BTRAIL_ROWS_H
#define BTRAIL_ROWS_H

#include <json-glib/json-glib.h>
#include <stdint.h>

#define ROWS_MAX_COLUMNS    12
#define ROWS_MAX_VALUES     4

/* @names: as many as there are columns; @values: what was summed up */
struct row {
    uint64_t values[ROWS_MAX_VALUES];
    const char *names[];
};

struct rows;

struct rows *rows_new(unsigned columns);
void rows_free(struct rows *r);

/* Names are copied; there are as many values as ROWS_MAX_VALUES. */
void rows_add(struct rows *r, const char *const *names,
              const uint64_t *values);

/*
 * Those with the largest @value first.  They belong to @r; @n gets how many
 * there are.
 */
struct row **rows_sorted(struct rows *r, unsigned value, size_t *n);

/* The sum of a value over all rows */
uint64_t rows_sum(const struct rows *r, unsigned value);

#endif /* BTRAIL_ROWS_H */
