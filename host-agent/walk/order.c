/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The order of moments of several vCPUs: see order.h
 */

#include <glib.h>

#include "analyze/pace.h"
#include "walk/order.h"

struct lane {
    struct paces *paces;
    uint64_t last;              /* index that was asked for */
};

struct order {
    const struct btrail_trace *trace;
    uint64_t tick;
    struct lane lanes[BTRAIL_MAX_VCPUS];
};

struct order *order_new(const struct btrail_trace *trace, uint64_t tick)
{
    struct order *o = g_new0(struct order, 1);

    o->trace = trace;
    o->tick = tick;
    return o;
}

void order_free(struct order *o)
{
    if (o) {
        for (unsigned i = 0; i < BTRAIL_MAX_VCPUS; i++) {
            paces_close(o->lanes[i].paces);
        }
        g_free(o);
    }
}

uint64_t order_key(struct order *o, const struct moment *at)
{
    struct lane *lane = &o->lanes[at->vcpu];
    const struct pace *pace;

    if (at->exact) {
        return at->icount;
    }
    if (lane->paces && at->index < lane->last) {
        paces_close(lane->paces);
        lane->paces = NULL;
    }
    if (!lane->paces &&
        paces_open(&lane->paces, o->trace, at->vcpu, o->tick)) {
        return at->time.host;
    }
    lane->last = at->index;
    /* The record is over where the next one begins. */
    pace = paces_at(lane->paces, at->index);
    return pace->time + (at->index + 1 - pace->begin) * pace->ticks /
           PACE_TICKS;
}
