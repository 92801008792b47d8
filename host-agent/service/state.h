/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What has to survive this process: which captures are its own, and what their
 * sessions are
 *
 * A file in the state folder, which nobody else writes; what is in it is
 * checked all the same.
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
 * @name:     of the device's session
 * @folder:   of the guest, name in the folder of all traces
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
/* It is freed with its last reference; who shares it does not change it. */
struct btrail_state_capture *
btrail_state_capture_ref(struct btrail_state_capture *c);
void btrail_state_capture_free(struct btrail_state_capture *c);

/*
 * Read what a process before has written: of struct btrail_state_capture *,
 * that are freed with it; empty if there is no file.  NULL if what is there
 * cannot be read, or makes no sense.
 */
GPtrArray *btrail_state_read(const char *path, GError **error);

/* The same of the file's text */
GPtrArray *btrail_state_parse(const char *text, GError **error);

/* Replace the file, at once and as a whole. */
bool btrail_state_write(const char *path, GPtrArray *captures,
                        GError **error);

#endif /* BTRAIL_STATE_H */
