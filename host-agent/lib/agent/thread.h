/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Threads of a trace: which tasks are the same one
 */

#ifndef BTRAIL_THREAD_H
#define BTRAIL_THREAD_H

#include "backtrail/trace.h"

/*
 * What tells a thread from all others but idle tasks, whose number is 0: nested
 * guests count from 1 again
 */
static inline uint64_t btrail_thread(const struct btrail_task *task)
{
    return (uint64_t)task->nested << 32 | task->tid;
}

/* The same for its process */
static inline uint64_t btrail_thread_process(const struct btrail_task *task)
{
    return (uint64_t)task->nested << 32 | task->pid;
}

#endif /* BTRAIL_THREAD_H */
