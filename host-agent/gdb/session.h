/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A player with a front end for gdbs, and a gdb that is set up for it
 */

#ifndef BTRAIL_GDB_SESSION_H
#define BTRAIL_GDB_SESSION_H

#include "symbolize/symbolizer.h"
#include "replay/player.h"
#include "replay/turns.h"

struct gdb_session;

/**
 * gdb_session_new - listen for gdbs
 * @player: not to be used by others until gdb_session_free()
 * @trace:  of its recording, for symbols and to go back by; lives as long; or
 *          NULL
 * @turns:  of its vCPUs; lives as long; NULL if it has one
 * @symbols: where more symbols of the guest's programs are
 */
struct gdb_session *gdb_session_new(struct player *player,
                                    const struct btrail_trace *trace,
                                    const struct turns *turns,
                                    const struct symbolizer_options *symbols,
                                    GError **error);
void gdb_session_free(struct gdb_session *s);

/* For "target remote" */
const char *gdb_session_socket(const struct gdb_session *s);

/* A file of commands, for gdb's option -x, that sets it up and connects it */
const char *gdb_session_commands(const struct gdb_session *s);

/**
 * gdb_session_run - start a gdb; serve it, and others, until it ends
 * @arguments: more arguments for it; ends with NULL; or NULL
 * @signal_fd: a signalfd.  SIGINT is gdb's own; others end it.  -1 for none
 * @status:    gets its exit status, as of waitpid()
 */
bool gdb_session_run(struct gdb_session *s, char *const *arguments,
                     int signal_fd, int *status, GError **error);

#endif /* BTRAIL_GDB_SESSION_H */
