/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Processes over time, as snapshots have found them
 *
 * A *life* is a process with one address space, from when it was first seen
 * to when it was last seen.  It has *versions*: what it was like in the
 * snapshots.
 */

#ifndef BTRAIL_LIVES_H
#define BTRAIL_LIVES_H

#include "backtrail/names.h"

struct btrail_life;
struct btrail_lives;

/* Lives with @told are a guest's word: nothing of them is sure. */
struct btrail_lives *btrail_lives_new(bool told);
void btrail_lives_free(struct btrail_lives *lives);

/*
 * Adds a snapshot from its bytes in a trace, unless it is damaged.  Snapshots
 * are added in the order of time.
 */
void btrail_lives_add(struct btrail_lives *lives, uint32_t kernel,
                      const void *data, size_t size);

/* Prepares for searches, after the last snapshot. */
void btrail_lives_complete(struct btrail_lives *lives);

/*
 * Adds to a version what the guest says that the process has compiled by then,
 * where no file is.  After both are complete.  Returns from when on the version
 * counts.
 */
uint64_t btrail_lives_add_compiled(struct btrail_lives *lives,
                                   unsigned version,
                                   const struct btrail_lives *told);

/* About how many bytes of memory they need */
uint64_t btrail_lives_memory(const struct btrail_lives *lives);

/*
 * CR3 without flags.  Where user mode has page tables of its own, those of
 * kernel mode.
 */
uint64_t btrail_lives_root(const struct btrail_lives *lives, uint64_t cr3);

/*
 * The life that had the page tables at @root at some moment from @from to
 * @to; NULL if none is known, or more than one.
 */
struct btrail_life *btrail_lives_find(const struct btrail_lives *lives,
                                      uint64_t root, uint64_t from,
                                      uint64_t to);

/*
 * The life of process @pid that had the page tables of @cr3; of several, one
 * that was seen near @time.  NULL if none is known.
 */
struct btrail_life *btrail_lives_of_pid(const struct btrail_lives *lives,
                                        uint64_t time, uint64_t cr3,
                                        uint32_t pid);

/*
 * The life of process @pid that had begun last when it was @time, in this kernel
 * unless that is 0; NULL if none is known.  @gone: a snapshot between then and
 * @time did not find it with these page tables any more.
 */
struct btrail_life *btrail_lives_last_of_pid(const struct btrail_lives *lives,
                                             uint64_t time, uint32_t kernel,
                                             uint32_t pid, bool *gone);

/*
 * All versions of all lives, by a number from 0 on, in the order of time; NULL:
 * there are no more
 */
const struct btrail_process *
btrail_lives_version(const struct btrail_lives *lives, unsigned i);

/* What a process was like at a time */
const struct btrail_process *
btrail_life_process(const struct btrail_life *life, uint64_t time);

/*
 * The process that had the page tables of @cr3 from @time to @until, as
 * btrail_names_process() returns it; *@process stays as it is if it is
 * unknown.
 */
enum btrail_certainty
btrail_lives_process(const struct btrail_lives *lives, uint64_t time,
                     uint64_t until, uint64_t cr3,
                     const struct btrail_process **process);

#endif /* BTRAIL_LIVES_H */
