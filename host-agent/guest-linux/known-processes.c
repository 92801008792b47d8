/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Processes that snapshots have found: see known-processes.h
 */

#include "guest-linux/known-processes.h"
#include "lib/agent/identity.h"

/* known_process.first of a process that no snapshot has found yet */
#define NOT_FOUND   UINT64_MAX

/* A process that is known, with one address space */
struct known_process {
    struct btrail_identity id;
    uint64_t user_pgd;
    uint64_t shape;
    bool whole;                 /* all that has this shape was sent */
    uint64_t first;
    uint64_t round;             /* of the last snapshot with it */
};

struct known_processes {
    struct btrail_budget *kept;
    GHashTable *all;            /* struct known_process by its id */
    uint64_t round;
};

struct known_processes *known_processes_new(struct btrail_budget *kept)
{
    struct known_processes *known = g_new0(struct known_processes, 1);

    known->kept = kept;
    known->all = g_hash_table_new_full(btrail_identity_hash,
                                       btrail_identity_equal, NULL, g_free);
    return known;
}

void known_processes_free(struct known_processes *known)
{
    g_hash_table_destroy(known->all);
    g_free(known);
}

void known_processes_clear(struct known_processes *known)
{
    for (guint i = g_hash_table_size(known->all); i; i--) {
        btrail_budget_drop(known->kept, sizeof(struct known_process));
    }
    g_hash_table_remove_all(known->all);
}

/*
 * Returns a process by its identity; a new one becomes known.  NULL if there is
 * no room for it: each snapshot then has all of it
 */
static struct known_process *get_known(struct known_processes *known,
                                       const struct btrail_process *p)
{
    struct btrail_identity id = btrail_identity_of(p);
    struct known_process *k = g_hash_table_lookup(known->all, &id);

    if (!k && btrail_budget_keep(known->kept, sizeof(*k))) {
        k = g_new0(struct known_process, 1);
        k->id = id;
        k->first = NOT_FOUND;
        g_hash_table_insert(known->all, &k->id, k);
    }
    return k;
}

bool known_processes_is_known(struct btrail_process *p, uint64_t shape,
                              void *opaque)
{
    struct known_process *k = get_known(opaque, p);

    if (!k) {
        return false;
    }
    if (!k->whole || k->shape != shape) {
        k->shape = shape;
        k->whole = false;
        return false;
    }
    p->user_pgd = k->user_pgd;
    return true;
}

/*
 * Remembers a process that was found; @p gets since when it was there.  Returns
 * whether it is new.
 */
static bool remember(struct known_processes *known, struct btrail_process *p)
{
    struct known_process *k = get_known(known, p);
    bool new;

    if (!k) {
        return false;
    }
    new = k->first == NOT_FOUND || k->user_pgd != p->user_pgd;
    if (new) {
        k->user_pgd = p->user_pgd;
        k->first = p->first;
    }
    if (!(p->flags & BTRAIL_PROCESS_SEEN)) {
        k->whole = !(p->flags & BTRAIL_PROCESS_PARTIAL);
    }
    k->round = known->round;
    p->first = MIN(p->first, k->first);
    return new;
}

static gboolean is_gone(gpointer key, gpointer value, gpointer opaque)
{
    struct known_processes *known = opaque;
    const struct known_process *k = value;

    if (k->round == known->round) {
        return FALSE;
    }
    btrail_budget_drop(known->kept, sizeof(*k));
    return TRUE;
}

bool known_processes_take(struct known_processes *known,
                          struct btrail_snapshot *snapshot)
{
    bool new = false;

    known->round++;
    for (uint32_t i = 0; i < snapshot->n; i++) {
        if (snapshot->processes[i].mm) {
            new |= remember(known, &snapshot->processes[i]);
        }
    }
    if (snapshot->flags & BTRAIL_SNAPSHOT_WHOLE) {
        g_hash_table_foreach_remove(known->all, is_gone, known);
    }
    return new;
}

void known_processes_add_roots(struct known_processes *known,
                               GHashTable *roots)
{
    GHashTableIter iter;
    gpointer value;

    g_hash_table_iter_init(&iter, known->all);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        struct known_process *k = value;

        g_hash_table_add(roots, &k->id.pgd);
        g_hash_table_add(roots, &k->user_pgd);
    }
}
