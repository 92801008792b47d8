/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which wait of a thread a wake-up ends
 *
 * Events of several vCPUs are read in the order of their clocks, and those are
 * exact to some ticks.  So a wake-up can seem to come before the thread that is
 * woken has left its vCPU, or after it is back.  Whoever follows threads has
 * one of these for each of them.
 */

#ifndef BTRAIL_WAKE_ORDER_H
#define BTRAIL_WAKE_ORDER_H

#include <stdbool.h>
#include <stdint.h>

/**
 * struct wake_order - zeroed at first
 * @owed:  the thread is back since @came, and nobody was seen to wake it
 * @came:  host clock
 * @early: it was woken at @woken, where it did not wait
 * @left:  when it has left its vCPU last
 * @doubt: what was taken for the end of the wait in which it is can be that of
 *         the one before, which is @owed
 */
struct wake_order {
    bool owed;
    uint64_t came;
    bool early;
    uint64_t woken;
    uint64_t left;
    bool doubt;
};

enum wake_wait {
    WAKE_OF_PAST,       /* the wait that was over when the thread came back */
    WAKE_OF_PRESENT,    /* that in which it is */
    WAKE_INSTEAD,       /* that; the wake-up before is of the past one */
    WAKE_OF_NEXT,       /* that which it is about to begin, or none */
};

/*
 * How far apart the clocks of two vCPUs can seem, in ns; @tick: of the session,
 * 0 if it is not known
 */
uint64_t wake_order_slack(uint64_t tick);

/*
 * The thread runs from a time on.  @owed: it has waited for somebody to wake
 * it, and nobody was seen to.
 */
void wake_order_comes(struct wake_order *o, uint64_t time, bool owed);

/* It is woken.  @waits: it is away for that, and was not woken yet */
enum wake_wait wake_order_wakes(struct wake_order *o, uint64_t time,
                                uint64_t slack, bool waits);

/*
 * It has left its vCPU.  @waits: for somebody to wake it.  True if that has
 * been done: at @woken.
 */
bool wake_order_leaves(struct wake_order *o, uint64_t time, uint64_t slack,
                       bool waits);

#endif /* BTRAIL_WAKE_ORDER_H */
