/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the files of a guest share
 *
 * guest.c has its sessions and what the host asks, guest-capture.c the capture
 * that has what they want, guest-command.c the commands of clients, and
 * guest-restore.c what another process has begun.
 */

#ifndef BTRAIL_GUEST_PRIVATE_H
#define BTRAIL_GUEST_PRIVATE_H

#include "drain/capture.h"
#include "service/service-session.h"
#include "service/guest.h"
#include "service/wanted.h"

struct guest_session;

struct btrail_guest {
    char *name;
    unsigned vcpus;
    struct btrail_folder *folder;
    struct btrail_cpu_limit *cpu;
    const struct btrail_guest_host *host;
    void *opaque;
    unsigned refs;
    bool freed;

    struct btrail_control *control;
    unsigned connections;       /* so far: replies go to the one that asked */
    bool busy;                  /* something is executed */

    char *capture_name;         /* of what the device was told to capture */
    struct btrail_capture *capture;
    guint capture_source;
    bool awaiting;              /* a data connection */
    bool attaching;             /* it is for a capture that goes on */
    bool stopping;              /* the capture */
    bool leaving;               /* the capture, to another process */
    struct btrail_wanted *wanted;       /* as the device was told */
    char *given_up;             /* why the device has given the agent up */
    struct guest_session *starting; /* that the capture is started for */

    GPtrArray *sessions;        /* of struct guest_session: not done */
    GQueue done;                /* of struct btrail_service_session */
    GQueue dumps;               /* of struct guest_dump: guest-command.c's */
};

/* Who waits for what a session comes to */
struct waiting {
    unsigned connection;
    gint64 id;
};

struct guest_session {
    struct btrail_guest *g;
    struct btrail_service_session *s;
    bool queued;                /* it waits to be put into the capture */
    bool announced;
    bool held;                  /* to be announced when it is ready */
    struct waiting start;       /* id is -1 if nobody waits */
    GArray *stops;              /* of struct waiting */
    guint reply_source;
};

static inline const struct btrail_command *
command_of(const struct guest_session *m)
{
    return btrail_service_session_command(m->s);
}

static inline const char *name_of(const struct guest_session *m)
{
    return command_of(m)->session;
}

static inline bool is_active(const struct guest_session *m)
{
    return btrail_service_session_state(m->s) == BTRAIL_SERVICE_SESSION_ACTIVE;
}

static inline struct guest_session *session_at(struct btrail_guest *g,
                                               unsigned i)
{
    return g_ptr_array_index(g->sessions, i);
}

/*
 * Sessions
 */

struct guest_session *guest_find_session(struct btrail_guest *g,
                                         const char *name);

/*
 * A session that waits to be put into the capture; @c is taken.  @state: of
 * one that goes on, with @left, which is taken.
 */
struct guest_session *
guest_new_session(struct btrail_guest *g, struct btrail_command *c,
                  const struct btrail_state_session *state,
                  struct btrail_leftover *left, GError **error);

/* @why: NULL if somebody has asked for it */
void guest_end_session(struct guest_session *m, const char *why);

/* Have sessions know how long the capture has paused vCPUs. */
void guest_update_paused(struct btrail_guest *g);

/* Bytes that a capture for so many sessions takes, with them */
uint64_t guest_memory(struct btrail_guest *g, unsigned sessions);

/* Tell the host if there is nothing to do any more. */
void guest_check_idle(struct btrail_guest *g);

/* The guest is freed with its last reference, which @g->refs counts. */
void guest_unref(struct btrail_guest *g);

/*
 * The capture
 */

/* Bring it nearer to what sessions want, a step at a time. */
void guest_advance(struct btrail_guest *g);

/* An answer has come to what was executed. */
void guest_settled(struct btrail_guest *g);

/*
 * What all that are, or are about to be, in the capture want, and @next, if
 * it is not NULL; NULL for nothing
 */
struct btrail_wanted *guest_wanted_now(struct btrail_guest *g,
                                       const struct guest_session *next);

/* Whoever has started it learns that it has begun. */
void guest_announce(struct guest_session *m);

/* All sessions that are in it end; so do, if @queued, those that wait. */
void guest_end_all(struct btrail_guest *g, const char *why, bool queued);

/* Nothing happens if there is none. */
void guest_stop_capture(struct btrail_guest *g);

/* It goes on for the next process. */
void guest_detach_capture(struct btrail_guest *g);

/* Nothing is known of one any more, in the device either. */
void guest_forget_capture(struct btrail_guest *g);

/* What was begun has failed: it is not to go on for nobody. */
void guest_drop_capture(struct btrail_guest *g);

/* Have the device stop one of this name that no session is in. */
void guest_stop_orphan(struct btrail_guest *g, const char *capture);

/* What "status" shows of it */
JsonObject *guest_capture_status(struct btrail_guest *g);

/*
 * Commands
 */

/* @result is taken. */
void guest_reply(struct btrail_guest *g, struct waiting w, JsonObject *result);
void guest_refuse(struct btrail_guest *g, struct waiting w, const char *why);

/* @id is -1 if nobody waits for it. */
bool guest_dump(struct guest_session *m, gint64 id, const char *file,
                enum btrail_service_session_why why, GError **error);

/* None is being written. */
void guest_forget_dumps(struct btrail_guest *g);

#endif /* BTRAIL_GUEST_PRIVATE_H */
