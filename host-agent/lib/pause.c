/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Pauses of a vCPU: see agent/pause.h
 */

#include <glib.h>

#include "lib/agent/pause.h"

/* All reasons that are unknown share the last bit. */
static uint64_t bit_of(uint16_t reason)
{
    return UINT64_C(1) << MIN(reason, 63);
}

/* Records are missing, and with them perhaps the end of a pause. */
static void lose(struct btrail_pause_watch *w)
{
    w->unknown++;
    w->reasons = 0;
}

static void begin(struct btrail_pause_watch *w, const struct btrail_event *e)
{
    uint64_t bit = bit_of(e->reason);

    if (w->reasons & bit) {
        /* The end of the one before is missing. */
        lose(w);
    }
    if (!w->reasons) {
        w->since = e->data[0];
    }
    w->reasons |= bit;
}

/* Ends pauses of these reasons.  True if none is left. */
static bool end(struct btrail_pause_watch *w, uint64_t reasons,
                uint64_t clock, struct btrail_pause *pause)
{
    if (!(w->reasons & reasons)) {
        return false;
    }
    w->reasons &= ~reasons;
    *pause = (struct btrail_pause) { w->since, MAX(clock, w->since) };
    return !w->reasons;
}

bool btrail_pause_watch_event(struct btrail_pause_watch *w,
                              const struct btrail_event *e,
                              struct btrail_pause *pause)
{
    uint64_t clock = e->data[0];
    bool ended = false;

    switch (e->type) {
    case BTRAIL_EVENT_GAP:
        if (clock) {
            lose(w);
        }
        return false;
    case BTRAIL_EVENT_PAUSE:
        if (clock) {
            begin(w, e);
        }
        break;
    case BTRAIL_EVENT_RESUME:
        if (!clock) {
            return false;
        }
        /* A trace can begin while the guest is stopped. */
        w->unknown += w->clock && !(w->reasons & bit_of(e->reason));
        ended = end(w, bit_of(e->reason), clock, pause);
        break;
    case BTRAIL_EVENT_END:
        ended = clock && end(w, UINT64_MAX, clock, pause);
        break;
    case BTRAIL_EVENT_TIME:
        break;
    default:
        return false;
    }
    w->clock = MAX(w->clock, clock);
    return ended;
}
