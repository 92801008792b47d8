/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The part of a trace that an analysis reads, on the clock of its session
 */

#ifndef BTRAIL_WINDOW_H
#define BTRAIL_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

/**
 * struct window
 * @start: host clock at the session's start
 * @begin: nanoseconds after @start
 * @end:   the same; UINT64_MAX for no end
 */
struct window {
    uint64_t start;
    uint64_t begin;
    uint64_t end;
};

/* A window that has the whole trace */
#define WINDOW_ALL(start)   ((struct window) { (start), 0, UINT64_MAX })

/* Nanoseconds since the session's start; -1 before it, or if @host is 0 */
static inline int64_t window_time(const struct window *w, uint64_t host)
{
    return host >= w->start ? (int64_t)(host - w->start) : -1;
}

/* Is a moment at or after the window's end? */
static inline bool window_past(const struct window *w, uint64_t host)
{
    return host >= w->start && host - w->start >= w->end;
}

/* Is a moment in the window?  The whole trace has unknown times, too. */
static inline bool window_has(const struct window *w, uint64_t host)
{
    return (w->end == UINT64_MAX && !w->begin) ||
           (host >= w->start && host - w->start >= w->begin &&
            host - w->start < w->end);
}

#endif /* BTRAIL_WINDOW_H */
