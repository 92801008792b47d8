/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a thread does from one moment to another and is measured, a call or a
 * span between two marks: when it began, and whether it takes too long
 */

#ifndef BTRAIL_LASTING_CALL_H
#define BTRAIL_LASTING_CALL_H

#include "drain/any-pauses.h"
#include "drain/call-sites.h"

/**
 * struct call_time - how long something took that was too long
 * @ns:    at least, without pauses; 0: nothing was
 * @lasts: it has not ended
 */
struct call_time {
    uint64_t ns;
    bool lasts;
};

/**
 * struct calls_measure - what calls are measured by
 * @ns:     longer is too long
 * @sites:  where they come from, with each call's
 * @pauses: of any vCPU
 * @longest: the longest that was too long, since somebody has asked
 * @spans:  they are spans between marks, which nest, and not calls
 */
struct calls_measure {
    uint64_t ns;
    struct call_sites *sites;
    struct any_pauses *pauses;
    struct call_time longest;
    bool spans;
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

/*
 * Is it too long at @time, and was it not found before?  @ends: that is its
 * end
 */
bool lasting_call_find(struct lasting_call *call, struct calls_measure *by,
                       uint64_t time, bool ends);

/* Some of the time up to now does not count. */
static inline void lasting_call_skip(struct lasting_call *call, uint64_t ns)
{
    call->begin += ns;
}

/* If it began at @begin, it can have begun at any time up to @time. */
static inline void lasting_call_delay(struct lasting_call *call,
                                      uint64_t begin, uint64_t time)
{
    if (call->lasts && call->begin == begin) {
        call->begin = time;
    }
}

#endif /* BTRAIL_LASTING_CALL_H */
