/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Counting edges: see edges.h
 *
 * A hash table with open addressing.  A slot with count 0 is free.
 */

#include <glib.h>

#include "analyze/edges.h"
#include "util/hash.h"
#include "util/search.h"

struct edges {
    struct edge *slots;
    unsigned bits;              /* the table has 1 << bits slots */
    size_t used;
    size_t *budget;
    uint64_t others;
};

#define FIRST_BITS  4

struct edges *edges_new(size_t *budget)
{
    struct edges *e = g_new0(struct edges, 1);

    e->bits = FIRST_BITS;
    e->slots = g_new0(struct edge, (size_t)1 << e->bits);
    e->budget = budget;
    return e;
}

void edges_free(struct edges *e)
{
    if (e) {
        g_free(e->slots);
        g_free(e);
    }
}

/* The slot of an edge, or the free slot for it */
static inline struct edge *find_slot(const struct edges *e, uint64_t from,
                                uint64_t to)
{
    size_t mask = ((size_t)1 << e->bits) - 1;
    size_t i = btrail_hash2(from, to) >> (64 - e->bits);

    for (;; i = (i + 1) & mask) {
        struct edge *slot = &e->slots[i];

        if (!slot->count || (slot->from == from && slot->to == to)) {
            return slot;
        }
    }
}

/* The table grows when it has more edges. */
static size_t max_used(const struct edges *e)
{
    return ((size_t)1 << e->bits) / 4 * 3;
}

static void grow_table(struct edges *e)
{
    size_t i, n = (size_t)1 << e->bits;
    struct edge *old = e->slots;

    e->bits++;
    e->slots = g_new0(struct edge, (size_t)1 << e->bits);
    for (i = 0; i < n; i++) {
        if (old[i].count) {
            *find_slot(e, old[i].from, old[i].to) = old[i];
        }
    }
    g_free(old);
}

/* Fills a free slot; false if the budget is used up. */
static bool add_edge(struct edges *e, struct edge *slot, uint64_t from,
                uint64_t to, uint64_t count)
{
    if (!*e->budget) {
        return false;
    }
    (*e->budget)--;
    *slot = (struct edge) { from, to, count };
    e->used++;
    if (e->used > max_used(e)) {
        grow_table(e);
    }
    return true;
}

void edges_count(struct edges *e, const struct btrail_record *r, size_t n)
{
    for (; n; n--, r++) {
        struct edge *slot = find_slot(e, r->from, r->to);

        if (G_LIKELY(slot->count)) {
            slot->count++;
        } else if (!add_edge(e, slot, r->from, r->to, 1)) {
            e->others++;
        }
    }
}

bool edges_merge(struct edges *e, const struct edges *from, bool all)
{
    e->others += from->others;
    /*
     * Edges come in the order of their slots in @e, too.  Without room for all
     * of them, the first slots would be full long before the others.
     */
    while (e->used + from->used > max_used(e)) {
        grow_table(e);
    }
    for (size_t i = 0; i < (size_t)1 << from->bits; i++) {
        const struct edge *other = &from->slots[i];
        struct edge *slot;

        if (!other->count) {
            continue;
        }
        slot = find_slot(e, other->from, other->to);
        if (slot->count) {
            slot->count += other->count;
        } else if (!add_edge(e, slot, other->from, other->to, other->count)) {
            if (!all) {
                return false;
            }
            e->others += other->count;
        }
    }
    return true;
}

const struct edge *edges_next(const struct edges *e, const struct edge *edge)
{
    const struct edge *end = e->slots + ((size_t)1 << e->bits);

    for (edge = edge ? edge + 1 : e->slots; edge < end; edge++) {
        if (edge->count) {
            return edge;
        }
    }
    return NULL;
}

uint64_t edges_others(const struct edges *e)
{
    return e->others;
}

static int compare_edges(const struct edge *a, const struct edge *b)
{
    return BTRAIL_COMPARE(b->count, a->count) ?:
           BTRAIL_COMPARE(a->from, b->from) ?: BTRAIL_COMPARE(a->to, b->to);
}

size_t edges_top(struct edges *e, struct edge *top, size_t n)
{
    size_t i, found = 0;

    for (i = 0; n && i < (size_t)1 << e->bits; i++) {
        const struct edge *slot = &e->slots[i];
        size_t i_top;

        if (!slot->count ||
            (found == n && compare_edges(slot, &top[found - 1]) > 0)) {
            continue;
        }
        found = MIN(found + 1, n);
        for (i_top = found - 1;
             i_top && compare_edges(slot, &top[i_top - 1]) < 0; i_top--) {
            top[i_top] = top[i_top - 1];
        }
        top[i_top] = *slot;
    }
    return found;
}
