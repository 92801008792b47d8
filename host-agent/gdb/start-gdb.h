/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A gdb that is set up by a file of commands
 */

#ifndef BTRAIL_GDB_START_GDB_H
#define BTRAIL_GDB_START_GDB_H

#include "util/agent-error.h"

/* The option that all gdbs get before a file of theirs is read, as is printed
 * for people, too: files of a guest bring no commands */
#define START_GDB_OPTION    "-iex"
#define START_GDB_SAFE      "set auto-load off"

/* How a gdb is started by hand, to be freed */
char *start_gdb_by_hand(const char *commands);

/* What begins each file of commands: gdb asks nothing but what is debugged of
 * whoever answers, loads no files by his word, and runs nothing of a guest's
 * files. */
void start_gdb_settings(GString *commands);

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
