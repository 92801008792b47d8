/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A capture: one producer's records, code and names, handed to sessions
 *
 * There is one per guest.  Its thread drains the producer's shared memory and
 * hands what it finds to the sessions of the capture.  Each of them keeps what
 * it wants and writes it by a thread of its own.  When a session's output is
 * too slow, draining stops and the producer's overflow policy decides, unless
 * that session prefers to lose records.
 *
 * Threads: any thread may call a function here, if nothing else is said; one
 * thread starts and finishes a capture.  Only capture_finish() waits for
 * the producer or for a disk.
 */

#ifndef BTRAIL_CAPTURE_H
#define BTRAIL_CAPTURE_H

#include "drain/session.h"
#include "util/cpu-limit.h"

struct capture;

/**
 * struct capture_options
 * @sock:     data connection to the producer, before its HELLO; the capture
 *            owns it from the start
 * @attached: another agent has drained this capture before
 * @names:    scan the guest's memory for names
 * @wait_for_scan: with policy pause, have the guest wait for each snapshot
 * @limit:    how much CPU time may be used for the guest.  While that is
 *            exceeded only a little is drained, so that the producer sees that
 *            its agent is alive; the rest at the end is not limited.  NULL for
 *            no limit; it must live as long as the capture
 * @keep:     bytes of memory for what is kept of the guest and its names, and
 *            for names on their way to files; 0 for BTRAIL_BUDGET_GUEST.  When
 *            they are used up, names are left out
 * @sessions: the sessions that are in it from its beginning, @n_sessions of
 *            them: as if by capture_add(), and certainly before HELLO
 */
struct capture_options {
    int sock;
    bool attached;
    bool names;
    bool wait_for_scan;
    struct cpu_limit *limit;
    uint64_t keep;
    struct session *const *sessions;
    unsigned n_sessions;
};

/**
 * struct capture_progress - so far
 * @records:    drained
 * @lost:       that the producer has lost
 * @paused_ns:  that vCPUs have waited, summed up
 * @limited_ns: in which there was something to drain and options.limit
 *              prevented it
 */
struct capture_progress {
    uint64_t records;
    uint64_t lost;
    uint64_t paused_ns;
    uint64_t limited_ns;
};

/**
 * struct capture_result - how it ended
 * @reason:   enum btrail_end_reason, or 0 after capture_detach()
 * @progress: at the end
 * @error:    NULL if all went well
 */
struct capture_result {
    uint16_t reason;
    struct capture_progress progress;
    GError *error;
};

/*
 * Starts a thread that waits for the producer's HELLO and then drains.  If
 * sessions have been added by then and none of them can write its file, the
 * capture ends before the guest is traced, with the error of the first.
 */
struct capture *
capture_start(const struct capture_options *options);

/*
 * Readable once the capture has ended: the producer has said END, or is gone,
 * or has broken the protocol.  Its sessions have then ended, too; their files
 * may not be complete yet.
 */
int capture_done_fd(const struct capture *c);

void capture_progress(struct capture *c,
                      struct capture_progress *progress);

/*
 * What names there are: see session_describe_names(), to be freed.  Any
 * thread
 */
JsonObject *capture_names(struct capture *c);

/**
 * capture_add - add a session, which gets what comes from here on
 * @s: a new one.  It stays its owner's, and only
 *     session_finish() may free it
 *
 * Returns at once.  Before the first record the session is in the capture from
 * its beginning; later, from the next slab of each vCPU on, and symbols,
 * processes and code are resent to it.  If the capture has ended, or ends
 * before it handles the request, the session ends without a record, with the
 * capture's error or, if it has none, with AGENT_ERROR_CLOSED.
 */
void capture_add(struct capture *c, struct session *s);

/**
 * capture_remove - end a session
 * @s: that was added
 *
 * Returns at once; session_done_fd() says when it is done.  The session
 * gets all that was drained, and all that the producer had published at the
 * time of the call.  Nothing happens if the session has ended already.  The
 * capture continues, even without a session: it then discards what it drains
 * until one is added.
 */
void capture_remove(struct capture *c, struct session *s);

/*
 * Asks backtrail-guest-names in the guest for names, through a connection to it
 * that is the capture's from here on.  Only the first one counts
 */
void capture_ask_guest(struct capture *c, int sock);

/*
 * Asks the producer to end the capture, and drains what it has.  Ends the
 * capture at once if there was no HELLO yet.
 */
void capture_stop(struct capture *c);

/*
 * Hands the capture over to another agent: drains what the producer has, and
 * ends the sessions without END events, so that another part of their traces
 * can continue.  The producer gets no message; its connection is closed.  The
 * result's reason is then 0.
 */
void capture_detach(struct capture *c);

/*
 * Waits until the capture has ended, and frees it.  No other thread may use it
 * any more.  The caller frees @result's error, and finishes the sessions that
 * were in it, before or after.
 */
void capture_finish(struct capture *c,
                    struct capture_result *result);

#endif /* BTRAIL_CAPTURE_H */
