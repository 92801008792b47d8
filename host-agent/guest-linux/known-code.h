/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Page tables, and code at their addresses, that snapshots of a guest have
 * found: what runs with others needs another snapshot
 *
 * The drain asks while the scanner's thread adds and forgets.
 */

#ifndef KNOWN_CODE_H
#define KNOWN_CODE_H

#include <glib.h>

#include "backtrail/names.h"
#include "lib/agent/budget.h"

struct known_code;

/*
 * What is kept is taken from @kept, which must outlive it.  @brief: page tables
 * count as those of the same process only for a short time after a snapshot.
 */
struct known_code *known_code_new(struct btrail_budget *kept, bool brief);
void known_code_free(struct known_code *code);

/*
 * A vCPU has run with this CR3.  Returns true the first time, and when it may
 * be another process's since.  For one thread, as the next
 */
bool known_code_is_new_cr3(struct known_code *code, uint64_t cr3);

/*
 * Code at an address of user mode runs with this CR3.  Returns true if it is in
 * no mapping that a snapshot has, or as the last function does.
 */
bool known_code_is_new(struct known_code *code, uint64_t cr3,
                       uint64_t address);

/* A snapshot has begun at a time; 0: there is no kernel to take one of. */
void known_code_begin(struct known_code *code, uint64_t time);

/* Remembers where a process of a snapshot has code. */
void known_code_keep(struct known_code *code, const struct btrail_process *p);

/*
 * Forgets page tables that are not among @roots, a set of pointers.  The next
 * process that gets them needs a snapshot, even if none was found with them
 * before.
 */
void known_code_keep_only(struct known_code *code, GHashTable *roots);

#endif /* KNOWN_CODE_H */
