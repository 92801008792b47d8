/*
 * Branch trace: how the tasks of the guest are found
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_MISC_BRANCH_TRACE_TASKS_H
#define HW_MISC_BRANCH_TRACE_TASKS_H

#include "streams.h"

/**
 * BranchTraceTasks - the agent's descriptions of kernels, in all streams
 * @current:    in force, unless it is @changing; none: tasks are not noticed
 * @next:       will replace it
 * @changing:   when no vCPU uses @current any more
 * @due:        it must be changed, but not yet
 * @changed_ms: when that was last done for the agent
 */
typedef struct BranchTraceTasks {
    BranchTraceStreams *streams;
    BranchTraceKernels current;
    BranchTraceKernels next;
    bool changing;
    bool due;
    int64_t changed_ms;
} BranchTraceTasks;

/* All functions are called with the BQL held.  None waits for the vCPUs. */

/* Replaces what there is; @kernels is copied, and NULL is none. */
void branch_trace_tasks_set(BranchTraceTasks *tasks,
                            const BranchTraceKernels *kernels);

/* The same for an agent, which can have it done that often: perhaps later. */
void branch_trace_tasks_request(BranchTraceTasks *tasks,
                                const BranchTraceKernels *kernels);

/* To be called now and then: does what is due. */
void branch_trace_tasks_housekeeping(BranchTraceTasks *tasks);

#endif /* HW_MISC_BRANCH_TRACE_TASKS_H */
