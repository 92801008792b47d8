/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The time of a vCPU: see lane-clock.h
 */

#include <glib.h>

#include "analyze/lane-clock.h"

int lane_clocks_open(struct lane_clock clocks[BTRAIL_MAX_VCPUS],
                     const struct btrail_trace *trace, uint64_t tick,
                     uint64_t from)
{
    struct btrail_stream_info info;
    int ret = 0;

    for (unsigned i = 0; !ret && !btrail_trace_stream(trace, i, &info); i++) {
        ret = paces_open_at(&clocks[info.vcpu].paces, trace, info.vcpu, tick,
                            from);
    }
    return ret;
}

void lane_clocks_close(struct lane_clock clocks[BTRAIL_MAX_VCPUS])
{
    for (unsigned i = 0; i < BTRAIL_MAX_VCPUS; i++) {
        paces_close(clocks[i].paces);
        clocks[i] = (struct lane_clock) { NULL };
    }
}

void lane_clock_begin(struct lane_clock *c, const struct btrail_batch *b)
{
    if (!c->pace && b->time.host) {
        c->pace = paces_at(c->paces, b->index);
    }
}

/* Goes on to the next pace. */
static uint64_t pass(struct lane_clock *c, const struct times *times)
{
    uint64_t wait = c->pace->wait;

    wait = wait && times ? times_count(
        times, c->pace->until - wait / PACE_TICKS, 0, wait) : 0;
    c->pace = paces_next(c->paces);
    c->n = 0;
    return wait;
}

uint64_t lane_clock_record(struct lane_clock *c, uint64_t index,
                           const struct times *times)
{
    uint64_t wait = 0;

    while (c->pace && index >= c->pace->end) {
        wait += pass(c, times);
    }
    if (!c->pace) {
        c->pace = paces_at(c->paces, index);
    }
    return wait;
}

uint64_t lane_clock_event(struct lane_clock *c, const struct btrail_batch *b,
                          const struct times *times)
{
    uint64_t wait = 0;

    while (c->pace && b->index >= c->pace->end &&
           b->time.host >= c->pace->until) {
        wait += pass(c, times);
    }
    return wait;
}

uint64_t lane_clock_end(struct lane_clock *c, const struct times *times)
{
    uint64_t wait = 0;

    while (c->pace && c->pace->end != UINT64_MAX &&
           times_after(times, c->pace->time)) {
        wait += pass(c, times);
    }
    return wait;
}

uint64_t lane_clock_ticks(const struct lane_clock *c, uint64_t n)
{
    uint64_t ticks = c->pace->ticks;

    return !ticks ? 0 : MIN(n, UINT64_MAX / 4 / ticks) * ticks;
}

uint64_t lane_clock_now(const struct lane_clock *c)
{
    return !c->pace || !c->pace->time ? 0 :
           c->pace->time + lane_clock_ticks(c, c->n) / PACE_TICKS;
}
