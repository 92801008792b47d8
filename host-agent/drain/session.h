/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A session: one consumer's part of a capture, in files of its own
 *
 * Its owner makes it, adds it to a capture (capture.h), and finishes it.  The
 * capture's thread hands it slabs (session-feed.h), which it filters and
 * encodes at once; another thread of its own compresses and writes.
 */

#ifndef BTRAIL_SESSION_H
#define BTRAIL_SESSION_H

#include <json-glib/json-glib.h>

#include "backtrail/trace.h"
#include "drain/part-ring.h"
#include "drain/session-filter.h"
#include "drain/trigger.h"
#include "lib/agent/store.h"
#include "util/agent-error.h"
#include "util/session-words.h"

struct session;

/**
 * struct session_settings
 * @store:    with mode continuous: an empty file; the session owns it
 * @metadata: for the trace's description.  The facts of the capture are added
 *            ("session" only if it is missing).  The session has a reference of
 *            its own, and adds to it.
 * @mode:     enum session_mode
 * @folder:   with mode last: a folder that exists, is empty, and is for the
 *            session only.  The session deletes its files at the end, unless
 *            session_keep_ring() was called
 * @limit:    with mode last
 * @filter:   what it wants; copied
 * @triggers: @n_triggers of them; copied
 * @files:    finds files of the guest, for triggers
 * @drop:     when its output lags behind, lose its records (GAP events say how
 *            many) and do not have the capture and all others wait for it
 * @resumes:  the session continues a trace.  The store is made with the id and
 *            the next part of that trace, and begin BTRAIL_GAP_ELSEWHERE.  False
 *            if the trace begins; also for a session with
 *            session_whole() on an attached capture, which continues by
 *            itself
 * @resume:   with @resumes: resume[i] is the index of the next record of vCPU i,
 *            and that is 0 from @n_resume on.  A GAP event, AGENT_LOST, of an
 *            unknown number stands for the records that are missing.  Copied
 * @keeping:  a trigger that starts it has acted already, in another process
 * @off:      triggers that have, and are off, a bit for each
 * @observer: with mode continuous: sees what is kept, from the capture's
 *            thread, until the session is finished; or NULL
 */
struct session_settings {
    struct btrail_store *store;
    JsonObject *metadata;
    enum session_mode mode;
    const char *folder;
    struct session_limit limit;
    struct session_filter filter;
    const struct trigger *triggers;
    unsigned n_triggers;
    struct symbol_files files;
    bool drop;
    bool resumes;
    const uint64_t *resume;
    unsigned n_resume;
    bool keeping;
    uint64_t off;
    const struct btrail_stream_observer *observer;
};

/**
 * struct session_progress - so far
 * @records:  kept; at the end, those in the file
 * @filtered: that it did not want, of vCPUs that it wants
 * @bytes:    written
 * @record_bytes: those of them that chunks of records have
 * @lost:     its records that the producer or the session has lost, as far as
 *            it is known that it would have wanted them
 * @cpu_ns:   used for it alone: filter and encoder, compressing and writing
 * @begun:    it is in the capture, and the producer has said HELLO
 */
struct session_progress {
    uint64_t records;
    uint64_t filtered;
    uint64_t bytes;
    uint64_t record_bytes;
    uint64_t lost;
    uint64_t cpu_ns;
    bool begun;
};

/**
 * struct session_result - how it ended
 * @reason:      enum btrail_end_reason, or 0 after capture_detach()
 * @unexplained: records missing without a GAP event of the producer
 * @no_names:    why there are no names although they were requested, or NULL
 * @error:       NULL if all went well: its own (OUTPUT), or the capture's
 */
struct session_result {
    uint16_t reason;
    uint64_t unexplained;
    struct session_progress progress;
    char *no_names;
    GError *error;
};

/**
 * session_new - make a session
 *
 * Errors: OUTPUT (the ring cannot be made).  The store is then closed.
 */
struct session *
session_new(const struct session_settings *options,
            GError **error);

/*
 * Readable once the session has ended and its file is complete: it was
 * removed, the capture has ended, its output has failed, or a trigger has ended
 * it.
 */
int session_done_fd(const struct session *s);

/* Any thread */
void session_progress(struct session *s,
                      struct session_progress *progress);

/*
 * Do its records have the capture's own numbers?  They do if it has no filter
 * and was added before the first record.  All other sessions number their
 * records from 0.  Known once progress.begun is set; any thread
 */
bool session_whole(const struct session *s);

/* Are records kept?  Not while it waits for a trigger to start; any thread */
bool session_keeping(const struct session *s);

/*
 * At how many places a trigger acts, 0 if its symbol has not been found, and
 * whether there are more that it ignores; any thread
 */
unsigned session_places(const struct session *s,
                        unsigned trigger);
/* Those that are off, a bit for each; one is on again.  Any thread */
uint64_t session_triggers_off(const struct session *s);
void session_set_trigger_on(struct session *s, unsigned trigger);

/* triggers_ends(), triggers_left_out() */
unsigned session_ends(const struct session *s, unsigned trigger);
uint64_t session_calls_left_out(const struct session *s, unsigned trigger);
bool session_places_capped(const struct session *s, unsigned trigger);

/*
 * Has number @process of options.filter.processes been found in the guest's
 * memory, at some time?  Any thread
 */
bool session_has_found(const struct session *s,
                       unsigned process);

/**
 * enum session_names - does the session have the names, and the code, that it
 * needs?
 *
 * @SESSION_NAMES_UNKNOWN: the producer has not said so yet
 * @SESSION_NAMES_FINE:    the guest is scanned, or it needs none
 * @SESSION_NAMES_MISSING: it is over, with an error that says why
 */
enum session_names {
    SESSION_NAMES_UNKNOWN,
    SESSION_NAMES_FINE,
    SESSION_NAMES_MISSING,
};

/* Any thread */
enum session_names
session_has_names(const struct session *s);

/**
 * session_fired_fd - readable when the session has begun, a trigger has
 *                           acted or has got its first place, or it is known
 *                           whether the session has the names that it needs
 * session_take_fired - what a trigger has acted for, with its number in
 *                             options.triggers; false if there are no more.
 *                             Any thread
 * session_release_ring - there will be no dump
 *
 * From when a trigger to dump acts, the ring deletes nothing until
 * session_dump() has opened its files, or session_release_ring() is called: so
 * the dump has what was before.
 */
int session_fired_fd(const struct session *s);
bool session_take_fired(struct session *s, struct trigger_hit *hit);
void session_release_ring(struct session *s);

/**
 * struct session_dump - what was dumped
 * @why:     in words, for the trace; NULL or set before
 * @records: in the trace
 * @bytes:   of the trace
 */
struct session_dump {
    const char *why;
    uint64_t records;
    uint64_t bytes;
};

/**
 * session_dump - make a trace of what a ring has
 * @s:    of mode last, not finished.  The ring exists until
 *        session_finish(), so it can be dumped after its end, too
 * @path: the file to write, which must not exist
 *
 * The trace has what the ring had at the time of the call, and what came until
 * that was written, some 100 ms.  The session continues meanwhile.  Waits for
 * disks.  Any thread; several at once take turns.  On failure the file is
 * removed.
 *
 * Errors: OUTPUT.
 */
bool session_dump(struct session *s, const char *path,
                  struct session_dump *dump, GError **error);

/*
 * With mode last: when the session is finished, the ring's files stay in
 * options.folder and belong to the caller.
 */
void session_keep_ring(struct session *s);

/*
 * Waits until the session is done, and frees it.  If it was never added to a
 * capture, its file is closed, empty.  The caller frees @result's error and
 * no_names.
 */
void session_finish(struct session *s,
                    struct session_result *result);

#endif /* BTRAIL_SESSION_H */
