/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest's TSC at times of its clock
 *
 * The kernel's events have times of CLOCK_MONOTONIC, and a trace knows those of
 * the TSC.  Both are read together now and then, and times between two such
 * moments are interpolated.
 */

#ifndef BTRAIL_TSC_H
#define BTRAIL_TSC_H

#include <stdint.h>

#define TSC_MOMENTS     64

struct tsc_moment {
    uint64_t ns;
    uint64_t tsc;
};

struct tsc_clock {
    struct tsc_moment moments[TSC_MOMENTS]; /* the last ones, by n */
    unsigned n;
};

uint64_t tsc_now(void);

/* CLOCK_MONOTONIC */
uint64_t tsc_clock_ns(void);

/* Reads both clocks now; an event before this can be converted from then on. */
void tsc_clock_update(struct tsc_clock *c);

/*
 * The TSC at a time of CLOCK_MONOTONIC; before the first moment, that of the
 * first one.
 */
uint64_t tsc_clock_at(const struct tsc_clock *c, uint64_t ns);

/*
 * The same for a time that can be long before the first moment, and rather too
 * late than too early; 0 if there are no two moments.
 */
uint64_t tsc_clock_before(const struct tsc_clock *c, uint64_t ns);

#endif /* BTRAIL_TSC_H */
