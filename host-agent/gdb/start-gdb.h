/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A gdb that is set up by a file of commands
 */

#ifndef BTRAIL_GDB_START_GDB_H
#define BTRAIL_GDB_START_GDB_H

#include "util/agent-error.h"

/*
 * The option that all gdbs get before a file of theirs is read, also in what is
 * printed for people: files of a guest bring no commands
 */
#define START_GDB_OPTION    "-iex"
#define START_GDB_SAFE      "set auto-load off"

/* How a gdb is started by hand, to be freed */
char *start_gdb_by_hand(const char *commands);

/**
 * struct start_gdb_commands - what differs between files of commands
 * @files:   the folder of the files that processes have mapped, or NULL
 * @kernel:  a file with its symbols, or NULL
 * @more:    commands more
 * @target:  the socket of a server
 */
struct start_gdb_commands {
    const char *files;
    const char *kernel;
    const char *more;
    const char *target;
};

/*
 * Writes a file of commands: gdb asks whoever answers for nothing but what is
 * debugged, loads no files on their word but those in the folder, and runs
 * nothing of a guest's files.
 */
bool start_gdb_write(const char *path, const struct start_gdb_commands *c,
                     GError **error);

/*
 * Is a gdb that has connected to a unix socket one to which Ctrl-C goes, as it
 * goes to this process?  While it waits for a command of the monitor, gdb keeps
 * it to itself.
 */
bool start_gdb_shares_ctrl_c(int sock);

/**
 * start_gdb - start a gdb; run the main loop until it ends
 * @commands:  a file of commands, for gdb's option -x
 * @arguments: more arguments for it; ends with NULL; or NULL
 * @signal_fd: a signalfd.  SIGINT is gdb's own; others end it.  -1 for none
 * @ctrl_c:    called when SIGINT has come, with @opaque; or NULL
 * @status:    gets its exit status, as of waitpid()
 */
bool start_gdb(const char *commands, char *const *arguments, int signal_fd,
               void (*ctrl_c)(void *opaque), void *opaque, int *status,
               GError **error);

#endif /* BTRAIL_GDB_START_GDB_H */
