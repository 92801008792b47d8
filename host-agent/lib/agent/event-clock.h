/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The host's clock in events
 */

#ifndef BTRAIL_EVENT_CLOCK_H
#define BTRAIL_EVENT_CLOCK_H

#include "backtrail/trace.h"

/* The clock of an event; 0 if it has none */
static inline uint64_t btrail_event_clock(const struct btrail_event *e)
{
    switch (e->type) {
    case BTRAIL_EVENT_TIME:
    case BTRAIL_EVENT_PAUSE:
    case BTRAIL_EVENT_RESUME:
    case BTRAIL_EVENT_END:
        return e->data[0];
    default:
        return 0;
    }
}

#endif /* BTRAIL_EVENT_CLOCK_H */
