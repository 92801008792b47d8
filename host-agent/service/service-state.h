/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Captures that survive the process: in files, for the next process
 *
 * It has the captures of all guests, and those that the process before has
 * left until their devices connect again.
 */

#ifndef BTRAIL_SERVICE_STATE_H
#define BTRAIL_SERVICE_STATE_H

#include "service/completion.h"
#include "service/guest.h"

/**
 * struct btrail_service_state
 * @files: of their sessions
 * @lock: of the folder of state
 * @left: captures of the process before that no guest has continued yet
 * @completions: of sessions that nobody continues
 */
struct btrail_service_state {
    struct btrail_host *host;
    struct btrail_state *files;
    int lock;
    GPtrArray *left;            /* of JsonObject, see state.h */
    struct btrail_completions *completions;
    guint timeout;
};

/*
 * Lock the state folder, so that one process runs with it, and read the state.
 * Captures whose devices do not connect in time are over.
 */
struct btrail_service_state *
btrail_service_state_open(struct btrail_host *host, GError **error);
void btrail_service_state_close(struct btrail_service_state *s);

/* Write the captures of all guests, and those that are left. */
void btrail_service_state_save(struct btrail_service_state *s);

/* The capture of this name that is left of @g and its process, or NULL */
JsonObject *btrail_service_state_find(struct btrail_service_state *s,
                                      const struct btrail_guest *g,
                                      const char *capture);

/* The session that is left of the guest with @folder and @file, or NULL */
const char *btrail_service_state_writing(struct btrail_service_state *s,
                                         const struct btrail_folder *folder,
                                         const char *file);

/* The capture of this name is not left, or not any more. */
void btrail_service_state_take(struct btrail_service_state *s,
                               const char *capture);

/*
 * The device of @g has only this capture, or NULL: others that are left of its
 * process are over, and their traces are completed.  So are those of processes
 * that are gone.
 */
void btrail_service_state_forget(struct btrail_service_state *s,
                                 const struct btrail_guest *g,
                                 const char *capture);

/*
 * A source's function: devices had the time to connect again.  What is left of
 * processes that are gone is completed.
 */
gboolean btrail_service_state_timed_out(gpointer state);

/* Detach from all guests: their captures are left to the next process. */
void btrail_service_state_detach(struct btrail_service_state *s);

#endif /* BTRAIL_SERVICE_STATE_H */
