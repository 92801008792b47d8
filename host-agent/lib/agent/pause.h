/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * When a vCPU is paused, by its events: docs/trace-format.md says what is known
 * of that
 */

#ifndef BTRAIL_PAUSE_H
#define BTRAIL_PAUSE_H

#include "backtrail/trace.h"

/* Nanoseconds of the host's clock, from @begin to before @end */
struct btrail_pause {
    uint64_t begin;
    uint64_t end;
};

/**
 * struct btrail_pause_watch - the pauses of one vCPU, as its events come
 * @reasons: for which it is paused, a bit each: a guest can be stopped while a
 *           vCPU waits for room in the buffer
 * @since:   when the first of these began
 * @clock:   the last one that is known
 * @unknown: how many pauses have a begin or an end that the trace does not have
 */
struct btrail_pause_watch {
    uint64_t reasons;
    uint64_t since;
    uint64_t clock;
    uint64_t unknown;
};

/* Takes an event.  True if a pause ends with it, which @pause gets. */
bool btrail_pause_watch_event(struct btrail_pause_watch *w,
                              const struct btrail_event *e,
                              struct btrail_pause *pause);

#endif /* BTRAIL_PAUSE_H */
