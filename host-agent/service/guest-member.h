/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A session as a member of its guest: its way into the capture, and the
 * clients that wait for its start or end
 *
 * A guest lists the sessions that are not done.  The trace of a session and
 * what it records are in service-session.h.
 */

#ifndef BTRAIL_GUEST_MEMBER_H
#define BTRAIL_GUEST_MEMBER_H

#include "service/guest-link.h"
#include "service/service-session.h"

/*
 * Seconds until a client that waits for an end or a dump learns how far that
 * is, and has to ask again: nobody else can use QEMU's monitor while it waits.
 */
#define GUEST_REPLY_S   2

/**
 * struct guest_member
 * @link, @folder: of the guest
 * @session:   NULL until the owner of the member has made it
 * @queued:    it waits to be put into the capture
 * @announced: the client that started it knows that it runs
 * @held:      it is in the capture, and is announced when it is ready
 * @start:     the client that started it
 * @stops:     clients that stop it; of struct guest_client
 */
struct guest_member {
    struct guest_link *link;
    const struct folder *folder;
    struct service_session *session;
    bool queued;
    bool announced;
    bool held;
    struct guest_client start;
    GArray *stops;
    guint reply_source;
};

static inline const char *guest_member_name(const struct guest_member *m)
{
    return m->session->command->session;
}

static inline bool guest_member_is_active(const struct guest_member *m)
{
    return m->session->state == SERVICE_SESSION_ACTIVE;
}

static inline struct guest_member *guest_member_at(GPtrArray *members,
                                                   unsigned i)
{
    return g_ptr_array_index(members, i);
}

struct guest_member *guest_member_new(struct guest_link *link,
                                      const struct folder *folder);
void guest_member_free(struct guest_member *m);

/* The member whose session has this name, or NULL */
struct guest_member *guest_member_find(GPtrArray *members, const char *name);

/* Tells the client that started the session, which is ready, that it runs. */
void guest_member_announce(struct guest_member *m);

/* The command @id waits for the end, for at most GUEST_REPLY_S. */
void guest_member_add_stop(struct guest_member *m, gint64 id);

/* Answers all clients that wait: the session is done, and has this status. */
void guest_member_done(struct guest_member *m, JsonObject *status,
                       const char *why);

#endif /* BTRAIL_GUEST_MEMBER_H */
