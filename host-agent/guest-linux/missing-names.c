/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is missing of a kernel's names: see missing-names.h
 */

#include <glib.h>

#include "guest-linux/missing-names.h"
#include "guest-linux/switch.h"

char *missing_names_unread(uint64_t bytes)
{
    return g_strdup_printf("%" G_GUINT64_FORMAT " KiB of the guest's RAM "
                           "cannot be read, as QEMU does not share it: "
                           "processes there are unknown", bytes >> 10);
}

char **missing_names(struct linux_kernel *k, uint64_t unread)
{
    GPtrArray *list = g_ptr_array_new();
    struct btrail_tasks tasks;

    for (guint i = 0; i < k->missing->len; i++) {
        g_ptr_array_add(list, g_strdup(g_ptr_array_index(k->missing, i)));
    }
    if (k->tasks && k->layout.task_flags != LINUX_NONE &&
        !linux_switch(k, &tasks)) {
        g_ptr_array_add(list, g_strdup("__switch_to_asm, __set_task_comm or "
                                       "current_task is missing: "
                                       LINUX_SWITCHES));
    }
    if (k->wakes_sought && !k->wake) {
        g_ptr_array_add(list, g_strdup("a place of the tracepoints "
                                       "sched_waking and sched_wakeup_new is "
                                       "missing: " LINUX_WAKES));
    }
    if (unread) {
        g_ptr_array_add(list, missing_names_unread(unread));
    }
    g_ptr_array_add(list, NULL);
    return (char **)g_ptr_array_free(list, FALSE);
}
