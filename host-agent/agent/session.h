/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A session: from the producer's shared memory into a file
 *
 * One thread drains and encodes, another one compresses and writes.  When the
 * file is too slow, draining stops and the producer's overflow policy decides.
 */

#ifndef BTRAIL_SESSION_H
#define BTRAIL_SESSION_H

#include <json-glib/json-glib.h>

#include "agent-error.h"
#include "backtrail/trace.h"
#include "store.h"

struct btrail_session;

/**
 * struct btrail_session_options
 * @sock:     connection to the producer; the session owns it from the start
 * @store:    an empty file; the session owns it from the start
 * @metadata: for the trace's description; what the producer says is added.
 *            The session has a reference of its own.
 * @attached: another agent has drained this session before
 * @names:    look for names in the guest's memory
 */
struct btrail_session_options {
    int sock;
    struct btrail_store *store;
    JsonObject *metadata;
    bool attached;
    bool names;
};

/**
 * struct btrail_session_progress - so far
 * @records:   drained; at the end, those that the file has
 * @bytes:     of the file
 * @lost:      records that the producer has lost; at the end, those that the
 *             GAP events in the file count
 * @paused_ns: that vCPUs have waited, summed up
 */
struct btrail_session_progress {
    uint64_t records;
    uint64_t bytes;
    uint64_t lost;
    uint64_t paused_ns;
};

/**
 * struct btrail_session_result - how it ended
 * @reason:      enum btrail_end_reason
 * @unexplained: records missing without a GAP event of the producer
 * @no_names:    why there are no names though they were asked for, or NULL
 * @error:       NULL if all went well
 */
struct btrail_session_result {
    uint16_t reason;
    uint64_t unexplained;
    struct btrail_session_progress progress;
    char *no_names;
    GError *error;
};

/* Start to wait for the producer's HELLO, and go on by itself. */
struct btrail_session *
btrail_session_start(const struct btrail_session_options *options);

/* Readable once the session has ended and the file is complete. */
int btrail_session_done_fd(const struct btrail_session *s);

void btrail_session_progress(struct btrail_session *s,
                             struct btrail_session_progress *progress);

/*
 * Ask the producer to end the session; drain what it has.  If it has not said
 * HELLO yet, give up.
 */
void btrail_session_stop(struct btrail_session *s);

/* Wait until it is done.  The caller frees @result's error and no_names. */
void btrail_session_finish(struct btrail_session *s,
                           struct btrail_session_result *result);

#endif /* BTRAIL_SESSION_H */
