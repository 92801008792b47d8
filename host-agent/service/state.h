/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The files of the state that survives the process: one for each session
 *
 * A file is named by the session's id and has
 *
 *   version
 *   capture    its name, as the device knows it
 *   folder     name of the guest's folder in the folder of all traces
 *   process    id of the guest's process, see peer-process.h; empty if unknown
 *   session    an object:
 *     command  as of "start", with "session" and "file"
 *     started  nanoseconds since 1970
 *     ring     name of its folder in that of the guest, if it has one
 *     whole    session_whole()
 *     keeping  session_keeping()
 *     off      session_triggers_off(); 0 if it is missing
 *     dumps    files that were being written
 *     over     nobody continues it: what is cut off is to be completed
 *     parts    of its trace, then: how many of them; all if it is missing
 *
 * In memory, a capture is a JSON object, too: "name", "folder", "process"
 * and "sessions", an array of at least one of these objects, which also have
 * their "id".
 *
 * Only the service writes to its folder; the content is checked all the same.
 * A file that cannot be read costs its own session, and no other one.
 */

#ifndef BTRAIL_STATE_H
#define BTRAIL_STATE_H

#include <json-glib/json-glib.h>

#include "service/command.h"

struct state_files;

/* Open the files in @folder, which exists and is locked. */
struct state_files *state_files_open(const char *folder, GError **error);
void state_files_close(struct state_files *s);

/*
 * Read what the process before has written: an array of captures, JsonObject,
 * that owns them.  A file that cannot be read is renamed, and logged.
 */
GPtrArray *state_files_read(struct state_files *s);

/* An empty array for captures, which it owns */
GPtrArray *state_files_new(void);

/*
 * Have the files of these captures, and no others.  Each file is replaced
 * atomically.  An error keeps no other file from being written.
 */
bool state_files_write(struct state_files *s, GPtrArray *captures,
                       GError **error);

/* A new id for a session, to be freed */
char *state_files_new_id(void);

/* A "command" for the state; @c has a name and a file. */
JsonObject *state_files_command(const struct service_command *c);

/* Could the next process read the state of a session that @c starts? */
bool state_files_admit(const struct service_command *c, GError **error);

/*
 * Parse the text of a file into a capture with one session, which has @id.
 * NULL if it is malformed.
 */
JsonObject *state_files_parse(const char *text, const char *id,
                              GError **error);

#endif /* BTRAIL_STATE_H */
