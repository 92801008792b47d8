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

#include "util/agent-error.h"
#include "backtrail/trace.h"
#include "drain/ring.h"
#include "drain/session-filter.h"
#include "lib/internal/store.h"
#include "drain/trigger.h"

struct btrail_session;

/**
 * enum btrail_session_mode
 *
 * @BTRAIL_SESSION_CONTINUOUS: all records, into options.store
 * @BTRAIL_SESSION_LAST:       the last records, into a ring in options.folder,
 *                             of which btrail_session_dump() makes a trace
 */
enum btrail_session_mode {
    BTRAIL_SESSION_CONTINUOUS = 0,
    BTRAIL_SESSION_LAST = 1,
};

/* The word for a mode, NULL if there is no such mode */
const char *btrail_session_mode_name(unsigned mode);

/**
 * struct btrail_session_options
 * @store:    with mode continuous: an empty file; the session owns it
 * @metadata: for the trace's description.  The facts of the capture are added
 *            ("session" only if it is missing).  The session has a reference of
 *            its own, and adds to it.
 * @mode:     enum btrail_session_mode
 * @folder:   with mode last: a folder that exists, is empty, and is for the
 *            session only.  The session deletes its files at the end, unless
 *            btrail_session_keep_ring() was called
 * @limit:    with mode last
 * @filter:   what it wants; copied
 * @triggers: @n_triggers of them; copied
 * @files:    finds files of the guest, for triggers
 * @drop:     when its output is behind, lose its records (GAP events say how
 *            many) and do not have the capture and all others wait for it
 * @resumes:  the session continues a trace.  The store is made with the id and
 *            the next part of that trace, and begin BTRAIL_GAP_ELSEWHERE.  False
 *            if the trace begins; also for a session with
 *            btrail_session_whole() on an attached capture, which continues by
 *            itself
 * @resume:   with @resumes: resume[i] is the index of the next record of vCPU i,
 *            and that is 0 from @n_resume on.  A GAP event, AGENT_LOST, of an
 *            unknown number stands for the records that are missing.  Copied
 * @keeping:  a trigger that starts it has acted already, in another process
 * @observer: with mode continuous: sees what is kept, from the capture's
 *            thread, until the session is finished; or NULL
 */
struct btrail_session_options {
    struct btrail_store *store;
    JsonObject *metadata;
    enum btrail_session_mode mode;
    const char *folder;
    struct btrail_session_limit limit;
    struct btrail_session_filter filter;
    const struct btrail_trigger *triggers;
    unsigned n_triggers;
    struct btrail_symbol_files files;
    bool drop;
    bool resumes;
    const uint64_t *resume;
    unsigned n_resume;
    bool keeping;
    const struct btrail_stream_observer *observer;
};

/**
 * struct btrail_session_progress - so far
 * @records:  kept; at the end, those in the file
 * @filtered: that it did not want, of vCPUs that it wants
 * @bytes:    written
 * @record_bytes: those of them that chunks of records have
 * @lost:     its records that the producer or the session has lost, as far as
 *            it is known that it would have wanted them
 * @cpu_ns:   used for it alone: filter and encoder, compressing and writing
 * @begun:    it is in the capture, and the producer has said HELLO
 */
struct btrail_session_progress {
    uint64_t records;
    uint64_t filtered;
    uint64_t bytes;
    uint64_t record_bytes;
    uint64_t lost;
    uint64_t cpu_ns;
    bool begun;
};

/**
 * struct btrail_session_result - how it ended
 * @reason:      enum btrail_end_reason, or 0 after btrail_capture_detach()
 * @unexplained: records missing without a GAP event of the producer
 * @no_names:    why there are no names although they were requested, or NULL
 * @error:       NULL if all went well: its own (OUTPUT), or the capture's
 */
struct btrail_session_result {
    uint16_t reason;
    uint64_t unexplained;
    struct btrail_session_progress progress;
    char *no_names;
    GError *error;
};

/**
 * btrail_session_new - make a session
 *
 * Errors: OUTPUT (the ring cannot be made).  The store is then closed.
 */
struct btrail_session *
btrail_session_new(const struct btrail_session_options *options,
                   GError **error);

/*
 * Readable once the session has ended and its file is complete: it was
 * removed, the capture has ended, its output has failed, or a trigger has ended
 * it.
 */
int btrail_session_done_fd(const struct btrail_session *s);

/* Any thread */
void btrail_session_progress(struct btrail_session *s,
                             struct btrail_session_progress *progress);

/*
 * Do its records have the capture's own numbers?  They do if it has no filter
 * and was added before the first record.  All other sessions number their
 * records from 0.  Known once progress.begun is set; any thread
 */
bool btrail_session_whole(const struct btrail_session *s);

/* Are records kept?  Not while it waits for a trigger to start; any thread */
bool btrail_session_keeping(const struct btrail_session *s);

/*
 * At how many places a trigger acts, 0 if its symbol has not been found; any
 * thread
 */
unsigned btrail_session_places(const struct btrail_session *s,
                               unsigned trigger);

/*
 * Has number @process of options.filter.processes been found in the guest's
 * memory, at some time?  Any thread
 */
bool btrail_session_has_found(const struct btrail_session *s,
                              unsigned process);

/**
 * enum btrail_session_names - has the session the names, and the code, that it
 * needs?
 *
 * @BTRAIL_SESSION_NAMES_UNKNOWN: the producer has not said so yet
 * @BTRAIL_SESSION_NAMES_FINE:    the guest is scanned, or it needs none
 * @BTRAIL_SESSION_NAMES_MISSING: it is over, with an error that says why
 */
enum btrail_session_names {
    BTRAIL_SESSION_NAMES_UNKNOWN,
    BTRAIL_SESSION_NAMES_FINE,
    BTRAIL_SESSION_NAMES_MISSING,
};

/* Any thread */
enum btrail_session_names
btrail_session_has_names(const struct btrail_session *s);

/**
 * btrail_session_fired_fd - readable when the session has begun, a trigger has
 *                           acted or has got its first place, or it is known
 *                           whether the session has the names that it needs
 * btrail_session_take_fired - returns the number of a trigger that has acted,
 *                             in options.triggers; -1 if there are no more.
 *                             Any thread
 * btrail_session_release_ring - there will be no dump
 *
 * From when a trigger to dump acts, the ring deletes nothing, so that the dump
 * has what was before: until btrail_session_dump() has opened its files, or
 * btrail_session_release_ring() is called.
 */
int btrail_session_fired_fd(const struct btrail_session *s);
int btrail_session_take_fired(struct btrail_session *s);
void btrail_session_release_ring(struct btrail_session *s);

/**
 * struct btrail_session_dump - what was dumped
 * @records: in the trace
 * @bytes:   of the trace
 */
struct btrail_session_dump {
    uint64_t records;
    uint64_t bytes;
};

/**
 * btrail_session_dump - make a trace of what a ring has
 * @s:    of mode last, not finished.  The ring exists until
 *        btrail_session_finish(), so it can be dumped after its end, too
 * @path: the file to write, which must not exist
 *
 * The trace has what the ring had at the time of the call, and what came until
 * that was written, some 100 ms.  The session continues meanwhile.  Waits for
 * disks.  Any thread; several at once take turns.  On failure the file is
 * removed.
 *
 * Errors: OUTPUT.
 */
bool btrail_session_dump(struct btrail_session *s, const char *path,
                         struct btrail_session_dump *dump, GError **error);

/*
 * With mode last: when the session is finished, the ring's files stay in
 * options.folder and belong to the caller.
 */
void btrail_session_keep_ring(struct btrail_session *s);

/*
 * Waits until the session is done, and frees it.  If it was never added to a
 * capture, its file is closed, empty.  The caller frees @result's error and
 * no_names.
 */
void btrail_session_finish(struct btrail_session *s,
                           struct btrail_session_result *result);

#endif /* BTRAIL_SESSION_H */
