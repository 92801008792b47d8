/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How often values of each size have come, in bounded memory
 *
 * Few values are kept as they are.  More of them are only counted, in
 * HISTOGRAM_STEPS ranges between each two powers of two: however many there
 * are, this takes 33 KiB at most.  Histograms can share a budget, too: one for
 * which there is not enough left forgets how often which values have come.
 */

#ifndef BTRAIL_HISTOGRAM_H
#define BTRAIL_HISTOGRAM_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* Up to this many values are kept. */
#define HISTOGRAM_EXACT     256u

/* What is said of more values is that of their range's middle: it is off by at
 * most half a range, 1/128 of the value. */
#define HISTOGRAM_STEPS     64u

/* Ranges of histogram_power() */
#define HISTOGRAM_POWERS    64u

struct histogram;

/* What is enough for 16384 histograms, but for those that somebody has made
 * large on purpose */
#define HISTOGRAM_BUDGET    (UINT64_C(64) << 20)

/**
 * struct histogram_budget - of several histograms
 * @left:      bytes that are left
 * @forgotten: histograms that have forgotten their values
 */
struct histogram_budget {
    uint64_t left;
    unsigned forgotten;
};

struct histogram *histogram_new(void);

/* @budget outlives the last histogram_add(). */
struct histogram *histogram_new_within(struct histogram_budget *budget);
void histogram_free(struct histogram *h);

void histogram_add(struct histogram *h, uint64_t value);

uint64_t histogram_count(const struct histogram *h);

/* These are exact; 0 if there is no value. */
uint64_t histogram_max(const struct histogram *h);
uint64_t histogram_mean(const struct histogram *h);

/* Has it not forgotten its values?  Otherwise there are no percentiles and
 * powers: they are 0. */
bool histogram_known(const struct histogram *h);

/*
 * The smallest value that this many percent of all do not exceed; 0 if there is
 * none.  With histogram_exact() it is one of the values.
 */
uint64_t histogram_percentile(const struct histogram *h, unsigned percent);
bool histogram_exact(const struct histogram *h);

/*
 * How many values are at least 2^@i and below 2^(@i + 1), which is exact; with
 * 0 among those of 1
 */
uint64_t histogram_power(const struct histogram *h, unsigned i);

#endif /* BTRAIL_HISTOGRAM_H */
