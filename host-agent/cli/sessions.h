/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Commands about sessions of a guest.  What fails prints an error message.
 */

#ifndef BTRAIL_CLI_SESSIONS_H
#define BTRAIL_CLI_SESSIONS_H

#include "cli/guest-client.h"
#include "client/session-options.h"

/* For the table of a command's options, which completes those with words */
#define CLI_SESSION_ENTRIES(o)  SESSION_OPTIONS(SESSION_OPTION_ENTRY, o)
void cli_session_complete(void);

/* Checks the options as session_options_check() does. */
bool cli_session_check(struct session_options *o);

/* The command of session_options_start(), checked as the service will, or
 * NULL */
JsonObject *cli_session_start(const struct session_options *o,
                              const char *file);

/*
 * Says what of the session's processes and symbols the guest does not have, so
 * far or ever, if there is anything of that kind.
 */
void cli_session_explain_missing(struct cli_guest *g, JsonObject *session);

/* The same for address spaces of which nothing was recorded */
void cli_session_explain_cr3(const char *guest);

/* The session of service_client_choose(), or NULL; to be freed */
char *cli_session_choose(struct cli_guest *g, const char *given);

/**
 * cli_session_do - have something written, and wait until it is
 * @command: that begins it, taken
 * @array:   of the status that it is in: ANSWER_SESSIONS, or ANSWER_DUMPS
 *
 * Returns what has become of it, or NULL.
 */
JsonObject *cli_session_do(struct cli_guest *g, JsonObject *command,
                           const char *array);

#endif /* BTRAIL_CLI_SESSIONS_H */
