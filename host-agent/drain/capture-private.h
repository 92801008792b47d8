/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the files of a capture share
 *
 * capture.c drains and has sessions come and go; capture-names.c hands them
 * what is found in the guest's memory.
 */

#ifndef BTRAIL_CAPTURE_PRIVATE_H
#define BTRAIL_CAPTURE_PRIVATE_H

#include "drain/agent-code.h"
#include "drain/capture.h"
#include "guest-linux/entries.h"
#include "drain/scanner.h"
#include "drain/connection.h"
#include "guest-linux/user-snapshot.h"

struct vcpu {
    uint64_t tail;
    bool known;
    bool begun;                 /* a slab was drained that was not empty */
    bool ended;                 /* its END event was drained */
    uint64_t index;             /* of the next record */
};

/* What another thread wants to be done with a session */
struct wish {
    struct btrail_session *session;
    bool remove;
};

struct btrail_capture {
    struct btrail_capture_options options;
    GThread *thread;
    int wake_fd;
    int cancel_fd;
    int done_fd;
    int stop;                   /* atomic */
    int leave;                  /* atomic */
    struct btrail_capture_progress progress; /* atomic each */

    GMutex lock;
    GQueue wishes;              /* of struct wish; under the lock */
    bool closed;                /* no more wishes; under the lock */
    int wished;                 /* atomic: there are some */

    /*
     * Changed by the thread alone, with the lock; so that it can go through
     * them without, and others with it.
     */
    GPtrArray *sessions;
    GPtrArray *late;            /* to be told again what was told; lock */
    GPtrArray *telling;         /* being told; lock */
    uint8_t key[BTRAIL_USER_SNAPSHOT_KEY];
    struct btrail_entries *entries;

    /* What follows belongs to the thread. */
    struct btrail_connection *connection;
    struct btrail_scanner *scanner;
    bool new_code;              /* in a mapping that no snapshot has seen */
    struct btrail_scanner_result names;
    bool names_known;           /* whether there can be some */
    uint64_t names_deadline;    /* to be told that */
    struct btrail_agent_code *code;
    struct vcpu *vcpus;
    struct btrail_event *events;
    bool ready;                 /* it has been told to begin */
    bool drained;               /* the first slab has been */
    bool in_step;               /* code has to be, for some session */
    bool resend_due;            /* code is to be told again */
    bool ended;                 /* the producer said END */
    bool left;                  /* it goes on, for somebody else */
    bool stop_sent;
    uint64_t stop_deadline;
    uint64_t last_tick, next_tick;
    uint64_t cpu_told;
    uint64_t cpu_charged;       /* to the limit; 0 if it did not hold */
    uint64_t drained_at;        /* when something was drained, if it holds */
    unsigned next_vcpu;         /* whose turn it is to be drained a little */
    bool flush_due;
    uint16_t reason;
    GError *error;
};

static inline struct btrail_session *
session_at(const struct btrail_capture *c, unsigned i)
{
    return g_ptr_array_index(c->sessions, i);
}

/*
 * Names: by the capture's thread
 */

/* Why no names are looked for, once that is known; NULL if they are. */
const char *capture_no_names(const struct btrail_capture *c);

/* It is known whether there can be some: sessions are told. */
void capture_names_known(struct btrail_capture *c);

/* The producer has said whether it shares the guest's memory. */
void capture_take_memory(struct btrail_capture *c);

#endif /* BTRAIL_CAPTURE_PRIVATE_H */
