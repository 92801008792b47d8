/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The call of a function that a thread is in, and whether it takes too long
 */

#ifndef BTRAIL_THREAD_CALLS_H
#define BTRAIL_THREAD_CALLS_H

#include "drain/any-pauses.h"
#include "drain/call-sites.h"

/**
 * struct calls_measure - what calls are measured by
 * @ns:     longer is too long
 * @sites:  where they come from, with each call's
 * @pauses: of any vCPU
 */
struct calls_measure {
    uint64_t ns;
    struct call_sites *sites;
    struct any_pauses *pauses;
};

/**
 * struct lasting_call
 * @lasts:   it has not ended; all else counts only then
 * @found:   to be too long
 * @unsure:  its end may have been missed
 * @any:     nobody says which thread has made it, so pauses of all vCPUs are
 *           left out; of other calls those that are left out are in @begin
 * @from:    its site
 * @begin:   at the latest, and later by the pauses since
 */
struct lasting_call {
    bool lasts;
    bool found;
    bool unsure;
    bool any;
    uint64_t from;
    uint64_t begin;
};

/**
 * struct thread_calls - the outermost call of a thread
 *
 * Calls that the function makes of itself are part of it.  One from where none
 * has returned can be a jump, which never ends: the next one takes its place,
 * and it is @outer until it returns.
 */
struct thread_calls {
    struct lasting_call call;
    struct lasting_call outer;
};

static inline bool thread_calls_last(const struct thread_calls *calls)
{
    return calls->call.lasts || calls->outer.lasts;
}

void thread_calls_begin(struct thread_calls *calls,
                        const struct calls_measure *by,
                        const struct lasting_call *call);

/* Does a branch to @to end a call?  @found grows if that was too long. */
bool thread_calls_end(struct thread_calls *calls,
                      const struct calls_measure *by, uint64_t to,
                      uint64_t time, unsigned *found);

/* Those that have not ended at @time, and are too long; each only once */
unsigned thread_calls_find(struct thread_calls *calls,
                           const struct calls_measure *by, uint64_t time);

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
