/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Commands that a user gives with gdb's "monitor"
 */

#ifndef BTRAIL_GDB_MONITOR_H
#define BTRAIL_GDB_MONITOR_H

#include "gdb/target.h"
#include "gdb/trace-index.h"

/**
 * monitor_command - run a command
 * @trace: of the replay, or NULL
 * @line:  "where", "goto PLACE", "find [PROCESS:]FUNCTION", "checkpoints",
 *         "help", or one of QEMU's monitor
 *
 * Returns what to print, to be freed.
 *
 * Errors: COMMAND (what is wrong with the command), and those of the target.
 */
char *monitor_command(struct target *t, struct trace_index *trace,
                      const char *line, GError **error);

/* Does the command search the trace, which can take long? */
bool monitor_searches(const char *line);

/**
 * monitor_search - do it, such as apart (see apart.h)
 * @icount: where the guest stands
 * @found:  gets the answer for monitor_found()
 */
void monitor_search(struct trace_index *trace, const char *line,
                    uint64_t icount, GByteArray *found);

/**
 * monitor_found - what has come of it
 * @then: gets the command that remains, to be freed, or NULL
 *
 * Returns what to print, to be freed; NULL with an error or @then.
 */
char *monitor_found(const GByteArray *found, char **then, GError **error);

#endif /* BTRAIL_GDB_MONITOR_H */
