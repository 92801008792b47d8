/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which wait of a thread a wake-up ends: see wake-order.h
 */

#include "analyze/wake-order.h"
#include "lib/agent/meta.h"

/* By so many ticks two vCPUs can seem to be in another order than they were. */
#define SLACK       4

uint64_t wake_order_slack(uint64_t tick)
{
    return SLACK * btrail_busy_time(tick) / 2;
}

void wake_order_comes(struct wake_order *o, uint64_t time, bool owed)
{
    /* Of two waits, one wake-up was seen. */
    o->owed = owed || o->doubt;
    o->doubt = false;
    o->came = time;
    /* A wake-up that is later than this was read too early. */
    o->early = o->early && o->woken > time;
}

enum wake_wait wake_order_wakes(struct wake_order *o, uint64_t time,
                                uint64_t slack, bool waits)
{
    bool near = o->owed && (time <= o->came || time - o->came <= slack);

    if (waits && time >= o->left) {
        o->doubt = near;
        return WAKE_OF_PRESENT;
    }
    /* Who is awake is not woken, so the one before was another. */
    if (!waits && o->doubt) {
        o->owed = o->doubt = false;
        return WAKE_INSTEAD;
    }
    /* Somebody must have ended that wait. */
    if (near) {
        o->owed = false;
        return WAKE_OF_PAST;
    }
    if (waits) {
        return WAKE_OF_PRESENT;
    }
    o->early = true;
    o->woken = time;
    return WAKE_OF_NEXT;
}

bool wake_order_leaves(struct wake_order *o, uint64_t time, uint64_t slack,
                       bool waits)
{
    /* Long before, the thread was woken although it ran. */
    bool woken = waits && o->early &&
                 (time <= o->woken || time - o->woken <= slack);

    o->early = false;
    o->left = time;
    o->doubt = false;
    return woken;
}
