/*
 * Branch trace: work that may take long
 *
 * To free the buffer of a capture can take a second.  To close a connection can
 * take any time, for it closes the files whose descriptors the agent has sent
 * as well: a socket that lingers, for example.  The main loop does neither.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qemu/atomic.h"
#include "qemu/thread.h"
#include "background.h"

#define MAX_JOBS    16

typedef struct Work {
    BranchTraceJob *job;
    void *opaque;
} Work;

static unsigned jobs;

static void *background_thread(void *opaque)
{
    g_autofree Work *work = opaque;

    work->job(work->opaque);
    qatomic_dec(&jobs);
    return NULL;
}

void branch_trace_background_run(BranchTraceJob *job, void *opaque)
{
    Work *work = g_new(Work, 1);
    QemuThread thread;

    *work = (Work) { job, opaque };
    qatomic_inc(&jobs);
    qemu_thread_create(&thread, "branch-trace-bg", background_thread, work,
                       QEMU_THREAD_DETACHED);
}

bool branch_trace_background_has_room(Error **errp)
{
    if (qatomic_read(&jobs) >= MAX_JOBS) {
        error_setg(errp, "connections or buffers of trace agents before are "
                   "still being closed: try again later");
        return false;
    }
    return true;
}
