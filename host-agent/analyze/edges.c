/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Counting edges: see edges.h
 *
 * A hash table with open addressing.  A slot with count 0 is free.
 */

#include <glib.h>
#include <string.h>

#include "analyze/edges.h"
#include "util/hash.h"

struct edges {
    struct edge *slots;
    unsigned bits;              /* there are 1 << bits slots */
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

/* The slot of an edge, or the free one where it would be */
static inline struct edge *find(const struct edges *e, uint64_t from,
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

/* So many edges make it grow. */
static size_t room(const struct edges *e)
{
    return ((size_t)1 << e->bits) / 4 * 3;
}

static void grow(struct edges *e)
{
    size_t i, n = (size_t)1 << e->bits;
    struct edge *old = e->slots;

    e->bits++;
    e->slots = g_new0(struct edge, (size_t)1 << e->bits);
    for (i = 0; i < n; i++) {
        if (old[i].count) {
            *find(e, old[i].from, old[i].to) = old[i];
        }
    }
    g_free(old);
}

/* @slot is free.  False if the budget is used up. */
static bool add(struct edges *e, struct edge *slot, uint64_t from,
                uint64_t to, uint64_t count)
{
    if (!*e->budget) {
        return false;
    }
    (*e->budget)--;
    *slot = (struct edge) { from, to, count };
    e->used++;
    if (e->used > room(e)) {
        grow(e);
    }
    return true;
}

void edges_count(struct edges *e, const struct btrail_record *r, size_t n)
{
    for (; n; n--, r++) {
        struct edge *slot = find(e, r->from, r->to);

        if (G_LIKELY(slot->count)) {
            slot->count++;
        } else if (!add(e, slot, r->from, r->to, 1)) {
            e->others++;
        }
    }
}

/* Add all, or until the budget does not suffice for one that is not counted. */
static bool merge(struct edges *e, const struct edges *from, bool all)
{
    size_t i;

    e->others += from->others;
    /*
     * They come in the order of their places here, too: without room for all,
     * those places would be full long before the others.
     */
    while (e->used + from->used > room(e)) {
        grow(e);
    }
    for (i = 0; i < (size_t)1 << from->bits; i++) {
        const struct edge *other = &from->slots[i];
        struct edge *slot;

        if (!other->count) {
            continue;
        }
        slot = find(e, other->from, other->to);
        if (slot->count) {
            slot->count += other->count;
        } else if (!add(e, slot, other->from, other->to, other->count)) {
            if (!all) {
                return false;
            }
            e->others += other->count;
        }
    }
    return true;
}

bool edges_merge(struct edges *e, const struct edges *from)
{
    return merge(e, from, false);
}

void edges_add(struct edges *e, const struct edges *from)
{
    merge(e, from, true);
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

static int compare(const struct edge *a, const struct edge *b)
{
    if (a->count != b->count) {
        return a->count < b->count ? 1 : -1;
    }
    if (a->from != b->from) {
        return a->from < b->from ? -1 : 1;
    }
    return a->to < b->to ? -1 : a->to > b->to;
}

size_t edges_top(struct edges *e, struct edge *top, size_t n)
{
    size_t i, found = 0;

    for (i = 0; n && i < (size_t)1 << e->bits; i++) {
        const struct edge *slot = &e->slots[i];
        size_t place;

        if (!slot->count ||
            (found == n && compare(slot, &top[found - 1]) > 0)) {
            continue;
        }
        found = MIN(found + 1, n);
        for (place = found - 1; place && compare(slot, &top[place - 1]) < 0;
             place--) {
            top[place] = top[place - 1];
        }
        top[place] = *slot;
    }
    return found;
}
