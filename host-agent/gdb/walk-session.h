/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A walk through a trace for gdbs: files that set a gdb up, and ways to connect
 */

#ifndef BTRAIL_GDB_WALK_SESSION_H
#define BTRAIL_GDB_WALK_SESSION_H

#include "gdb/walk-server.h"

struct walk_session;

/**
 * walk_session_new
 * @options: of which @files and @ended are not used
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
 * Serves gdbs that connect to a port of this host until a signal comes.  @ready
 * is called with the file of commands that sets up a gdb and connects it.
 */
bool walk_session_port(struct walk_session *s, unsigned port, int signal_fd,
                       void (*ready)(const char *commands, unsigned port),
                       GError **error);

/* Serves the gdb at standard input and output until it leaves. */
void walk_session_stdio(struct walk_session *s);

#endif /* BTRAIL_GDB_WALK_SESSION_H */
