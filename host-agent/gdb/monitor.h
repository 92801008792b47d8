/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Commands that a user gives with gdb's "monitor"
 */

#ifndef BTRAIL_GDB_MONITOR_H
#define BTRAIL_GDB_MONITOR_H

#include "gdb/history.h"
#include "gdb/target.h"

/**
 * monitor_command - run a command
 * @history: of the replay, or NULL
 * @line: "where", "goto PLACE", "checkpoints", "help", or one of QEMU's
 *        monitor
 *
 * Returns what to print, to be freed.
 *
 * Errors: COMMAND (what is wrong with the command), and those of the target.
 */
char *monitor_command(struct target *t, struct history *history,
                      const char *line, GError **error);

#endif /* BTRAIL_GDB_MONITOR_H */
