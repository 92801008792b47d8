/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A walk through a trace for gdbs: files that set a gdb up, and ways to connect
 */

#ifndef BTRAIL_GDB_TRACE_SESSION_H
#define BTRAIL_GDB_TRACE_SESSION_H

#include "gdb/trace-target.h"

struct trace_session;

/*
 * @options: of which @files is not used; what it names lives as long
 *
 * Each gdb is served by a process of its own.
 *
 * Errors: those of trace_target_new(); NAMES; of files.
 */
struct trace_session *
trace_session_new(const struct trace_target_options *options, GError **error);
void trace_session_free(struct trace_session *s);

/* Starts a gdb; serves it, and others, until it ends.  See start_gdb(). */
bool trace_session_gdb(struct trace_session *s, char *const *arguments,
                       int signal_fd, int *status, GError **error);

/*
 * Serves gdbs of this user that connect to a port of this host until a signal
 * comes.  @ready is called with a command that starts a gdb which is set up,
 * and with what others connect to.
 */
bool trace_session_port(struct trace_session *s, unsigned port, int signal_fd,
                        void (*ready)(const char *command, const char *address),
                        GError **error);

/* Serves the gdb at standard input and output until it leaves, or a signal
 * comes. */
void trace_session_stdio(struct trace_session *s, int signal_fd);

#endif /* BTRAIL_GDB_TRACE_SESSION_H */
