/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Tasks, as TASK events name them
 */

#include <string.h>

#include "backtrail/trace.h"

int btrail_event_left(const struct btrail_event *event,
                      struct btrail_left *left)
{
    uint16_t flags;

    if (!event || !left || event->type != BTRAIL_EVENT_TASK) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    flags = event->reason & BTRAIL_TASK_LEFT;
    *left = (struct btrail_left) {
        .known = flags,
        .runnable = flags == BTRAIL_TASK_LEFT_RUNNABLE,
        .dead = flags == BTRAIL_TASK_LEFT_DEAD,
        .interruptible = flags == BTRAIL_TASK_LEFT_BLOCKED &&
                         (event->reason & BTRAIL_TASK_LEFT_INTERRUPTIBLE),
        .uninterruptible = flags == BTRAIL_TASK_LEFT_BLOCKED &&
                           (event->reason & BTRAIL_TASK_LEFT_UNINTERRUPTIBLE),
    };
    return 0;
}

int btrail_event_wake(const struct btrail_event *event,
                      struct btrail_wake *wake)
{
    if (!event || !wake || event->type != BTRAIL_EVENT_WAKE) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    *wake = (struct btrail_wake) {
        .known = !(event->reason & BTRAIL_WAKE_UNKNOWN),
        .is_new = event->reason & BTRAIL_WAKE_NEW,
    };
    if (wake->known) {
        wake->kernel = event->reason & BTRAIL_WAKE_KERNEL;
        wake->tid = (uint32_t)event->data[0];
        wake->pid = event->data[0] >> 32;
    }
    return 0;
}

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
