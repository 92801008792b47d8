/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What edges do: calls, returns, entries into the kernel
 *
 * The records of a trace are many, their edges few.  What an edge does is
 * found out once.
 */

#ifndef BTRAIL_STACK_EDGE_H
#define BTRAIL_STACK_EDGE_H

#include "symbolize/symbolizer.h"

enum stack_edge_kind {
    STACK_EDGE_UNKNOWN,               /* nothing is known of the instruction */
    STACK_EDGE_CALL,
    STACK_EDGE_RET,
    STACK_EDGE_JUMP,                  /* that says where */
    EDGE_JUMP_FAR,              /* indirect: it can go anywhere */
    STACK_EDGE_ENTRY,                 /* from user mode to the kernel */
    STACK_EDGE_EXIT,                  /* back */
    STACK_EDGE_INTERRUPT,             /* in the same mode */
    STACK_EDGE_IRET,
};

struct stack_edge {
    uint64_t from;
    uint64_t to;
    uint64_t back;              /* where a return goes to */
    const struct function *from_fn;
    const struct function *to_fn; /* NULL: the slot is free */
    uint32_t space;
    uint8_t kind;
    bool start;                 /* @to is where a function starts */
    bool inner;                 /* a call into the middle of itself */
    bool switches;              /* a call of what switches kernel stacks */
    bool stays;                 /* a tail call that is shown as a call */
};

struct stack_edges;

struct stack_edges *stack_edges_new(struct symbolizer *s);
void stack_edges_free(struct stack_edges *st);

/*
 * What the edge of a record does, that was made by @process at @where; valid
 * until the next call.
 */
const struct stack_edge *
stack_edges_get(struct stack_edges *st, const struct process *process,
                const struct symbolizer_where *where,
                const struct btrail_record *r);

#endif /* BTRAIL_STACK_EDGE_H */
