/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest: its device's connections, its capture and its sessions
 *
 * One capture has what all sessions want together.  It is started for the
 * first session, changed when what they want does, and stopped after the last
 * one.  All in the thread of the default main context.
 */

#ifndef BTRAIL_GUEST_H
#define BTRAIL_GUEST_H

#include "service/config.h"
#include "service/control.h"
#include "util/cpu-limit.h"
#include "service/folder.h"
#include "service/quota.h"
#include "service/state.h"

struct btrail_guest;

/**
 * struct btrail_guest_host - what it belongs to
 * @config:  now
 * @files:   who knows files of guests; until the guest is freed
 * @admit:   may a session begin that takes so much memory?
 * @admit_dump: may a file be written beside those of sessions?
 * @ending:  is it about to end, and takes no new sessions?
 * @over:    what a process before has left of this capture is no concern of
 *           the host's any more
 * @changed: what btrail_guest_save() returns
 * @idle:    it has no session that is not done, and no connection; the host
 *           may free it, then or later
 * @past:    add the status of sessions that other guests, with the same
 *           folder, have had
 */
struct btrail_guest_host {
    const struct btrail_config *(*config)(void *opaque);
    struct btrail_symbol_files (*files)(void *opaque);
    bool (*admit)(void *opaque, struct btrail_guest *g, uint64_t memory,
                  GError **error);
    bool (*admit_dump)(void *opaque, struct btrail_guest *g, GError **error);
    bool (*ending)(void *opaque);
    void (*over)(void *opaque, const char *capture);
    void (*changed)(void *opaque);
    void (*idle)(void *opaque, struct btrail_guest *g);
    void (*past)(void *opaque, struct btrail_guest *g, const char *session,
                 JsonArray *sessions);
};

/**
 * struct btrail_guest_identity - as its device has told
 * @name:   taken
 * @vcpus:  how many there can be
 * @folder: for its traces; taken
 * @cpu:    that all guests have
 */
struct btrail_guest_identity {
    char *name;
    unsigned vcpus;
    struct btrail_folder *folder;
    struct btrail_cpu_pool *cpu;
};

/* @identity is emptied. */
struct btrail_guest *btrail_guest_new(struct btrail_guest_identity *identity,
                                      const struct btrail_guest_host *host,
                                      void *opaque);
void btrail_guest_free(struct btrail_guest *g);

/* It is idle, and has been started anew with so many. */
void btrail_guest_set_vcpus(struct btrail_guest *g, unsigned vcpus);

const char *btrail_guest_name(const struct btrail_guest *g);
const struct btrail_folder *btrail_guest_folder(const struct btrail_guest *g);
/* NULL if there is none */
const char *btrail_guest_capture(const struct btrail_guest *g);
/* No session that is not done, and no connection */
bool btrail_guest_is_idle(const struct btrail_guest *g);

/*
 * Its control connection, which stays the host's, has come, or NULL: it is
 * lost.  @capture is the name of the session that is active in the device, or
 * NULL.
 */
void btrail_guest_connect(struct btrail_guest *g, struct btrail_control *c,
                          const char *capture);

/*
 * What a process before has left of its capture, to be gone on with (a
 * reference is taken); after
 * btrail_guest_connect().
 */
void btrail_guest_restore(struct btrail_guest *g,
                          struct btrail_state_capture *state);

/* From its control connection */
void btrail_guest_command(struct btrail_guest *g, gint64 id,
                          JsonObject *command);
void btrail_guest_event(struct btrail_guest *g, const char *event,
                        JsonObject *data);

/* Does it wait for a data connection?  Give it one; @sock is taken then. */
bool btrail_guest_awaits_data(const struct btrail_guest *g);
void btrail_guest_data(struct btrail_guest *g, int sock);

/*
 * Leave sessions and the capture to the next process, without ending them; what
 * cannot go on ends because of @why.  What that process has to know, or NULL.
 */
struct btrail_state_capture *btrail_guest_detach(struct btrail_guest *g,
                                                const char *why);

/* End all sessions. */
void btrail_guest_end(struct btrail_guest *g, const char *why);

/*
 * End one, that which has written the most; false if none is writing.
 */
bool btrail_guest_end_largest(struct btrail_guest *g, const char *why);
/* Bytes that this one has written, 0 if there is none */
uint64_t btrail_guest_largest(struct btrail_guest *g);

/* How much it takes; @usage->disk is left as it is. */
void btrail_guest_usage(struct btrail_guest *g, struct btrail_usage *usage);

/* What the next process has to know; NULL if there is no capture. */
struct btrail_state_capture *btrail_guest_save(struct btrail_guest *g);

/* Add the status of its sessions that are done. */
void btrail_guest_past(struct btrail_guest *g, const char *session,
                       JsonArray *sessions);

/*
 * What a process before has left of a capture that is over: have its traces
 * completed, by threads.
 */
void btrail_guest_complete(const struct btrail_folder *folder,
                           const struct btrail_state_capture *state);

#endif /* BTRAIL_GUEST_H */
