/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Calls of a function that take longer than some time
 *
 * A call begins with a branch to the function, and ends with a branch of the
 * same thread to just behind the instruction that it came from.  TASK events
 * say which thread runs; where there are none, threads with one address space
 * count as one.
 *
 * Times are those of TIME events, one each tick of the device.  The begin of a
 * call is known to one tick, so a call that is found has taken longer than was
 * asked for, but one that has taken up to two ticks more may not be found.
 *
 * A jump to the function is a call that its own caller's instruction has not
 * made: nobody returns to behind it.  So a call is found while it lasts only if
 * one from the same place has returned before, and otherwise when it returns.
 */

#ifndef BTRAIL_LONG_CALLS_H
#define BTRAIL_LONG_CALLS_H

#include "lib/internal/stream.h"

struct btrail_long_calls;

/* One function's, which take longer than @ns */
struct btrail_long_calls *btrail_long_calls_new(uint64_t ns);
void btrail_long_calls_free(struct btrail_long_calls *c);

/* The device's; before all that follows */
void btrail_long_calls_set_tick(struct btrail_long_calls *c, uint64_t ns);

/*
 * An event of a vCPU.  Returns how many calls of its thread have been found to
 * be too long.
 */
unsigned btrail_long_calls_event(struct btrail_long_calls *c, unsigned vcpu,
                                 const struct btrail_event *event);

/* Records of the vCPU are missing: what it ran is not known any more. */
void btrail_long_calls_lost(struct btrail_long_calls *c, unsigned vcpu);

/* A branch to the function */
void btrail_long_calls_begin(struct btrail_long_calls *c, unsigned vcpu,
                             uint64_t cr3, uint64_t from);

/*
 * Any other branch, while btrail_long_calls_any().  Returns whether it ends a
 * call that was too long and has not been found before.
 */
bool btrail_long_calls_end(struct btrail_long_calls *c, unsigned vcpu,
                           uint64_t cr3, uint64_t to);
bool btrail_long_calls_any(const struct btrail_long_calls *c);

/*
 * How many calls are too long whose threads do not run, at @now.  What all
 * vCPUs did until BTRAIL_LONG_CALLS_LATE before that has been handed over.
 */
#define BTRAIL_LONG_CALLS_LATE  UINT64_C(100000000)
unsigned btrail_long_calls_waiting(struct btrail_long_calls *c, uint64_t now);

#endif /* BTRAIL_LONG_CALLS_H */
