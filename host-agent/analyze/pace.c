/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The time that records took: see pace.h
 */

#include <glib.h>

#include "analyze/pace.h"
#include "lib/agent/event-clock.h"
#include "lib/agent/meta.h"
#include "lib/agent/pause.h"

/* By what factor more is read if PACE_NEAR is not enough */
#define FURTHER     16

struct paces {
    struct btrail_cursor *cursor;
    struct pace pace;
    struct btrail_pause_watch watch;
    uint64_t each;              /* ticks of the last records not in a pause */
    uint64_t limit;             /* if more time passed, the vCPU waited */
    uint64_t clock;             /* at the end of @pace */
    bool ended;
    int error;
    paces_event_fn *fn;
    void *opaque;
};

/* Reads events up to the next one that has a clock.  False at the end.
 * @lost:   gets how many records are missing before
 * @paused: false then, since the end of a pause may be missing, too */
static bool read_clock(struct paces *p, uint64_t *clock, uint64_t *index,
                       uint64_t *lost, bool *paused)
{
    struct btrail_batch b;
    struct btrail_pause pause;
    int ret;

    while (!(ret = btrail_cursor_next(p->cursor, &b))) {
        const struct btrail_event *e = b.event;

        if (!e) {
            continue;
        }
        if (p->fn) {
            p->fn(p->opaque, e);
        }
        if (e->type == BTRAIL_EVENT_GAP && e->data[0]) {
            *lost += e->data[0] == BTRAIL_LOST_UNKNOWN ? 0 : e->data[0];
            *paused = false;
        }
        btrail_pause_watch_event(&p->watch, e, &pause);
        *clock = btrail_event_clock(e);
        *index = e->index;
        if (*clock) {
            return true;
        }
    }
    p->error = ret == -BTRAIL_ERR_END ? 0 : ret;
    return false;
}

/* Reads the next pace: events up to the one that has a clock. */
static void read_next(struct paces *p)
{
    uint64_t begin = p->pace.end, end = begin, clock = p->clock, index;
    uint64_t lost = 0, took, records;
    bool found = false, paused = p->watch.reasons;

    while (!found && read_clock(p, &clock, &index, &lost, &paused)) {
        end = MAX(begin, index);
        /* The first clock has no clock before it. */
        found = p->clock || index > begin;
        if (!p->clock) {
            p->clock = clock;
        }
        paused = found ? paused : p->watch.reasons;
    }
    p->pace.begin = begin;
    p->pace.time = p->clock;
    p->pace.ticks = p->each;
    p->pace.wait = 0;
    if (!found) {
        /* The rest has the pace before it. */
        p->ended = true;
        p->pace.end = UINT64_MAX;
        p->pace.until = UINT64_MAX;
        return;
    }
    records = end - begin > lost ? end - begin - lost : 0;
    took = clock > p->clock ? clock - p->clock : 0;
    /* No two clocks are a day apart, unless one is wrong. */
    took = MIN(took, UINT64_C(86400000000000));
    p->pace.end = end;
    if (paused) {
        /* What it still makes then, it makes at once. */
        took = 0;
        p->pace.ticks = 0;
    } else if (records) {
        p->each = p->pace.ticks = MIN(took, p->limit) * PACE_TICKS / records;
        took -= MIN(took, p->limit);
    }
    p->pace.wait = took * PACE_TICKS;
    p->pace.until = clock;
    p->clock = clock;
}

const struct pace *paces_next(struct paces *p)
{
    if (!p->ended) {
        read_next(p);
    }
    return &p->pace;
}

const struct pace *paces_at(struct paces *p, uint64_t index)
{
    while (!p->ended && index >= p->pace.end) {
        read_next(p);
    }
    return &p->pace;
}

int paces_open(struct paces **paces, const struct btrail_trace *trace,
               unsigned vcpu, uint64_t tick)
{
    struct paces *p = g_new0(struct paces, 1);
    int ret = btrail_cursor_open(&p->cursor, trace, vcpu,
                                 BTRAIL_CURSOR_EVENTS_ONLY);

    if (ret) {
        g_free(p);
        return ret;
    }
    p->limit = btrail_busy_time(tick);
    *paces = p;
    return 0;
}

int paces_open_at(struct paces **paces, const struct btrail_trace *trace,
                  unsigned vcpu, uint64_t tick, uint64_t host)
{
    int ret = paces_open(paces, trace, vcpu, tick);

    if (!ret && host) {
        ret = btrail_cursor_seek_time((*paces)->cursor, host);
    }
    return ret;
}

int paces_open_near(struct paces **paces, const struct btrail_trace *trace,
                    unsigned vcpu, uint64_t tick, uint64_t host,
                    uint64_t index)
{
    uint64_t back = PACE_NEAR, from;
    const struct pace *pace;

    for (;;) {
        int ret;

        from = host - MIN(host, back);
        ret = paces_open_at(paces, trace, vcpu, tick, from);
        if (ret) {
            return ret;
        }
        pace = paces_at(*paces, index);
        /* Records after the last clock have a pace from before it. */
        if (!from || (pace->begin && pace->until != UINT64_MAX &&
                      (*paces)->each)) {
            return 0;
        }
        paces_close(*paces);
        back = back > UINT64_MAX / FURTHER ? UINT64_MAX : back * FURTHER;
    }
}

void paces_watch(struct paces *p, paces_event_fn *fn, void *opaque)
{
    p->fn = fn;
    p->opaque = opaque;
}

int paces_error(const struct paces *p)
{
    return p->error;
}

void paces_close(struct paces *p)
{
    if (p) {
        btrail_cursor_close(p->cursor);
        g_free(p);
    }
}
