/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tables of limited size: what was used longest ago makes room
 *
 * An entry is a struct that begins with a struct recent_entry, and is freed
 * with g_free().
 */

#ifndef BTRAIL_RECENT_H
#define BTRAIL_RECENT_H

#include <glib.h>
#include <stdint.h>

/**
 * struct recent_entry
 * @key:  set before it is added
 * @link: the table's own
 */
struct recent_entry {
    uint64_t key[2];
    GList link;
};

struct recent;

/* Called for an entry that makes room, before it is freed */
typedef void recent_forget_fn(void *opaque, void *entry);

/* @max: entries; @forget: or NULL */
struct recent *recent_new(unsigned max, recent_forget_fn *forget,
                          void *opaque);
void recent_free(struct recent *r);

/* Returns the entry, which is used thereby, or NULL. */
void *recent_find(struct recent *r, uint64_t a, uint64_t b);

/* Takes an entry, whose key the table must not have. */
void recent_add(struct recent *r, void *entry);

/* Gives an entry back, or NULL. */
void *recent_take(struct recent *r, uint64_t a, uint64_t b);

#endif /* BTRAIL_RECENT_H */
