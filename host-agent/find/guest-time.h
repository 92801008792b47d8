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

/*
 * The guest's time at any moment of the replay that has made a trace, whose
 * vCPUs take turns.  Between two TIME events it is estimated in proportion.
 */
struct replay_clock;

/* Reads the TIME events of a trace.  @clock gets NULL if they do not have the
 * guest's time.  Errors: as btrail_cursor_open(). */
int replay_clock_read(struct replay_clock **clock,
                     const struct btrail_trace *trace);
void replay_clock_free(struct replay_clock *c);

/* Nanoseconds since the guest was switched on, at a time of the host's clock;
 * before the first TIME event that of it, and so after the last one */
uint64_t replay_clock_ns(const struct replay_clock *c, uint64_t host);

/* How long a time of the host's clock was to the guest */
uint64_t replay_clock_between(const struct replay_clock *c, uint64_t begin,
                             uint64_t end);

#endif /* BTRAIL_GUEST_TIME_H */
