/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Calls of a function that take longer than some time, without pauses
 *
 * A call begins with a branch to the function, and ends with a branch of the
 * same thread to just after the instruction that it came from.  TASK events
 * say which thread runs; where there are none, threads with one address space
 * count as one.
 *
 * Times are those of TIME events, one each tick of the device.  The begin of a
 * call is known to one tick, so a call that is found has taken longer than was
 * asked for, but one that has taken up to two ticks more may not be found.  If
 * a tick was late, that many ticks' time is added to the two.
 *
 * Pauses of its vCPU do not count for a thread.  While it waits, those of any
 * vCPU do not: it may wait for what that would have done.
 *
 * What one vCPU did is handed over in order, but that of several is not: a
 * thread that has moved can return before it has called.  So what it does on a
 * vCPU counts only when all has been handed over that the others did until it
 * came there.
 *
 * A jump to the function is a call that its own caller's instruction has not
 * made: nobody returns to after it.  So a call is found while it lasts only if
 * one from the same place has returned before, and otherwise when it returns.
 *
 * So it is with spans from a mark A to a mark B, see open-spans.h, which are
 * found while they last, too.  In a guest with several vCPUs they are measured
 * only of threads that TASK events name.  Of calls and spans whose end, or
 * begin, may be in what is missing or was forgotten, none is found.
 */

#ifndef BTRAIL_LONG_CALLS_H
#define BTRAIL_LONG_CALLS_H

#include "drain/lasting-call.h"
#include "lib/agent/budget.h"
#include "lib/agent/stream.h"

struct long_calls;

/* One function's, which take longer than @ns */
struct long_calls *long_calls_new(uint64_t ns);
/* Spans, which take longer than that */
struct long_calls *long_calls_new_spans(uint64_t ns);
void long_calls_free(struct long_calls *c);

/*
 * Once, before all that follows: what is kept of threads is taken from a
 * budget.  Without one there is room for all that there can be.
 */
void long_calls_set_budget(struct long_calls *c, struct btrail_budget *budget);

/*
 * The same: the producer does not say when it has flushed, so long_calls_passed()
 * says what is only believed.  All that vCPUs execute makes records, of each
 * address space and privilege, so a vCPU on which a task runs has TIME events.
 */
void long_calls_set_doubtful(struct long_calls *c);

/* Any thread: how many were not measured, or not up to their end */
uint64_t long_calls_left_out(const struct long_calls *c);

/* The longest of those that were found since this was called last */
struct call_time long_calls_take_time(struct long_calls *c);

/* The device's tick and vCPUs; before all that follows */
void long_calls_set_device(struct long_calls *c, uint64_t tick_ns,
                           unsigned vcpus);

/*
 * An event of a vCPU.  Returns how many calls have been found to be too long.
 */
unsigned long_calls_event(struct long_calls *c, unsigned vcpu,
                          const struct btrail_event *event);

/* Records of the vCPU are missing: what it ran is not known any more. */
void long_calls_lost(struct long_calls *c, unsigned vcpu);

/* A branch to the function */
void long_calls_begin(struct long_calls *c, unsigned vcpu,
                      uint64_t cr3, uint64_t from);

/*
 * Any branch, before long_calls_begin() if it is one to the function.
 * Returns whether it ends a call that was too long and has not been found
 * before.
 */
bool long_calls_end(struct long_calls *c, unsigned vcpu,
                    uint64_t cr3, uint64_t to);

/* Marks A and B.  The latter returns what long_calls_end() does. */
void long_calls_begin_span(struct long_calls *c, unsigned vcpu, uint64_t cr3);
bool long_calls_end_span(struct long_calls *c, unsigned vcpu, uint64_t cr3);

/* What has been handed over is all that the vCPU did before @time. */
void long_calls_passed(struct long_calls *c, unsigned vcpu,
                       uint64_t time);

/*
 * How many calls more have been found to be too long, by what all vCPUs are
 * known to have done; to be called from time to time
 */
unsigned long_calls_waiting(struct long_calls *c);

#endif /* BTRAIL_LONG_CALLS_H */
