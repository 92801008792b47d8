/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The files of the state that survives the process: one for each session
 *
 * A file is named by the session's id and has
 *
 *   version
 *   capture    its name, as the device knows it
 *   folder     name of the guest's folder in the folder of all traces
 *   process    id of the guest's process, see process.h; empty if unknown,
 *              missing in the state of version 1
 *   session    an object:
 *     command  as of "start", with "session" and "file"
 *     started  nanoseconds since 1970
 *     ring     name of its folder in that of the guest, if it has one
 *     whole    btrail_session_whole()
 *     keeping  btrail_session_keeping()
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

struct btrail_state;

/* Open the files in @folder, which exists and is locked. */
struct btrail_state *btrail_state_open(const char *folder, GError **error);
void btrail_state_close(struct btrail_state *s);

/*
 * Read what the process before has written: an array of captures, JsonObject,
 * that owns them.  A file that cannot be read is renamed, and logged.
 */
GPtrArray *btrail_state_read(struct btrail_state *s);

/* An empty array for captures, which it owns */
GPtrArray *btrail_state_new(void);

/*
 * Have the files of these captures, and no others.  Each file is replaced
 * atomically.  An error keeps no other file from being written.
 */
bool btrail_state_write(struct btrail_state *s, GPtrArray *captures,
                        GError **error);

/* A new id for a session, to be freed */
char *btrail_state_new_id(void);

/* A "command" for the state; @c has a name and a file. */
JsonObject *btrail_state_command(const struct btrail_command *c);

/* Could the next process read the state of a session that @c starts? */
bool btrail_state_admit(const struct btrail_command *c, GError **error);

/*
 * Parse the text of a file into a capture with one session, which has @id.
 * NULL if it is malformed.
 */
JsonObject *btrail_state_parse(const char *text, const char *id,
                               GError **error);

#endif /* BTRAIL_STATE_H */
