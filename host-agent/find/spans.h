/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Spans from A to B: what threads do from moments of one kind to moments of
 * another, such as from the mark of a request to that of its answer
 *
 * Spans nest: B ends the last span that has begun and has not ended, of those
 * that it can end.  A moment that is both ends a span and begins the next one.
 * As for find --between, the record that A is after is the first one of a
 * span, and that of B is after its last one.
 */

#ifndef BTRAIL_SPANS_H
#define BTRAIL_SPANS_H

#include "analyze/pauses.h"
#include "analyze/times.h"
#include "find/moment.h"
#include "symbolize/record-set.h"
#include "util/agent-error.h"

/* Moments of one kind that memory is used for */
#define SPANS_MAX_POINTS    (1u << 19)

/**
 * enum spans_pair - which spans B can end, and whose records they have
 * @SPANS_THREAD: those that its thread has begun; the records of this thread,
 *                on all vCPUs.  Where the trace names no tasks, all that has
 *                the same page tables is one thread
 * @SPANS_VALUE:  those with the same value, that of a mark; the records of the
 *                thread that has begun it and of the one that has ended it.
 *                Moments of two vCPUs whose order is not certain are a pair in
 *                any order
 * @SPANS_ANY:    all; all records of all vCPUs
 */
enum spans_pair {
    SPANS_THREAD,
    SPANS_VALUE,
    SPANS_ANY,
};

/**
 * struct span_point - a moment at which spans begin or end
 * @time:  by the host's clock, estimated
 * @begun: when the record before it has begun
 * @host:  of the last TIME event before it
 * @latest: of the next TIME event; UINT64_MAX if there is none
 * @count: of instructions; or BTRAIL_NO_ICOUNT
 * @cr3:   in force
 * @known: it has a value
 */
struct span_point {
    uint64_t index;
    uint64_t time;
    uint64_t begun;
    uint64_t host;
    uint64_t latest;
    uint64_t count;
    uint64_t cr3;
    uint64_t value;
    unsigned vcpu;
    bool begin;
    bool known;
    struct btrail_task task;
    struct btrail_kernel kernel;
};

/**
 * struct span
 * @begin, @end: of the points; @end is NULL if it has not ended
 * @records: made in it, those of spans in it included
 * @on_cpu:  the time of these records
 * @paused:  how long its thread, or else the whole guest, was paused in it
 * @held:    and how long others were, which it may have waited for
 *
 * All but the first two are 0 before spans_count(), and if it has not ended.
 * Times are in nanoseconds.
 */
struct span {
    const struct span_point *begin;
    const struct span_point *end;
    uint64_t records;
    uint64_t on_cpu;
    uint64_t paused;
    uint64_t held;
};

struct spans;

/* @trace is used up to spans_count().  @tick: as for clock_order_new() */
struct spans *spans_new(const struct btrail_trace *trace, uint64_t tick,
                        enum spans_pair pair);
void spans_free(struct spans *s);

/**
 * spans_add - add a moment
 * @begin: it is A, otherwise B.  Those of each kind come in order
 * @cr3:   in force, if the task is not known
 * @value: NULL if there is none
 *
 * False if there are SPANS_MAX_POINTS of the kind.
 */
bool spans_add(struct spans *s, bool begin, const struct moment *at,
               uint64_t cr3, const uint64_t *value);

/* Makes spans, after all moments were added. */
void spans_pair(struct spans *s);

/* Span @i, in the order in which they begin; NULL after the last one */
const struct span *spans_get(const struct spans *s, size_t i);

/* Moments B that have ended no span; moments without a value, which need one */
uint64_t spans_unbegun(const struct spans *s);
uint64_t spans_unvalued(const struct spans *s);

/* Nanoseconds from the beginning to the end of a span that has ended; and after
 * spans_count() without those in which it was paused */
uint64_t span_duration(const struct span *span);
uint64_t span_unpaused(const struct span *span);

/*
 * The time of the records of a span that has ended: from the beginning of its
 * first one to that of the first one after it, and never more than its
 * duration, but for parts of a nanosecond
 */
struct times_span span_time(const struct span *span);

/**
 * spans_count - count the records of spans, and their time
 * @set:    gets the records of all spans that have ended, and is sealed; or NULL
 * @pauses: of the trace, or NULL: spans then have none
 *
 * Errors: COMMAND: the trace cannot be read, or there is too much for @set.
 */
bool spans_count(struct spans *s, struct record_set *set,
                 const struct pauses *pauses, GError **error);

#endif /* BTRAIL_SPANS_H */
