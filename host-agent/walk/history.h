/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where the guest of a replay has been, from the trace
 *
 * A record has the number of instructions that the guest had executed, so the
 * trace says when each block of instructions ran.  Of several vCPUs, one runs at
 * a time, and all count the same instructions.
 */

#ifndef BTRAIL_HISTORY_H
#define BTRAIL_HISTORY_H

#include "backtrail/trace.h"

struct history;

/* NULL if the trace has no instruction counts.  It must live as long. */
struct history *history_new(const struct btrail_trace *trace);
void history_free(struct history *h);

/**
 * struct history_place - what the trace says of a moment
 * @index: of the last record before it
 * @count: of that record
 * @since, @until: of one vCPU, from @since to before @until instructions time,
 *         task, kernel and cr3 are the same
 */
struct history_place {
    uint64_t index;
    uint64_t count;
    uint64_t since;
    uint64_t until;
    struct btrail_time time;
    struct btrail_task task;
    struct btrail_kernel kernel;
    uint64_t cr3;
};

/* Of a vCPU.  False if it has no record before that, or the trace is damaged
 * there. */
bool history_at(struct history *h, unsigned vcpu, uint64_t icount,
                struct history_place *place);

/**
 * struct history_visit - a block of instructions that ran
 * @start: instructions that the guest had executed when it was at @to
 * @to:    where the block begins
 * @end:   the same as @start, behind the branch that ends it
 * @at:    the address that was searched; an interrupt or a fault at the end can
 *         have come before it ran
 */
struct history_visit {
    uint64_t start;
    uint64_t to;
    uint64_t end;
    uint64_t at;
};

/**
 * enum history_answer
 * @HISTORY_NONE:    it never was at any of them
 * @HISTORY_FOUND:   it was
 * @HISTORY_UNKNOWN: the trace lacks what would say it
 */
enum history_answer {
    HISTORY_NONE,
    HISTORY_FOUND,
    HISTORY_UNKNOWN,
};

/* The last block of a vCPU before an instruction, where it stands at @pc, that
 * has one of some addresses.  Other vCPUs can have run within it. */
enum history_answer history_last_visit(struct history *h, unsigned vcpu,
                                       const uint64_t *addresses, unsigned n,
                                       uint64_t icount, uint64_t pc,
                                       struct history_visit *visit);

#endif /* BTRAIL_HISTORY_H */
