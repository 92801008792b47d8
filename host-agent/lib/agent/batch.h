/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Some records of a batch
 */

#ifndef BTRAIL_BATCH_H
#define BTRAIL_BATCH_H

#include "backtrail/trace.h"

/* @n records of a batch from its record @first on; it has that many. */
static inline struct btrail_batch
btrail_batch_part(const struct btrail_batch *b, size_t first, size_t n)
{
    struct btrail_batch part = *b;

    part.index += first;
    part.records = b->records ? b->records + first : NULL;
    part.count = n;
    part.leaves &= n && first + n == b->count;
    return part;
}

/* Takes its first @n records out of a batch; it has that many. */
static inline struct btrail_batch btrail_batch_take(struct btrail_batch *b,
                                                    size_t n)
{
    const struct btrail_batch first = btrail_batch_part(b, 0, n);

    *b = btrail_batch_part(b, n, b->count - n);
    return first;
}

/* Does record @i of a batch go to another kernel? */
static inline bool btrail_batch_leaves(const struct btrail_batch *b, size_t i)
{
    return b->leaves && i + 1 == b->count;
}

#endif /* BTRAIL_BATCH_H */
