/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A session of a guest: what a client has requested, its files, and its state
 *
 * A session is made, put into a capture, and ends: by itself, with the
 * capture, or because its owner says so.  Threads do everything that takes
 * long; they report to the thread of the default main context.  Each session
 * has one struct session in the drain, which gets its records.
 */

#ifndef BTRAIL_SERVICE_SESSION_H
#define BTRAIL_SERVICE_SESSION_H

#include <json-glib/json-glib.h>

#include "drain/capture.h"
#include "service/command.h"
#include "service/host.h"
#include "service/leftover.h"

/**
 * enum service_session_state
 *
 * @SERVICE_SESSION_STARTING:  it is not in a capture yet
 * @SERVICE_SESSION_ACTIVE:    it is in a capture
 * @SERVICE_SESSION_ENDING:    the last records are being written
 * @SERVICE_SESSION_OVER:      they are written; it may still be dumped
 * @SERVICE_SESSION_FINISHING: a thread completes or removes its files
 * @SERVICE_SESSION_ENDED:     its trace is complete
 * @SERVICE_SESSION_FAILED:    its trace is not; "why" in its status
 *                                    says why
 */
enum service_session_state {
    SERVICE_SESSION_STARTING,
    SERVICE_SESSION_ACTIVE,
    SERVICE_SESSION_ENDING,
    SERVICE_SESSION_OVER,
    SERVICE_SESSION_FINISHING,
    SERVICE_SESSION_ENDED,
    SERVICE_SESSION_FAILED,
};

/**
 * enum service_session_fate - what becomes of its trace in the end
 *
 * @SERVICE_SESSION_COMPLETED: it is completed
 * @SERVICE_SESSION_DETACHED:  the next process continues it
 * @SERVICE_SESSION_UNNAMED:   it is removed, since there are no names
 *                                    for it
 * @SERVICE_SESSION_SPOILT:    it is completed, and the session fails for
 *                                    a reason that its owner has given
 * @SERVICE_SESSION_ABANDONED: it is removed, likewise
 */
enum service_session_fate {
    SERVICE_SESSION_COMPLETED,
    SERVICE_SESSION_DETACHED,
    SERVICE_SESSION_UNNAMED,
    SERVICE_SESSION_SPOILT,
    SERVICE_SESSION_ABANDONED,
};

struct service_session;

/**
 * enum service_session_event - what a session reports to its owner
 *
 * @SERVICE_SESSION_READY:     it has begun, and it is known that it can
 *                                    do what was requested.  If it turns out
 *                                    that it cannot, it is done without a trace
 * @SERVICE_SESSION_CHANGED:   service_session_save() returns
 *                                    something else from now on
 * @SERVICE_SESSION_TIME_OVER: it is to end; reported again until it does
 * @SERVICE_SESSION_DRAINED:   it has got all that it gets of its capture: the
 *                             last moment for service_session_waited()
 * @SERVICE_SESSION_DONE:      it has ended or failed
 */
enum service_session_event {
    SERVICE_SESSION_READY,
    SERVICE_SESSION_CHANGED,
    SERVICE_SESSION_TIME_OVER,
    SERVICE_SESSION_DRAINED,
    SERVICE_SESSION_DONE,
};

typedef void
service_session_event_fn(void *opaque, struct service_session *s,
                         enum service_session_event event);

/**
 * struct service_session_options
 * @host:    of the guest
 * @command: "start", with a name and a file; taken
 * @folder:  of the guest; must live as long as the session
 * @guest:   its name
 * @event:   called with @opaque when something happens
 */
struct service_session_options {
    struct host *host;
    struct service_command *command;
    const struct folder *folder;
    const char *guest;
    service_session_event_fn *event;
    void *opaque;
};

/**
 * struct service_session
 *
 * Its owner may read @command, @state and @fate; the rest belongs to
 * service-session-life.c, which makes and ends it and alone changes these, to
 * -state.c, which describes it, and to -dump.c.
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
 * @id:        of its state, see state.h
 * @whole:     session_whole(), also once @session is gone
 * @keeping:   session_keeping(), likewise
 * @off:       session_triggers_off(), likewise
 * @started, @ended: by g_get_real_time()
 * @past:      progress of the processes before, as far as the trace has it
 * @paused_base, @limited_base: of the capture, when they were first known, as
 *             @waited_known says
 * @resumed:   another process has started it; true from the first @state to the
 *             last
 * @ready:     SERVICE_SESSION_READY is reported: while it is active or,
 *             of one that ends soon, later
 * @found:     triggers whose places were found
 * @not_found: what was requested and is not in the guest, as far as it is
 *             known; NULL if that is nothing
 * @dumps:     threads that dump @session
 * @dumping:   files that they write
 */
struct service_session {
    struct service_session_options options;
    unsigned refs;
    struct service_command *command;
    enum service_session_state state;
    enum service_session_fate fate;
    struct session *session;
    int folder;
    char *path;
    char *part;
    uint32_t first_part;
    char *ring;
    int ring_lock;
    char *id;
    char *why;
    bool whole;
    bool keeping;
    uint64_t off;
    gint64 started, ended;
    struct session_progress progress, past;
    uint64_t paused_ns, paused_base;
    uint64_t limited_ns, limited_base;
    bool waited_known;
    guint done_source, fired_source, duration_source;
    bool resumed;
    bool ready;
    bool *found;
    JsonArray *not_found;
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
struct service_session *
service_session_new(const struct service_session_options *options,
                    JsonObject *state, struct leftover *left,
                    GError **error);

/* The session becomes active; the caller puts the result into the capture. */
struct session *
service_session_begin(struct service_session *s);

/*
 * End the session because of @why; NULL if a client has requested it.  @c is
 * the capture to remove it from, NULL if the capture ends anyway.  A session
 * that was never active is done without a trace.
 */
void service_session_end(struct service_session *s,
                         struct capture *c, const char *why);

/* The same if the capture could not start: the session leaves no trace. */
void service_session_abandon(struct service_session *s,
                             const char *why);

/*
 * The next process continues the session and its capture: write what it has,
 * without an end, and be done.  Returns false if it is not active.
 */
bool service_session_detach(struct service_session *s);

/* Something else has failed: the session counts as failed when it is done. */
void service_session_spoil(struct service_session *s,
                           const char *why);

/* Free a session that is done, or that was never active: that removes it. */
void service_session_free(struct service_session *s);

/* The most memory that a session uses, roughly, in bytes */
uint64_t service_session_memory(unsigned vcpus);

/* Reports SERVICE_SESSION_READY once more if it has been reported. */
void service_session_report_ready(struct service_session *s);

/* Bytes that the session has written so far */
uint64_t service_session_bytes(struct service_session *s);

/* What the command "status" shows of the session */
JsonObject *service_session_status(struct service_session *s);

/* Note how long the guest has waited for its capture so far. */
void service_session_waited(struct service_session *s,
                            const struct capture_progress *p);

/* What the next process must know of the session, see state.h; NULL if done */
JsonObject *service_session_save(struct service_session *s);

/**
 * enum service_session_why - why a session is dumped
 *
 * @SERVICE_SESSION_ASKED:   a client has requested it
 * @SERVICE_SESSION_TRIGGER: a trigger has acted
 * @SERVICE_SESSION_PANIC:   the guest has panicked
 */
enum service_session_why {
    SERVICE_SESSION_ASKED,
    SERVICE_SESSION_TRIGGER,
    SERVICE_SESSION_PANIC,
};

/* @result has "file", "records" and "bytes"; it is NULL after an @error. */
typedef void service_session_dumped(void *opaque, JsonObject *result,
                                    const GError *error);

/*
 * Dump what a session of mode "last" has, into @file or, if that is NULL, into
 * a file named by @why; @words: what its trace says of that, or NULL.  Only one
 * dump runs at a time, except that one for a panic may follow it.  @name gets
 * the file's name, to be freed, unless it is NULL.  @dumped is called later,
 * but not if this function fails.
 */
bool service_session_dump(struct service_session *s,
                          const char *file,
                          enum service_session_why why,
                          const char *words, char **name,
                          service_session_dumped *dumped,
                          void *opaque, GError **error);

/*
 * For the three files of the session
 */

void service_session_unref(struct service_session *s);

void service_session_report(struct service_session *s,
                            enum service_session_event event);

/* Finishes the session once it is over and no thread uses it any more. */
void service_session_finish(struct service_session *s);

/* Updates @progress, @keeping, @whole and @not_found from the drain. */
void service_session_update(struct service_session *s);

#endif /* BTRAIL_SERVICE_SESSION_H */
