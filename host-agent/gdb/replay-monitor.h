/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Commands that a user gives with gdb's "monitor" at a replay
 */

#ifndef BTRAIL_GDB_REPLAY_MONITOR_H
#define BTRAIL_GDB_REPLAY_MONITOR_H

#include "gdb/monitor.h"

struct replay_view;

/* "where", "goto PLACE", "find [PROCESS:]FUNCTION", "checkpoints" and "help",
 * of a replay_view */
extern const struct monitor_command replay_monitor_commands[];

/* Another one is QEMU's, unless it would move the guest.  Returns what to
 * print, to be freed, or NULL with an error. */
char *replay_monitor_pass_on(struct replay_view *v, const char *line,
                             GError **error);

#endif /* BTRAIL_GDB_REPLAY_MONITOR_H */
