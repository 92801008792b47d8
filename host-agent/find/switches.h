/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where the guest's kernel switches to another task, of all vCPUs in the order
 * of their moments, by the tasks that a trace names
 */

#ifndef BTRAIL_SWITCHES_H
#define BTRAIL_SWITCHES_H

#include "find/moment.h"
#include "util/agent-error.h"

/**
 * struct task_switch
 * @at:   the moment: after the last record of @from; from here on its task
 *        runs
 * @from: not known for the first one of a vCPU, and after missing records
 */
struct task_switch {
    struct moment at;
    struct btrail_task from;
};

struct switches;

/**
 * switches_new
 * @trace:   outlives the result
 * @process: name of tasks that are switched to; NULL for all
 *
 * Errors: COMMAND: the trace cannot be read.
 */
struct switches *switches_new(const struct btrail_trace *trace,
                              const char *process, GError **error);
void switches_free(struct switches *s);

/* Of a vCPU, only moments after records [@begin, @end) count.  Before the
 * first one is read. */
void switches_limit(struct switches *s, unsigned vcpu, uint64_t begin,
                    uint64_t end);

/*
 * The next one.  False at the end, or with an error.  NAMES: the trace names no
 * tasks.
 */
bool switches_next(struct switches *s, struct task_switch *found,
                   GError **error);

#endif /* BTRAIL_SWITCHES_H */
