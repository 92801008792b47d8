/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The functions that took most of the time: see hot-functions.h
 */

#include <stdlib.h>

#include "analyze/hot-functions.h"
#include "analyze/pace.h"
#include "lib/agent/batch.h"
#include "lib/agent/meta.h"
#include "util/hash.h"
#include "util/search.h"

/* Records that are read at a time, where not all are */
#define STRETCH     (1u << 16)

/* Less than this between two ranges is decoded rather than sought over. */
#define NEAR        (1u << 16)

/* Addresses that were last seen; a power of two */
#define RECENT      (1u << 12)

/* The time of code that ends at an address, in 1/PACE_TICKS ns */
struct hot_place {
    uint64_t key[2];            /* process and group; address */
    struct symbolizer_where where;
    const struct process *process;
    unsigned group;
    uint64_t ticks;
};

/**
 * struct hot
 * @places: a set of struct hot_place
 * @recent: those of the addresses that were last seen
 * @scale:  one of so many stretches is read
 */
struct hot {
    const struct btrail_trace *trace;
    struct symbolizer *symbols;
    uint64_t tick;
    GHashTable *places;
    struct hot_place *recent[RECENT];
    struct paces *paces;
    uint64_t scale;
};

static struct hot_place *find_place(struct hot *h, const struct task *task,
                                    unsigned group, uint64_t from)
{
    const uint64_t key[2] = {
        (uintptr_t)task->process ^ (uint64_t)group << 48, from,
    };
    struct hot_place **recent = &h->recent[btrail_hash3(key[0], from, 0) >> 52];
    struct hot_place *p = *recent;

    if (p && p->key[0] == key[0] && p->key[1] == from) {
        return p;
    }
    p = g_hash_table_lookup(h->places, key);
    if (!p) {
        p = g_new0(struct hot_place, 1);
        p->key[0] = key[0];
        p->key[1] = key[1];
        p->where = task->where;
        p->process = task->process;
        p->group = group;
        g_hash_table_add(h->places, p);
    }
    return *recent = p;
}

/* Adds records of one task and one pace. */
static void add_records(struct hot *h, const struct task *task, unsigned group,
                        const struct btrail_batch *b, uint64_t ticks)
{
    for (size_t i = 0; i < b->count; i++) {
        find_place(h, task, group, b->records[i].from)->ticks += ticks;
    }
}

static void add_batch(struct hot *h, const struct hot_range *r,
                      const struct btrail_batch *b)
{
    struct btrail_batch part = { .count = 0 };
    struct task task;

    while (symbolizer_part(h->symbols, r->vcpu, b, &part, &task)) {
        struct btrail_batch left = part;

        while (left.count) {
            const struct pace *pace = paces_at(h->paces, left.index);
            struct btrail_batch step = btrail_batch_take(
                &left, MIN(left.count, pace->end - left.index));

            add_records(h, &task, r->group, &step, pace->ticks * h->scale);
        }
    }
}

/* Where a stretch that is read begins, from an index of a range on; its end */
static uint64_t stretch(const struct hot *h, const struct hot_range *r,
                        uint64_t *index)
{
    uint64_t number;

    if (h->scale == 1) {
        return r->end;
    }
    number = *index / STRETCH;
    if (number % h->scale) {
        number += h->scale - number % h->scale;
        *index = number * STRETCH;
    }
    return MIN(r->end, (number + 1) * STRETCH);
}

/* Reads records [@begin, @end) of a range.  @at: where the cursor is */
static int read_stretch(struct hot *h, struct btrail_cursor *cursor,
                        const struct hot_range *r, uint64_t begin,
                        uint64_t end, struct btrail_batch *b, uint64_t *at)
{
    int ret = 0;

    if (begin >= end) {
        return 0;
    }
    if (begin < *at || begin - *at > NEAR) {
        ret = btrail_cursor_seek(cursor, begin);
        b->count = 0;
        *at = begin;
    }
    while (!ret) {
        if (b->count) {
            if (b->index >= end) {
                break;
            }
            if (b->index < begin) {
                btrail_batch_take(b, MIN(b->count, begin - b->index));
            }
            if (b->count) {
                struct btrail_batch some = btrail_batch_take(
                    b, MIN(b->count, end > b->index ? end - b->index : 0));

                if (!some.count) {
                    break;
                }
                add_batch(h, r, &some);
                *at = b->index;
                continue;
            }
        }
        ret = btrail_cursor_next(cursor, b);
        if (!ret && b->event) {
            *at = MAX(*at, b->index);
            b->count = 0;
            if (b->index >= end) {
                break;
            }
        }
    }
    return ret == -BTRAIL_ERR_END ? 0 : ret;
}

static int read_vcpu(struct hot *h, const struct hot_range *ranges, guint n)
{
    uint64_t host = ranges->time, margin = 2 * btrail_busy_time(h->tick);
    struct btrail_batch b = { .count = 0 };
    struct btrail_cursor *cursor;
    uint64_t at = UINT64_MAX;
    int ret = btrail_cursor_open(&cursor, h->trace, ranges->vcpu, 0);

    if (!ret) {
        ret = paces_open_at(&h->paces, h->trace, ranges->vcpu, h->tick,
                            host - MIN(host, margin));
    }
    for (guint i = 0; !ret && i < n; i++) {
        uint64_t index = ranges[i].begin;

        while (!ret && index < ranges[i].end) {
            uint64_t end = stretch(h, &ranges[i], &index);

            ret = read_stretch(h, cursor, &ranges[i], index, end, &b, &at);
            index = MAX(end, index);
        }
    }
    btrail_cursor_close(cursor);
    g_clear_pointer(&h->paces, paces_close);
    return ret;
}

static gint by_place(gconstpointer a, gconstpointer b)
{
    const struct hot_range *x = a, *y = b;

    return BTRAIL_COMPARE(x->vcpu, y->vcpu) ?:
           BTRAIL_COMPARE(x->begin, y->begin);
}

static gint by_time(gconstpointer a, gconstpointer b)
{
    const struct hot_function *x = a, *y = b;

    return BTRAIL_COMPARE(y->ns, x->ns) ?:
           g_strcmp0(x->function->name, y->function->name);
}

/* Sums up places by their functions. */
static void take_functions(struct hot *h, unsigned groups, GArray **found)
{
    g_autoptr(GHashTable) all = g_hash_table_new_full(
        btrail_pair_hash, btrail_pair_equal, g_free, NULL);
    GHashTableIter iter;
    gpointer key, value;

    g_hash_table_iter_init(&iter, h->places);
    while (g_hash_table_iter_next(&iter, &key, NULL)) {
        const struct hot_place *p = key;
        struct place place;
        uint64_t *ticks;

        symbolizer_place(h->symbols, p->process, &p->where, p->key[1], &place);
        const uint64_t id[3] = { (uintptr_t)place.function, p->group, 0 };

        ticks = g_hash_table_lookup(all, id);
        if (!ticks) {
            uint64_t *copy = g_memdup2(id, sizeof(id));

            ticks = &copy[2];
            g_hash_table_insert(all, copy, ticks);
        }
        *ticks += p->ticks;
    }
    g_hash_table_iter_init(&iter, all);
    while (g_hash_table_iter_next(&iter, &key, &value)) {
        const uint64_t *id = key;
        const struct hot_function f = {
            (const struct function *)(uintptr_t)id[0], id[2] / PACE_TICKS,
        };

        g_array_append_val(found[id[1]], f);
    }
    for (unsigned i = 0; i < groups; i++) {
        g_array_sort(found[i], by_time);
    }
}

int hot_functions_read(const struct btrail_trace *trace,
                       struct symbolizer *symbols, GArray *ranges,
                       unsigned groups, uint64_t tick, uint64_t most,
                       GArray **found, bool *sampled)
{
    struct hot *h = g_new0(struct hot, 1);
    uint64_t records = 0;
    guint first = 0;
    int ret = 0;

    h->trace = trace;
    h->symbols = symbols;
    h->tick = tick;
    h->places = g_hash_table_new_full(btrail_pair_hash, btrail_pair_equal,
                                      g_free, NULL);
    g_array_sort(ranges, by_place);
    for (guint i = 0; i < ranges->len; i++) {
        const struct hot_range *r = &g_array_index(ranges, struct hot_range, i);

        records += r->end - MIN(r->begin, r->end);
    }
    most = most ?: HOT_FUNCTIONS_RECORDS;
    h->scale = records <= most ? 1 : records / most + 1;
    *sampled = h->scale > 1;
    for (guint i = 1; !ret && i <= ranges->len; i++) {
        const struct hot_range *r = &g_array_index(ranges, struct hot_range,
                                                   first);

        if (i == ranges->len || r[i - first].vcpu != r->vcpu) {
            ret = read_vcpu(h, r, i - first);
            first = i;
        }
    }
    for (unsigned i = 0; i < groups; i++) {
        found[i] = g_array_new(FALSE, FALSE, sizeof(struct hot_function));
    }
    if (!ret) {
        take_functions(h, groups, found);
    }
    g_hash_table_unref(h->places);
    g_free(h);
    return ret;
}
