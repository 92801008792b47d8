/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The call of a function that a thread is in, and whether it takes too long
 */

#ifndef BTRAIL_THREAD_CALLS_H
#define BTRAIL_THREAD_CALLS_H

#include "drain/open-spans.h"

/**
 * struct thread_calls - the outermost call of a thread
 *
 * Calls that the function makes of itself are part of it.  One from where none
 * has returned can be a jump, which never ends: the next one takes its place,
 * and it is @outer until it returns.
 *
 * @spans: in place of them, if spans are measured
 */
struct thread_calls {
    struct lasting_call call;
    struct lasting_call outer;
    struct open_spans spans;
};

static inline bool thread_calls_last(const struct thread_calls *calls)
{
    return calls->call.lasts || calls->outer.lasts || calls->spans.n;
}

void thread_calls_begin(struct thread_calls *calls,
                        const struct calls_measure *by,
                        const struct lasting_call *call);

/*
 * Does a branch to @to end a call, or for spans any?  @found grows if that was
 * too long.
 */
bool thread_calls_end(struct thread_calls *calls,
                      struct calls_measure *by, uint64_t to,
                      uint64_t time, unsigned *found);

/* Those that have not ended at @time, and are too long; each only once */
unsigned thread_calls_find(struct thread_calls *calls,
                           struct calls_measure *by, uint64_t time);

/* Some of the time up to now does not count for calls that last. */
void thread_calls_skip(struct thread_calls *calls, uint64_t ns);

/* What began at @begin can have begun at any time up to @time. */
void thread_calls_delay(struct thread_calls *calls, uint64_t begin,
                        uint64_t time);

/*
 * Returns to a place were not looked for in what was handed over before the
 * place was known: from @number on.
 */
void thread_calls_doubt(struct thread_calls *calls,
                        const struct calls_measure *by, uint64_t number);

#endif /* BTRAIL_THREAD_CALLS_H */
