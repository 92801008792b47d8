/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the formats of backtrail export share
 */

#ifndef BTRAIL_EXPORT_H
#define BTRAIL_EXPORT_H

#include <stdio.h>

#include "cli/analysis.h"
#include "cli/between.h"

/**
 * struct export
 * @in:       what to read
 * @between:  spans that are on a timeline
 * @by_time:  folded stacks have microseconds, not branches
 * @shortest: calls shorter than this, in nanoseconds, are not on a timeline
 * @size:     bytes that a timeline may have; 0 for any number
 * @records:  gets the number of records that were chosen
 * @damage:   gets the damage that was found while reading
 */
struct export {
    struct analysis in;
    struct between between;
    gboolean by_time;
    uint64_t shortest;
    uint64_t size;
    uint64_t records;
    uint64_t damage;
    FILE *out;
};

/* Each format returns 0, a negative enum btrail_error, or EXPORT_FAILED after
 * an error message. */
#define EXPORT_FAILED   1
int export_folded(struct export *e);
int export_perf(struct export *e);
int export_perfetto(struct export *e);
int export_lcov(struct export *e);

/* Reports the quality of a tree that was read, and frees it. */
void export_end_calls(struct export *e, struct call_tree *t);

#endif /* BTRAIL_EXPORT_H */
