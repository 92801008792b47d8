/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The time of a guest that is replayed: see guest-time.h
 */

#include <glib.h>

#include "find/guest-time.h"
#include "find/record-reader.h"
#include "lib/agent/meta.h"
#include "util/search.h"

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

    if (index == UINT64_MAX || record_read(trace, vcpu, index, &visit) ||
        !visit.at.time.host) {
        return false;
    }
    *from = guest_time_ns(visit.at.time.tsc, hz);
    *to = MAX(*from, next_time(trace, vcpu, index + 1, hz));
    return true;
}

/* More TIME events are not kept: every other one then goes. */
#define MAX_POINTS  (1u << 22)

struct replay_point {
    uint64_t host;
    uint64_t ns;
};

/* @points: of struct replay_point, neither of which goes back */
struct replay_clock {
    GArray *points;
};

static struct replay_point *point(const GArray *points, guint i)
{
    return &g_array_index(points, struct replay_point, i);
}

static void thin_out(GArray *points)
{
    guint n = 0;

    for (guint i = 0; i < points->len; i += 2) {
        *point(points, n++) = *point(points, i);
    }
    g_array_set_size(points, n);
}

/* Adds the TIME events of a vCPU. */
static int add_points(GArray *points, const struct btrail_trace *trace,
                      unsigned vcpu, uint64_t hz)
{
    struct btrail_cursor *cursor;
    struct btrail_batch b;
    int ret = btrail_cursor_open(&cursor, trace, vcpu,
                                 BTRAIL_CURSOR_EVENTS_ONLY);

    if (ret) {
        return ret;
    }
    while (!(ret = btrail_cursor_next(cursor, &b))) {
        struct replay_point p;

        if (!b.event || b.event->type != BTRAIL_EVENT_TIME ||
            !b.event->data[0]) {
            continue;
        }
        p = (struct replay_point) {
            b.event->data[0], guest_time_ns(b.event->data[1], hz),
        };
        if (points->len == MAX_POINTS) {
            thin_out(points);
        }
        g_array_append_val(points, p);
    }
    btrail_cursor_close(cursor);
    return ret == -BTRAIL_ERR_END ? 0 : ret;
}

static gint by_host(gconstpointer a, gconstpointer b)
{
    const struct replay_point *x = a, *y = b;

    return BTRAIL_COMPARE(x->host, y->host) ?: BTRAIL_COMPARE(x->ns, y->ns);
}

int replay_clock_read(struct replay_clock **clock,
                     const struct btrail_trace *trace)
{
    const uint64_t hz = guest_time_hz(trace);
    struct replay_clock *c = g_new0(struct replay_clock, 1);
    struct btrail_stream_info info;
    int ret = 0;

    c->points = g_array_new(FALSE, FALSE, sizeof(struct replay_point));
    for (unsigned i = 0; !ret && !btrail_trace_stream(trace, i, &info); i++) {
        ret = add_points(c->points, trace, info.vcpu, hz);
    }
    if (ret) {
        replay_clock_free(c);
        return ret;
    }
    g_array_sort(c->points, by_host);
    for (guint i = 1; i < c->points->len; i++) {
        /* A clock that goes back stands still. */
        point(c->points, i)->ns = MAX(point(c->points, i)->ns,
                                      point(c->points, i - 1)->ns);
    }
    if (!c->points->len || point(c->points, c->points->len - 1)->ns ==
                           point(c->points, 0)->ns) {
        /* The TSC is not known, or has not counted. */
        replay_clock_free(c);
        c = NULL;
    }
    *clock = c;
    return 0;
}

void replay_clock_free(struct replay_clock *c)
{
    if (c) {
        g_array_unref(c->points);
        g_free(c);
    }
}

uint64_t replay_clock_ns(const struct replay_clock *c, uint64_t host)
{
    size_t n = BTRAIL_UP_TO(c->points->data, c->points->len,
                            struct replay_point, host, host);
    const struct replay_point *p, *next;

    if (!c->points->len) {
        return 0;
    }
    p = point(c->points, n ? n - 1 : 0);
    if (!n || n == c->points->len) {
        return p->ns;
    }
    next = point(c->points, n);
    return p->ns + (uint64_t)((unsigned __int128)(host - p->host) *
                              (next->ns - p->ns) / (next->host - p->host));
}

uint64_t replay_clock_between(const struct replay_clock *c, uint64_t begin,
                             uint64_t end)
{
    return end <= begin ? 0 :
           replay_clock_ns(c, end) - replay_clock_ns(c, begin);
}
