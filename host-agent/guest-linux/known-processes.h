/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Processes that snapshots of a guest have found, and that have not ended: what
 * the next snapshot need not read again
 */

#ifndef KNOWN_PROCESSES_H
#define KNOWN_PROCESSES_H

#include <glib.h>

#include "backtrail/names.h"
#include "lib/agent/budget.h"

struct known_processes;

/* What is kept is taken from @kept, which must outlive it. */
struct known_processes *known_processes_new(struct btrail_budget *kept);
void known_processes_free(struct known_processes *known);

/* Forgets all, as their kernel has gone. */
void known_processes_clear(struct known_processes *known);

/*
 * The linux_known of a snapshot; @opaque: struct known_processes.  A process
 * for which there is no room is never known.
 */
bool known_processes_is_known(struct btrail_process *p, uint64_t shape,
                              void *opaque);

/*
 * Takes what a snapshot has found; its processes get since when they were
 * there.  Forgets the others if the snapshot is whole.  Returns whether one is
 * new.
 */
bool known_processes_take(struct known_processes *known,
                          struct btrail_snapshot *snapshot);

/* Adds pointers to the roots of their page tables to a set. */
void known_processes_add_roots(struct known_processes *known,
                               GHashTable *roots);

#endif /* KNOWN_PROCESSES_H */
