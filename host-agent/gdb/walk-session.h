/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A walk through a trace for gdbs: files that set a gdb up, and ways to connect
 */

#ifndef BTRAIL_GDB_WALK_SESSION_H
#define BTRAIL_GDB_WALK_SESSION_H

#include "gdb/walk-server.h"

struct walk_session;

/*
 * @options: of which @files is not used; what it names lives as long
 *
 * Each gdb is served by a process of its own.
 *
 * Errors: those of walk_server_new(); NAMES; of files.
 */
struct walk_session *
walk_session_new(const struct walk_server_options *options, GError **error);
void walk_session_free(struct walk_session *s);

/* Starts a gdb; serves it, and others, until it ends.  See start_gdb(). */
bool walk_session_gdb(struct walk_session *s, char *const *arguments,
                      int signal_fd, int *status, GError **error);

/*
 * Serves gdbs of this user that connect to a port of this host until a signal
 * comes.  @ready is called with a command that starts a gdb which is set up,
 * and with what others connect to.
 */
bool walk_session_port(struct walk_session *s, unsigned port, int signal_fd,
                       void (*ready)(const char *command, const char *address),
                       GError **error);

/* Serves the gdb at standard input and output until it leaves, or a signal
 * comes. */
void walk_session_stdio(struct walk_session *s, int signal_fd);

#endif /* BTRAIL_GDB_WALK_SESSION_H */
