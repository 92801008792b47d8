/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which time counts: see times.h
 */

#include <stdlib.h>

#include "analyze/pace.h"
#include "analyze/times.h"
#include "util/search.h"

/* @spans: those that have no time in common, in order */
struct times {
    struct times_span *spans;
    size_t n;
};

static uint64_t add_clamped(uint64_t a, uint64_t b)
{
    return a + MIN(b, UINT64_MAX - a);
}

/* The time of a window; unknown times are in that of the whole trace. */
static struct times_span window_span(const struct window *w)
{
    if (!w->begin && w->end == UINT64_MAX) {
        return (struct times_span) { 0, UINT64_MAX };
    }
    return (struct times_span) {
        add_clamped(w->start, w->begin), add_clamped(w->start, w->end),
    };
}

static int by_begin(gconstpointer a, gconstpointer b)
{
    const struct times_span *x = a, *y = b;

    return BTRAIL_COMPARE(x->begin, y->begin);
}

/* Adds what a span has in a window.  They come in order. */
static void add_span(struct times *t, const struct times_span *window,
                     const struct times_span *span)
{
    const struct times_span in = {
        MAX(span->begin, window->begin), MIN(span->end, window->end),
    };
    struct times_span *last = t->n ? &t->spans[t->n - 1] : NULL;

    if (in.begin >= in.end) {
        return;
    }
    if (last && in.begin <= last->end) {
        last->end = MAX(last->end, in.end);
    } else {
        t->spans[t->n++] = in;
    }
}

struct times *times_new(const struct window *window, const GArray *spans)
{
    const struct times_span in = window_span(window);
    const size_t n = spans ? spans->len : 1;
    g_autofree struct times_span *sorted =
        g_memdup2(spans ? (const void *)spans->data : &in, n * sizeof(in));
    struct times *t = g_new0(struct times, 1);

    if (n > 1) {
        qsort(sorted, n, sizeof(*sorted), by_begin);
    }
    t->spans = g_new(struct times_span, n);
    for (size_t i = 0; i < n; i++) {
        add_span(t, &in, &sorted[i]);
    }
    return t;
}

void times_free(struct times *t)
{
    if (t) {
        g_free(t->spans);
        g_free(t);
    }
}

struct times *times_except(const struct times *t, const struct window *window,
                           const GArray *spans)
{
    const struct times_span in = window_span(window);
    const struct times_span *all = t ? t->spans : &in;
    const struct times_span *out = (const void *)spans->data;
    struct times *rest = g_new0(struct times, 1);
    size_t n = t ? t->n : 1, k = 0;

    /* Each span that goes makes at most one more. */
    rest->spans = g_new(struct times_span, n + spans->len);
    for (size_t i = 0; i < n; i++) {
        uint64_t begin = all[i].begin;

        while (k < spans->len && out[k].end <= begin) {
            k++;
        }
        for (size_t j = k; j < spans->len && out[j].begin < all[i].end; j++) {
            if (begin < out[j].begin) {
                rest->spans[rest->n++] = (struct times_span) {
                    begin, out[j].begin,
                };
            }
            begin = MAX(begin, out[j].end);
        }
        if (begin < all[i].end) {
            rest->spans[rest->n++] = (struct times_span) {
                begin, all[i].end,
            };
        }
    }
    return rest;
}

bool times_after(const struct times *t, uint64_t host)
{
    return t->n && host < t->spans[t->n - 1].end;
}

/* A moment in 1/PACE_TICKS ns after @host; 0 if it is before that */
static uint64_t ticks_after(uint64_t host, uint64_t moment)
{
    uint64_t ns = moment > host ? moment - host : 0;

    return ns > UINT64_MAX / PACE_TICKS ? UINT64_MAX : ns * PACE_TICKS;
}

/* The first span that ends after a moment, which is as in times_count(); or
 * @n */
static size_t first_span(const struct times *t, uint64_t host, uint64_t begin)
{
    return !t->n ? 0 : BTRAIL_UP_TO(t->spans, t->n, struct times_span, end,
                                    add_clamped(host, begin / PACE_TICKS));
}

uint64_t times_count(const struct times *t, uint64_t host, uint64_t begin,
                     uint64_t end)
{
    uint64_t sum = 0;

    for (size_t i = first_span(t, host, begin); i < t->n; i++) {
        uint64_t from = MAX(ticks_after(host, t->spans[i].begin), begin);
        uint64_t to = MIN(ticks_after(host, t->spans[i].end), end);

        if (from >= end) {
            break;
        }
        sum += to - from;
    }
    return sum;
}

uint64_t times_between(const struct times *t, uint64_t since, uint64_t until)
{
    return until <= since ? 0 :
           times_count(t, since, 0,
                       MIN(until - since, UINT64_MAX / PACE_TICKS) *
                       PACE_TICKS);
}

uint64_t times_same(const struct times *t, uint64_t host, uint64_t begin)
{
    size_t i = first_span(t, host, begin);
    uint64_t edge;

    if (i == t->n) {
        return UINT64_MAX;
    }
    edge = ticks_after(host, t->spans[i].begin);
    if (edge <= begin) {
        edge = ticks_after(host, t->spans[i].end);
    }
    return edge == UINT64_MAX ? UINT64_MAX : edge - begin;
}
