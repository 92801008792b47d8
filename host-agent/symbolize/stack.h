/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Call stacks, reconstructed from records
 *
 * What a record is (a call, a return, an interrupt) is told by the bytes of
 * the instruction at its `from`.  There is a stack for each thread of control;
 * a stack has the user's frames, the entry into the kernel and the kernel's
 * frames.  A trace does not tell which thread a vCPU runs, but for its address
 * space; where it goes on is found by return addresses.
 *
 * A stack is a path in a tree: a node is a function as called along the path
 * from the root, which is a process.
 */

#ifndef BTRAIL_STACK_H
#define BTRAIL_STACK_H

#include "symbolize/stack-tree.h"

/**
 * struct stack_counts - what happened
 * @calls, @returns: that matched
 * @interrupts: and exceptions
 * @entries:    into the kernel, from user mode
 * @nested:     frames that were left without a return ("wrongly nested")
 * @jumps_out:  times that happened by a jump into a caller (longjmp)
 * @signals:    returns to user mode that began a handler
 * @switches:   to another stack
 * @resumed:    of these, to one that was known
 * @unknown:    returns to where nothing was known of
 * @astray:     records that did not go on where the one before had led
 * @gaps:       holes in the trace
 * @dropped:    frames beyond the limits
 * @no_code:    records of instructions whose bytes are not known
 * @likely:     records whose process is BTRAIL_LIKELY
 */
struct stack_counts {
    uint64_t calls;
    uint64_t returns;
    uint64_t interrupts;
    uint64_t entries;
    uint64_t nested;
    uint64_t jumps_out;
    uint64_t signals;
    uint64_t switches;
    uint64_t resumed;
    uint64_t unknown;
    uint64_t astray;
    uint64_t gaps;
    uint64_t dropped;
    uint64_t no_code;
    uint64_t likely;
};

/**
 * stack_moved_fn - a vCPU has gone from one node to another
 * @record: by which record of the last batch: they are at its end.  If it has
 *          turned out that the vCPU is elsewhere, the one before; before the
 *          first one, (size_t)-1
 * @from, @to: NULL if it was, or is, nowhere
 */
typedef void stack_moved_fn(void *opaque, unsigned vcpu, size_t record,
                            const struct stack_node *from,
                            const struct stack_node *to);

struct stacks;

/* @moved can be NULL. */
struct stacks *stacks_new(struct symbolizer *s, stack_moved_fn *moved,
                          void *opaque);
void stacks_free(struct stacks *st);

/**
 * stacks_records - go on with records of one vCPU
 * @batch:  the records; batches of several vCPUs come in the order of time
 * @ticks:  how long each took
 * @counts: which of them count, as records, as time and as calls; NULL for all
 */
void stacks_records(struct stacks *st, unsigned vcpu,
                    const struct btrail_batch *batch, uint64_t ticks,
                    const bool *counts);

/* The vCPU waited where it is. */
void stacks_wait(struct stacks *st, unsigned vcpu, uint64_t ticks);

/* Something is missing here. */
void stacks_gap(struct stacks *st, unsigned vcpu);

/* Where a vCPU is; NULL if that is not known */
const struct stack_node *stacks_where(const struct stacks *st, unsigned vcpu);

/* The processes, and all below them */
const struct stack_node *stacks_roots(const struct stacks *st);

/* How many nodes there are; each has an id below. */
unsigned stacks_nodes(const struct stacks *st);

const struct stack_counts *stacks_counts(const struct stacks *st);

#endif /* BTRAIL_STACK_H */
