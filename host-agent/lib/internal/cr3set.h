/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The address spaces that a chunk switches to: a small set
 *
 * The set is in the header of a DATA chunk and in the index: it shows which
 * chunks switch to an address space without decoding any.
 */

#ifndef BTRAIL_CR3SET_H
#define BTRAIL_CR3SET_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "backtrail/trace.h"

/* The most that a set can hold */
#define BTRAIL_CR3SET_MAX   64
/* In place of a number: there were more, and the set is empty. */
#define BTRAIL_CR3SET_MANY  UINT32_MAX

/**
 * struct btrail_cr3set - address spaces in the order in which they were added
 * @n:     how many, or BTRAIL_CR3SET_MANY
 * @roots: btrail_cr3_root(CR3)
 */
struct btrail_cr3set {
    uint32_t n;
    uint64_t roots[BTRAIL_CR3SET_MAX];
};

/* How many are listed */
static inline uint32_t btrail_cr3set_listed(uint32_t n)
{
    return n == BTRAIL_CR3SET_MANY ? 0 : n;
}

/* Adds the address space of @cr3, if it is not that of @before. */
static inline void btrail_cr3set_switch(struct btrail_cr3set *set,
                                        uint64_t before, uint64_t cr3)
{
    uint64_t root = btrail_cr3_root(cr3);
    uint32_t i;

    if (root == btrail_cr3_root(before) || set->n == BTRAIL_CR3SET_MANY) {
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

static inline bool btrail_cr3set_equal(const struct btrail_cr3set *a,
                                       const struct btrail_cr3set *b)
{
    return a->n == b->n &&
           !memcmp(a->roots, b->roots,
                   btrail_cr3set_listed(a->n) * sizeof(*a->roots));
}

#endif /* BTRAIL_CR3SET_H */
