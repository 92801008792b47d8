/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Breakpoints and the files that they are in: see breakpoint-homes.h
 */

#include <inttypes.h>
#include <string.h>

#include "gdb/breakpoint-homes.h"
#include "gdb/breakpoints.h"

/**
 * struct homed - a breakpoint
 * @set: by gdb, which has not removed it since
 */
struct homed {
    char *key;
    unsigned home;
    char *conditions;
    bool set;
};

struct breakpoint_homes {
    GPtrArray *all;
};

static void free_homed(gpointer opaque)
{
    struct homed *b = opaque;

    g_free(b->key);
    g_free(b->conditions);
    g_free(b);
}

struct breakpoint_homes *breakpoint_homes_new(void)
{
    struct breakpoint_homes *h = g_new0(struct breakpoint_homes, 1);

    h->all = g_ptr_array_new_with_free_func(free_homed);
    return h;
}

void breakpoint_homes_free(struct breakpoint_homes *h)
{
    if (h) {
        g_ptr_array_unref(h->all);
        g_free(h);
    }
}

unsigned breakpoint_homes_count(const struct breakpoint_homes *h)
{
    return h->all->len;
}

static struct homed *find(const struct breakpoint_homes *h, const char *key,
                          unsigned home)
{
    for (guint i = 0; i < h->all->len; i++) {
        struct homed *b = g_ptr_array_index(h->all, i);

        if (b->home == home && !strcmp(b->key, key)) {
            return b;
        }
    }
    return NULL;
}

void breakpoint_homes_set(struct breakpoint_homes *h, const char *key,
                          unsigned home, const char *conditions)
{
    struct homed *b = find(h, key, home);

    if (b && !conditions && !home) {
        g_ptr_array_remove_fast(h->all, b);
        return;
    }
    if (!b && conditions) {
        b = g_new0(struct homed, 1);
        b->key = g_strdup(key);
        b->home = home;
        g_ptr_array_add(h->all, b);
    }
    if (b) {
        b->set = conditions;
        if (conditions) {
            g_free(b->conditions);
            b->conditions = g_strdup(conditions);
        }
    }
}

static bool is_here(const struct homed *b, breakpoint_home_fn *here,
                    void *opaque)
{
    return !b->home || here(opaque, b->home);
}

void breakpoint_homes_leave(struct breakpoint_homes *h,
                            breakpoint_home_fn *here, void *opaque)
{
    for (guint i = 0; i < h->all->len; i++) {
        struct homed *b = g_ptr_array_index(h->all, i);

        b->set = b->set && is_here(b, here, opaque);
    }
}

void breakpoint_homes_insert(struct breakpoint_homes *h, bool forget,
                             breakpoint_home_fn *here, void *opaque,
                             GHashTable *breakpoints)
{
    g_hash_table_remove_all(breakpoints);
    for (guint i = h->all->len; i > 0; i--) {
        struct homed *b = g_ptr_array_index(h->all, i - 1);
        const char *other = g_hash_table_lookup(breakpoints, b->key);

        if (b->set || !is_here(b, here, opaque)) {
            /* Either condition may hold: gdb evaluates its own again. */
            breakpoints_set(breakpoints, b->key,
                            other && strcmp(other, b->conditions) ?
                            "" : b->conditions);
        } else if (forget) {
            g_ptr_array_remove_index_fast(h->all, i - 1);
        }
    }
}

enum breakpoint_owner breakpoint_homes_owner(const struct breakpoint_homes *h,
                                             uint64_t address, bool set,
                                             breakpoint_home_fn *here,
                                             void *opaque)
{
    enum breakpoint_owner owner = BREAKPOINT_NOBODYS;

    for (guint i = 0; i < h->all->len; i++) {
        const struct homed *b = g_ptr_array_index(h->all, i);

        if (breakpoints_is_at(b->key, address) && (b->set || !set)) {
            if (is_here(b, here, opaque)) {
                return BREAKPOINT_OWN;
            }
            owner = BREAKPOINT_OTHERS;
        }
    }
    return owner;
}
