/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The time of a vCPU whose batches are read in order
 */

#ifndef BTRAIL_LANE_CLOCK_H
#define BTRAIL_LANE_CLOCK_H

#include "analyze/pace.h"
#include "analyze/times.h"

/**
 * struct lane_clock
 * @paces: NULL: the trace has no such vCPU
 * @pace:  of the last batch; NULL before the first one
 * @n:     records of it that were read, without those that are missing
 */
struct lane_clock {
    struct paces *paces;
    const struct pace *pace;
    uint64_t n;
};

/*
 * Opens one for each vCPU of a trace, from a host clock on; @tick and errors as
 * of paces_open_at().  After an error, too, lane_clocks_close() is to be called.
 */
int lane_clocks_open(struct lane_clock clocks[BTRAIL_MAX_VCPUS],
                     const struct btrail_trace *trace, uint64_t tick,
                     uint64_t from);
void lane_clocks_close(struct lane_clock clocks[BTRAIL_MAX_VCPUS]);

/* Begins at an event, if nothing was read and the event has a time. */
void lane_clock_begin(struct lane_clock *c, const struct btrail_batch *b);

/*
 * These go on from pace to pace, and return how much of the time that the vCPU
 * has waited meanwhile is in @times, in 1/PACE_TICKS ns.  Without @times, they
 * return 0.
 */

/* To that of a record */
uint64_t lane_clock_record(struct lane_clock *c, uint64_t index,
                           const struct times *times);

/* To that in force at an event, after the clock before it, if it has begun */
uint64_t lane_clock_event(struct lane_clock *c, const struct btrail_batch *b,
                          const struct times *times);

/* To the last one that begins in @times */
uint64_t lane_clock_end(struct lane_clock *c, const struct times *times);

/* How long the first @n records of the pace took, in 1/PACE_TICKS ns */
uint64_t lane_clock_ticks(const struct lane_clock *c, uint64_t n);

/* The time after the records that were read: host clock; 0 if nobody knows */
uint64_t lane_clock_now(const struct lane_clock *c);

#endif /* BTRAIL_LANE_CLOCK_H */
