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
    o->owed = owed;
    o->came = time;
    /* A wake-up that is later than this was read too early. */
    o->early = o->early && o->woken > time;
}

enum wake_wait wake_order_wakes(struct wake_order *o, uint64_t time,
                                uint64_t slack, bool waits)
{
    /* Somebody must have ended that wait, if this is not for one of now. */
    if (o->owed && (time <= o->came || time - o->came <= slack) &&
        !(waits && time >= o->left)) {
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
    return woken;
}
