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
 * @budget: how many more different edges may be counted, each of which needs
 *          32 to 128 bytes of memory.  Several tables can share it.  When it
 *          is used up, the records of new edges are counted together.
 */
struct edges *edges_new(size_t *budget);
void edges_free(struct edges *e);

void edges_count(struct edges *e, const struct btrail_record *records,
                 size_t n);

/*
 * Adds the edges of @from.  New ones beyond the budget are counted together if
 * @all is set; otherwise the first one makes this return false.
 */
bool edges_merge(struct edges *e, const struct edges *from, bool all);

/*
 * The edge after @edge in some order; the first one after NULL, and NULL after
 * the last one
 */
const struct edge *edges_next(const struct edges *e, const struct edge *edge);

/* The number of records of edges beyond the budget */
uint64_t edges_others(const struct edges *e);

/**
 * edges_top - the edges taken most often, most often first
 * @n: limit of edges
 *
 * Returns the number of edges in @top.
 */
size_t edges_top(struct edges *e, struct edge *top, size_t n);

#endif /* BTRAIL_EDGES_H */
