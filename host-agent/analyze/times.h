/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which time counts: that in a window, and in spans if there are some
 *
 * Spans nest and overlap, and time in several of them counts once.
 */

#ifndef BTRAIL_TIMES_H
#define BTRAIL_TIMES_H

#include <glib.h>

#include "analyze/window.h"

/* A span: nanoseconds of the host's clock, from @begin to before @end */
struct times_span {
    uint64_t begin;
    uint64_t end;
};

struct times;

/* @spans: of struct times_span, in any order; NULL: all time in the window
 * counts */
struct times *times_new(const struct window *window, const GArray *spans);
void times_free(struct times *t);

/* The same time without that of spans, which are in order and apart from each
 * other; NULL instead of @t: of all time in the window */
struct times *times_except(const struct times *t, const struct window *window,
                           const GArray *spans);

/* Does any time from a moment of the host's clock on count? */
bool times_after(const struct times *t, uint64_t host);

/*
 * How much time counts from @begin to before @end: these and the result are in
 * 1/PACE_TICKS ns, the former after @host
 */
uint64_t times_count(const struct times *t, uint64_t host, uint64_t begin,
                     uint64_t end);

/* The same from one moment of the host's clock to before another one */
uint64_t times_between(const struct times *t, uint64_t since, uint64_t until);

/*
 * How long, from @begin on, either all time counts or none, in the same unit;
 * at least 1, and UINT64_MAX if it is without end
 */
uint64_t times_same(const struct times *t, uint64_t host, uint64_t begin);

#endif /* BTRAIL_TIMES_H */
