/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The time of a guest that is replayed: see guest-time.h
 */

#include <glib.h>

#include "find/guest-time.h"
#include "find/visits.h"
#include "lib/agent/meta.h"

#define NS_PER_S    UINT64_C(1000000000)
/* No TSC counts slower or faster. */
#define LEAST_HZ    UINT64_C(1000000)
#define MOST_HZ     UINT64_C(15000000000)

uint64_t guest_time_hz(const struct btrail_trace *trace)
{
    unsigned bad;
    g_autoptr(JsonObject) meta = btrail_meta_read(trace, &bad);
    /* A negative one is beyond MOST_HZ. */
    uint64_t hz = btrail_json_int(meta, "tsc_hz", 0);

    return hz < LEAST_HZ || hz > MOST_HZ ? NS_PER_S : hz;
}

uint64_t guest_time_ns(uint64_t tsc, uint64_t hz)
{
    uint64_t s = tsc / hz;

    return s >= UINT64_MAX / NS_PER_S ? UINT64_MAX :
           s * NS_PER_S + tsc % hz * NS_PER_S / hz;
}

/* The guest's time of the next TIME event from an index on */
static uint64_t next_time(const struct btrail_trace *trace, unsigned vcpu,
                          uint64_t index, uint64_t hz)
{
    struct btrail_cursor *cursor;
    struct btrail_batch b;
    uint64_t ns = UINT64_MAX;

    if (btrail_cursor_open(&cursor, trace, vcpu, BTRAIL_CURSOR_EVENTS_ONLY)) {
        return ns;
    }
    if (!btrail_cursor_seek(cursor, index)) {
        while (ns == UINT64_MAX && !btrail_cursor_next(cursor, &b)) {
            if (b.event->type == BTRAIL_EVENT_TIME) {
                ns = guest_time_ns(b.event->data[1], hz);
            }
        }
    }
    btrail_cursor_close(cursor);
    return ns;
}

bool guest_time_of(const struct btrail_trace *trace, unsigned vcpu,
                   uint64_t index, uint64_t hz, uint64_t *from, uint64_t *to)
{
    struct visit visit;

    if (index == UINT64_MAX || visit_read(trace, vcpu, index, &visit) ||
        !visit.at.time.host) {
        return false;
    }
    *from = guest_time_ns(visit.at.time.tsc, hz);
    *to = MAX(*from, next_time(trace, vcpu, index + 1, hz));
    return true;
}
