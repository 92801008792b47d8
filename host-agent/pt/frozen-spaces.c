/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Address spaces of a stream: see frozen-spaces.h
 */

#include <glib.h>

#include "pt/frozen-spaces.h"
#include "util/hash.h"

enum {
    DECODED = 1,
    FAILED = 2,
    READ = 4,
};

struct frozen_space {
    uint64_t cr3;
    unsigned is;
};

struct frozen_spaces {
    GHashTable *spaces;         /* of struct frozen_space, by @cr3 */
    struct frozen_space *last;         /* that was asked for */
    bool more;
};

struct frozen_spaces *frozen_spaces_new(void)
{
    struct frozen_spaces *s = g_new0(struct frozen_spaces, 1);

    s->spaces = g_hash_table_new_full(btrail_int64_hash, g_int64_equal, NULL,
                                      g_free);
    return s;
}

void frozen_spaces_free(struct frozen_spaces *s)
{
    if (s) {
        g_hash_table_destroy(s->spaces);
        g_free(s);
    }
}

static void mark(struct frozen_spaces *s, uint64_t cr3, unsigned is)
{
    struct frozen_space *space = s->last;

    if (!space || space->cr3 != cr3) {
        space = g_hash_table_lookup(s->spaces, &cr3);
    }
    if (!space) {
        if (g_hash_table_size(s->spaces) == FROZEN_SPACES_MAX) {
            s->more = true;
            return;
        }
        space = g_new0(struct frozen_space, 1);
        space->cr3 = cr3;
        g_hash_table_insert(s->spaces, &space->cr3, space);
    }
    space->is |= is;
    s->last = space;
}

void frozen_spaces_see(struct frozen_spaces *s, uint64_t cr3)
{
    mark(s, cr3, 0);
}

void frozen_spaces_read(struct frozen_spaces *s, uint64_t cr3)
{
    mark(s, cr3, READ);
}

void frozen_spaces_decode(struct frozen_spaces *s, uint64_t cr3)
{
    mark(s, cr3, DECODED);
}

void frozen_spaces_fail(struct frozen_spaces *s, uint64_t cr3)
{
    mark(s, cr3, FAILED);
}

void frozen_spaces_add(struct frozen_spaces *s,
                       const struct frozen_spaces *from)
{
    GHashTableIter iter;
    gpointer value;

    g_hash_table_iter_init(&iter, from->spaces);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const struct frozen_space *space = value;

        mark(s, space->cr3, space->is);
    }
    s->more |= from->more;
}

struct frozen_spaces_count frozen_spaces_counted(const struct frozen_spaces *s)
{
    struct frozen_spaces_count count = {
        .seen = g_hash_table_size(s->spaces), .more = s->more,
    };
    GHashTableIter iter;
    gpointer value;

    g_hash_table_iter_init(&iter, s->spaces);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const struct frozen_space *space = value;

        count.never += (space->is & FAILED) &&
                       (space->is & (READ | DECODED)) != (READ | DECODED);
    }
    return count;
}
