/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What makes a process of several snapshots the same one
 */

#ifndef BTRAIL_IDENTITY_H
#define BTRAIL_IDENTITY_H

#include <glib.h>

#include "backtrail/names.h"
#include "util/hash.h"

/**
 * struct btrail_identity - a process with one address space
 * @pgd:        as in struct btrail_process, like the others
 * @user_pgd:   0 if that is not compared
 * @mm:         by which the kernel knows the address space
 * @start_time: a pid can be that of another process later
 * @pid:        number
 */
struct btrail_identity {
    uint64_t pgd;
    uint64_t user_pgd;
    uint64_t mm;
    uint64_t start_time;
    uint32_t pid;
};

/* While snapshots are taken @user_pgd is found last, so it is not compared. */
static inline struct btrail_identity
btrail_identity_of(const struct btrail_process *p)
{
    return (struct btrail_identity) {
        .pgd = p->pgd, .mm = p->mm, .start_time = p->start_time, .pid = p->pid,
    };
}

static inline guint btrail_identity_hash(gconstpointer p)
{
    const struct btrail_identity *a = p;

    return btrail_hash3(a->pgd, a->start_time, a->mm ^ a->pid) >> 32;
}

static inline gboolean btrail_identity_equal(gconstpointer p, gconstpointer q)
{
    const struct btrail_identity *a = p, *b = q;

    return a->pgd == b->pgd && a->user_pgd == b->user_pgd &&
           a->mm == b->mm && a->start_time == b->start_time &&
           a->pid == b->pid;
}

#endif /* BTRAIL_IDENTITY_H */
