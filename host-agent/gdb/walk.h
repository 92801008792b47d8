/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A walk through a trace: its threads, and where they are
 *
 * The threads are vCPUs, or the threads of processes of the guest.  All are at
 * one moment, that of the one that has moved last.
 */

#ifndef BTRAIL_GDB_WALK_H
#define BTRAIL_GDB_WALK_H

#include "find/clock-order.h"
#include "gdb/walk-window.h"
#include "symbolize/stack-edge.h"

/* More than any number of a thread */
#define WALK_ID_AGAIN   (UINT64_C(1) << 32)

/**
 * struct walk_thread
 * @id:     gdb's number of it, from 1: of a vCPU one more than its own, of a
 *          thread of the guest its own, or, of a later one with the same, that
 *          and a multiple of WALK_ID_AGAIN
 * @vcpu:   -1 for a thread of the guest
 * @walker: where it was when it was at the walk's @moves
 * @window: what gdb has of it as branch trace, or NULL
 * @sent:   gdb has read it
 */
struct walk_thread {
    uint64_t id;
    int vcpu;
    uint32_t pid;
    char name[BTRAIL_TASK_NAME + 1];
    struct walker *walker;
    uint64_t moves;
    struct walk_window *window;
    bool sent;
};

/**
 * struct walk
 * @trace, @symbols: belong to the caller
 * @tsc_hz:  guest_time_hz() of the trace
 * @threads: of struct walk_thread
 * @current: the one that has moved last
 * @moves:   how often one has
 * @order:   of moments of several vCPUs
 */
struct walk {
    const struct btrail_trace *trace;
    struct symbolizer *symbols;
    uint64_t tsc_hz;
    GPtrArray *threads;
    struct walk_thread *current;
    uint64_t moves;
    struct stack_edges *edges;
    struct clock_order *order;
};

/**
 * struct walk_options
 * @process: name or number of processes whose threads are walked along, or NULL
 * @vcpu:    walk along this one alone; -1 for all
 */
struct walk_options {
    const char *process;
    int vcpu;
};

/*
 * Begins at the end of the trace.
 *
 * Errors: COMMAND: the trace has no such process or vCPU, or no records.
 */
struct walk *walk_new(const struct btrail_trace *trace,
                      struct symbolizer *symbols,
                      const struct walk_options *options, GError **error);
void walk_free(struct walk *w);

/* NULL if there is none */
struct walk_thread *walk_thread(const struct walk *w, uint64_t id);

/* The walker of a thread, which is at the walk's moment */
struct walker *walk_walker(struct walk *w, struct walk_thread *t);

/* The thread has moved: the others follow. */
void walk_moved(struct walk *w, struct walk_thread *t);

/* Where a walker is, as a moment; its clock is not asked for */
struct moment walk_moment(const struct walker *w);

/*
 * Takes the thread that has made the moment's record there, or else, of one
 * process, the one that ran last before it; or the first one, if none did.
 */
void walk_go(struct walk *w, const struct moment *m);

/* What is known of the thread, quoted, to be freed: "vCPU 0: sh 12/12" */
char *walk_describe(struct walk *w, struct walk_thread *t);

/**
 * walk_search - takes the first thread that comes to one of some addresses
 * there, or the last one that was there
 * @only: search along this one; NULL for all
 *
 * See walker_search().  With WALKER_END it is where the last one ends, or the
 * first one begins.
 */
enum walker_answer walk_search(struct walk *w, struct walk_thread *only,
                               const uint64_t *addresses, size_t n,
                               bool forward, bool (*go_on)(void *opaque),
                               void *opaque);

/**
 * struct walk_space - an address space, and when
 * @pc: executed in it
 */
struct walk_space {
    const struct process *process;
    struct symbolizer_where where;
    uint64_t pc;
};

/*
 * The space of a thread at a record of its lane, which is @space there.  While
 * a task ends, the kernel runs it with page tables of another one: its own is
 * the one in which its program was last, if that is near, and where something
 * is known of its files if no snapshot has found it; or else @process is NULL.
 */
void walk_own_space(struct symbolizer *symbols, const struct walk_thread *t,
                    const struct lane_at *at, struct walk_space *space);

/*
 * Reads memory at the moment: code that ran, also in the thread's window, and
 * constant data of files; returns how many bytes are known.
 */
size_t walk_read(struct walk *w, struct walk_thread *t, uint64_t address,
                 void *buf, size_t n);

#endif /* BTRAIL_GDB_WALK_H */
