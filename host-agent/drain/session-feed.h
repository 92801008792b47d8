/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The capture's side of a session: what is handed to it
 *
 * The capture's thread calls these functions, if nothing else is said.
 */

#ifndef BTRAIL_SESSION_FEED_H
#define BTRAIL_SESSION_FEED_H

#include "drain/session-filter.h"
#include "drain/trigger.h"

struct session;

/**
 * struct session_source - the capture that a session is added to
 * @header:    of the connection
 * @attached:  another agent has drained it before
 * @beginning: nothing has been drained yet
 * @indices:   of the next record of each vCPU in the capture; header->vcpus of
 *             them
 * @budget:    what is kept for the session of the guest is taken from it
 * @wake_fd:   is set for the capture to see session_awaits_tick(), until
 *             session_end()
 * @entry:     see session-filter.h; called by the capture's thread, with
 *             @opaque
 */
struct session_source {
    const struct btrail_shm_header *header;
    bool attached;
    bool beginning;
    const uint64_t *indices;
    struct btrail_budget *budget;
    int wake_fd;
    entry_fn *entry;
    void *opaque;
};

/* The session belongs to a capture from here on; by the thread that adds it */
void session_added(struct session *s);

/* The first call.  If it fails, that is a failure of the session's own. */
void session_begin(struct session *s,
                   const struct session_source *source);

/*
 * The session's output has failed, or a trigger has ended it: only
 * session_end() may be called.
 */
bool session_over(const struct session *s);

/* Why, or NULL; it belongs to the session. */
const GError *session_error(const struct session *s);

/**
 * session_slab - hand the next slab of a vCPU to the session
 * @index:      in the capture, of the vCPU's next record before this slab
 * @gap_reason: for a hole before the slab that no GAP event explains
 *
 * Returns 0, or -BTRAIL_ERR_SLAB if the stream had ended.
 */
int session_slab(struct session *s, unsigned vcpu,
                 const struct btrail_checked_slab *slab,
                 uint64_t index, uint16_t gap_reason);

/*
 * Must the session get code before the slab that executes it?  Its record
 * numbers differ from the capture's then, and the slab gives them.
 */
bool session_in_step(const struct session *s);

/* Does it need code that the items of any vCPU can have, before that slab? */
bool session_lacks_code(const struct session *s);

/* Hands an item of code to the session; @page if it is of BTRAIL_CODE_BYTES. */
void session_code(struct session *s, unsigned vcpu,
                  uint64_t number, const struct btrail_code_item *item,
                  const uint8_t *page);

/*
 * Hands packed sideband to the session, which must be allowed to see it, by
 * session_sees().  Any thread, one at a time, between begin and end
 */
void session_sideband(struct session *s, uint16_t kind,
                      const void *payload, size_t size);
bool session_sees(const struct session *s, uint32_t privilege);

/* Symbols of the kernel, for triggers, whatever the session sees; likewise */
void session_symbols(struct session *s, uint16_t kernel,
                     const char *text, size_t size);
bool session_wants_symbols(const struct session *s);

/* Returns a reference to its triggers, or NULL; likewise */
struct triggers *session_triggers(const struct session *s);

/* A snapshot, for its filter and its triggers; likewise */
void session_snapshot(struct session *s,
                      const struct btrail_snapshot *snapshot);

/*
 * The guest is scanned for names if @why is NULL; otherwise a session that
 * needs some, for its triggers or to know processes, is over.  Once
 */
void session_names(struct session *s, const char *why);

/* Does a thread wait for all that was made so far to be written? */
bool session_awaits_tick(const struct session *s);

/* It has got all that the vCPU did before @time. */
void session_passed(struct session *s, unsigned vcpu,
                    uint64_t time);

/* Checks the output; writes what there is, if @flush. */
void session_tick(struct session *s, bool flush);

/*
 * Has the session begun a new file of names?  Then names and code must be
 * resent to it.  To be called at each tick
 */
bool session_renews_names(struct session *s);

/* CPU time that the session's own thread has used since the last call */
uint64_t session_written_ns(struct session *s);

/* The capture's thread has used this much CPU time for the session. */
void session_spent(struct session *s, uint64_t ns);

/* Has the stream got its END event, or is the vCPU not wanted? */
bool session_stream_ended(const struct session *s,
                          unsigned vcpu);

/*
 * Ends a stream that has not ended: with an END event, and with @gap not 0 a
 * GAP event of unknown size before it.  @index: in the capture
 */
void session_end_stream(struct session *s, unsigned vcpu,
                        uint64_t index, uint16_t gap, uint16_t reason);

/**
 * struct session_ending - why and how it ends
 * @reason:   enum btrail_end_reason; 0 if another part continues the trace
 * @error:    the capture's, or NULL; copied
 * @release:  of the guest's kernel, or NULL; copied
 * @missing:  of its names, as in struct scanner_result, or NULL; copied
 * @kernels:  that were found, as there, or NULL; copied
 * @no_names: why there are none, or NULL; copied
 */
struct session_ending {
    uint16_t reason;
    const GError *error;
    const char *release;
    char **missing;
    char **kernels;
    const char *no_names;
};

/*
 * The last call; also without session_begin().  A thread of the
 * session's own does the rest, and needs only what belongs to the session.
 */
void session_end(struct session *s,
                 const struct session_ending *ending);

#endif /* BTRAIL_SESSION_FEED_H */
