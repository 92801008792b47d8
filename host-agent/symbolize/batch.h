/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Some records of a batch
 */

#ifndef BTRAIL_BATCH_H
#define BTRAIL_BATCH_H

#include "backtrail/trace.h"

/* @n records of a batch from its record @first on; it has so many. */
static inline struct btrail_batch batch_part(const struct btrail_batch *b,
                                             size_t first, size_t n)
{
    struct btrail_batch part = *b;

    part.index += first;
    part.records += first;
    part.count = n;
    part.leaves &= first + n == b->count;
    return part;
}

/* Does record @i of a batch go to another kernel? */
static inline bool batch_leaves(const struct btrail_batch *b, size_t i)
{
    return b->leaves && i + 1 == b->count;
}

#endif /* BTRAIL_BATCH_H */
