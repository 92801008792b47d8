/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The order of moments of several vCPUs: see clock-order.h
 */

#include <glib.h>

#include "analyze/pace.h"
#include "find/clock-order.h"
#include "find/past.h"
#include "lib/agent/meta.h"

/* By what factor more is read if PACE_NEAR is not enough */
#define FURTHER     16

/* What is so much later is not read on to. */
#define FAR         UINT64_C(1000000000)

/**
 * struct clock_lane - a vCPU
 * @paces:  where clock_order_time() is
 * @last:   index that it was asked for, of a moment with the clock @host
 * @search: where clock_order_index() is
 * @near:   it has not read from the begin of the trace on
 * @key:    that it was asked for
 */
struct clock_lane {
    struct paces *paces;
    uint64_t last;
    uint64_t host;
    struct paces *search;
    bool near;
    uint64_t key;
};

/**
 * struct clock_order
 * @history: for counts; NULL before they are needed, or if there are none
 * @asked:  they were needed: the trace is read only once to find that out
 */
struct clock_order {
    const struct btrail_trace *trace;
    uint64_t tick;
    struct past *history;
    bool asked;
    struct clock_lane lanes[BTRAIL_MAX_VCPUS];
};

struct clock_order *clock_order_new(const struct btrail_trace *trace,
                                    uint64_t tick)
{
    struct clock_order *o = g_new0(struct clock_order, 1);

    o->trace = trace;
    o->tick = tick;
    return o;
}

struct clock_order *clock_order_of(const struct btrail_trace *trace)
{
    unsigned bad;
    g_autoptr(JsonObject) meta = btrail_meta_read(trace, &bad);

    return clock_order_new(trace, btrail_meta_tick(meta));
}

void clock_order_free(struct clock_order *o)
{
    if (o) {
        for (unsigned i = 0; i < BTRAIL_MAX_VCPUS; i++) {
            paces_close(o->lanes[i].paces);
            paces_close(o->lanes[i].search);
        }
        past_free(o->history);
        g_free(o);
    }
}

uint64_t clock_order_key(struct clock_order *o, const struct moment *at)
{
    return at->exact ? at->icount : clock_order_time(o, at);
}

/* The pace of the record that a moment is after; NULL if it cannot be read */
static const struct pace *pace_of(struct clock_order *o,
                                  const struct moment *at)
{
    struct clock_lane *lane = &o->lanes[at->vcpu];
    bool far = at->time.host > lane->host && at->time.host - lane->host > FAR;

    if (lane->paces && (at->index < lane->last || far)) {
        paces_close(lane->paces);
        lane->paces = NULL;
    }
    if (!lane->paces &&
        paces_open_near(&lane->paces, o->trace, at->vcpu, o->tick,
                        at->time.host, at->index)) {
        lane->paces = NULL;
        return NULL;
    }
    lane->last = at->index;
    lane->host = at->time.host;
    return paces_at(lane->paces, at->index);
}

uint64_t clock_order_time(struct clock_order *o, const struct moment *at)
{
    const struct pace *pace = at->clock ? NULL : pace_of(o, at);
    uint64_t time = at->clock;

    /* The record is over where the next one begins. */
    if (pace) {
        time = pace->time + (at->index + 1 - pace->begin) * pace->ticks /
               PACE_TICKS;
    }
    /* Where a task begins, the vCPU can have waited before. */
    return MAX(time, at->time.host);
}

void clock_order_stamp(struct clock_order *o, struct moment *at)
{
    if (!at->exact && !at->clock) {
        at->clock = clock_order_time(o, at);
    }
}

uint64_t clock_order_begun(struct clock_order *o, const struct moment *at)
{
    const struct pace *pace = pace_of(o, at);

    /* Records that are missing have taken none of the time. */
    return pace ? MIN(pace->time + (at->index - pace->begin) * pace->ticks /
                      PACE_TICKS, pace->until) : at->time.host;
}

uint64_t clock_order_latest(struct clock_order *o, const struct moment *at)
{
    const struct pace *pace = pace_of(o, at);

    return pace ? pace->until : UINT64_MAX;
}

static uint64_t index_of_count(struct clock_order *o, unsigned vcpu,
                               uint64_t count)
{
    struct past_place p;

    if (!o->asked) {
        o->history = past_new(o->trace);
        o->asked = true;
    }
    if (!o->history) {
        return UINT64_MAX;
    }
    return count && past_at(o->history, vcpu, count - 1, &p) ?
           p.index + 1 : 0;
}

/* How many records of a pace are over before a time */
static uint64_t records_before(const struct pace *pace, uint64_t time)
{
    unsigned __int128 elapsed;

    if (time <= pace->time) {
        return 0;
    }
    if (!pace->ticks) {
        return UINT64_MAX;
    }
    /* Rounded as in clock_order_time(), the one that ends then is not. */
    elapsed = (unsigned __int128)(time - pace->time) * PACE_TICKS - 1;
    return MIN(elapsed / pace->ticks, UINT64_MAX);
}

/* Opens a search at a clock that is not after @key, or at the first one. */
static bool open_search(struct clock_order *o, struct clock_lane *lane,
                        unsigned vcpu, uint64_t key, bool near)
{
    uint64_t back = PACE_NEAR, from;

    for (;;) {
        from = near ? key - MIN(key, back) : 0;
        if (paces_open_at(&lane->search, o->trace, vcpu, o->tick, from)) {
            lane->search = NULL;
            return false;
        }
        lane->near = from;
        /* The first pace has no clock before it. */
        if (!from || paces_at(lane->search, 0)->until < key) {
            break;
        }
        paces_close(lane->search);
        back = back > UINT64_MAX / FURTHER ? UINT64_MAX : back * FURTHER;
    }
    if (from) {
        paces_next(lane->search);
    }
    return true;
}

static void close_search(struct clock_lane *lane)
{
    paces_close(lane->search);
    lane->search = NULL;
}

/* The first record of a search that is not over before @key */
static uint64_t search_on(struct clock_lane *lane, uint64_t key,
                          bool *rest)
{
    const struct pace *pace = paces_at(lane->search, 0);
    uint64_t n;

    while ((n = records_before(pace, key)) >= pace->end - pace->begin &&
           pace->end != UINT64_MAX) {
        pace = paces_next(lane->search);
    }
    *rest = pace->end == UINT64_MAX;
    return n < UINT64_MAX - pace->begin ? pace->begin + n : UINT64_MAX;
}

uint64_t clock_order_index(struct clock_order *o, unsigned vcpu, bool counts,
                           uint64_t key)
{
    struct clock_lane *lane = &o->lanes[vcpu];
    uint64_t index;
    bool rest;

    if (counts) {
        return index_of_count(o, vcpu, key);
    }
    if (lane->search && (key < lane->key || key - lane->key > FAR)) {
        close_search(lane);
    }
    if (!lane->search && !open_search(o, lane, vcpu, key, true)) {
        return UINT64_MAX;
    }
    lane->key = key;
    index = search_on(lane, key, &rest);
    /* Records after the last clock have a pace from before it. */
    if (rest && lane->near) {
        close_search(lane);
        index = open_search(o, lane, vcpu, key, false) ?
                search_on(lane, key, &rest) : UINT64_MAX;
    }
    return index;
}

uint64_t clock_order_at(struct clock_order *o, unsigned vcpu,
                        const struct moment *at)
{
    return vcpu == at->vcpu ? at->index :
           clock_order_index(o, vcpu, at->exact, clock_order_key(o, at));
}
