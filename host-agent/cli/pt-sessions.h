/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * This user's sessions by Intel PT: which there are, and what they are told
 *
 * Each is a process of its own (pt-session.h) with a socket, and a file of what
 * is known of it, in a folder that only this user may write to.
 */

#ifndef BTRAIL_CLI_PT_SESSIONS_H
#define BTRAIL_CLI_PT_SESSIONS_H

#include <json-glib/json-glib.h>
#include <stdbool.h>

/* A session answers at once, unless it writes a trace. */
#define PT_SESSIONS_SOON_MS     2000

/**
 * pt_sessions_folder - where they are
 *
 * Makes the folder if it is missing.  Returns its path, to be freed; NULL and
 * @error if it cannot be trusted.
 */
char *pt_sessions_folder(GError **error);

/* The path of what belongs to a session's process; to be freed */
char *pt_sessions_path(const char *folder, int process, const char *suffix);

/**
 * struct pt_session_found
 * @socket: of its process
 * @status: the answer to "status", as of the service; or, if the session
 *          is busy, what is known of it, in the state "writing"
 */
struct pt_session_found {
    char *socket;
    JsonObject *status;
};

/**
 * pt_sessions_find - those of a guest
 * @connect: libvirt's URI, if it was given
 * @domain:  name, UUID or number; NULL with @qmp
 * @qmp:     the monitor's socket; NULL with @domain.  Both: of all guests
 * @session: its name, or NULL
 *
 * Returns an array of struct pt_session_found, to be freed.  What is left of
 * processes that were killed is removed.
 */
GPtrArray *pt_sessions_find(const char *connect, const char *domain,
                            const char *qmp, const char *session);

/* Of what was found, the one session of its status; its own */
JsonObject *pt_session_found_session(const struct pt_session_found *found);

/**
 * pt_sessions_ask - tell a session something, and wait for its answer
 * @command:    taken
 * @timeout_ms: -1: as long as it takes
 *
 * Without timeout, what the session prints meanwhile it prints to this
 * process's standard error.  If this process ends, a trace that is being written
 * has what was decoded.
 */
JsonObject *pt_sessions_ask(const char *socket, JsonObject *command,
                            int timeout_ms, GError **error);

/**
 * pt_sessions_choose - the only one of a guest
 *
 * Returns the socket, to be freed, or NULL: without @several there is none.
 * With it there are more, and an error was printed.
 */
char *pt_sessions_choose(const char *connect, const char *domain,
                         const char *qmp, const char *session, bool *several);

#endif /* BTRAIL_CLI_PT_SESSIONS_H */
