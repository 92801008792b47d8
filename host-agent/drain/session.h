/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A session: one consumer's part of a capture, into files of its own
 *
 * It is made, added to a capture (capture.h), and finished.  The capture's
 * thread hands it slabs, which it filters and encodes at once; another thread
 * of its own compresses and writes.
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

/**
 * struct btrail_session_options
 * @store:    with mode continuous: an empty file; owned by the session.
 * @metadata: for the trace's description.  What the capture says is added
 *            ("session" only if it is not there).  The session has a reference
 *            of its own, and adds to it.
 * @mode:     enum btrail_session_mode
 * @folder:   with mode last: a folder that is there, empty, and the session's;
 *            what it puts there it deletes in the end, unless
 *            btrail_session_keep_ring() was called
 * @limit:    with mode last
 * @filter:   what it wants; copied
 * @triggers: @n_triggers of them; copied
 * @files:    who knows files of the guest, for triggers
 * @drop:     when its output is behind, lose its records (GAP events tell how
 *            many) and do not let the capture and all others wait for it
 * @resume:   the session goes on with a trace, whose streams have come to these
 *            indices: of vCPU i, resume[i], and 0 from @n_resume on.  What is
 *            missing is told by a GAP event, AGENT_LOST, of an unknown number.
 *            The store is made with the id and the next part of that trace,
 *            and begin BTRAIL_GAP_ELSEWHERE.  NULL if it begins; also for a
 *            session with btrail_session_whole() on an attached capture,
 *            which goes on by itself.  Copied
 * @keeping:  a trigger that starts it has acted already, in another process
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
    const uint64_t *resume;
    unsigned n_resume;
    bool keeping;
};

/**
 * struct btrail_session_progress - so far
 * @records:  kept; in the end, those that the file has
 * @filtered: that it did not want, of vCPUs that it wants
 * @bytes:    written
 * @lost:     its records that were lost, by the producer or by itself, as far
 *            as it is known that it would have wanted them
 * @cpu_ns:   that were spent for it alone: filter and encoder, compressing and
 *            writing
 * @begun:    it is in the capture, and the producer has said HELLO
 */
struct btrail_session_progress {
    uint64_t records;
    uint64_t filtered;
    uint64_t bytes;
    uint64_t lost;
    uint64_t cpu_ns;
    bool begun;
};

/**
 * struct btrail_session_result - how it ended
 * @reason:      enum btrail_end_reason, or 0 if the capture was left
 * @unexplained: records missing without a GAP event of the producer
 * @no_names:    why there are no names though they were asked for, or NULL
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
 * Errors: OUTPUT (the ring cannot be made).  The store is closed then.
 */
struct btrail_session *
btrail_session_new(const struct btrail_session_options *options,
                   GError **error);

/*
 * Readable once the session has ended and its file is complete: it was
 * removed, the capture has ended, its output has failed, a trigger has ended
 * it.
 */
int btrail_session_done_fd(const struct btrail_session *s);

/* Any thread */
void btrail_session_progress(struct btrail_session *s,
                             struct btrail_session_progress *progress);

/*
 * Its records have the capture's own numbers: it has no filter and was added
 * before the first one.  All others number their records from 0.  Known once
 * progress says begun; any thread.
 */
bool btrail_session_whole(const struct btrail_session *s);

/* Records are kept: it does not wait for a trigger that starts it.  Any thread */
bool btrail_session_keeping(const struct btrail_session *s);

/*
 * At how many places a trigger acts, 0 if its symbol has not been found; any
 * thread.
 */
unsigned btrail_session_places(const struct btrail_session *s,
                               unsigned trigger);

/**
 * enum btrail_session_names - has it the names that it needs?
 *
 * @BTRAIL_SESSION_NAMES_UNKNOWN: the producer has not told yet
 * @BTRAIL_SESSION_NAMES_FINE:    they are looked for, or it needs none
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
 * btrail_session_fired_fd - readable when a trigger has acted, or has got its
 *                           first place, or it is known whether the session
 *                           has the names that it needs
 * btrail_session_take_fired - which one, its number in options.triggers; -1 if
 *                             there is none any more.  Any thread
 *
 * From when a trigger to dump acts on, nothing of a ring is deleted, so that
 * what was before is in the dump: until btrail_session_dump() has what it takes,
 * or btrail_session_let_go() says that nobody is going to dump it.
 */
int btrail_session_fired_fd(const struct btrail_session *s);
int btrail_session_take_fired(struct btrail_session *s);
void btrail_session_let_go(struct btrail_session *s);

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
 * @s:    of mode last, not finished.  The ring is there until
 *        btrail_session_finish(), so it can be dumped after its end, too
 * @path: the file to be written; it must not be there
 *
 * It has what the ring had when this was called, and what has come until it was
 * written, some 100 ms.  The session goes on meanwhile.  Waits for disks; any
 * thread, several at once do so one after the other.  On failure the file is
 * removed.
 *
 * Errors: OUTPUT.
 */
bool btrail_session_dump(struct btrail_session *s, const char *path,
                         struct btrail_session_dump *dump, GError **error);

/*
 * Of mode last: the ring's files stay in options.folder, and are the caller's,
 * when it is finished.
 */
void btrail_session_keep_ring(struct btrail_session *s);

/*
 * Wait until it is done, and free it; if it was never added to a capture its
 * file is closed, empty.  The caller frees @result's error and no_names.
 */
void btrail_session_finish(struct btrail_session *s,
                           struct btrail_session_result *result);

/*
 * For the capture.  What is not said to be otherwise is called by its thread.
 */

/**
 * struct btrail_session_source - what a session is put into
 * @header:    of the transport
 * @attached:  another agent has drained it before
 * @beginning: nothing has been drained yet
 * @indices:   in the capture, that the vCPUs have come to; header->vcpus of
 *             them
 * @wake_fd:   is set for the capture to see btrail_session_hurries(), until
 *             btrail_session_end()
 * @entry:     see session-filter.h; called by the capture's thread, with
 *             @opaque
 */
struct btrail_session_source {
    const struct btrail_shm_header *header;
    bool attached;
    bool beginning;
    const uint64_t *indices;
    int wake_fd;
    btrail_entry_fn *entry;
    void *opaque;
};

/* It belongs to a capture from here on; by the thread that adds it. */
void btrail_session_added(struct btrail_session *s);

/* The first call.  If it fails that is a failure of the session's own. */
void btrail_session_begin(struct btrail_session *s,
                          const struct btrail_session_source *source);

/*
 * Its output has failed, or a trigger has ended it: nothing is to be handed to
 * it any more but btrail_session_end().
 */
bool btrail_session_over(const struct btrail_session *s);

/* Why, or NULL; it belongs to the session. */
const GError *btrail_session_error(const struct btrail_session *s);

/**
 * btrail_session_slab - the next slab of a vCPU
 * @index:      in the capture, that the vCPU had come to before
 * @gap_reason: for a hole before the slab that no GAP event explains
 *
 * Returns 0 or -BTRAIL_ERR_SLAB.
 */
int btrail_session_slab(struct btrail_session *s, unsigned vcpu,
                        const struct btrail_slab *slab, uint64_t index,
                        uint16_t gap_reason);

/*
 * Code has to be handed to it before the slab that has the records which it is
 * for: the session's numbers are others, and are found out by going through the
 * slab.
 */
bool btrail_session_in_step(const struct btrail_session *s);

/* An item of code, by its number; @page if it is of BTRAIL_CODE_BYTES. */
void btrail_session_code(struct btrail_session *s, unsigned vcpu,
                         uint64_t number, const struct btrail_code_item *item,
                         const uint8_t *page);

/*
 * Names, packed; any thread, one at a time, between begin and end.  Only what
 * the session may see, by btrail_session_sees().
 */
void btrail_session_sideband(struct btrail_session *s, uint16_t kind,
                             const void *payload, size_t size);
bool btrail_session_sees(const struct btrail_session *s, uint32_t privilege);

/* Symbols of the kernel, for triggers; likewise, and whatever it may see */
void btrail_session_symbols(struct btrail_session *s, const char *text,
                            size_t size);
bool btrail_session_wants_symbols(const struct btrail_session *s);

/* Its triggers, or NULL; a reference for the caller.  Likewise */
struct btrail_triggers *btrail_session_triggers(const struct btrail_session *s);

/* Who was found; likewise */
void btrail_session_snapshot(struct btrail_session *s,
                         const struct btrail_snapshot *snapshot);

/*
 * Names are looked for, if @why is NULL, or cannot be: a session that needs
 * some, for its triggers or to know processes, is over then.  Once
 */
void btrail_session_names(struct btrail_session *s, const char *why);

/* Does somebody wait for all that was made so far, and so for ticks? */
bool btrail_session_hurries(const struct btrail_session *s);

/* Write what there is, if @flush; see that all goes well. */
void btrail_session_tick(struct btrail_session *s, bool flush);

/*
 * Names and code are to be told again for it: its file of them has begun anew.
 * To be asked at each tick.
 */
bool btrail_session_begins_anew(struct btrail_session *s);

/* CPU time that the session's own thread has taken since this was asked last */
uint64_t btrail_session_written_ns(struct btrail_session *s);

/* The capture's thread has taken so much CPU time for it. */
void btrail_session_spent(struct btrail_session *s, uint64_t ns);

/* A stream whose vCPU has ended has got its END event. */
bool btrail_session_stream_ended(const struct btrail_session *s,
                                 unsigned vcpu);

/*
 * End a stream that has not ended: with an END event, and with @gap not 0 a
 * GAP event of unknown size before it.  @index: in the capture
 */
void btrail_session_end_stream(struct btrail_session *s, unsigned vcpu,
                               uint64_t index, uint16_t gap, uint16_t reason);

/**
 * struct btrail_session_ending - why and how it ends
 * @reason:   enum btrail_end_reason; 0 if the trace goes on
 * @error:    the capture's, or NULL; copied
 * @release:  of the guest's kernel, or NULL; copied
 * @no_names: why there are none, or NULL; copied
 */
struct btrail_session_ending {
    uint16_t reason;
    const GError *error;
    const char *release;
    const char *no_names;
};

/*
 * The last call; also without btrail_session_begin().  The rest is done by a
 * thread of the session's own, and what is not said here to belong to the
 * session is not needed any more.
 */
void btrail_session_end(struct btrail_session *s,
                        const struct btrail_session_ending *ending);

#endif /* BTRAIL_SESSION_H */
