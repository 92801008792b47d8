/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The file of the state that survives the process: captures, and their sessions
 *
 * In memory, too, they are JSON.  A capture has
 *
 *   name       as the device knows it
 *   folder     name of the guest's folder in the folder of all traces
 *   sessions   array, of at least one; each has
 *     command  as of "start", with "session" and "file"
 *     started  nanoseconds since 1970
 *     ring     name of its folder in that of the guest, if it has one
 *     whole    btrail_session_whole()
 *     keeping  btrail_session_keeping()
 *
 * Only the service writes to its folder; the content is checked all the same.
 */

#ifndef BTRAIL_STATE_H
#define BTRAIL_STATE_H

#include <json-glib/json-glib.h>

#include "service/service-error.h"

/*
 * Read what the process before has written: an array of captures, JsonObject,
 * that owns them; empty if there is no file.  NULL if the file cannot be read
 * or is malformed.
 */
GPtrArray *btrail_state_read(const char *path, GError **error);

/* The same for the text of a file */
GPtrArray *btrail_state_parse(const char *text, GError **error);

/* An empty array for captures, which it owns */
GPtrArray *btrail_state_new(void);

/* Replace the file, atomically. */
bool btrail_state_write(const char *path, GPtrArray *captures,
                        GError **error);

#endif /* BTRAIL_STATE_H */
