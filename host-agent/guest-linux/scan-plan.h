/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * When a scanner reads its guest: what is requested, and what the limits of its
 * time permit
 *
 * There are two kinds of work, snapshots and checks of symbols.  Each begins
 * when it is requested, and now and then.  Both have budgets: a small part of
 * all time, which all scanners of a guest share, and what was not spent of it.
 * Unless a guest is to wait for its scanner, they limit both.
 */

#ifndef SCAN_PLAN_H
#define SCAN_PLAN_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "guest-linux/kernel-numbers.h"
#include "util/cpu-limit.h"

/**
 * struct time_budget - time that may be spent
 * @part:  one of this many ns
 * @max:   that is saved, ns
 * @saved: likewise, and
 * @at:    when it was that much
 */
struct time_budget {
    unsigned part;
    int64_t max;
    int64_t saved;
    uint64_t at;
};

/**
 * struct scan_work - something that the thread does when it is requested, and
 * now and then
 * @requested: how often it was; under the lock, as the next three
 * @begun:     of these
 * @done:      of these
 * @idle_from: then, the next one begins when requested
 * @earliest:  when it may be done next, if requested; of the thread, as the
 *             others
 * @latest:    when it must
 * @due:       it is to be done now
 */
struct scan_work {
    uint64_t requested;
    uint64_t begun;
    uint64_t done;
    uint64_t idle_from;
    uint64_t earliest;
    uint64_t latest;
    bool due;
};

/**
 * struct scan_plan
 * @wait_for_scan: no budget limits snapshots and checks
 * @limit:    of the guest's CPU time, or NULL
 * @numbers:  its users are the scanners that share the budgets
 * @lock:     of @closing, and as struct scan_work says
 * @changed:  signals a request, that something is done, and the end
 * @closing:  the thread is to end
 * @wait_budget: time for which the drain may wait; under the lock
 * @budget:   CPU time for snapshots; of the thread, as the others
 * @check_budget: and for checks
 * @find_budget: and to find a kernel: one that boots, or any with
 *            @wait_for_scan
 * @paced:    the limit is stricter than the budget
 */
struct scan_plan {
    bool wait_for_scan;
    struct cpu_limit *limit;
    const struct kernel_numbers *numbers;
    GMutex lock;
    GCond changed;
    bool closing;
    struct scan_work snapshots;
    struct scan_work checks;
    struct time_budget wait_budget;
    struct time_budget budget;
    struct time_budget check_budget;
    struct time_budget find_budget;
    bool paced;
};

void scan_plan_init(struct scan_plan *p, bool wait_for_scan,
                    struct cpu_limit *limit,
                    const struct kernel_numbers *numbers);
void scan_plan_clear(struct scan_plan *p);

/* Requests @work, one of the two; any thread, as the next three */
void scan_plan_request(struct scan_plan *p, struct scan_work *work);

/* Has the thread look for something else to do. */
void scan_plan_wake(struct scan_plan *p);

/* Has the thread end after it has done both once more. */
void scan_plan_close(struct scan_plan *p);

/* Waits until what was requested is done: see scanner_wait(). */
void scan_plan_wait(struct scan_plan *p);

/*
 * What follows is for the scanner's thread.  Of the first three the caller
 * holds the lock: the time of the next work; sleeps until @until, or until
 * something has changed; begins what is due at @now, and returns whether the
 * thread is to continue.
 */
uint64_t scan_plan_next(const struct scan_plan *p);
void scan_plan_sleep(struct scan_plan *p, uint64_t now, uint64_t until);
bool scan_plan_begin(struct scan_plan *p, uint64_t now);

/*
 * A kernel that was just found is read at once, whatever was requested.  Who
 * waits for the snapshot waits for the check, too.
 */
void scan_plan_begin_first(struct scan_plan *p);

/*
 * A snapshot, or check, is done that began at @begin and used @took ns of CPU
 * time.  @again: another snapshot is to come soon
 */
void scan_plan_snapshot_done(struct scan_plan *p, uint64_t begin, uint64_t took,
                             bool again);
void scan_plan_check_done(struct scan_plan *p, uint64_t begin, uint64_t took);

/* The same of a search for a kernel that has found none. */
void scan_plan_none_found(struct scan_plan *p, uint64_t begin, uint64_t took);

/* How long after the begin of a search the next one may begin */
uint64_t scan_plan_search_spacing(const struct scan_plan *p, uint64_t took);

/*
 * The same of a search for a kernel that boots.  Returns when the next one may
 * begin.
 */
uint64_t scan_plan_booting_searched(struct scan_plan *p, uint64_t begin,
                                    uint64_t took);

/* Charges the limit with CPU time of this thread. */
void scan_plan_charge(struct scan_plan *p, uint64_t took);

/* The same, of all that was done since @begin: what follows is put off. */
void scan_plan_pace(struct scan_plan *p, uint64_t begin, uint64_t took);

/* There is nothing more to do, nor to wait for: sleeps until the end. */
void scan_plan_wait_for_end(struct scan_plan *p);

#endif /* SCAN_PLAN_H */
