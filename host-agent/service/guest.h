/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest: who it is, its device's connection, its capture and its sessions
 *
 * All functions run in the thread of the default main context.
 */

#ifndef BTRAIL_GUEST_H
#define BTRAIL_GUEST_H

#include "service/guest-capture.h"
#include "service/guest-dump.h"

/**
 * struct btrail_guest
 * @host:    that it belongs to; NULL after btrail_guest_free()
 * @refs:    of the host, and of threads that work for a command
 * @vcpus:   how many it can have
 * @folder:  of its traces
 * @members: sessions that are not done; of struct guest_member
 * @done:    the last sessions that are; of struct btrail_service_session
 * @dumps:   see guest-dump.h
 */
struct btrail_guest {
    struct btrail_host *host;
    unsigned refs;
    unsigned vcpus;
    struct btrail_folder *folder;
    struct guest_link link;
    struct guest_capture capture;
    GPtrArray *members;
    GQueue done;
    GQueue dumps;
};

/* Add a guest to those of @host; @name and @folder are taken. */
struct btrail_guest *btrail_guest_new(struct btrail_host *host, char *name,
                                      unsigned vcpus,
                                      struct btrail_folder *folder);

void btrail_guest_unref(struct btrail_guest *g);

/* Drop the reference of the host; the guest has no sessions. */
void btrail_guest_free(struct btrail_guest *g);

/* The guest has neither a session that is not done nor a capture. */
bool btrail_guest_is_untraced(const struct btrail_guest *g);

/* The guest has neither a session that is not done nor a connection. */
bool btrail_guest_is_idle(const struct btrail_guest *g);

/*
 * The device has connected; the caller keeps owning @c.  With NULL, the
 * connection is lost.  @capture names the device's active capture, or is NULL.
 */
void btrail_guest_connect(struct btrail_guest *g, struct btrail_control *c,
                          const char *capture);

/* An event that the device reports; @data may be NULL. */
void btrail_guest_event(struct btrail_guest *g, const char *event,
                        JsonObject *data);

/* A command from the guest's control connection, to be replied to with @id */
void btrail_guest_command(struct btrail_guest *g, gint64 id,
                          JsonObject *command);

/*
 * After btrail_guest_connect(): continue a capture of another process that the
 * device still has, and that @state describes (see state.h).
 */
void btrail_guest_restore(struct btrail_guest *g, JsonObject *state);

/*
 * Make a session that waits to be put into the capture; @c is taken.  To
 * continue a session of another process, @state describes it and @left is what
 * is left of its trace; @left is taken.
 */
struct guest_member *
btrail_guest_add_session(struct btrail_guest *g, struct btrail_command *c,
                         JsonObject *state, struct btrail_leftover *left,
                         GError **error);

/* End a session because of @why; NULL if a client has requested it. */
void btrail_guest_end_session(struct btrail_guest *g, struct guest_member *m,
                              const char *why);

/* End all sessions. */
void btrail_guest_end(struct btrail_guest *g, const char *why);

/*
 * Hand the capture and its sessions over to the next process, without ending
 * them.  Sessions that cannot continue end because of @why.  Returns what the
 * next process must know, or NULL.
 */
JsonObject *btrail_guest_detach(struct btrail_guest *g, const char *why);

#endif /* BTRAIL_GUEST_H */
