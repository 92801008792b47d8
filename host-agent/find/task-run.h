/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where a task of the guest continues after the kernel has switched away from
 * it: on the same vCPU or on another one
 */

#ifndef BTRAIL_TASK_RUN_H
#define BTRAIL_TASK_RUN_H

#include "backtrail/trace.h"

/**
 * struct task_run - a task runs on a vCPU
 * @index: of a record that it makes there
 * @after, @before: it is made between these times, by the host's clock
 */
struct task_run {
    unsigned vcpu;
    uint64_t index;
    uint64_t after;
    uint64_t before;
};

/*
 * The run that the first record of a batch belongs to; false if the trace
 * cannot be read.
 */
bool task_run_at(const struct btrail_trace *trace, unsigned vcpu,
                 const struct btrail_batch *b, struct task_run *run);

/**
 * task_run_next - the first run of a task after another one
 * @thread: btrail_thread() of it.  An idle task is none: each vCPU has one
 * @run:  the vCPU runs another task from record @left on
 *
 * @next->index is that of its first record.  False if that is not sure: the
 * task does not run again, events are missing, or runs on two vCPUs begin at
 * about the same time.
 */
bool task_run_next(const struct btrail_trace *trace, uint64_t thread,
                   const struct task_run *run, uint64_t left,
                   struct task_run *next);

#endif /* BTRAIL_TASK_RUN_H */
