/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The trace as the index of a replay: what it says of a moment, by instruction
 */

#ifndef BTRAIL_REPLAY_TRACE_INDEX_H
#define BTRAIL_REPLAY_TRACE_INDEX_H

#include "find/past.h"
#include "replay/turns.h"
#include "symbolize/symbolizer.h"

/**
 * struct where - what is known of a moment
 * @at:      the last record of the vCPU before it
 * @process: the task that made it
 */
struct where {
    unsigned vcpu;
    struct past_place at;
    const struct process *process;
};

/**
 * struct trace_index
 * @trace:   belongs to the caller
 * @tsc_hz:  guest_time_hz() of it
 * @history: NULL if the trace has no instruction counts
 * @symbols: its names
 * @turns:   of its vCPUs, which belong to the caller; NULL if it has one
 * @last:    what trace_index_process() has found last
 * @left:    another page table than that of @last is in force already
 */
struct trace_index {
    const struct btrail_trace *trace;
    uint64_t tsc_hz;
    struct past *history;
    struct symbolizer *symbols;
    const struct turns *turns;
    struct where last;
    bool left;
};

/* Returns NULL with an error if a file of @options cannot be read. */
struct trace_index *trace_index_new(const struct btrail_trace *trace,
                                    const struct turns *turns,
                                    const struct symbolizer_options *options,
                                    GError **error);
void trace_index_free(struct trace_index *t);

/* Where a vCPU was at an instruction.  False if the trace does not say it. */
bool trace_index_where(struct trace_index *t, unsigned vcpu, uint64_t icount,
                       struct where *where);

/* The process of @where, of which all else is known; false if it is not */
bool trace_index_add_process(struct trace_index *t, struct where *where);

/* The same as trace_index_where() of the vCPU that runs next */
bool trace_index_running(struct trace_index *t, uint64_t icount,
                         struct where *where);

/* The record's place in the trace */
struct symbolizer_where where_record(const struct where *where);

/*
 * The task alone, in its own address space also while the kernel leaves it,
 * which is quick near the moment of the last call; NULL if the trace does not
 * say it
 */
const struct process *trace_index_process(struct trace_index *t,
                                          uint64_t icount);

/* The task's name and numbers, "NAME PID/TID", quoted, to be freed */
char *where_task(const struct where *where);
char *where_owner(const struct btrail_task *task);

/* FUNCTION+0xOFFSET [MODULE] of an address, quoted, to be freed; NULL if it is
 * not known */
char *trace_index_name(struct trace_index *t, const struct where *where,
                       uint64_t address);

#endif /* BTRAIL_REPLAY_TRACE_INDEX_H */
