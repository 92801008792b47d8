/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Budgets: see budget.h
 */

#include <glib.h>

#include "lib/agent/budget.h"

struct btrail_budget {
    uint64_t size;
    uint64_t spare;             /* of it */
    uint64_t left;              /* atomic */
    uint64_t refused;           /* atomic */
};

static struct btrail_budget *new_budget(uint64_t size, uint64_t spare)
{
    struct btrail_budget *budget = g_atomic_rc_box_new0(struct btrail_budget);

    budget->size = budget->left = size;
    budget->spare = spare;
    return budget;
}

struct btrail_budget *btrail_budget_new(uint64_t size)
{
    uint64_t more = BTRAIL_BUDGET_MOST - BTRAIL_BUDGET_LEAST;

    return new_budget(BTRAIL_BUDGET_LEAST +
                      (size < more / BTRAIL_BUDGET_FACTOR ?
                       size * BTRAIL_BUDGET_FACTOR : more), 0);
}

struct btrail_budget *btrail_budget_new_decoding(uint64_t size)
{
    uint64_t most = (UINT64_MAX - BTRAIL_BUDGET_DECODING) /
                    BTRAIL_BUDGET_FACTOR;

    return new_budget(BTRAIL_BUDGET_DECODING +
                      MIN(size, most) * BTRAIL_BUDGET_FACTOR, 0);
}

struct btrail_budget *btrail_budget_new_fixed(uint64_t bytes,
                                              unsigned spare_part)
{
    return new_budget(bytes, bytes / spare_part);
}

struct btrail_budget *btrail_budget_ref(struct btrail_budget *budget)
{
    return g_atomic_rc_box_acquire(budget);
}

void btrail_budget_unref(struct btrail_budget *budget)
{
    if (budget) {
        g_atomic_rc_box_release(budget);
    }
}

/* Takes some bytes if @rest remain. */
static bool take(struct btrail_budget *budget, uint64_t bytes, uint64_t rest)
{
    uint64_t left = __atomic_load_n(&budget->left, __ATOMIC_RELAXED);

    do {
        if (left < rest || left - rest < bytes) {
            __atomic_fetch_add(&budget->refused, 1, __ATOMIC_RELAXED);
            return false;
        }
    } while (!__atomic_compare_exchange_n(&budget->left, &left, left - bytes,
                                          true, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    return true;
}

bool btrail_budget_take(struct btrail_budget *budget, uint64_t bytes)
{
    return take(budget, bytes, 0);
}

void btrail_budget_give(struct btrail_budget *budget, uint64_t bytes)
{
    __atomic_fetch_add(&budget->left, bytes, __ATOMIC_RELAXED);
}

bool btrail_budget_keep(struct btrail_budget *budget, uint64_t bytes)
{
    return take(budget, bytes + BTRAIL_BUDGET_ENTRY, budget->spare);
}

void btrail_budget_drop(struct btrail_budget *budget, uint64_t bytes)
{
    btrail_budget_give(budget, bytes + BTRAIL_BUDGET_ENTRY);
}

uint64_t btrail_budget_size(const struct btrail_budget *budget)
{
    return budget->size;
}

uint64_t btrail_budget_left(const struct btrail_budget *budget)
{
    return __atomic_load_n(&budget->left, __ATOMIC_RELAXED);
}

uint64_t btrail_budget_refused(const struct btrail_budget *budget)
{
    return __atomic_load_n(&budget->refused, __ATOMIC_RELAXED);
}
