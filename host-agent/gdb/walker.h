/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A walker is before one instruction of a lane, and goes to others
 */

#ifndef BTRAIL_GDB_WALKER_H
#define BTRAIL_GDB_WALKER_H

#include "gdb/code-block.h"

/**
 * struct walker_spot - an instruction of a lane
 * @at:     the record after which its block begins
 * @number: which instruction of the block
 */
struct walker_spot {
    struct lane_at at;
    unsigned number;
};

struct walker;

/* @lane is taken; @trace and @symbols are its own. */
struct walker *walker_new(const struct btrail_trace *trace,
                          struct symbolizer *symbols, struct lane *lane);
void walker_free(struct walker *w);

struct lane *walker_lane(const struct walker *w);

/*
 * Goes to an instruction, or the first one after it that is known, or else the
 * last one before.  False if the lane has none, as that of a damaged trace;
 * then it is nowhere.
 */
bool walker_go(struct walker *w, const struct walker_spot *spot);

/* Where it is; NULL if nowhere */
const struct walker_spot *walker_spot(const struct walker *w);

/* The record after which that is, and the one after it or NULL */
const struct lane_record *walker_record(const struct walker *w);
const struct lane_record *walker_next_record(const struct walker *w);
uint64_t walker_pc(struct walker *w);

/* Where the code is read that it is about to execute */
struct symbolizer_where walker_where(const struct walker *w);
const struct process *walker_process(const struct walker *w);

/*
 * To the next instruction, or to the one before; false at the end of the lane,
 * where it stays.
 */
bool walker_step(struct walker *w);
bool walker_back(struct walker *w);

/**
 * enum walker_answer
 * @WALKER_END:         the lane has no such instruction there
 * @WALKER_INTERRUPTED: before it was found
 */
enum walker_answer {
    WALKER_END,
    WALKER_FOUND,
    WALKER_INTERRUPTED,
};

/**
 * walker_search - to the next instruction, or the last one before, that has one
 * of some addresses
 * @go_on: asked from time to time; ends the search if it returns false
 *
 * With WALKER_END it goes to the end of the lane, or to its begin; otherwise it
 * stays where it is if nothing is found.
 */
enum walker_answer walker_search(struct walker *w, const uint64_t *addresses,
                                 size_t n, bool forward,
                                 bool (*go_on)(void *opaque), void *opaque);

struct stack_edges;

/**
 * enum walker_way - where a way has led to
 * @WALKER_SAME:    the same function, or one that has jumped to it or that it
 *                  has jumped to
 * @WALKER_CALLEE:  forwards, the first instruction of a function that is called,
 *                  or of the kernel that is entered; backwards, the last one
 * @WALKER_CALLER:  backwards, the call of the function, or what was interrupted;
 *                  forwards, what is executed when it has returned
 * @WALKER_NOWHERE: there is none, or it is not known how it leads there
 * @WALKER_STOP:    one of struct walker_stops
 */
enum walker_way {
    WALKER_SAME,
    WALKER_CALLEE,
    WALKER_CALLER,
    WALKER_NOWHERE,
    WALKER_STOP,
};

/**
 * struct walker_stops - what ends a way before its end
 * @addresses: of instructions to stop at, sorted
 * @go_on:     asked from time to time; it is given up if this returns false
 */
struct walker_stops {
    const uint64_t *addresses;
    size_t n;
    bool (*go_on)(void *opaque);
    void *opaque;
};

bool walker_at_stop(struct walker *w, const struct walker_stops *stops);

/*
 * To the next instruction.  @edges: of the symbolizer.  @over: to the next one in
 * the same function, if what is called there ends within @limit records, and
 * whatever interrupts what is called; WALKER_CALLEE if it is not known to end
 */
enum walker_way walker_way_on(struct walker *w, struct stack_edges *edges,
                              bool over, uint64_t limit,
                              const struct walker_stops *stops);

/*
 * To the instruction before.  @over: the one before it in the same function, if
 * what was called from there has ended here, by a return or otherwise, up to
 * @limit records before; WALKER_NOWHERE if it is not known from where
 */
enum walker_way walker_way_back(struct walker *w, struct stack_edges *edges,
                                bool over, uint64_t limit,
                                const struct walker_stops *stops);

/**
 * walker_caller - back to the call that the function was entered by
 * walker_return - forward to where the function has returned to
 * @limit: the most records to read
 *
 * Calls, interrupts and system calls that have ended are passed over, and what
 * other tasks do meanwhile.  A function ends where its stack says so, which need
 * not be by a return.  Returns WALKER_CALLER or WALKER_STOP, or WALKER_NOWHERE
 * if it is not found; then the walker stays where it is.
 */
enum walker_way walker_caller(struct walker *w, struct stack_edges *edges,
                              uint64_t limit, const struct walker_stops *stops);
enum walker_way walker_return(struct walker *w, struct stack_edges *edges,
                              uint64_t limit, const struct walker_stops *stops);

#endif /* BTRAIL_GDB_WALKER_H */
