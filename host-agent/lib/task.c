/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Tasks, as TASK events name them
 */

#include <string.h>

#include "backtrail/trace.h"

int btrail_event_task(const struct btrail_event *event,
                      struct btrail_task *task)
{
    if (!event || !task || event->type != BTRAIL_EVENT_TASK) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    memset(task, 0, sizeof(*task));
    if (event->reason & BTRAIL_TASK_UNKNOWN) {
        return 0;
    }
    task->known = true;
    task->kernel = event->reason & BTRAIL_TASK_KERNEL;
    task->tid = (uint32_t)event->data[0];
    task->pid = event->data[0] >> 32;
    for (unsigned i = 0; i < BTRAIL_TASK_NAME; i++) {
        task->name[i] = (char)(event->data[1 + i / 8] >> i % 8 * 8);
        if (!task->name[i]) {
            break;
        }
    }
    return 0;
}
