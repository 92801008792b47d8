/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Threads that came and went while a trace was made
 *
 * A snapshot has the threads of a process at one moment.  What the kernel
 * called when threads began and ended shows whether there were others.
 */

#ifndef BTRAIL_THREAD_LIVES_H
#define BTRAIL_THREAD_LIVES_H

#include "backtrail/names.h"

struct runs;
struct thread_lives;

/* NULL if the trace may lack some of these events */
struct thread_lives *thread_lives_new(const struct runs *runs,
                                      const struct btrail_names *names,
                                      const struct btrail_owners *owners);
void thread_lives_free(struct thread_lives *t);

/**
 * thread_lives_all_seen - have snapshots found all threads of a process?
 * @process: from btrail_names_last()
 * @root:    of its page table
 * @first:   time when it was seen first
 *
 * False if there may have been others.
 */
bool thread_lives_all_seen(const struct thread_lives *t,
                           const struct btrail_process *process,
                           uint64_t root, uint64_t first);

#endif /* BTRAIL_THREAD_LIVES_H */
