/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The order of moments of several vCPUs, as exact as a trace has it
 *
 * The order is by instruction counts, if records have them.  Otherwise it is by
 * the host's clock, which is estimated between TIME events in proportion to the
 * index, as system calls and functions are timed.
 */

#ifndef BTRAIL_CLOCK_ORDER_H
#define BTRAIL_CLOCK_ORDER_H

#include "find/moment.h"

struct clock_order;

/*
 * @trace outlives the result.  @tick: of the session, in nanoseconds; 0 if it
 * is not known
 */
struct clock_order *clock_order_new(const struct btrail_trace *trace,
                                    uint64_t tick);

/* With the tick that the trace itself says */
struct clock_order *clock_order_of(const struct btrail_trace *trace);
void clock_order_free(struct clock_order *o);

/*
 * A number that is higher for later moments: instructions or nanoseconds.  Of
 * each vCPU, those that come in the order of their indices are quick.  The time
 * that a moment has need not be known, but then events are read from the begin
 * of the trace on.
 */
uint64_t clock_order_key(struct clock_order *o, const struct moment *at);

/*
 * The same by the host's clock alone, whether or not there is a count: where
 * the record is over, or at the clock that the moment is known to be after.
 * find and why print this time of a moment.
 */
uint64_t clock_order_time(struct clock_order *o, const struct moment *at);

/*
 * Notes the time in the moment, if that has no count, so that moment_compare()
 * has moments of several vCPUs in the order of the times that are printed.
 */
void clock_order_stamp(struct clock_order *o, struct moment *at);

/* The time at which its record began, where the one before was over */
uint64_t clock_order_begun(struct clock_order *o, const struct moment *at);

/*
 * The latest time that it can have been: that of the next TIME event of its
 * vCPU; UINT64_MAX if there is none
 */
uint64_t clock_order_latest(struct clock_order *o, const struct moment *at);

/* The first record of a vCPU that is not before a moment */
uint64_t clock_order_at(struct clock_order *o, unsigned vcpu,
                        const struct moment *at);

/*
 * The first record of a vCPU whose key is not below @key, which is a count if
 * @counts is set, and otherwise a time; UINT64_MAX if there is none.  For each
 * vCPU, keys that do not get lower are quick.
 */
uint64_t clock_order_index(struct clock_order *o, unsigned vcpu, bool counts,
                           uint64_t key);

#endif /* BTRAIL_CLOCK_ORDER_H */
