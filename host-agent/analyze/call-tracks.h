/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Calls as they began and ended
 *
 * Each thread that the trace names has a track with its calls, which continue
 * while it does not run; each vCPU has one with what it ran.  The calls of
 * other tasks are on the tracks of vCPUs.
 *
 * So has each stack that a program begins itself, as for coroutines, by
 * whichever of its threads it is run.
 */

#ifndef BTRAIL_CALL_TRACKS_H
#define BTRAIL_CALL_TRACKS_H

#include "analyze/call-tree.h"
#include "analyze/cpu-threads.h"
#include "analyze/cpu-use.h"
#include "util/closest.h"

/**
 * struct call_slice - a call, or the time of a task on a track
 * @process:  the task
 * @function: NULL for the task itself
 * @begin:    of the host's clock
 * @paused:   of its thread, before that
 * @vcpu:     that ran it then
 * @late:     it had begun before that
 * @wanted:   it, or one that it is in, is a call of the function that is wanted
 * @chosen:   records in it, or in its callees, count
 * @written:  the user knows of it
 * @missed:   records are missing that could be its end
 * @node:     of the tree; NULL if that was spilled
 * @waited:   what its thread had waited when it began
 */
struct call_slice {
    const struct process *process;
    const struct function *function;
    uint64_t begin;
    uint64_t paused;
    unsigned vcpu;
    bool late;
    bool wanted;
    bool chosen;
    bool written;
    bool missed;
    const struct stack_node *node;
    struct cpu_use_mark waited;
};

/**
 * struct call_track
 * @of:     if it is a thread's
 * @number: 1 and the number of a vCPU; CALL_TRACKS_THREADS and more for
 *          threads, CALL_TRACKS_STACKS and more for stacks
 * @thread: the thread that it is of, or that runs the stack; NULL for a vCPU
 * @stack:  the number of the stack that it is of; or 0
 * @around: of a stack: the track of the thread that has begun it
 * @gaps:   of a stack: in the trace, up to the last move
 * @open:   of struct call_slice, those within others last.  The first one is of
 *          the task, and is not the user's business if the track is a thread's
 * @use:    what its thread waits, if that is asked for; NULL for a stack's
 * @time:   of the last move, or up to which a thread is known to have run
 * @user:   the user's; NULL at first
 */
struct call_track {
    struct cpu_thread of;
    uint64_t number;
    const struct process *thread;
    uint64_t stack;
    struct call_track *around;
    uint64_t gaps;
    GArray *open;
    struct cpu_use_thread *use;
    uint64_t time;
    const void *user;
};

#define CALL_TRACKS_THREADS (UINT64_C(1) << 16)
#define CALL_TRACKS_STACKS  (UINT64_C(1) << 30)

static inline struct call_slice *call_track_slice(const struct call_track *t,
                                                  unsigned i)
{
    return &g_array_index(t->open, struct call_slice, i);
}

/**
 * struct call_tracks_ops - callbacks for slices that are chosen and long enough
 * @i:     of the slice in @open
 * @cut:   a slice need not have ended: the trace has no more of it
 *
 * @begin: a slice with another one in it has begun
 * @whole: one without has begun and ended
 * @end:   one that has begun has ended
 */
struct call_tracks_ops {
    void (*begin)(void *opaque, struct call_track *t, unsigned i);
    void (*whole)(void *opaque, struct call_track *t, unsigned i,
                  uint64_t time, bool cut);
    void (*end)(void *opaque, struct call_track *t, unsigned i,
                uint64_t time, bool cut);
};

/**
 * struct call_tracks_options
 * @shortest: shorter slices are left out, in ns
 * @prompt:   report a slice when the next one begins, if @shortest is 0;
 *            otherwise when one that is in it ends
 * @function: if not NULL, report only calls of it, and what is in them
 * @depth:    and of this many levels of these; 0: all
 * @pauses:   of the trace; NULL: slices have none
 * @use:      if not NULL, gets to know which task each vCPU runs
 */
struct call_tracks_options {
    uint64_t shortest;
    bool prompt;
    const char *function;
    unsigned depth;
    const struct pauses *pauses;
    struct cpu_use *use;
    const struct call_tracks_ops *ops;
    void *opaque;
};

struct call_tracks;

struct call_tracks *call_tracks_new(const struct call_tracks_options *options);
void call_tracks_free(struct call_tracks *c);

/* For call_tree_read(), which gets the tracks as @opaque */
extern const struct call_tree_ops call_tracks_tree_ops;

/* Ends all slices. */
void call_tracks_end(struct call_tracks *c, const struct btrail_trace *trace,
                     const struct window *window);

/* How long the thread of a slice, or the whole guest, was paused in it up to
 * @time, when it ends */
uint64_t call_tracks_paused(const struct call_tracks *c,
                            const struct call_track *t, unsigned i,
                            uint64_t time);

/* The track of a thread; that of a vCPU if the thread has none */
struct call_track *call_tracks_find(struct call_tracks *c, unsigned vcpu,
                                    const struct btrail_task *task);

/* Was the function of the options called?  Otherwise the most similar ones */
const struct closest *call_tracks_closest(const struct call_tracks *c);

#endif /* BTRAIL_CALL_TRACKS_H */
