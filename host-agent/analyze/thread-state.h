/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a thread of the guest does, and which thread that is
 */

#ifndef BTRAIL_THREAD_STATE_H
#define BTRAIL_THREAD_STATE_H

#include "backtrail/trace.h"

/**
 * enum thread_state
 * @THREAD_UNKNOWN:  it can be any
 * @THREAD_RUNNABLE: it waits for a vCPU
 * @THREAD_DEAD:     it has ended
 */
enum thread_state {
    THREAD_UNKNOWN,
    THREAD_RUNNING,
    THREAD_RUNNABLE,
    THREAD_BLOCKED,
    THREAD_DEAD,
};

/* In which state a thread has left its vCPU */
static inline enum thread_state
thread_state_left(const struct btrail_left *left)
{
    return !left->known ? THREAD_UNKNOWN :
           left->runnable ? THREAD_RUNNABLE :
           left->dead ? THREAD_DEAD : THREAD_BLOCKED;
}

/*
 * A key for tables, as of btrail_pair_hash().  Numbers of threads are those of
 * one kernel.  Idle tasks are many with one number; @idle says which of them.
 */
static inline void thread_key(uint64_t key[2],
                              const struct btrail_kernel *kernel,
                              uint32_t pid, uint32_t tid, uint64_t idle)
{
    key[0] = kernel->known ? kernel->number : 0;
    key[1] = tid ? (uint64_t)pid << 32 | tid : idle;
}

#endif /* BTRAIL_THREAD_STATE_H */
