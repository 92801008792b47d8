/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Whether a call takes too long: see lasting-call.h
 */

#include "drain/lasting-call.h"

bool lasting_call_find(struct lasting_call *call, struct calls_measure *by,
                       uint64_t time, bool ends)
{
    uint64_t paused = call->any ?
                      any_pauses_in(by->pauses, call->begin, time) : 0;
    uint64_t ns = time > call->begin ? time - call->begin - paused : 0;

    if (call->found || ns <= by->ns) {
        return false;
    }
    call->found = true;
    if (ns > by->longest.ns) {
        by->longest = (struct call_time) { ns, !ends };
    }
    return true;
}
