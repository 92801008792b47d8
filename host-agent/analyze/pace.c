/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The time that records took: see pace.h
 */

#include <glib.h>

#include "analyze/pace.h"
#include "lib/agent/meta.h"

struct paces {
    struct btrail_cursor *cursor;
    struct pace pace;
    uint64_t limit;             /* if more time passed, the vCPU waited */
    uint64_t clock;             /* at the end of @pace */
    bool ended;
};

/* Reads the next pace: events up to the one that has a clock. */
static void read_next(struct paces *p)
{
    uint64_t begin = p->pace.end, end = begin, clock = p->clock;
    uint64_t lost = 0, paused = 0, pause = 0, took, records;
    struct btrail_batch b;
    bool found = false;

    while (!found && !btrail_cursor_next(p->cursor, &b)) {
        const struct btrail_event *e = b.event;

        if (!e) {
            continue;
        }
        switch (e->type) {
        case BTRAIL_EVENT_GAP:
            if (e->data[0] != BTRAIL_LOST_UNKNOWN) {
                lost += e->data[0];
            }
            break;
        case BTRAIL_EVENT_PAUSE:
            pause = e->data[0];
            break;
        case BTRAIL_EVENT_RESUME:
            if (pause && e->data[0] > pause) {
                paused += e->data[0] - pause;
            }
            pause = 0;
            break;
        case BTRAIL_EVENT_TIME:
        case BTRAIL_EVENT_END:
            if (!e->data[0]) {
                break;
            }
            clock = e->data[0];
            end = MAX(begin, e->index);
            /* The first clock has no clock before it. */
            found = p->clock || e->index > begin;
            if (!p->clock) {
                p->clock = clock;
            }
            break;
        default:
            break;
        }
    }
    p->pace.begin = begin;
    p->pace.time = p->clock;
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
    took = took > paused ? took - paused : 0;
    /* No two clocks are a day apart, unless one is wrong. */
    took = MIN(took, UINT64_C(86400000000000));
    p->pace.end = end;
    if (records) {
        p->pace.ticks = MIN(took, p->limit) * PACE_TICKS / records;
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

void paces_close(struct paces *p)
{
    if (p) {
        btrail_cursor_close(p->cursor);
        g_free(p);
    }
}
