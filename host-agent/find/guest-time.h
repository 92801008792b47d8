/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The time of a guest that is replayed, from its TSC
 *
 * With -icount, the TSC counts nanoseconds from power-on; or, if the guest ran
 * before it was recorded, what it counted then, at the same speed.
 */

#ifndef BTRAIL_GUEST_TIME_H
#define BTRAIL_GUEST_TIME_H

#include "backtrail/trace.h"

/* How fast the TSC of a trace counts */
uint64_t guest_time_hz(const struct btrail_trace *trace);

/* Nanoseconds since the guest was switched on; the most if there are more */
uint64_t guest_time_ns(uint64_t tsc, uint64_t hz);

/*
 * When a guest was at the end of a record, in nanoseconds: not before the TIME
 * event in force there, and not after the next one, which is at @to; that is
 * UINT64_MAX if there is none.  In between, the guest can have been idle, which
 * takes none of a replay's time.  False if the trace has no such record.
 */
bool guest_time_of(const struct btrail_trace *trace, unsigned vcpu,
                   uint64_t index, uint64_t hz, uint64_t *from, uint64_t *to);

#endif /* BTRAIL_GUEST_TIME_H */
