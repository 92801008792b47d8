/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which task each vCPU runs, why others do not, and who wakes them
 *
 * A vCPU runs a task from the task's first record up to that of the next one.
 * A task that has left is in a state up to where it is woken or runs again.
 * What of that is not sure, because nobody knows what another vCPU ran
 * meanwhile or whether the task was woken, is not said.  No records are decoded.
 */

#ifndef BTRAIL_SCHEDULE_H
#define BTRAIL_SCHEDULE_H

#include "analyze/window.h"
#include "backtrail/trace.h"

/* In which state a task is that has left a vCPU */
enum schedule_state {
    SCHEDULE_UNKNOWN,
    SCHEDULE_RUNNABLE,
    SCHEDULE_INTERRUPTIBLE,
    SCHEDULE_UNINTERRUPTIBLE,
    SCHEDULE_DEAD,
};

/**
 * struct schedule_run - from now on a vCPU runs a task
 * @time:  host clock; those of a vCPU do not get lower, and a task is on one
 *         vCPU at a time
 * @task:  not known: nobody knows which, if any
 * @state: of the task before
 * @first: nothing is known of the vCPU before that
 */
struct schedule_run {
    unsigned vcpu;
    uint64_t time;
    struct btrail_task task;
    enum schedule_state state;
    bool first;
};

/**
 * struct schedule_wake - a task that does not run can run from now on
 * @task:  it
 * @waker: the task of the vCPU, which wakes it, or which an interrupt has
 *         interrupted that does
 * @late:  the vCPU may have gone on to another task: the one that is woken was
 *         about to leave its own
 */
struct schedule_wake {
    unsigned vcpu;
    uint64_t time;
    struct btrail_wake task;
    struct btrail_task waker;
    bool late;
};

/* Callbacks.  To the task of a hypervisor, its guest is a part of what it
 * runs. */
struct schedule_ops {
    void (*run)(void *opaque, const struct schedule_run *run);
    void (*wake)(void *opaque, const struct schedule_wake *wake);
};

/**
 * struct schedule_options
 * @window: the part of the trace that is reported
 * @tick:   of the session, in nanoseconds; 0 if it is not known
 * @some:   the trace has some of the vCPUs: tasks can run elsewhere
 * @most:   limit of tasks, of which more are not known; 0: SCHEDULE_MOST
 */
struct schedule_options {
    struct window window;
    uint64_t tick;
    bool some;
    unsigned most;
};
#define SCHEDULE_MOST   (1u << 17)

/**
 * struct schedule_sums
 * @runs, @wakes: that were reported
 * @unknown: of @runs, of how many it is not known in which state the task
 *           before has left, or whether it stayed in that
 * @named:   the trace names tasks
 * @woken:   it says which ones are woken
 */
struct schedule_sums {
    uint64_t runs;
    uint64_t wakes;
    uint64_t unknown;
    bool named;
    bool woken;
};

/* Reads a trace, twice.  Errors: as btrail_merged_open(). */
int schedule_read(const struct btrail_trace *trace,
                  const struct schedule_options *options,
                  const struct schedule_ops *ops, void *opaque,
                  struct schedule_sums *sums);

#endif /* BTRAIL_SCHEDULE_H */
