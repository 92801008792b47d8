/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where the guest's kernel switches to another task, or wakes one, of all vCPUs
 * in the order of their moments, by the events of a trace
 */

#ifndef BTRAIL_SWITCHES_H
#define BTRAIL_SWITCHES_H

#include "find/moment.h"
#include "find/task-names.h"
#include "util/agent-error.h"

/* Why a task leaves its vCPU.  What is preempted could still run: it may have
 * yielded, too. */
enum switch_why {
    SWITCH_ANY,
    SWITCH_BLOCKED,
    SWITCH_PREEMPTED,
    SWITCH_DEAD,
};

/**
 * struct switches_wanted - what is looked for
 * @wakes: wake-ups, otherwise switches
 * @from:  of the task that leaves, or that wakes
 * @to:    of the task that runs then, or that is woken
 * @why:   of a switch
 *
 * @from and @to are as of task_names_means(); NULL for any.
 */
struct switches_wanted {
    bool wakes;
    const char *from;
    const char *to;
    enum switch_why why;
};

/**
 * struct task_switch - a switch, or a wake-up
 * @at:    the moment.  Of a switch: after the last record of @from; from here
 *         on its task runs.  Of a wake-up, of the task that wakes, or that was
 *         interrupted by what does
 * @from:  of a switch; not known for the first one of a vCPU, and after missing
 *         records
 * @left:  of a switch: why @from leaves
 * @woken: of a wake-up
 * @name:  of that task; empty if it is not known
 */
struct task_switch {
    struct moment at;
    struct btrail_task from;
    struct btrail_left left;
    struct btrail_wake woken;
    char name[BTRAIL_TASK_NAME + 1];
};

struct switches;

/**
 * switches_new
 * @trace: outlives the result
 *
 * Errors: COMMAND: the trace cannot be read; NAMES: it does not say who is
 * woken, or why tasks leave.
 */
struct switches *switches_new(const struct btrail_trace *trace,
                              const struct switches_wanted *wanted,
                              GError **error);
void switches_free(struct switches *s);

/* Of a vCPU, only moments after records [@begin, @end) count.  Before the
 * first one is read. */
void switches_limit(struct switches *s, unsigned vcpu, uint64_t begin,
                    uint64_t end);

/*
 * The next one.  False at the end, or with an error.  NAMES: the trace names no
 * tasks, or none that can be meant.
 */
bool switches_next(struct switches *s, struct task_switch *found,
                   GError **error);

/* How many were passed that may be meant: who leaves or is woken is not known,
 * or why */
uint64_t switches_unknown(const struct switches *s);

#endif /* BTRAIL_SWITCHES_H */
