/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Dumps of a session's ring: wait until all that was made is in its files, and
 * make a trace of them
 *
 * Any thread may call the functions, if nothing else is said.
 */

#ifndef BTRAIL_SESSION_DUMP_H
#define BTRAIL_SESSION_DUMP_H

#include "drain/output.h"
#include "drain/part-ring.h"
#include "util/agent-error.h"

/**
 * struct session_dumps
 * @ring:      NULL if the session has none
 * @held:      a trigger to dump has acted, and holds the ring; atomic
 * @lock:      of the following up to the next blank line
 * @ticks:     that have flushed, so far
 * @ending:    there are no more ticks
 * @closed:    all is in the files
 * @wake_fd:   of the capture, until @ending
 *
 * @waiting:     how many wait for ticks; atomic
 * @output_lock: of @output
 * @output:      that writes the ring; NULL before it begins and after its end
 */
struct session_dumps {
    struct part_ring *ring;
    bool held;

    GMutex lock;
    GCond changed;
    uint64_t ticks;
    bool ending;
    bool closed;
    int wake_fd;

    unsigned waiting;
    GMutex output_lock;
    struct output *output;
};

void session_dumps_init(struct session_dumps *d, struct part_ring *ring);
void session_dumps_clear(struct session_dumps *d);

/* The capture's thread: dumps wait for it from here on. */
void session_dumps_begin(struct session_dumps *d, struct output *output,
                         int wake_fd);

/* Does a dump wait for ticks? */
bool session_dumps_await_tick(const struct session_dumps *d);

/* All that was made before this call began has been handed to the output. */
void session_dumps_ticked(struct session_dumps *d);

/* There are no more ticks. */
void session_dumps_end(struct session_dumps *d);

/* Ends the output and returns it, which the caller frees; NULL if none began */
struct output *session_dumps_end_output(struct session_dumps *d);

/* The files are closed. */
void session_dumps_closed(struct session_dumps *d);
void session_dumps_wait_closed(struct session_dumps *d);

/*
 * From a trigger to dump on, the ring keeps all its files, until a dump has
 * opened them or session_dumps_release() says that there will be none.
 */
void session_dumps_hold(struct session_dumps *d);
void session_dumps_release(struct session_dumps *d);

/*
 * As session_dump(); @why: in words, or NULL; @records and @bytes: of the trace
 */
bool session_dumps_write(struct session_dumps *d, const char *path,
                         const char *why,
                         uint64_t *records, uint64_t *bytes, GError **error);

#endif /* BTRAIL_SESSION_DUMP_H */
