/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The call that a thread is in: see thread-calls.h
 */

#include "drain/thread-calls.h"

void thread_calls_begin(struct thread_calls *calls,
                        const struct calls_measure *by,
                        const struct lasting_call *call)
{
    struct lasting_call *outer = &calls->outer;

    if (outer->lasts && outer->from == call->from) {
        /* It must have ended without a return. */
        outer->lasts = false;
    } else if (outer->lasts &&
               call_sites_has_returned(by->sites, outer->from)) {
        return;
    }
    if (calls->call.lasts && calls->call.from != call->from) {
        if (call_sites_has_returned(by->sites, calls->call.from)) {
            return;
        }
        *outer = calls->call;
    }
    calls->call = *call;
}

/* Ends a call; returns 1 if it was too long and has not been found before. */
static unsigned end_one(struct calls_measure *by,
                        struct lasting_call *call, uint64_t time)
{
    call_sites_set_returned(by->sites, call->from);
    call->lasts = false;
    return lasting_call_find(call, by, time, true);
}

bool thread_calls_end(struct thread_calls *calls,
                      struct calls_measure *by, uint64_t to,
                      uint64_t time, unsigned *found)
{
    if (by->spans) {
        return open_spans_end(&calls->spans, by, time, found);
    }
    if (calls->call.lasts && call_sites_match(calls->call.from, to)) {
        *found += end_one(by, &calls->call, time);
        return true;
    }
    if (calls->outer.lasts && call_sites_match(calls->outer.from, to)) {
        calls->call.lasts = false;
        *found += end_one(by, &calls->outer, time);
        return true;
    }
    return false;
}

static unsigned find_one(struct calls_measure *by,
                         struct lasting_call *call, uint64_t time)
{
    return call->lasts && !call->unsure &&
           call_sites_has_returned(by->sites, call->from) &&
           lasting_call_find(call, by, time, false);
}

unsigned thread_calls_find(struct thread_calls *calls,
                           struct calls_measure *by, uint64_t time)
{
    return find_one(by, &calls->call, time) +
           find_one(by, &calls->outer, time) +
           open_spans_find(&calls->spans, by, time);
}

void thread_calls_skip(struct thread_calls *calls, uint64_t ns)
{
    lasting_call_skip(&calls->call, ns);
    lasting_call_skip(&calls->outer, ns);
    open_spans_skip(&calls->spans, ns);
}

void thread_calls_delay(struct thread_calls *calls, uint64_t begin,
                        uint64_t time)
{
    lasting_call_delay(&calls->call, begin, time);
    lasting_call_delay(&calls->outer, begin, time);
    open_spans_delay(&calls->spans, begin, time);
}

static void doubt(struct lasting_call *call, const struct calls_measure *by,
                  uint64_t number)
{
    if (call->lasts &&
        call_sites_known_since(by->sites, call->from) > number) {
        call->unsure = true;
    }
}

void thread_calls_doubt(struct thread_calls *calls,
                        const struct calls_measure *by, uint64_t number)
{
    doubt(&calls->call, by, number);
    doubt(&calls->outer, by, number);
}
