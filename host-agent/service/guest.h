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
 * struct guest
 * @host:    that it belongs to; NULL after guest_free()
 * @refs:    of the host, and of threads that work for a command
 * @vcpus:   how many it can have
 * @folder:  of its traces
 * @members: sessions that are not done; of struct guest_member
 * @done:    the last sessions that are; of struct service_session
 * @dumps:   see guest-dump.h
 */
struct guest {
    struct host *host;
    unsigned refs;
    unsigned vcpus;
    struct folder *folder;
    struct guest_link link;
    struct guest_capture capture;
    GPtrArray *members;
    GQueue done;
    GQueue dumps;
};

/* Add a guest to those of @host; @name and @folder are taken. */
struct guest *guest_new(struct host *host, char *name,
                        unsigned vcpus,
                        struct folder *folder);

void guest_unref(struct guest *g);

/* Drop the reference of the host; the guest has no sessions. */
void guest_free(struct guest *g);

/* The guest has neither a session that is not done nor a capture. */
bool guest_is_untraced(const struct guest *g);

/* The guest has neither a session that is not done nor a connection. */
bool guest_is_idle(const struct guest *g);

/*
 * The device has connected; the caller keeps owning @c.  With NULL, the
 * connection is lost.  @capture names the device's active capture, or is NULL.
 */
void guest_connect(struct guest *g, struct control *c,
                   const char *capture);

/* An event that the device reports; @data may be NULL. */
void guest_event(struct guest *g, const char *event,
                 JsonObject *data);

/*
 * Make a session that waits to be put into the capture; @c is taken.  To
 * continue a session of another process, @state describes it and @left is what
 * is left of its trace; @left is taken.
 */
struct guest_member *
guest_add_session(struct guest *g, struct service_command *c,
                  JsonObject *state, struct leftover *left,
                  GError **error);

/* End a session because of @why; NULL if a client has requested it. */
void guest_end_session(struct guest *g, struct guest_member *m,
                       const char *why);

/* End all sessions. */
void guest_end(struct guest *g, const char *why);

/*
 * Hand the capture and its sessions over to the next process, without ending
 * them.  Sessions that cannot continue end because of @why.  Returns what the
 * next process must know, or NULL.
 */
JsonObject *guest_detach(struct guest *g, const char *why);

/* Save what the next process must know of all guests. */
void guest_save_all(struct host *host);

#endif /* BTRAIL_GUEST_H */
