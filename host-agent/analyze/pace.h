/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How long records took
 *
 * A stream has clocks at its TIME events.  The time between two of them is
 * shared by the records between them.  A vCPU that halts makes no records and
 * no TIME events, so what is longer than it should be was waited for, right
 * before the second one.
 */

#ifndef BTRAIL_PACE_H
#define BTRAIL_PACE_H

#include "backtrail/trace.h"

/* Units of time in a nanosecond */
#define PACE_TICKS  1024

/**
 * struct pace - records that took equally long
 * @begin: index of the first one
 * @end:   index after the last one; UINT64_MAX at the end of the stream
 * @time:  host clock at @begin
 * @ticks: how long each took, in 1/PACE_TICKS ns
 * @wait:  how long the vCPU waited before @end, in the same units
 */
struct pace {
    uint64_t begin;
    uint64_t end;
    uint64_t time;
    uint64_t ticks;
    uint64_t wait;
};

struct paces;

/**
 * paces_open
 * @tick: of the session, in nanoseconds; 0 if it is not known
 *
 * Errors: as btrail_cursor_open().
 */
int paces_open(struct paces **paces, const struct btrail_trace *trace,
               unsigned vcpu, uint64_t tick);
void paces_close(struct paces *p);

/* What holds for the record @index; @index does not go back. */
const struct pace *paces_at(struct paces *p, uint64_t index);

/* The next one, which begins where the one before has ended */
const struct pace *paces_next(struct paces *p);

#endif /* BTRAIL_PACE_H */
