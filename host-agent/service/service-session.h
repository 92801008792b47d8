/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A session of a guest: what was asked for, its files, and how it goes
 *
 * It is made, put into a capture by the guest, and ends: by itself, when the
 * capture does, or because somebody says so.  What takes a while is done by
 * threads, which tell the default main context.
 */

#ifndef BTRAIL_SERVICE_SESSION_H
#define BTRAIL_SERVICE_SESSION_H

#include "drain/capture.h"
#include "service/command.h"
#include "service/leftover.h"

/**
 * enum btrail_service_session_state
 *
 * @BTRAIL_SERVICE_SESSION_STARTING: it is not in a capture yet
 * @BTRAIL_SERVICE_SESSION_ACTIVE:   it is
 * @BTRAIL_SERVICE_SESSION_ENDING:   what was recorded is being written
 * @BTRAIL_SERVICE_SESSION_ENDED:    its trace is complete
 * @BTRAIL_SERVICE_SESSION_FAILED:   its trace is not, @why says why
 */
enum btrail_service_session_state {
    BTRAIL_SERVICE_SESSION_STARTING,
    BTRAIL_SERVICE_SESSION_ACTIVE,
    BTRAIL_SERVICE_SESSION_ENDING,
    BTRAIL_SERVICE_SESSION_ENDED,
    BTRAIL_SERVICE_SESSION_FAILED,
};

struct btrail_service_session;

/**
 * struct btrail_service_session_owner - who has made it
 * @admit_dump: is there room for a dump?
 * @ready:    btrail_service_session_is_ready() is true now
 * @done:     it has ended or failed
 * @duration: its time is over
 * @changed:  what btrail_service_session_save() returns
 */
struct btrail_service_session_owner {
    bool (*admit_dump)(void *opaque, GError **error);
    void (*ready)(void *opaque, struct btrail_service_session *s);
    void (*done)(void *opaque, struct btrail_service_session *s);
    void (*duration)(void *opaque, struct btrail_service_session *s);
    void (*changed)(void *opaque, struct btrail_service_session *s);
};

/**
 * struct btrail_service_session_options
 * @command:  of "start", with a name and a file; taken
 * @folder:   of the guest; must live as long
 * @metadata: for the trace; a reference is taken, members are added
 * @ring:     the most bytes that mode "last" keeps
 * @files:    who knows files of the guest
 * @keeping:  a trigger that starts it has acted already
 * @owner, @opaque: who is told
 */
struct btrail_service_session_options {
    struct btrail_command *command;
    const struct btrail_folder *folder;
    JsonObject *metadata;
    uint64_t ring;
    struct btrail_symbol_files files;
    bool keeping;
    const struct btrail_service_session_owner *owner;
    void *opaque;
};

/* Make its files.  On failure nothing of them stays. */
struct btrail_service_session *
btrail_service_session_new(const struct btrail_service_session_options *options,
                         GError **error);

/*
 * Go on with a session: in another part of its trace, or with another ring.
 * @left is taken; NULL if nothing is left.  @s is what is known of it.
 */
struct btrail_service_session *
btrail_service_session_resume(const struct btrail_service_session_options *options,
                            const struct btrail_state_session *s,
                            struct btrail_leftover *left,
                            GError **error);

/* It is active: to be put into a capture, which is about to start or has. */
struct btrail_session *
btrail_service_session_begin(struct btrail_service_session *s);

/*
 * It is to end, because of @why (NULL: as asked for), in words.  @c is the
 * capture that it is to be removed from; NULL if that ends anyway.  Before it
 * was added: nothing of it stays, and done is told.
 */
void btrail_service_session_end(struct btrail_service_session *s,
                              struct btrail_capture *c, const char *why);

/* The same of one whose capture has not begun: nothing of it stays. */
void btrail_service_session_abandon(struct btrail_service_session *s,
                                  const char *why);

/*
 * It is left to the next process, as is its capture: what it has is written,
 * and it is done then, without an end.  False if it is not in a capture.
 */
bool btrail_service_session_detach(struct btrail_service_session *s);

/* A failure that is not its own: it has failed when it is done. */
void btrail_service_session_spoil(struct btrail_service_session *s,
                                const char *why);

/*
 * Remove it without a trace, of one that has never been added to a capture,
 * or forget it, of one that is done.  No thread works for it.
 */
void btrail_service_session_free(struct btrail_service_session *s);

enum btrail_service_session_state
btrail_service_session_state(const struct btrail_service_session *s);
const struct btrail_command *
btrail_service_session_command(const struct btrail_service_session *s);
bool btrail_service_session_is_left(const struct btrail_service_session *s);
bool btrail_service_session_is_done(const struct btrail_service_session *s);

/* Bytes of memory that it may take, about */
uint64_t btrail_service_session_memory(unsigned vcpus);

/*
 * It is known that it can do what it was asked for.  One that turns out not to
 * be able to is done, and nothing of it stays.
 */
bool btrail_service_session_is_ready(const struct btrail_service_session *s);

/* What it has written so far */
uint64_t btrail_service_session_bytes(struct btrail_service_session *s);

/* What "status" shows */
JsonObject *btrail_service_session_status(struct btrail_service_session *s);

/* What the guest has waited for its capture so far */
void btrail_service_session_waited(struct btrail_service_session *s,
                                 const struct btrail_capture_progress *p);

/* What is to be known of it by the next process; NULL if it is done. */
struct btrail_state_session *
btrail_service_session_save(struct btrail_service_session *s);

/**
 * enum btrail_service_session_why - why it is dumped
 *
 * @BTRAIL_SERVICE_SESSION_ASKED:   somebody has asked for it
 * @BTRAIL_SERVICE_SESSION_TRIGGER: a trigger has acted
 * @BTRAIL_SERVICE_SESSION_PANIC:   the guest has panicked
 */
enum btrail_service_session_why {
    BTRAIL_SERVICE_SESSION_ASKED,
    BTRAIL_SERVICE_SESSION_TRIGGER,
    BTRAIL_SERVICE_SESSION_PANIC,
};

/* @result has "file", "records" and "bytes"; NULL if @error. */
typedef void btrail_service_session_dumped(void *opaque, JsonObject *result,
                                         const GError *error);

/*
 * Dump what a session of mode "last" has, into @file or, if NULL, one named
 * by @why.  One at a time, but for a panic, which may come after what the one
 * that goes on has.  @place gets its name, to be freed; NULL if nobody wants
 * to know.  @dumped is called later, or not at all if this fails.
 */
bool btrail_service_session_dump(struct btrail_service_session *s,
                               const char *file,
                               enum btrail_service_session_why why,
                               char **place,
                               btrail_service_session_dumped *dumped,
                               void *opaque, GError **error);

#endif /* BTRAIL_SERVICE_SESSION_H */
