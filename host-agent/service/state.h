/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The file of the state that survives the process: its captures, and their
 * sessions
 *
 * Only the service writes to its folder; the content is checked all the same.
 */

#ifndef BTRAIL_STATE_H
#define BTRAIL_STATE_H

#include <json-glib/json-glib.h>

#include "service/service-error.h"

/**
 * struct btrail_state_session
 * @command: as of "start", with "session" and "file"
 * @started: nanoseconds since 1970
 * @ring:    name of its folder in that of the guest, or NULL
 * @whole:   btrail_session_whole()
 * @keeping: btrail_session_keeping()
 */
struct btrail_state_session {
    JsonObject *command;
    gint64 started;
    char *ring;
    bool whole;
    bool keeping;
};

/**
 * struct btrail_state_capture
 * @name:     of the capture, as the device knows it
 * @folder:   name of the guest's folder in the folder of all traces
 * @sessions: of struct btrail_state_session *
 * @refs:     references to it
 */
struct btrail_state_capture {
    char *name;
    char *folder;
    GPtrArray *sessions;
    unsigned refs;
};

struct btrail_state_session *btrail_state_session_new(void);
struct btrail_state_capture *btrail_state_capture_new(const char *name,
                                                      const char *folder);
void btrail_state_session_free(struct btrail_state_session *s);
/* Freed with its last reference.  A capture that is shared is not changed. */
struct btrail_state_capture *
btrail_state_capture_ref(struct btrail_state_capture *c);
void btrail_state_capture_free(struct btrail_state_capture *c);

/*
 * Read what the process before has written: an array of struct
 * btrail_state_capture that owns them, empty if there is no file.  NULL if the
 * file cannot be read or is malformed.
 */
GPtrArray *btrail_state_read(const char *path, GError **error);

/* The same for the text of a file */
GPtrArray *btrail_state_parse(const char *text, GError **error);

/* Replace the file, atomically. */
bool btrail_state_write(const char *path, GPtrArray *captures,
                        GError **error);

#endif /* BTRAIL_STATE_H */
