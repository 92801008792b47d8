/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A gdb that is set up by a file of commands, and the sockets it connects to
 */

#ifndef BTRAIL_GDB_START_GDB_H
#define BTRAIL_GDB_START_GDB_H

#include "util/agent-error.h"

/* Unix sockets; -1 with an error */
int start_gdb_listen(const char *path, GError **error);
int start_gdb_connect(const char *path, GError **error);

/**
 * start_gdb - start a gdb; run the main loop until it ends
 * @commands:  a file of commands, for gdb's option -x
 * @arguments: more arguments for it; ends with NULL; or NULL
 * @signal_fd: a signalfd.  SIGINT is gdb's own; others end it.  -1 for none
 * @status:    gets its exit status, as of waitpid()
 */
bool start_gdb(const char *commands, char *const *arguments, int signal_fd,
               int *status, GError **error);

#endif /* BTRAIL_GDB_START_GDB_H */
