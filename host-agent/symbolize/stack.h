/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Call stacks, reconstructed from records
 *
 * The bytes of the instruction at the `from` of a record say if it is a call,
 * a return or an interrupt.  There is one stack for each thread of control.  A
 * stack has the frames of user mode, the entry into the kernel and the frames
 * of the kernel.  If the trace does not name the thread that a vCPU runs,
 * return addresses show which one continues after a switch.
 *
 * Edges are classified before (stack-edge.h), and the symbolizer is not used
 * here: another thread may use it.
 *
 * A stack is a path in a tree: see stack-tree.h.
 */

#ifndef BTRAIL_STACK_H
#define BTRAIL_STACK_H

#include "symbolize/stack-counts.h"
#include "symbolize/stack-part.h"
#include "symbolize/stack-tree.h"

/**
 * stack_moved_fn - a vCPU has gone from one node to another
 * @record: the record of the last batch at whose end it moved.  Where the next
 *          record shows that the vCPU is elsewhere, this is the record before
 *          that; (size_t)-1 before the first one
 * @from, @to: NULL if the node is not known
 * @stack: that it is on: see stacks_stack().  With a @to of NULL it has ended
 */
typedef void stack_moved_fn(void *opaque, unsigned vcpu, size_t record,
                            const struct stack_node *from,
                            const struct stack_node *to, uint64_t stack);

struct stacks;

/**
 * struct stacks_options
 * @by_command: all processes of a command share a root
 * @moved:      can be NULL
 * @many:       a tree with this many nodes is large; 0: STACK_MANY_NODES
 * @spill:      called when the tree is large; then only the stacks of now are
 *              kept, and all counts begin at 0 again.  NULL keeps the tree
 * @next:       the @n-th part, from 0, that the task of the one that is added
 *              makes after it; NULL if that is not known yet.  NULL: never
 */
struct stacks_options {
    bool by_command;
    unsigned many;
    stack_moved_fn *moved;
    const struct stack_part *(*next)(void *opaque, unsigned n);
    void (*spill)(void *opaque);
    void *opaque;
};

struct stacks *stacks_new(const struct stacks_options *options);
void stacks_free(struct stacks *st);

/*
 * A batch begins.  Those of several vCPUs come in the order of time.  If the
 * tree is large, it is spilled.
 */
void stacks_begin(struct stacks *st);

/* Adds the next part of a batch. */
void stacks_add(struct stacks *st, const struct stack_part *part);

/* Adds time that the vCPU waited to the node where it is. */
void stacks_wait(struct stacks *st, unsigned vcpu, uint64_t ticks);

/* Adds time that a task was away for, since it has left a vCPU at a node; as a
 * record that has taken it. */
void stacks_left(struct stacks *st, const struct stack_node *node,
                 uint64_t ticks);

/* Records are missing here. */
void stacks_gap(struct stacks *st, unsigned vcpu);

/* The node where a vCPU is; NULL if that is not known */
const struct stack_node *stacks_where(const struct stacks *st, unsigned vcpu);

/*
 * The stack that a vCPU is on: 0, the thread's own; or the number of one that
 * the program has begun itself, as for coroutines
 */
uint64_t stacks_stack(const struct stacks *st, unsigned vcpu);

/**
 * struct stack_state - what the records have done that were followed last
 * @stack:    the vCPU is on; 0 if that is not known.  Each has another number
 * @depth:    how many calls, interrupts and entries into the kernel it is in
 *            that were followed
 * @call:     the record of the last one of them; 0 if it is not known
 * @ended:    the last record has ended some: the record of the first of these;
 *            or 0
 * @guessed:  by this record a program has gone to it, since it waited there;
 *            another stack may have, too, that was not followed yet
 * @whole:    all of the stack is known
 * @handler:  it is in a signal handler itself, that has not returned
 * @begins:   which the last record has begun
 * @strays:   the last record went to where no call leads that is known
 * @replaced: the next return is that of a retpoline
 *
 * Records have the numbers of struct stack_part, from 1 on, if these do not
 * begin again.  What may not be so, since the last record of the stack that
 * strayed left it open which calls continue, is not known.
 */
struct stack_state {
    uint64_t stack;
    unsigned depth;
    uint32_t call;
    uint32_t ended;
    uint32_t guessed;
    bool whole;
    bool handler;
    bool begins;
    bool strays;
    bool replaced;
};

struct stack_state stacks_state(const struct stacks *st, unsigned vcpu);

/**
 * struct stack_call - a function that a vCPU is in
 * @from:  where it has called the function before it in the list, or has been
 *         interrupted; 0 for the first one
 * @entry: that was an interrupt, an exception or a system call, not a call
 */
struct stack_call {
    const struct function *function;
    uint64_t from;
    bool entry;
};

/*
 * The functions that a vCPU is in, at most @most of them, the one that was
 * called last first.  Returns how many it is in.
 */
unsigned stacks_calls(const struct stacks *st, unsigned vcpu,
                      struct stack_call *calls, unsigned most);

/* The first process of the tree; the others are its siblings. */
const struct stack_node *stacks_roots(const struct stacks *st);

/*
 * Counts begin at 0, as those of nodes do if no record has counted yet.  What
 * is not right in stacks because of what was before stays counted.
 */
void stacks_count(struct stacks *st);

/* The number of nodes; the id of each is lower. */
unsigned stacks_nodes(const struct stacks *st);

const struct stack_counts *stacks_counts(const struct stacks *st);

#endif /* BTRAIL_STACK_H */
