/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Limits of CPU time: see cpu-limit.h
 */

#include <glib.h>

#include "util/cpu-limit.h"

/* The common limit is shared out at most this often. */
#define SHARE_INTERVAL_NS   UINT64_C(1000000)

/* The longest time that counts, so that nothing overflows */
#define MOST_NS             UINT64_C(600000000000)

/* Under the pool's lock */
struct account {
    int64_t saved;              /* a debt, if negative */
    int64_t owed;               /* that is paid off slowly */
};

struct cpu_limit {
    struct cpu_pool *pool;
    struct account own;         /* of what each may use */
    uint64_t own_at;            /* when it was that much */
    struct account share;       /* of what all may use */
};

struct cpu_pool {
    unsigned refs;              /* atomic */
    bool holds;                 /* atomic: there is any limit */

    GMutex lock;                /* of what follows */
    uint64_t each, all;         /* percent of a CPU */
    GPtrArray *limits;
    uint64_t shared_at;
    unsigned takers;            /* limits whose share was not full */
};

static void pool_unref(struct cpu_pool *pool)
{
    if (__atomic_sub_fetch(&pool->refs, 1, __ATOMIC_ACQ_REL)) {
        return;
    }
    g_ptr_array_unref(pool->limits);
    g_mutex_clear(&pool->lock);
    g_free(pool);
}

struct cpu_pool *cpu_pool_new(void)
{
    struct cpu_pool *pool = g_new0(struct cpu_pool, 1);

    pool->refs = 1;
    pool->limits = g_ptr_array_new();
    g_mutex_init(&pool->lock);
    return pool;
}

void cpu_pool_free(struct cpu_pool *pool)
{
    if (pool) {
        pool_unref(pool);
    }
}

/* Returns how much fits into the account, if it may save @most. */
static int64_t room_in(const struct account *a, int64_t most)
{
    return MAX(most - a->saved, 0) + a->owed;
}

static void deposit(struct account *a, int64_t amount, int64_t most)
{
    int64_t over = amount - MAX(most - a->saved, 0);
    int64_t paid = MIN(a->owed, MAX(amount / 2, over));

    a->owed -= paid;
    a->saved = MIN(a->saved + amount - paid, most);
}

static void withdraw(struct account *a, int64_t amount)
{
    a->saved = MAX(a->saved - amount, -(int64_t)MOST_NS);
}

static void owe(struct account *a, int64_t amount)
{
    a->owed = MIN(a->owed + amount, (int64_t)MOST_NS);
}

static struct cpu_limit *limit_at(const struct cpu_pool *pool,
                                  unsigned i)
{
    return g_ptr_array_index(pool->limits, i);
}

void cpu_pool_set(struct cpu_pool *pool, uint64_t each,
                  uint64_t all, uint64_t now)
{
    g_mutex_lock(&pool->lock);
    for (unsigned i = 0; i < pool->limits->len; i++) {
        struct cpu_limit *l = limit_at(pool, i);

        if (each != pool->each) {
            l->own = (struct account) { CPU_BURST_NS, 0 };
            l->own_at = now;
        }
        if (all != pool->all) {
            l->share = (struct account) {
                CPU_BURST_NS / pool->limits->len, 0,
            };
        }
    }
    if (all != pool->all) {
        pool->shared_at = now;
    }
    pool->each = each;
    pool->all = all;
    __atomic_store_n(&pool->holds, each || all, __ATOMIC_RELAXED);
    g_mutex_unlock(&pool->lock);
}

struct cpu_limit *cpu_limit_new(struct cpu_pool *pool)
{
    struct cpu_limit *limit = g_new0(struct cpu_limit, 1);

    __atomic_add_fetch(&pool->refs, 1, __ATOMIC_RELAXED);
    limit->pool = pool;
    limit->own.saved = CPU_BURST_NS;
    g_mutex_lock(&pool->lock);
    g_ptr_array_add(pool->limits, limit);
    g_mutex_unlock(&pool->lock);
    return limit;
}

void cpu_limit_free(struct cpu_limit *limit)
{
    struct cpu_pool *pool;

    if (!limit) {
        return;
    }
    pool = limit->pool;
    g_mutex_lock(&pool->lock);
    g_ptr_array_remove(pool->limits, limit);
    g_mutex_unlock(&pool->lock);
    pool_unref(pool);
    g_free(limit);
}

bool cpu_limit_holds(const struct cpu_limit *limit)
{
    return __atomic_load_n(&limit->pool->holds, __ATOMIC_RELAXED);
}

/* Returns @percent of the time since @at, which becomes @now. */
static int64_t grown(uint64_t percent, uint64_t *at, uint64_t now)
{
    uint64_t passed = MIN(now - *at, MOST_NS);

    *at = now;
    return (int64_t)(passed * percent / 100);
}

static void fill_own(struct cpu_limit *l, uint64_t now)
{
    if (now > l->own_at) {
        deposit(&l->own, grown(l->pool->each, &l->own_at, now),
                CPU_BURST_NS);
    }
}

/* Gives all limits the same, as long as it fits. */
static void share_out(struct cpu_pool *pool, int64_t amount)
{
    int64_t most = CPU_BURST_NS / pool->limits->len;
    unsigned takers = 0;

    for (unsigned i = 0; i < pool->limits->len; i++) {
        takers += room_in(&limit_at(pool, i)->share, most) > 0;
    }
    pool->takers = takers;
    while (takers && amount >= takers) {
        int64_t each = amount / takers;

        takers = 0;
        for (unsigned i = 0; i < pool->limits->len; i++) {
            struct cpu_limit *l = limit_at(pool, i);
            int64_t given = MIN(each, room_in(&l->share, most));

            deposit(&l->share, given, most);
            amount -= given;
            takers += room_in(&l->share, most) > 0;
        }
    }
}

static void fill_shares(struct cpu_pool *pool, uint64_t now)
{
    if (now > pool->shared_at && now - pool->shared_at >= SHARE_INTERVAL_NS) {
        share_out(pool, grown(pool->all, &pool->shared_at, now));
    }
}

static void charge_limit(struct cpu_limit *limit, uint64_t cpu_ns,
                         uint64_t now, void (*how)(struct account *, int64_t))
{
    struct cpu_pool *pool = limit->pool;
    int64_t spent = MIN(cpu_ns, MOST_NS);

    g_mutex_lock(&pool->lock);
    if (pool->each) {
        fill_own(limit, now);
        how(&limit->own, spent);
    }
    if (pool->all) {
        fill_shares(pool, now);
        how(&limit->share, spent);
    }
    g_mutex_unlock(&pool->lock);
}

void cpu_limit_spend(struct cpu_limit *limit, uint64_t cpu_ns,
                     uint64_t now)
{
    charge_limit(limit, cpu_ns, now, withdraw);
}

void cpu_limit_spend_slowly(struct cpu_limit *limit,
                            uint64_t cpu_ns, uint64_t now)
{
    charge_limit(limit, cpu_ns, now, owe);
}

/* Returns the time in which @percent of a CPU, for @n, are @amount. */
static uint64_t time_for(uint64_t amount, uint64_t percent, unsigned n)
{
    return (amount * 100 + percent - 1) / percent * MAX(n, 1u);
}

static uint64_t longest(const struct cpu_pool *pool, uint64_t own,
                        uint64_t share)
{
    uint64_t most = pool->each ? time_for(own, pool->each, 1) : 0;

    return pool->all ? MAX(most, time_for(share, pool->all, pool->takers)) :
           most;
}

uint64_t cpu_limit_wait(struct cpu_limit *limit, uint64_t now)
{
    struct cpu_pool *pool = limit->pool;
    uint64_t time;

    g_mutex_lock(&pool->lock);
    fill_own(limit, now);
    if (pool->all) {
        fill_shares(pool, now);
    }
    time = longest(pool, MAX(-limit->own.saved, 0),
                   MAX(-limit->share.saved, 0));
    g_mutex_unlock(&pool->lock);
    return time;
}

uint64_t cpu_limit_pace(struct cpu_limit *limit, uint64_t cpu_ns,
                        uint64_t now)
{
    struct cpu_pool *pool = limit->pool;
    uint64_t time;

    cpu_ns = MIN(cpu_ns, MOST_NS);
    g_mutex_lock(&pool->lock);
    if (pool->all) {
        fill_shares(pool, now);
    }
    time = longest(pool, cpu_ns, cpu_ns);
    g_mutex_unlock(&pool->lock);
    return time;
}
