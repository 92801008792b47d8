/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A player that gdbs debug, and one of them that is set up for it
 */

#ifndef BTRAIL_GDB_REPLAY_SESSION_H
#define BTRAIL_GDB_REPLAY_SESSION_H

#include "replay/player.h"
#include "replay/turns.h"
#include "symbolize/symbolizer.h"

struct replay_session;

/**
 * replay_session_new - listen for gdbs
 * @player: not to be used by others until replay_session_free()
 * @trace:  of its recording, for symbols and to go back by; lives as long; or
 *          NULL
 * @turns:  of its vCPUs; lives as long; NULL if it has one
 * @symbols: where more symbols of the guest's programs are
 */
struct replay_session *
replay_session_new(struct player *player, const struct btrail_trace *trace,
                   const struct turns *turns,
                   const struct symbolizer_options *symbols, GError **error);
void replay_session_free(struct replay_session *s);

/**
 * replay_session_run - start a gdb; serve it, and others, until it ends
 * @arguments: more arguments for it; ends with NULL; or NULL
 * @signal_fd: a signalfd.  SIGINT is gdb's own; others end it.  -1 for none
 * @status:    gets its exit status, as of waitpid()
 */
bool replay_session_run(struct replay_session *s, char *const *arguments,
                        int signal_fd, int *status, GError **error);

#endif /* BTRAIL_GDB_REPLAY_SESSION_H */
