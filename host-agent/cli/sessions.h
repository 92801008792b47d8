/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sessions of a guest, as its service describes them
 */

#ifndef BTRAIL_CLI_SESSIONS_H
#define BTRAIL_CLI_SESSIONS_H

#include "cli/guest.h"
#include "cli/progress.h"

bool cli_session_has_ended(JsonObject *session);

/* What it has recorded so far */
struct progress cli_session_progress(JsonObject *session);

/* The path of its trace, or of a dump, on the guest's host; to be freed */
char *cli_session_path(JsonObject *session);

/*
 * Says what of the session's processes and symbols the guest does not have, so
 * far or ever, if there is anything of that kind.
 */
void cli_session_explain_missing(struct cli_guest *g, JsonObject *session);

/* The same for address spaces of which nothing was recorded */
void cli_session_explain_cr3(const char *guest);

/*
 * Waits for a second at most until a session that has begun has found all, and
 * says what it has not.  @answer: to the command "start"
 */
void cli_session_await_found(struct cli_guest *g, JsonObject *answer);

/*
 * The session that a command is about, to be freed: @given, or the only one
 * that this user has started.  NULL after an error message.
 */
char *cli_session_choose(struct cli_guest *g, const char *given);

/**
 * cli_session_do - have something written, and wait until it is
 * @command: that begins it, taken
 * @list:    of the status that it is in: "sessions", or "dumps"
 *
 * Returns what has become of it, or NULL after an error message.
 */
JsonObject *cli_session_do(struct cli_guest *g, JsonObject *command,
                           const char *list);

#endif /* BTRAIL_CLI_SESSIONS_H */
