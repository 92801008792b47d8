/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Captures that survive the process: in files, for the next process
 *
 * It has the captures of all guests, which they pass to it, and those that the
 * process before has left until their devices connect again.
 */

#ifndef BTRAIL_SERVICE_STATE_H
#define BTRAIL_SERVICE_STATE_H

#include "service/completion.h"
#include "service/host.h"

/**
 * struct service_state
 * @files: of their sessions
 * @lock: of the folder of state
 * @left: captures of the process before that no guest has continued yet; one
 *        that a guest inspects has a member "inspected"
 * @completions: of sessions that nobody continues
 */
struct service_state {
    struct host *host;
    struct state_files *files;
    int lock;
    GPtrArray *left;            /* of JsonObject, see state.h */
    struct completions *completions;
    guint timeout;
};

/*
 * Lock the state folder, so that one process runs with it, and read the state.
 * Captures whose devices do not connect in time are over.
 */
struct service_state *
service_state_open(struct host *host, GError **error);
void service_state_close(struct service_state *s);

/*
 * Write the captures of all guests, JsonObject as in state.h, and those that
 * are left.  What a guest has is not left any more.
 */
void service_state_save(struct service_state *s,
                        GPtrArray *captures);

/* The capture of this name that is left of this process, or NULL */
JsonObject *service_state_find(struct service_state *s,
                               const struct folder *folder,
                               const char *process,
                               const char *capture);

/* The session that is left of the guest with @folder and @file, or NULL */
const char *service_state_writing(struct service_state *s,
                                  const struct folder *folder,
                                  const char *file);

/* The capture of this name is not left, or not any more. */
void service_state_take(struct service_state *s,
                        const char *capture);

/*
 * The device of @process has only this capture, or NULL: others that are left
 * of this process are over, and their traces are completed.  So are those of
 * processes that are gone.
 */
void service_state_forget(struct service_state *s,
                          const char *process, const char *capture);

/*
 * A source's function: devices had the time to connect again.  What is left of
 * processes that are gone is completed.
 */
gboolean service_state_timed_out(gpointer state);

/* These captures are left to the next process, which waits for devices. */
void service_state_leave(struct service_state *s,
                         GPtrArray *captures);

#endif /* BTRAIL_SERVICE_STATE_H */
