/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The sessions of a capture, and the requests to add and remove some
 *
 * Any thread may make a request; the capture's thread fulfils it.
 */

#ifndef BTRAIL_CAPTURE_MEMBERS_H
#define BTRAIL_CAPTURE_MEMBERS_H

#include "drain/session-feed.h"

/* Scanners: that of the guest, and those of its nested guests */
#define CAPTURE_SOURCES     BTRAIL_TASKS_MAX

/* A request to add a session to the capture, or to remove it */
struct capture_request {
    struct session *session;
    bool remove;
};

/**
 * struct capture_members
 * @lock:      of what follows
 * @sessions:  the members.  The capture's thread alone changes them, and does
 *             so with the lock; it reads them without, other threads with it
 * @late:      members that need what a source has found before they came
 * @resending: members to which that is sent at the moment
 * @requests:  struct capture_request
 * @closed:    no more requests are taken
 * @requested: there may be requests; atomic, for a test without the lock
 * @in_step:   a member needs code before the slab that executes it; of the
 *             capture's thread
 */
struct capture_members {
    GMutex lock;
    GPtrArray *sessions;
    GPtrArray *late[CAPTURE_SOURCES];
    GPtrArray *resending[CAPTURE_SOURCES];
    GQueue requests;
    bool closed;
    int requested;
    bool in_step;
};

void capture_members_init(struct capture_members *m);
void capture_members_clear(struct capture_members *m);

static inline struct session *
capture_member(const struct capture_members *m, unsigned i)
{
    return g_ptr_array_index(m->sessions, i);
}

void capture_members_add(struct capture_members *m, struct session *s);
void capture_members_remove(struct capture_members *m,
                            struct session *s);

/* Has what a source has found before sent to a member. */
void capture_members_add_late(struct capture_members *m, unsigned source,
                              struct session *s);

/* Makes a request; returns false if no more are taken.  Any thread */
bool capture_members_request(struct capture_members *m,
                             struct session *s, bool remove);

/* Returns the oldest request, which the caller frees with g_free(), or NULL. */
struct capture_request *capture_members_next(struct capture_members *m);

/* From here on no requests are taken. */
void capture_members_close(struct capture_members *m);

#endif /* BTRAIL_CAPTURE_MEMBERS_H */
