/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A trace, prepared for call stacks
 *
 * A thread reads ahead: it decodes records, merges vCPUs by time, finds the
 * tasks, asks the filter and classifies edges.  The caller's thread only
 * follows the stacks.
 */

#ifndef BTRAIL_CALL_READER_H
#define BTRAIL_CALL_READER_H

#include "analyze/call-tree.h"
#include "analyze/pace.h"

enum call_step_kind {
    CALL_STEP_WAIT,
    CALL_STEP_GAP,
    CALL_STEP_RECORDS,
};

/**
 * struct call_step - what happens next in a trace
 * @index:  of the first record of the batch, which has one pace; of the gap
 * @wait:   CALL_STEP_WAIT: time that the vCPU waited, in 1/PACE_TICKS ns
 * @part:   CALL_STEP_RECORDS: a part of a batch
 * @counts: of the whole batch, as in struct stack_part
 * @last:   this is the last part of the batch
 * @pace:   of the batch
 */
struct call_step {
    enum call_step_kind kind;
    unsigned vcpu;
    uint64_t index;
    uint64_t wait;
    struct stack_part part;
    const bool *counts;
    bool last;
    struct pace pace;
};

struct call_reader;

/* Errors: as btrail_merged_open(). */
int call_reader_open(struct call_reader **reader,
                     const struct btrail_trace *trace,
                     const struct call_tree_options *options);

/*
 * The next steps, @n of them, which are valid until the next call; NULL at the
 * end.  Until then the caller must not use the symbolizer.
 */
const struct call_step *call_reader_next(struct call_reader *r, size_t *n);

/*
 * After the end: adds up what was read.  Returns 0 or a negative enum
 * btrail_error, with errno set.
 */
int call_reader_close(struct call_reader *r, struct call_tree *t);

#endif /* BTRAIL_CALL_READER_H */
