/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The model of instruction counts, which the encoder and the decoder share
 *
 * From where one branch goes to the next branch there are as many instructions
 * as there were the last time.  Exceptions are instructions that repeat, such
 * as those on strings, and places that no record shows.
 */

#ifndef BTRAIL_COUNT_MODEL_H
#define BTRAIL_COUNT_MODEL_H

#include "lib/internal/path-model.h"

#define COUNT_MASK      (UINT64_MAX >> BTRAIL_RECORD_ICOUNT_SHIFT)

struct count_model {
    uint64_t count;             /* of the last record */
    uint32_t steps;             /* of the path that have a count */
    bool used;                  /* else the table is clear */
    /* By the addresses: instructions the last time, if they are that few */
    uint32_t between[1u << TABLE_BITS];
};

static inline void count_model_begin(struct count_model *c)
{
    if (c->used) {
        memset(c, 0, sizeof(*c));
    }
    c->count = 0;
    c->steps = 0;
}

/* The instructions to the branch of the next step of the path */
static inline uint32_t *count_slot(struct count_model *c,
                                   const struct path_model *m)
{
    const uint32_t *path = m->path + c->steps;
    uint64_t start = m->edges[path[0] & STEP_EDGE].to;
    uint64_t from = m->edges[path[1] & STEP_EDGE].from;

    return &c->between[table_slot(start * HASH_0 + from * HASH_1)];
}

#endif /* BTRAIL_COUNT_MODEL_H */
