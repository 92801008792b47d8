/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where the guest of a replay has been, from the trace
 *
 * A record has the number of instructions that the guest had executed, so the
 * trace says when each block of instructions ran.  Of several vCPUs, one runs at
 * a time, and all count the same instructions.
 */

#ifndef BTRAIL_PAST_H
#define BTRAIL_PAST_H

#include "backtrail/trace.h"

struct past;

/* NULL if the trace has no instruction counts.  It must live as long. */
struct past *past_new(const struct btrail_trace *trace);
void past_free(struct past *h);

/**
 * struct past_place - what the trace says of a moment
 * @index: of the last record before it
 * @count: of that record
 * @since, @until: of one vCPU, from @since to before @until instructions time,
 *         task, kernel and cr3 are the same
 */
struct past_place {
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
bool past_at(struct past *h, unsigned vcpu, uint64_t icount,
             struct past_place *place);

/**
 * struct past_visit - a block of instructions that ran
 * @start: instructions that the guest had executed when it was at @to
 * @to:    where the block begins
 * @end:   the same as @start, after the branch that ends it
 * @at:    the address that was searched; an interrupt or a fault at the end can
 *         have come before it ran
 */
struct past_visit {
    uint64_t start;
    uint64_t to;
    uint64_t end;
    uint64_t at;
};

/**
 * enum past_answer
 * @PAST_NONE:    it never was at any of them
 * @PAST_FOUND:   it was
 * @PAST_UNKNOWN: the trace lacks what would say it
 */
enum past_answer {
    PAST_NONE,
    PAST_FOUND,
    PAST_UNKNOWN,
};

/**
 * struct past_filter - which visits count
 * @wanted: does one of an address, where a vCPU was at @place (of which @since
 *          and @until are not known)?
 */
struct past_filter {
    bool (*wanted)(void *opaque, unsigned vcpu, const struct past_place *place,
                   uint64_t address);
    void *opaque;
};

/*
 * The last block of a vCPU before an instruction, where it is at @pc, that
 * has one of some addresses, and counts; @filter: NULL if all do.  Other vCPUs
 * can have run within it.  If some do not count, and the trace lacks what is
 * before them, it is the first of these.
 */
enum past_answer past_last_visit(struct past *h, unsigned vcpu,
                                 const uint64_t *addresses, unsigned n,
                                 uint64_t icount, uint64_t pc,
                                 const struct past_filter *filter,
                                 struct past_visit *visit);

#endif /* BTRAIL_PAST_H */
