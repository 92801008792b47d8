/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The address spaces that a chunk switches to: a small set
 *
 * It is in the header of a DATA chunk and in the index, so that one can tell
 * which chunks switch to an address space without decoding any.
 */

#ifndef BTRAIL_CR3SET_H
#define BTRAIL_CR3SET_H

#include <stdbool.h>
#include <stdint.h>

#include "backtrail/trace.h"

/* The most that a set can hold */
#define BTRAIL_CR3SET_MAX   64
/* In place of a number: there were more, and it holds none. */
#define BTRAIL_CR3SET_MANY  UINT32_MAX

/**
 * struct btrail_cr3set - address spaces in the order in which they were added
 * @n:     how many, or BTRAIL_CR3SET_MANY
 * @roots: CR3 & BTRAIL_CR3_ROOT
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

/* An event has changed CR3 from @before to @cr3. */
void btrail_cr3set_switch(struct btrail_cr3set *set, uint64_t before,
                          uint64_t cr3);

bool btrail_cr3set_equal(const struct btrail_cr3set *a,
                         const struct btrail_cr3set *b);

#endif /* BTRAIL_CR3SET_H */
