/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How long calls took, for each combination of names
 *
 * What is kept does not grow with the number of calls: see util/histogram.h.
 */

#ifndef BTRAIL_LATENCIES_H
#define BTRAIL_LATENCIES_H

#include "util/histogram.h"

/* Calls of more combinations are only counted. */
#define LATENCIES_ROWS  16384u

/* The names of a row: process, module, and function or system call */
#define LATENCIES_NAMES 3

/**
 * struct latency
 * @names:   in struct latencies
 * @times:   of the calls that are known from begin to end, in ns
 * @total:   their sum, and what is known of the others
 * @partial: number of other calls
 * @longest: of these, what is known of the longest one
 */
struct latency {
    const char *names[LATENCIES_NAMES];
    struct histogram *times;
    uint64_t total;
    uint64_t partial;
    uint64_t longest;
};

/* What rows are in the order of: the largest first */
enum latency_key {
    LATENCY_COUNT,
    LATENCY_TOTAL,
    LATENCY_MEAN,
    LATENCY_P50,
    LATENCY_P95,
    LATENCY_P99,
    LATENCY_MAX,
    LATENCY_KEYS,
};

struct latencies;

/* @rows: limit of them; 0: LATENCIES_ROWS.  Their times take HISTOGRAM_BUDGET
 * bytes at most. */
struct latencies *latencies_new(unsigned rows);
void latencies_free(struct latencies *l);

/* Adds a call.  @whole: it took this time; otherwise it took at least that. */
void latencies_add(struct latencies *l,
                   const char *const names[LATENCIES_NAMES], uint64_t ns,
                   bool whole);

/* The row with these names, or NULL */
const struct latency *
latencies_find(const struct latencies *l,
               const char *const names[LATENCIES_NAMES]);

/* All rows; the array and the rows belong to @l. */
const GPtrArray *latencies_sorted(struct latencies *l, enum latency_key key);

/* The number of calls beyond the limit of rows */
uint64_t latencies_others(const struct latencies *l);

/* The number of rows whose percentiles are not known, for lack of memory */
unsigned latencies_forgotten(const struct latencies *l);

/* The name of a key: "p95"; NULL after the last one */
const char *latency_key_name(unsigned key);

/* In ns, or the number of calls, whole or not.  The longest call counts even if
 * not all of it is known; the other keys are of whole ones.  Percentiles are 0
 * if they are not known, see histogram_known(). */
uint64_t latency_value(const struct latency *l, enum latency_key key);

#endif /* BTRAIL_LATENCIES_H */
