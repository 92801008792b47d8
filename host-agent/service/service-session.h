/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A session of a guest: what a client has requested, its files, and its state
 *
 * A session is made, put into a capture, and ends: by itself, with the
 * capture, or because its owner says so.  Threads do everything that takes
 * long; they report to the thread of the default main context.  Each session
 * has one struct btrail_session in the drain, which gets its records.
 */

#ifndef BTRAIL_SERVICE_SESSION_H
#define BTRAIL_SERVICE_SESSION_H

#include <json-glib/json-glib.h>

#include "drain/capture.h"
#include "service/command.h"
#include "service/host.h"
#include "service/leftover.h"

/**
 * enum btrail_service_session_state
 *
 * @BTRAIL_SERVICE_SESSION_STARTING: it is not in a capture yet
 * @BTRAIL_SERVICE_SESSION_ACTIVE:   it is in a capture
 * @BTRAIL_SERVICE_SESSION_ENDING:   the last records are being written
 * @BTRAIL_SERVICE_SESSION_ENDED:    its trace is complete
 * @BTRAIL_SERVICE_SESSION_FAILED:   its trace is not; "why" in its status
 *                                   says why
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
 * enum btrail_service_session_event - what a session reports to its owner
 *
 * @BTRAIL_SERVICE_SESSION_READY:     btrail_service_session_is_ready() returns
 *                                    true from now on
 * @BTRAIL_SERVICE_SESSION_CHANGED:   btrail_service_session_save() returns
 *                                    something else from now on
 * @BTRAIL_SERVICE_SESSION_TIME_OVER: it is to end; reported again until it does
 * @BTRAIL_SERVICE_SESSION_DONE:      it has ended or failed
 */
enum btrail_service_session_event {
    BTRAIL_SERVICE_SESSION_READY,
    BTRAIL_SERVICE_SESSION_CHANGED,
    BTRAIL_SERVICE_SESSION_TIME_OVER,
    BTRAIL_SERVICE_SESSION_DONE,
};

typedef void
btrail_service_session_event_fn(void *opaque, struct btrail_service_session *s,
                                enum btrail_service_session_event event);

/**
 * struct btrail_service_session_options
 * @host:    of the guest
 * @command: "start", with a name and a file; taken
 * @folder:  of the guest; must live as long as the session
 * @guest:   its name
 * @event:   called with @opaque when something happens
 */
struct btrail_service_session_options {
    struct btrail_host *host;
    struct btrail_command *command;
    const struct btrail_folder *folder;
    const char *guest;
    btrail_service_session_event_fn *event;
    void *opaque;
};

/**
 * struct btrail_service_session
 *
 * Its owner may read @command, @state and @detached; the rest belongs to
 * service-session-life.c, which makes and ends it, -state.c, which describes
 * it, and -dump.c.
 *
 * @command:   of @options
 * @session:   of the drain; NULL once this one is done
 * @folder:    that the trace is in
 * @path:      of the trace, through @folder
 * @part:      path of the part that is written; NULL in mode "last"
 * @first_part: number of the first part that this process writes
 * @ring:      name of the ring's folder in the guest's folder, or NULL
 * @ring_lock: of that folder, see ring-folder.h
 * @why:       the reason for the end, or NULL
 * @spoilt:    it counts as failed
 * @abandoned: nothing of it may stay
 * @detached:  the next process continues it
 * @added:     it is, or was, in a capture
 * @id:        of its state, see state.h
 * @whole:     btrail_session_whole()
 * @keeping:   btrail_session_keeping()
 * @started, @ended: by g_get_real_time()
 * @past:      progress of the processes before
 * @paused_base, @limited_base: of the capture, when it was added
 * @resumed:   another process has started it
 * @ready:     BTRAIL_SERVICE_SESSION_READY is reported
 * @found:     triggers whose places were found
 * @not_found: what was requested and is not in the guest, as far as it is
 *             known; NULL if that is nothing
 * @over:      the drain session needs no source any more
 * @finishing: a thread finishes @session
 * @dumps:     threads that dump @session
 * @dumping:   files that they write
 */
struct btrail_service_session {
    struct btrail_service_session_options options;
    unsigned refs;
    struct btrail_command *command;
    enum btrail_service_session_state state;
    struct btrail_session *session;
    int folder;
    char *path;
    char *part;
    uint32_t first_part;
    char *ring;
    int ring_lock;
    char *id;
    char *why;
    bool spoilt;
    bool abandoned;
    bool detached;
    bool added;
    bool whole;
    bool keeping;
    gint64 started, ended;
    struct btrail_session_progress progress, past;
    uint64_t paused_ns, paused_base;
    uint64_t limited_ns, limited_base;
    bool waited_known;
    guint done_source, fired_source, duration_source;
    bool resumed;
    bool ready;
    bool *found;
    JsonArray *not_found;
    bool over;
    bool finishing;
    unsigned dumps;
    GPtrArray *dumping;
};

/*
 * Make a session and its files.  On failure, none of them stays.  Unless @state
 * is NULL, it continues the session of another process that @state describes
 * (see state.h): in another part of its trace, or with another ring; the owner
 * has what was there before completed.  @left is taken; NULL if nothing of the
 * trace is left.
 */
struct btrail_service_session *
btrail_service_session_new(const struct btrail_service_session_options *options,
                           JsonObject *state, struct btrail_leftover *left,
                           GError **error);

/* The session becomes active; the caller puts the result into the capture. */
struct btrail_session *
btrail_service_session_begin(struct btrail_service_session *s);

/*
 * End the session because of @why; NULL if a client has requested it.  @c is
 * the capture to remove it from, NULL if the capture ends anyway.  A session
 * that was never active is done without a trace.
 */
void btrail_service_session_end(struct btrail_service_session *s,
                                struct btrail_capture *c, const char *why);

/* The same if the capture could not start: the session leaves no trace. */
void btrail_service_session_abandon(struct btrail_service_session *s,
                                    const char *why);

/*
 * The next process continues the session and its capture: write what it has,
 * without an end, and be done.  Returns false if it is not active.
 */
bool btrail_service_session_detach(struct btrail_service_session *s);

/* Something else has failed: the session counts as failed when it is done. */
void btrail_service_session_spoil(struct btrail_service_session *s,
                                  const char *why);

/* Free a session that is done, or that was never active: that removes it. */
void btrail_service_session_free(struct btrail_service_session *s);

/* The most memory that a session uses, roughly, in bytes */
uint64_t btrail_service_session_memory(unsigned vcpus);

/*
 * Has the session begun, and is it known that it can do what was requested?  If
 * it turns out that it cannot, it is done without a trace.
 */
bool btrail_service_session_is_ready(const struct btrail_service_session *s);

/* Bytes that the session has written so far */
uint64_t btrail_service_session_bytes(struct btrail_service_session *s);

/* What the command "status" shows of the session */
JsonObject *btrail_service_session_status(struct btrail_service_session *s);

/* Note how long the guest has waited for its capture so far. */
void btrail_service_session_waited(struct btrail_service_session *s,
                                   const struct btrail_capture_progress *p);

/* What the next process must know of the session, see state.h; NULL if done */
JsonObject *btrail_service_session_save(struct btrail_service_session *s);

/**
 * enum btrail_service_session_why - why a session is dumped
 *
 * @BTRAIL_SERVICE_SESSION_ASKED:   a client has requested it
 * @BTRAIL_SERVICE_SESSION_TRIGGER: a trigger has acted
 * @BTRAIL_SERVICE_SESSION_PANIC:   the guest has panicked
 */
enum btrail_service_session_why {
    BTRAIL_SERVICE_SESSION_ASKED,
    BTRAIL_SERVICE_SESSION_TRIGGER,
    BTRAIL_SERVICE_SESSION_PANIC,
};

/* @result has "file", "records" and "bytes"; it is NULL after an @error. */
typedef void btrail_service_session_dumped(void *opaque, JsonObject *result,
                                           const GError *error);

/*
 * Dump what a session of mode "last" has, into @file or, if that is NULL, into
 * a file named by @why.  Only one dump runs at a time, except that one for a
 * panic may follow it.  @name gets the file's name, to be freed, unless it is
 * NULL.  @dumped is called later, but not if this function fails.
 */
bool btrail_service_session_dump(struct btrail_service_session *s,
                                 const char *file,
                                 enum btrail_service_session_why why,
                                 char **name,
                                 btrail_service_session_dumped *dumped,
                                 void *opaque, GError **error);

/*
 * For the three files of the session
 */

void service_session_unref(struct btrail_service_session *s);

void service_session_report(struct btrail_service_session *s,
                            enum btrail_service_session_event event);

/* Finishes the session once it is over and no thread uses it any more. */
void service_session_finish(struct btrail_service_session *s);

/* Updates @progress, @keeping, @whole and @not_found from the drain. */
void service_session_update(struct btrail_service_session *s);

#endif /* BTRAIL_SERVICE_SESSION_H */
