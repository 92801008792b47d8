/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Sets of address spaces: see cr3set.h
 */

#include <string.h>

#include "lib/internal/cr3set.h"

void btrail_cr3set_switch(struct btrail_cr3set *set, uint64_t before,
                          uint64_t cr3)
{
    uint64_t root = cr3 & BTRAIL_CR3_ROOT;
    uint32_t i;

    if (root == (before & BTRAIL_CR3_ROOT) || set->n == BTRAIL_CR3SET_MANY) {
        return;
    }
    for (i = 0; i < set->n; i++) {
        if (set->roots[i] == root) {
            return;
        }
    }
    if (set->n == BTRAIL_CR3SET_MAX) {
        set->n = BTRAIL_CR3SET_MANY;
        return;
    }
    set->roots[set->n++] = root;
}

bool btrail_cr3set_equal(const struct btrail_cr3set *a,
                         const struct btrail_cr3set *b)
{
    return a->n == b->n &&
           !memcmp(a->roots, b->roots,
                   btrail_cr3set_listed(a->n) * sizeof(*a->roots));
}
