/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The time that records took
 *
 * A stream has clocks at its TIME events, and where it was paused.  The records
 * between two clocks share the time between them.  A vCPU that halts makes
 * neither records nor TIME events.  So if that time is too long, the vCPU has
 * waited, right before the second clock.  The time of a pause is that of no
 * record, and the vCPU does not wait in it.
 */

#ifndef BTRAIL_PACE_H
#define BTRAIL_PACE_H

#include "backtrail/trace.h"

/* Units of time in a nanosecond */
#define PACE_TICKS  1024

/* So long before a moment clocks are read from, in ns, where that does */
#define PACE_NEAR   UINT64_C(10000000)

/**
 * struct pace - consecutive records that took the same time each
 * @begin: index of the first one
 * @end:   index after the last one; UINT64_MAX at the end of the stream
 * @time:  host clock at @begin
 * @ticks: time of each record, in 1/PACE_TICKS ns
 * @wait:  time that the vCPU waited before @end, in the same unit
 * @until: host clock at @end; UINT64_MAX if there is none
 */
struct pace {
    uint64_t begin;
    uint64_t end;
    uint64_t time;
    uint64_t ticks;
    uint64_t wait;
    uint64_t until;
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

/* The same from the first clock at @host or later on; records before it have no
 * time */
int paces_open_at(struct paces **paces, const struct btrail_trace *trace,
                  unsigned vcpu, uint64_t tick, uint64_t host);

/*
 * The same near a record, and not at the begin of the trace: at a clock before
 * @host, which is that of the last clock before record @index, or 0.  A pace
 * that has a clock before it and one after it is the same wherever reading
 * began.
 */
int paces_open_near(struct paces **paces, const struct btrail_trace *trace,
                    unsigned vcpu, uint64_t tick, uint64_t host,
                    uint64_t index);
void paces_close(struct paces *p);

/* Calls a function with each event that is read from now on: one reading is
 * then enough for both. */
typedef void paces_event_fn(void *opaque, const struct btrail_event *e);
void paces_watch(struct paces *p, paces_event_fn *fn, void *opaque);

/* The error of the library that has ended them, or 0 */
int paces_error(const struct paces *p);

/* The pace of the record @index, which must not be lower than before */
const struct pace *paces_at(struct paces *p, uint64_t index);

/* The next pace, which begins where the one before ended */
const struct pace *paces_next(struct paces *p);

#endif /* BTRAIL_PACE_H */
