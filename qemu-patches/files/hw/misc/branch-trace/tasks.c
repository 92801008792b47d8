/*
 * Branch trace: how the tasks of the guest are found
 *
 * Another description comes into force in two steps, because code that was
 * translated with one must not be executed with another: first no vCPU uses
 * the old one any more, then all use the new one.  Nothing waits for the vCPUs:
 * an agent could have the main loop do that all the time.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/timer.h"
#include "tasks.h"

/* The shortest time between two changes: code may be translated again. */
#define CHANGE_MS   100

/* The second step, if it is time for it; called after each vCPU. */
static void replace(void *opaque)
{
    BranchTraceTasks *tasks = opaque;
    BranchTraceStream *s;
    unsigned i;

    if (!tasks->changing) {
        return;
    }
    STREAM_FOREACH(tasks->streams, i, s) {
        if (branch_trace_stream_tasks(s)) {
            return;
        }
    }
    tasks->current = tasks->next;
    tasks->changing = false;
    if (tasks->current.n) {
        branch_trace_streams_set_tasks(tasks->streams, &tasks->current,
                                       replace, tasks);
    }
}

void branch_trace_tasks_set(BranchTraceTasks *tasks,
                            const BranchTraceKernels *kernels)
{
    tasks->next = kernels ? *kernels : (BranchTraceKernels) { 0 };
    tasks->due = false;
    if (!tasks->changing) {
        tasks->changing = true;
        branch_trace_streams_set_tasks(tasks->streams, NULL, replace, tasks);
    }
    replace(tasks);
}

void branch_trace_tasks_request(BranchTraceTasks *tasks,
                                const BranchTraceKernels *kernels)
{
    int64_t now = qemu_clock_get_ms(QEMU_CLOCK_REALTIME);

    if (now - tasks->changed_ms < CHANGE_MS) {
        tasks->next = *kernels;
        tasks->due = true;
    } else {
        tasks->changed_ms = now;
        branch_trace_tasks_set(tasks, kernels);
    }
}

void branch_trace_tasks_housekeeping(BranchTraceTasks *tasks)
{
    if (tasks->due) {
        branch_trace_tasks_request(tasks, &tasks->next);
    }
}
