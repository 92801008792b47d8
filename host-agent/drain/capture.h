/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A capture: one producer's records, code and names, handed to sessions
 *
 * One per guest.  Its thread drains the producer's shared memory and hands what
 * it finds to the sessions that are in it, each of which keeps what it wants
 * and writes it by a thread of its own.  When a session's output is too slow,
 * draining stops and the producer's overflow policy decides, unless the
 * session has said that it would rather lose records.
 *
 * Threads: a function here may be called by any thread, if nothing else is
 * said; start and finish of one capture by one thread.  None waits for the
 * producer or for a disk but btrail_capture_finish().
 */

#ifndef BTRAIL_CAPTURE_H
#define BTRAIL_CAPTURE_H

#include "util/cpu-limit.h"
#include "drain/session.h"

struct btrail_capture;

/**
 * struct btrail_capture_options
 * @sock:     data connection to the producer, before its HELLO; the capture
 *            owns it from the start
 * @attached: another agent has drained this capture before
 * @names:    look for names in the guest's memory
 * @patient:  with policy pause, have the guest wait for each snapshot
 * @limit:    how much CPU time is used for it: while that is too much, nothing
 *            is drained, but for a little, so that the producer sees that its
 *            agent lives.  What ends is not limited.  NULL if there is none;
 *            it must live as long as the capture
 * @sessions: that are in it from the beginning, @n_sessions of them: as if by
 *            btrail_capture_add(), but HELLO cannot have come before
 */
struct btrail_capture_options {
    int sock;
    bool attached;
    bool names;
    bool patient;
    struct btrail_cpu_limit *limit;
    struct btrail_session *const *sessions;
    unsigned n_sessions;
};

/**
 * struct btrail_capture_progress - so far
 * @records:   drained
 * @lost:      that the producer has lost
 * @paused_ns: that vCPUs have waited, summed up
 * @limited_ns: in which there was something to drain, and options.limit kept
 *             it from being drained
 */
struct btrail_capture_progress {
    uint64_t records;
    uint64_t lost;
    uint64_t paused_ns;
    uint64_t limited_ns;
};

/**
 * struct btrail_capture_result - how it ended
 * @reason:   enum btrail_end_reason, or 0 if it was left
 * @progress: in the end
 * @error:    NULL if all went well
 */
struct btrail_capture_result {
    uint16_t reason;
    struct btrail_capture_progress progress;
    GError *error;
};

/*
 * Start to wait for the producer's HELLO, and go on by itself.  If sessions
 * have been added by then and none of them can write its file, the capture
 * gives up before the guest is traced, with the error of the first.
 */
struct btrail_capture *
btrail_capture_start(const struct btrail_capture_options *options);

/*
 * Readable once the capture has ended: the producer has said END, or is gone,
 * or has broken the protocol.  Its sessions have ended then, too; their files
 * may not be complete yet.
 */
int btrail_capture_done_fd(const struct btrail_capture *c);

void btrail_capture_progress(struct btrail_capture *c,
                             struct btrail_capture_progress *progress);

/**
 * btrail_capture_add - let a session have what comes from here on
 * @s: a new one; it stays its owner's, who may free it by
 *     btrail_session_finish() alone
 *
 * Returns at once.  Before the first record the session is in the capture from
 * its beginning; later, from the next slab of each vCPU on, and symbols,
 * processes and code are told again for it.  If the capture has ended, or ends
 * before it comes to that, the session ends without a record, with the
 * capture's error or, if it has none, with BTRAIL_AGENT_ERROR_CLOSED.
 */
void btrail_capture_add(struct btrail_capture *c, struct btrail_session *s);

/**
 * btrail_capture_remove - end a session
 * @s: that was added
 *
 * Returns at once; btrail_session_done_fd() tells when it is done.  The session
 * has all that was drained, and all that the producer had published when it
 * was called.  Nothing happens if the session has ended already.  The capture
 * goes on, even without a session: then what comes is thrown away, until one
 * is added.
 */
void btrail_capture_remove(struct btrail_capture *c, struct btrail_session *s);

/*
 * Ask the producer to end the capture; drain what it has.  If it has not said
 * HELLO yet, give up.
 */
void btrail_capture_stop(struct btrail_capture *c);

/*
 * Leave it to another agent: drain what the producer has, and end the sessions
 * without ends of their streams, which another part of their traces can go on
 * with.  The producer is told nothing; its connection is closed.  The reason is
 * 0 then.
 */
void btrail_capture_detach(struct btrail_capture *c);

/*
 * Wait until it has ended, and free it.  No other thread may use it any more.
 * The caller frees @result's error.  Sessions that were in it are finished by
 * themselves, before or after.
 */
void btrail_capture_finish(struct btrail_capture *c,
                           struct btrail_capture_result *result);

#endif /* BTRAIL_CAPTURE_H */
