/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A trace as one sequence of edges for each task, without what depends on
 * chance
 *
 * Interrupts are left out, with all that the kernel does until it continues
 * what they have interrupted; so are page faults, because it depends on the
 * state of memory when there is one.  Of other exceptions only their entry is
 * kept.  A task continues where it was when the kernel has run another one in
 * between, on whatever vCPU.
 */

#ifndef BTRAIL_DIFF_READER_H
#define BTRAIL_DIFF_READER_H

#include "analyze/diff-sequence.h"
#include "analyze/diff-tasks.h"

/* Edges come in blocks of at most this many. */
#define DIFF_READER_BLOCK   8192

/**
 * struct diff_reader_ops - what a reader needs
 * @chosen: is a task read at all?
 * @wanted: are its edges wanted, or only counted?
 * @block:  gets a block with edges of such a task
 *
 * They are called by the thread that reads.
 */
struct diff_reader_ops {
    bool (*chosen)(void *opaque, const struct diff_task *task);
    bool (*wanted)(void *opaque, const struct diff_task *task);
    void (*block)(void *opaque, struct diff_task *task,
                  struct diff_block *block);
};

/**
 * struct diff_reader_options
 * @user, @kernel: which edges; a system call belongs to both
 * @max_held: this many records may wait until a vCPU has left a task; 0: many
 */
struct diff_reader_options {
    const struct btrail_trace *trace;
    struct symbolizer *names;
    const struct diff_tasks *tasks;
    struct diff_edges *edges;
    struct window window;
    bool user;
    bool kernel;
    size_t max_held;
    const struct diff_reader_ops *ops;
    void *opaque;
};

/**
 * struct diff_reader_result
 * @counts:  of uint64_t: how often edges were taken, by half of their numbers
 * @ended:   the set of tasks that have ended
 * @damage:  as of btrail_cursor_damage()
 */
struct diff_reader_result {
    GArray *counts;
    GHashTable *ended;
    uint64_t damage;
};

/*
 * Reads a trace.  @stop can be set by another thread.  Returns 0 or a negative
 * enum btrail_error; @r is to be cleared in any case.
 */
int diff_reader_read(struct diff_reader_result *r,
                     const struct diff_reader_options *options,
                     const gint *stop);
void diff_reader_result_clear(struct diff_reader_result *r);

#endif /* BTRAIL_DIFF_READER_H */
