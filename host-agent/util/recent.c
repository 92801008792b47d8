/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tables of limited size: see recent.h
 */

#include "util/hash.h"
#include "util/recent.h"

struct recent {
    unsigned max;
    recent_forget_fn *forget;
    void *opaque;
    GHashTable *entries;
    GQueue order;               /* what was used longest ago comes first */
};

struct recent *recent_new(unsigned max, recent_forget_fn *forget,
                          void *opaque)
{
    struct recent *r = g_new0(struct recent, 1);

    r->max = max;
    r->forget = forget;
    r->opaque = opaque;
    r->entries = g_hash_table_new_full(btrail_pair_hash, btrail_pair_equal,
                                       g_free, NULL);
    g_queue_init(&r->order);
    return r;
}

void recent_free(struct recent *r)
{
    if (r) {
        g_hash_table_destroy(r->entries);
        g_free(r);
    }
}

void *recent_find(struct recent *r, uint64_t a, uint64_t b)
{
    const uint64_t key[2] = { a, b };
    struct recent_entry *e = g_hash_table_lookup(r->entries, key);

    if (e && r->order.tail != &e->link) {
        g_queue_unlink(&r->order, &e->link);
        g_queue_push_tail_link(&r->order, &e->link);
    }
    return e;
}

void recent_add(struct recent *r, void *entry)
{
    struct recent_entry *e = entry;

    if (g_hash_table_size(r->entries) >= r->max) {
        struct recent_entry *oldest = r->order.head->data;

        g_queue_unlink(&r->order, &oldest->link);
        if (r->forget) {
            r->forget(r->opaque, oldest);
        }
        g_hash_table_remove(r->entries, oldest->key);
    }
    e->link = (GList) { .data = e };
    g_hash_table_insert(r->entries, e->key, e);
    g_queue_push_tail_link(&r->order, &e->link);
}

void *recent_take(struct recent *r, uint64_t a, uint64_t b)
{
    const uint64_t key[2] = { a, b };
    struct recent_entry *e = g_hash_table_lookup(r->entries, key);

    if (e) {
        g_queue_unlink(&r->order, &e->link);
        g_hash_table_steal(r->entries, key);
    }
    return e;
}
