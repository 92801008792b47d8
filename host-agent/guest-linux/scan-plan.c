/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * When a scanner reads its guest: see scan-plan.h
 */

#include "guest-linux/scan-plan.h"
#include "util/clock.h"

/* Between two snapshots, if none is requested */
#define SNAPSHOT_INTERVAL_NS UINT64_C(200000000)
/*
 * Snapshots use at most this part of the time, and so does waiting for them.
 * Time in which nothing had to be scanned is saved up, for when processes come
 * and go.
 */
#define SNAPSHOT_PART       50
#define BUDGET_MAX_NS       INT64_C(200000000)
#define SNAPSHOT_SPACING_NS UINT64_C(1000000)
/* Of a limit of CPU time: the drain needs some, too */
#define LIMIT_PART          2
/*
 * After a snapshot that has found a new process: exec may not have given it
 * its name yet, nor mapped its libraries.
 */
#define SNAPSHOT_AGAIN_NS   UINT64_C(10000000)
/*
 * Between two checks of symbols that nobody requests: this many times what the
 * last one took, but at least, and at most, this.  What comes and goes has no
 * name between the last check that has found it and the one that misses it.
 */
#define CHECK_PART          1000
#define CHECK_LEAST_NS      UINT64_C(50000000)
#define CHECK_MOST_NS       UINT64_C(1000000000)
/* All checks use at most this part of the time, as for snapshots. */
#define CHECKS_PART         200
#define CHECKS_MAX_NS       INT64_C(200000000)
/* Between two searches for a kernel: a guest that boots has none yet */
#define FIND_INTERVAL_NS    UINT64_C(1000000000)
#define FIND_PART           20
/*
 * The same with wait_for_scan: a guest can boot and end in a second.  As long
 * as searches have not used the budget, a new CR3 waits for one.  The first
 * takes long, as it touches all memory.
 */
#define FIND_SOON_NS        UINT64_C(100000000)
#define FIND_BUDGET_NS      INT64_C(1000000000)
/*
 * Between two searches for a kernel that boots.  They have the same budget:
 * each reads the kernel's image, and not all of memory.
 */
#define BOOTING_SPACING_NS  UINT64_C(10000000)

/* How long scan_plan_wait() waits for the first snapshot, at most */
#define WAIT_FIRST_NS       INT64_C(1000000000)
/* The same with wait_for_scan */
#define WAIT_LONG_NS        INT64_C(10000000000)

/* One of how many ns a scanner may spend, if all together may one of @part */
static uint64_t part_of(const struct scan_plan *p, unsigned part)
{
    return (uint64_t)part * kernel_numbers_users(p->numbers);
}

/* Returns the time that may be spent now. */
static int64_t budget_at(const struct scan_plan *p, struct time_budget *b,
                         uint64_t now)
{
    b->saved += (int64_t)((now - b->at) / part_of(p, b->part));
    b->saved = MIN(b->saved, b->max);
    b->at = now;
    return b->saved;
}

/* Spends some; returns how long nothing more may be spent. */
static uint64_t spend(const struct scan_plan *p, struct time_budget *b,
                      uint64_t took)
{
    b->saved -= (int64_t)took;
    return b->saved < 0 ? (uint64_t)-b->saved * part_of(p, b->part) : 0;
}

static struct time_budget full(unsigned part, int64_t max)
{
    return (struct time_budget) { part, max, max, clock_ns() };
}

void scan_plan_init(struct scan_plan *p, bool wait_for_scan,
                    struct cpu_limit *limit,
                    const struct kernel_numbers *numbers)
{
    *p = (struct scan_plan) {
        .wait_for_scan = wait_for_scan, .limit = limit, .numbers = numbers,
        .budget = full(SNAPSHOT_PART, BUDGET_MAX_NS),
        .wait_budget = full(SNAPSHOT_PART, BUDGET_MAX_NS),
        .check_budget = full(CHECKS_PART, CHECKS_MAX_NS),
        .find_budget = full(FIND_PART, FIND_BUDGET_NS),
    };
    g_mutex_init(&p->lock);
    g_cond_init(&p->changed);
}

void scan_plan_clear(struct scan_plan *p)
{
    g_mutex_clear(&p->lock);
    g_cond_clear(&p->changed);
}

void scan_plan_request(struct scan_plan *p, struct scan_work *work)
{
    g_mutex_lock(&p->lock);
    work->requested++;
    g_cond_broadcast(&p->changed);
    g_mutex_unlock(&p->lock);
}

void scan_plan_wake(struct scan_plan *p)
{
    g_mutex_lock(&p->lock);
    g_cond_broadcast(&p->changed);
    g_mutex_unlock(&p->lock);
}

void scan_plan_close(struct scan_plan *p)
{
    g_mutex_lock(&p->lock);
    p->closing = true;
    g_cond_broadcast(&p->changed);
    g_mutex_unlock(&p->lock);
}

/* Is work to be waited for that was requested up to @until, at @now? */
static bool is_awaited(const struct scan_work *work, uint64_t until,
                       uint64_t now)
{
    return work->done < until && now >= work->idle_from;
}

void scan_plan_wait(struct scan_plan *p)
{
    uint64_t begin = clock_ns();
    uint64_t snapshots, checks;
    gint64 most, until;
    bool first;

    g_mutex_lock(&p->lock);
    snapshots = p->snapshots.requested;
    checks = p->checks.requested;
    first = !p->snapshots.done;
    most = p->wait_for_scan ? WAIT_LONG_NS : first ? WAIT_FIRST_NS :
           budget_at(p, &p->wait_budget, begin);
    until = g_get_monotonic_time() + most / 1000;
    while ((is_awaited(&p->snapshots, snapshots, begin) ||
            is_awaited(&p->checks, checks, begin)) && !p->closing &&
           most > 0 && g_cond_wait_until(&p->changed, &p->lock, until)) {
        continue;
    }
    if (!first) {
        p->wait_budget.saved -= (int64_t)(clock_ns() - begin);
    }
    g_mutex_unlock(&p->lock);
}

/* When it must be done, or may */
static uint64_t due_at(const struct scan_work *work)
{
    return work->requested > work->begun ? work->earliest : work->latest;
}

uint64_t scan_plan_next(const struct scan_plan *p)
{
    return MIN(due_at(&p->snapshots), due_at(&p->checks));
}

void scan_plan_sleep(struct scan_plan *p, uint64_t now, uint64_t until)
{
    g_cond_wait_until(&p->changed, &p->lock, g_get_monotonic_time() +
                      (gint64)(until - now) / 1000 + 1);
}

static void begin_if_due(struct scan_work *work, bool closing, uint64_t now)
{
    work->due = closing || now >= due_at(work);
    if (work->due) {
        work->begun = work->requested;
    }
}

bool scan_plan_begin(struct scan_plan *p, uint64_t now)
{
    begin_if_due(&p->snapshots, p->closing, now);
    begin_if_due(&p->checks, p->closing, now);
    return !p->closing;
}

void scan_plan_begin_first(struct scan_plan *p)
{
    g_mutex_lock(&p->lock);
    p->snapshots.begun = p->snapshots.requested;
    p->checks.begun = p->checks.requested;
    p->checks.idle_from = p->snapshots.idle_from;
    g_mutex_unlock(&p->lock);
}

/* How long this much CPU time must last, if there is a limit */
static uint64_t limit_pace(const struct scan_plan *p, uint64_t took)
{
    return p->limit && !p->wait_for_scan ?
           cpu_limit_pace(p->limit, took, clock_ns()) * LIMIT_PART : 0;
}

/*
 * How long nothing more of a kind may be done, after what began at @begin and
 * used this much CPU time.  @pace: the same by the limit
 */
static uint64_t debt_of(struct scan_plan *p, struct time_budget *budget,
                        uint64_t begin, uint64_t took, uint64_t pace)
{
    uint64_t debt;

    budget_at(p, budget, begin);
    debt = spend(p, budget, took);
    return MAX(p->wait_for_scan ? 0 : debt, pace);
}

/*
 * All work of this kind that was requested before the last one began is done.
 * For what is requested from @idle_from on, the drain may wait.
 */
static void notify_done(struct scan_plan *p, struct scan_work *work,
                        uint64_t idle_from)
{
    g_mutex_lock(&p->lock);
    work->done = work->begun;
    work->idle_from = idle_from;
    g_cond_broadcast(&p->changed);
    g_mutex_unlock(&p->lock);
}

/* From when on the drain may wait for work that has this budget */
static uint64_t idle_from(const struct scan_plan *p,
                          const struct time_budget *budget)
{
    return p->wait_for_scan || (budget->saved > 0 && !p->paced) ? 0 :
           UINT64_MAX;
}

void scan_plan_snapshot_done(struct scan_plan *p, uint64_t begin, uint64_t took,
                             bool again)
{
    struct scan_work *work = &p->snapshots;
    uint64_t pace = limit_pace(p, took);
    uint64_t debt = debt_of(p, &p->budget, begin, took, pace);

    work->earliest = begin + MAX(SNAPSHOT_SPACING_NS, debt);
    work->latest = begin + (again ? MAX(SNAPSHOT_AGAIN_NS, debt) :
                            MAX(SNAPSHOT_INTERVAL_NS,
                                MAX(took * part_of(p, SNAPSHOT_PART), pace)));
    p->paced = pace > SNAPSHOT_SPACING_NS;
    notify_done(p, work, idle_from(p, &p->budget));
}

void scan_plan_check_done(struct scan_plan *p, uint64_t begin, uint64_t took)
{
    struct scan_work *work = &p->checks;
    uint64_t debt = debt_of(p, &p->check_budget, begin, took,
                            limit_pace(p, took));

    work->earliest = begin + debt;
    work->latest = begin + MAX(CLAMP(took * part_of(p, CHECK_PART),
                                     CHECK_LEAST_NS, CHECK_MOST_NS), debt);
    notify_done(p, work, idle_from(p, &p->check_budget));
}

uint64_t scan_plan_search_spacing(const struct scan_plan *p, uint64_t took)
{
    return MAX(MAX(FIND_INTERVAL_NS, took * part_of(p, FIND_PART)),
               limit_pace(p, took));
}

void scan_plan_none_found(struct scan_plan *p, uint64_t begin, uint64_t took)
{
    struct scan_work *work = &p->snapshots;
    uint64_t debt;

    /* There is nothing to check. */
    notify_done(p, &p->checks, UINT64_MAX);
    p->checks.earliest = p->checks.latest = UINT64_MAX;
    if (!p->wait_for_scan) {
        work->earliest = work->latest =
            begin + scan_plan_search_spacing(p, took);
        notify_done(p, work, UINT64_MAX);
        return;
    }
    budget_at(p, &p->find_budget, begin);
    debt = spend(p, &p->find_budget, took);
    notify_done(p, work, begin + debt);
    work->earliest = begin + debt;
    work->latest = begin + MAX(FIND_SOON_NS, debt);
}

uint64_t scan_plan_booting_searched(struct scan_plan *p, uint64_t begin,
                                    uint64_t took)
{
    uint64_t debt;

    budget_at(p, &p->find_budget, begin);
    debt = spend(p, &p->find_budget, took);
    return begin + MAX(BOOTING_SPACING_NS, MAX(debt, limit_pace(p, took)));
}

void scan_plan_charge(struct scan_plan *p, uint64_t took)
{
    if (p->limit && cpu_limit_holds(p->limit)) {
        /* A snapshot can take long, and the drain should not wait for it. */
        cpu_limit_spend_slowly(p->limit, took, clock_ns());
    }
}

static void put_off(struct scan_work *work, uint64_t until)
{
    work->earliest = MAX(work->earliest, until);
    work->latest = MAX(work->latest, work->earliest);
}

void scan_plan_pace(struct scan_plan *p, uint64_t begin, uint64_t took)
{
    uint64_t until;

    scan_plan_charge(p, took);
    until = begin + limit_pace(p, took);
    put_off(&p->snapshots, until);
    put_off(&p->checks, until);
}

void scan_plan_wait_for_end(struct scan_plan *p)
{
    notify_done(p, &p->snapshots, UINT64_MAX);
    notify_done(p, &p->checks, UINT64_MAX);
    g_mutex_lock(&p->lock);
    while (!p->closing) {
        g_cond_wait(&p->changed, &p->lock);
    }
    g_mutex_unlock(&p->lock);
}
