/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How often programs have left marks, and their values: sums by name and
 * process
 *
 * Several threads add marks, each to sums of its own.  Memory is bounded: which
 * marks are beyond the limits then depends on the order, so they are to be
 * added again, by one thread in order.
 */

#ifndef BTRAIL_MARK_SUMS_H
#define BTRAIL_MARK_SUMS_H

#include "find/marks.h"
#include "find/moment.h"

/* Names and processes, and values, that memory is used for */
#define MARK_SUMS_ROWS      (1u << 16)
#define MARK_SUMS_VALUES    (1u << 23)

/**
 * struct mark_sum - marks of one name that one process has left
 * @pid:     -1 if it is not known
 * @count:   how many
 * @valued:  of those with a value
 * @known:   of those whose value is known
 * @smallest, @largest: if @known is not 0
 * @median:  the same, of an even number the lower one of the two in the middle
 * @exact:   @median is known: all values were kept
 */
struct mark_sum {
    const char *name;
    const char *comm;
    int64_t pid;
    uint64_t count;
    uint64_t valued;
    uint64_t known;
    uint64_t smallest;
    uint64_t largest;
    uint64_t median;
    bool exact;
    struct moment first;
    struct moment last;
};

struct mark_sums;

/* @rows, @values: limits, of all threads together */
struct mark_sums *mark_sums_new(unsigned threads, size_t rows, size_t values);
void mark_sums_free(struct mark_sums *s);

/* Adds a mark.  @worker: of the threads; calls with the same one do not
 * overlap */
void mark_sums_add(struct mark_sums *s, unsigned worker,
                   const struct marks_found *mark, const char *comm,
                   int64_t pid, const struct moment *at);

/* Adds up the sums of all threads.  False if a limit was reached, and there are
 * several threads. */
bool mark_sums_finish(struct mark_sums *s);

/* After that: those with most marks first; NULL after the last one */
const struct mark_sum *mark_sums_get(const struct mark_sums *s, size_t i);

/* Marks; of these, those beyond the limit of rows */
uint64_t mark_sums_marks(const struct mark_sums *s);
uint64_t mark_sums_others(const struct mark_sums *s);

#endif /* BTRAIL_MARK_SUMS_H */
