/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Budgets: see budget.h
 */

#include <glib.h>

#include "lib/internal/budget.h"

struct btrail_budget {
    uint64_t left;
};

struct btrail_budget *btrail_budget_new(uint64_t size)
{
    struct btrail_budget *budget = g_atomic_rc_box_new0(struct btrail_budget);
    uint64_t more = BTRAIL_BUDGET_MOST - BTRAIL_BUDGET_LEAST;

    budget->left = BTRAIL_BUDGET_LEAST +
                   (size < more / BTRAIL_BUDGET_FACTOR ?
                    size * BTRAIL_BUDGET_FACTOR : more);
    return budget;
}

struct btrail_budget *btrail_budget_new_decoding(uint64_t size)
{
    struct btrail_budget *budget = g_atomic_rc_box_new0(struct btrail_budget);
    uint64_t most = (UINT64_MAX - BTRAIL_BUDGET_DECODING) /
                    BTRAIL_BUDGET_FACTOR;

    budget->left = BTRAIL_BUDGET_DECODING +
                   MIN(size, most) * BTRAIL_BUDGET_FACTOR;
    return budget;
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

bool btrail_budget_take(struct btrail_budget *budget, uint64_t bytes)
{
    uint64_t left = __atomic_load_n(&budget->left, __ATOMIC_RELAXED);

    do {
        if (left < bytes) {
            return false;
        }
    } while (!__atomic_compare_exchange_n(&budget->left, &left, left - bytes,
                                          true, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    return true;
}

void btrail_budget_give(struct btrail_budget *budget, uint64_t bytes)
{
    __atomic_fetch_add(&budget->left, bytes, __ATOMIC_RELAXED);
}
