/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Lanes: the records that one thread of gdb walks along
 *
 * Such a thread is a vCPU, or a thread of the guest, which makes records on any
 * vCPU, in one run after another.
 */

#ifndef BTRAIL_GDB_LANE_H
#define BTRAIL_GDB_LANE_H

#include "find/clock-order.h"
#include "symbolize/symbolizer.h"
#include "util/agent-error.h"

/**
 * struct lane_run - records of one vCPU, of which none is of another lane
 * @begin, @end: indices
 * @time: the TIME event in force at the first one
 */
struct lane_run {
    unsigned vcpu;
    uint64_t begin;
    uint64_t end;
    struct btrail_time time;
};

/**
 * struct lane_at - after a record of a lane
 * @run: number of its run
 */
struct lane_at {
    size_t run;
    uint64_t index;
};

/**
 * struct lane_record
 * @cr3:     in force when it was made
 * @process: whose page table that is
 * @leaves:  it goes to another kernel
 * @lost:    what ran before it, up to its branch, is not known: records are
 *           missing
 */
struct lane_record {
    struct btrail_record record;
    struct lane_at at;
    unsigned vcpu;
    bool lost;
    uint64_t cr3;
    const struct process *process;
    struct btrail_time time;
    struct btrail_task task;
    struct btrail_kernel kernel;
    bool leaves;
};

struct lane;

/**
 * lane_new
 * @runs:    of struct lane_run, in the order of time; taken.  No run is empty,
 *           and there is one at least
 * @trace, @symbols: live as long
 */
struct lane *lane_new(const struct btrail_trace *trace,
                      struct symbolizer *symbols, GArray *runs);

/* The lane of a vCPU; NULL if it has no records */
struct lane *lane_new_vcpu(const struct btrail_trace *trace,
                           struct symbolizer *symbols, unsigned vcpu);
void lane_free(struct lane *l);

const GArray *lane_runs(const struct lane *l);

/* Is @a before @b? */
bool lane_before(const struct lane_at *a, const struct lane_at *b);

/*
 * The last record of the lane up to a moment, or its first one if there is
 * none: that with the moment's index if the lane has it, otherwise by the times
 * of other vCPUs, which are estimated if the moment's is: see
 * clock_order_stamp().
 */
struct lane_at lane_find(const struct lane *l, const struct moment *m);

/* This many indices before, or where the lane begins */
struct lane_at lane_back(const struct lane *l, struct lane_at at, uint64_t n);

/**
 * lane_read - read the records around one
 * @before, @after: how many before the last one up to @at, and after it: fewer
 *           where the lane begins or ends, or records are missing, but at least
 *           one before it if there is any
 * @here:    gets which of them is the last one up to @at; -1 if there is none
 *
 * Returns struct lane_record, in order; empty if the trace is damaged there.
 * They do not change, may be shared with another caller, and are to be
 * released.
 */
GArray *lane_read(struct lane *l, const struct lane_at *at, size_t before,
                  size_t after, ssize_t *here);
void lane_release(struct lane *l, GArray *records);

/* Of a record */
struct symbolizer_where lane_where(const struct lane_record *r);

#endif /* BTRAIL_GDB_LANE_H */
