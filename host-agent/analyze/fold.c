/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Counting edges in groups: see fold.h
 */

#include <errno.h>
#include <string.h>

#include "analyze/fold.h"

/*
 * Limits of parts.  All of them together are about as large as the sum may be,
 * and each is so large that it is not added too often.
 */
#define MAX_PARTS       32
#define MIN_GROUPS      256
#define MIN_EDGES       (1u << 18)

/* How many records are counted before the size of a part is checked */
#define STEP            4096

static void free_group(gpointer p)
{
    struct fold_group *g = p;

    edges_free(g->edges);
    g_free(g);
}

static void part_init(struct fold_part *p, const struct fold_kind *kind,
                      const struct fold_limits *limits)
{
    *p = (struct fold_part) {
        .kind = kind, .limits = *limits, .edges_left = limits->edges,
        .groups = g_hash_table_new_full(kind->hash, kind->equal, NULL,
                                        free_group),
    };
}

static void part_reset(struct fold_part *p)
{
    struct fold_limits limits = p->limits;
    bool hole = p->hole;

    g_hash_table_unref(p->groups);
    part_init(p, p->kind, &limits);
    p->hole = hole;
}

void fold_init(struct fold *f, const struct fold_kind *kind,
               const struct fold_limits *limits)
{
    g_mutex_init(&f->lock);
    part_init(&f->sum, kind, limits);
    f->parts = NULL;
}

void fold_clear(struct fold *f)
{
    g_hash_table_unref(f->sum.groups);
    g_mutex_clear(&f->lock);
}

void fold_reset(struct fold *f)
{
    part_reset(&f->sum);
}

/* The group with a key; NULL if there are too many. */
static struct fold_group *get_group(struct fold_part *p,
                                    const struct fold_group *key)
{
    if (p->last && p->kind->equal(p->last, key)) {
        return p->last;
    }
    p->last = g_hash_table_lookup(p->groups, key);
    if (!p->last && g_hash_table_size(p->groups) < p->limits.groups) {
        p->last = g_malloc0(p->kind->size);
        memcpy(p->last, key, p->kind->key);
        p->last->edges = edges_new(&p->edges_left);
        g_hash_table_add(p->groups, p->last);
    }
    return p->last;
}

/* Adds a part to the sum and resets it; false if the sum is full. */
static bool add_part(struct fold_part *sum, struct fold_part *p)
{
    const struct fold_kind *kind = p->kind;
    bool fits = true;
    GHashTableIter iter;
    gpointer key;

    g_hash_table_iter_init(&iter, p->groups);
    while (fits && g_hash_table_iter_next(&iter, &key, NULL)) {
        const struct fold_group *from = key;
        struct fold_group *to = get_group(sum, from);

        if (!to) {
            fits = false;
            break;
        }
        if (kind->merge) {
            kind->merge(to, from);
        }
        fits = edges_merge(to->edges, from->edges, !kind->exact);
    }
    sum->sums.records += p->sums.records;
    sum->sums.others += p->sums.others;
    sum->sums.lost += p->sums.lost;
    sum->sums.lost_unknown |= p->sums.lost_unknown;
    sum->sums.damage += p->sums.damage;
    part_reset(p);
    return fits;
}

/*
 * Has somebody take what the sum has, if it has no room for @n more edges, or
 * for a group.
 */
static void make_room(struct fold *f, size_t n)
{
    struct fold_sums sums = f->sum.sums;

    if (f->sum.kind->flush &&
        (f->sum.edges_left < n ||
         g_hash_table_size(f->sum.groups) >= f->sum.limits.groups)) {
        f->sum.kind->flush(f);
        part_reset(&f->sum);
        f->sum.sums = sums;
    }
}

static void spill(struct fold *f, struct fold_part *p)
{
    bool full = p->full;

    g_mutex_lock(&f->lock);
    make_room(f, p->limits.edges - p->edges_left);
    full |= !add_part(&f->sum, p);
    g_mutex_unlock(&f->lock);
    p->full = full;
}

struct fold_part *fold_take(struct fold *f, const struct btrail_piece *piece,
                            const struct btrail_batch *b)
{
    struct fold_part *p = f->parts ? &f->parts[piece->worker] : &f->sum;

    if (!b) {
        /* What is missing of a damaged chunk was counted. */
        p->sums.damage += piece->bad && !p->hole;
        p->hole = false;
        return NULL;
    }
    if (!b->event) {
        return p;
    }
    p->sums.damage += b->synthetic;
    p->hole |= b->synthetic;
    if (b->event->type == BTRAIL_EVENT_GAP) {
        if (b->event->data[0] == BTRAIL_LOST_UNKNOWN) {
            p->sums.lost_unknown = true;
        } else if (b->event->reason != BTRAIL_GAP_ELSEWHERE) {
            p->sums.lost += b->event->data[0];
        }
    }
    return NULL;
}

size_t fold_count(struct fold *f, struct fold_part *p,
                  const struct fold_group *key,
                  const struct btrail_record *records, size_t n,
                  struct fold_group **group)
{
    n = MIN(n, MIN(STEP, p->limits.edges));
    if (f->parts && p->edges_left < n) {
        spill(f, p);
    } else if (!f->parts) {
        make_room(f, n);
    }
    *group = get_group(p, key);
    if (!*group && f->parts) {
        spill(f, p);
        *group = get_group(p, key);
    }
    p->sums.records += n;
    if (*group) {
        edges_count((*group)->edges, records, n);
    } else {
        p->sums.others += n;
    }
    return n;
}

int fold_trace(struct fold *f, const struct btrail_trace *trace,
               unsigned threads, bool ordered, btrail_parallel_fn *fn,
               void *opaque)
{
    const struct fold_limits *limits = &f->sum.limits;
    struct fold_limits each;
    unsigned i, parts = 0;
    int ret, error;

    if (threads > 1 && !ordered) {
        parts = threads = MIN(threads, MAX_PARTS);
        each = (struct fold_limits) {
            MIN(MAX(limits->groups / parts, MIN_GROUPS), limits->groups),
            MIN(MAX(limits->edges / parts, MIN_EDGES), limits->edges),
        };
        f->parts = g_new(struct fold_part, parts);
        for (i = 0; i < parts; i++) {
            part_init(&f->parts[i], f->sum.kind, &each);
        }
    }
    ret = btrail_parallel_decode(trace, NULL, 0,
                                 parts ? 0 : BTRAIL_PARALLEL_ORDERED, threads,
                                 fn, opaque);
    error = errno;
    for (i = 0; i < parts; i++) {
        if (!ret) {
            make_room(f, each.edges - f->parts[i].edges_left);
            if (!add_part(&f->sum, &f->parts[i])) {
                ret = FOLD_FULL;
            }
        }
        g_hash_table_unref(f->parts[i].groups);
    }
    g_clear_pointer(&f->parts, g_free);
    errno = error;
    return ret;
}
