/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Commands that a user gives with gdb's "monitor" where it walks a trace
 */

#ifndef BTRAIL_GDB_WALK_MONITOR_H
#define BTRAIL_GDB_WALK_MONITOR_H

#include "gdb/walk.h"

/**
 * walk_monitor - run a command
 * @thread: that it is about
 * @line:   "where", "goto PLACE", "next-call [PROCESS:]FUNCTION", "prev-call
 *          [PROCESS:]FUNCTION", "prev-switch", "why" or "help"
 *
 * It takes as long as it takes: see apart.h.
 *
 * Returns what to print, to be freed.
 *
 * Errors: COMMAND (what is wrong with the command), NAMES.
 */
char *walk_monitor(struct walk *w, struct walk_thread *thread,
                   const char *line, GError **error);

#endif /* BTRAIL_GDB_WALK_MONITOR_H */
