/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where tasks have left their vCPUs, and for how long
 *
 * A task that an event names is off its vCPU from its last record before that
 * of another task up to its next record, on whichever vCPU.
 */

#ifndef BTRAIL_OFF_CPU_H
#define BTRAIL_OFF_CPU_H

#include "analyze/thread-state.h"
#include "symbolize/stack-tree.h"

/**
 * struct off_cpu_wait
 * @node:   where the task has left, or NULL if that is not known
 * @since:  when: host clock
 * @counts: its last record counts
 * @state:  in which it has left
 * @woken:  when it was woken, if it was THREAD_BLOCKED; or 0
 * @waker:  where the vCPU was that woke it, or NULL
 * @surely: if it has no @woken, nobody was seen to wake it, although that can be
 *          seen; set by off_cpu_returns() and off_cpu_each()
 */
struct off_cpu_wait {
    const struct stack_node *node;
    uint64_t since;
    bool counts;
    enum thread_state state;
    uint64_t woken;
    const struct stack_node *waker;
    bool surely;
};

struct off_cpu;

/* @slack: wake_order_slack() of the session's tick */
struct off_cpu *off_cpu_new(uint64_t slack);
void off_cpu_free(struct off_cpu *o);

/* Does a task that calls this function of the kernel end there? */
bool off_cpu_ends_in(const struct function *f);

/* Is it one that can be followed?  Idle tasks are many with one number. */
static inline bool off_cpu_follows(const struct task *task)
{
    return task->tid > 0;
}

/* A task is woken; it can be seen to leave after that, or be back already. */
void off_cpu_wakes(struct off_cpu *o, const struct task *task, uint64_t time,
                   const struct stack_node *waker);

/* Some task is woken, and it is not known which. */
void off_cpu_wakes_unknown(struct off_cpu *o);

/* These are of tasks that can be followed. */
void off_cpu_leaves(struct off_cpu *o, const struct task *task,
                    const struct off_cpu_wait *wait);

/*
 * It runs from the time on, 0 if nobody knows it.  True if it has left a vCPU,
 * and nothing was missed since then.
 */
bool off_cpu_returns(struct off_cpu *o, const struct task *task, uint64_t time,
                     struct off_cpu_wait *wait);

/* Has it left a vCPU, and is not back?  Then since when: host clock */
bool off_cpu_is_away(const struct off_cpu *o, const struct task *task,
                     uint64_t *since);

/* Nobody knows which tasks run: any that has left can have been back. */
void off_cpu_forget(struct off_cpu *o);

/* How often that was so of a task that was away */
uint64_t off_cpu_forgotten(const struct off_cpu *o);

/* Calls a function with each task that is away, at the end. */
typedef void off_cpu_fn(void *opaque, const struct off_cpu_wait *wait);
void off_cpu_each(const struct off_cpu *o, off_cpu_fn *fn, void *opaque);

#endif /* BTRAIL_OFF_CPU_H */
