/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Counting edges: how often each pair of addresses was taken
 */

#ifndef BTRAIL_EDGES_H
#define BTRAIL_EDGES_H

#include "backtrail/trace.h"

struct edge {
    uint64_t from;
    uint64_t to;
    uint64_t count;
};

struct edges;

/**
 * edges_new
 * @budget: different edges that may still be told apart, each of which takes
 *          32 to 128 bytes of memory; can be shared with others.  When it is
 *          used up, new ones are counted together.
 */
struct edges *edges_new(size_t *budget);
void edges_free(struct edges *e);

void edges_count(struct edges *e, const struct btrail_record *records,
                 size_t n);

/* Add what was counted elsewhere; false if the budget does not suffice. */
bool edges_merge(struct edges *e, const struct edges *from);

/* The same, but what does not fit is counted together. */
void edges_add(struct edges *e, const struct edges *from);

/* All edges in some order: the one after @edge, or the first; NULL: no more */
const struct edge *edges_next(const struct edges *e, const struct edge *edge);

/* Records whose edges are not told apart */
uint64_t edges_others(const struct edges *e);

/**
 * edges_top - the edges taken most often, most often first
 * @n: at most so many
 *
 * Returns how many there are in @top.
 */
size_t edges_top(struct edges *e, struct edge *top, size_t n);

#endif /* BTRAIL_EDGES_H */
