/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a session needs of its service, and a capture that the test plays
 */

#ifndef BTRAIL_SESSION_SCENE_H
#define BTRAIL_SESSION_SCENE_H

#include "lib/agent/budget.h"
#include "service/service-session.h"

/**
 * struct session_scene
 * @budget, @wake_fd: of the capture
 * @events: how often a session has reported each of enum service_session_event
 * @waited: what its capture has waited, when it asks for the last time
 */
struct session_scene {
    struct host host;
    struct folder *folder;
    struct btrail_budget *budget;
    int wake_fd;
    unsigned events[SERVICE_SESSION_DONE + 1];
    struct capture_progress waited;
};

/* In in_folder(), whose folder has that of a guest, "vm". */
void session_scene_init(struct session_scene *c);
void session_scene_clear(struct session_scene *c);

/* "start" of session "s" into "f.btrail"; @more: JSON, after a comma, or "" */
struct service_command *session_scene_command(const char *more);

/* What a session is made with, and one; @state: of the process before, or
 * NULL */
struct service_session_options
session_scene_options(struct session_scene *c, const char *more);
struct service_session *session_scene_make(struct session_scene *c,
                                           const char *more,
                                           JsonObject *state);

/* As a capture does, when the producer has said HELLO */
void session_scene_feed(struct session_scene *c, struct service_session *s);

/* Record i goes to 0x1000 + i. */
void session_scene_records(struct service_session *s, uint64_t first,
                           unsigned n);

/* The same, of which those from @index on are missing, and nothing says why */
void session_scene_lost(struct service_session *s, uint64_t index,
                        uint64_t first, unsigned n);

/* The capture ends; and so does the session, which is waited for. */
void session_scene_stop(struct service_session *s, uint16_t reason);
void session_scene_wait(struct session_scene *c,
                        enum service_session_event event);
void session_scene_end(struct session_scene *c, struct service_session *s);

/* The path of a file of the guest's folder, to be freed */
char *session_scene_path(const struct session_scene *c, const char *name);

/* Removes the trace of a session. */
void session_scene_remove(const struct session_scene *c);

#endif /* BTRAIL_SESSION_SCENE_H */
