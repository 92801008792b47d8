/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A trace, prepared for call stacks
 *
 * A thread reads ahead: it decodes records, merges vCPUs by time, finds the
 * tasks, asks the filter and classifies edges.  The caller's thread only
 * follows the stacks.
 *
 * Of a window, all that is before it is read as well, and does not count: that
 * is where its stacks have begun.
 *
 * Time that a vCPU waits is the record's before it.  It counts if that record
 * does, and as far as it is in the times that count.  A record that is not in
 * the window can have time in it: then all else says whether it counts.
 */

#ifndef BTRAIL_CALL_READER_H
#define BTRAIL_CALL_READER_H

#include "analyze/pace.h"
#include "analyze/times.h"
#include "analyze/window.h"
#include "symbolize/filter.h"
#include "symbolize/stack.h"

/**
 * struct call_reader_options
 * @filter: which records count; NULL for all
 * @window: the part of the trace that counts
 * @from:   host clock; what was recorded before it is not read at all
 * @times:  the time that counts; NULL for that in the window
 * @waits:  of that, the time in which vCPUs can wait; NULL for all of it
 * @whole:  the set of @filter has all records of all vCPUs at @times, so that
 *          a record that is not in it can have time there, too
 * @leaves: struct call_step's @leaves is needed, and CALL_STEP_LEFT and
 *          CALL_STEP_WAKE
 * @tick:   of the session, in nanoseconds; 0 if it is not known
 * @many_edges: this many different edges are classified anew; 0:
 *          STACK_MANY_EDGES
 */
struct call_reader_options {
    struct symbolizer *names;
    const struct filter *filter;
    struct window window;
    uint64_t from;
    const struct times *times;
    const struct times *waits;
    bool whole;
    bool leaves;
    uint64_t tick;
    unsigned many_edges;
};

/**
 * struct call_reader_sums
 * @records: number of records in the window
 * @chosen:  of those that the filter has chosen
 * @damage:  as of btrail_cursor_damage()
 * @gaps:    in the window where records are missing
 * @until:   the last clock that was read, or that ended the window
 */
struct call_reader_sums {
    uint64_t records;
    uint64_t chosen;
    uint64_t damage;
    uint64_t gaps;
    uint64_t until;
};

enum call_step_kind {
    CALL_STEP_WAIT,
    CALL_STEP_GAP,
    CALL_STEP_RECORDS,
    CALL_STEP_LEFT,
    CALL_STEP_WAKE,
};

/**
 * struct call_step - what happens next in a trace
 * @index:  of the first record of the batch, which has one pace, and of which
 *          each record has the same time that counts; of the gap
 * @wait:   CALL_STEP_WAIT: time that the vCPU waited, and that counts, in
 *          1/PACE_TICKS ns
 * @part:   CALL_STEP_RECORDS: a part of a batch
 * @counts: of the whole batch, as in struct stack_part
 * @before: the batch is before the window
 * @last:   this is the last part of the batch
 * @leaves: time after the last record of the part counts, as far as it is in
 *          the times that count
 * @pace:   of the batch
 * @left:   CALL_STEP_LEFT: why the task of the last records leaves, if it does
 * @wake:   CALL_STEP_WAKE: who is woken, of kernel @kernel, at @time, which is 0
 *          if it is not known
 */
struct call_step {
    enum call_step_kind kind;
    unsigned vcpu;
    uint64_t index;
    uint64_t wait;
    struct stack_part part;
    const bool *counts;
    bool before;
    bool last;
    bool leaves;
    struct pace pace;
    struct btrail_left left;
    struct btrail_wake wake;
    uint32_t kernel;
    uint64_t time;
};

struct call_reader;

/* @options must live as long.  Errors: as btrail_merged_open(). */
int call_reader_open(struct call_reader **reader,
                     const struct btrail_trace *trace,
                     const struct call_reader_options *options);

/*
 * The next steps, @n of them, which are valid until the next call; NULL at the
 * end.  Until then the caller must not use the symbolizer.
 */
const struct call_step *call_reader_next(struct call_reader *r, size_t *n);

/*
 * The @n-th part, from 0, that the task of a step that was returned last makes
 * after it; NULL if that is too far
 */
const struct stack_part *call_reader_next_part(struct call_reader *r,
                                               const struct call_step *step,
                                               unsigned n);

/*
 * @sums: gets those of what was read; or NULL.  Returns 0 or a negative enum
 * btrail_error, with errno set.
 */
int call_reader_close(struct call_reader *r, struct call_reader_sums *sums);

#endif /* BTRAIL_CALL_READER_H */
