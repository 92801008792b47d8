/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What edges do: calls, returns, entries into the kernel
 *
 * A trace has many records of few edges, so each edge is classified once for
 * each content that the page of its branch has.
 */

#ifndef BTRAIL_STACK_EDGE_H
#define BTRAIL_STACK_EDGE_H

#include "symbolize/symbolizer.h"

/**
 * enum stack_edge_kind
 *
 * @STACK_EDGE_UNKNOWN:   the instruction is not known
 * @STACK_EDGE_CALL:      a call
 * @STACK_EDGE_RET:       a return
 * @STACK_EDGE_JUMP:      a direct jump
 * @STACK_EDGE_JUMP_FAR:  an indirect jump, which can go anywhere
 * @STACK_EDGE_REPLACES:  a direct jump to the return that goes to a replaced
 *                        return address: the end of a retpoline
 * @STACK_EDGE_ENTRY:     from user mode to the kernel
 * @STACK_EDGE_EXIT:      from the kernel to user mode
 * @STACK_EDGE_INTERRUPT: an interrupt or exception in the same mode
 * @STACK_EDGE_IRET:      the return from one
 */
enum stack_edge_kind {
    STACK_EDGE_UNKNOWN,
    STACK_EDGE_CALL,
    STACK_EDGE_RET,
    STACK_EDGE_JUMP,
    STACK_EDGE_JUMP_FAR,
    STACK_EDGE_REPLACES,
    STACK_EDGE_ENTRY,
    STACK_EDGE_EXIT,
    STACK_EDGE_INTERRUPT,
    STACK_EDGE_IRET,
};

/* vCPUs whose records come by turns */
#define STACK_EDGE_VCPUS    2

/* What each record reads to tell edges from each other comes first. */
struct stack_edge {
    uint64_t from;
    uint64_t to;
    uint32_t space;
    uint32_t era;               /* of its ends in the kernel; else the mode that
                                   CR3 says */
    uint32_t stretches[STACK_EDGE_VCPUS];   /* of the code, in which @content
                                   was found last; 0: look each time */
    uint8_t kind;
    bool start : 1;             /* @to is the start of a function */
    bool handler : 1;           /* an interrupt or exception goes to @to */
    bool inner : 1;             /* a call into the middle of itself */
    bool switches : 1;          /* a call of __switch_to_asm() */
    bool ends : 1;              /* a call of do_task_dead() */
    bool restacks : 1;          /* a jump to another stack of the program's */
    bool stays : 1;             /* a tail call that is shown as a call */
    bool plain : 1;             /* on the right stack, it does not change it */
    uint64_t content;           /* of the page that @from is on; 0: unknown */
    uint64_t back;              /* the return address; 0: unknown */
    const struct function *from_fn;
    const struct function *to_fn;
};

/*
 * Records that follow another one in the same function, with plain edges.  If
 * the instruction is unknown, this holds only if no call can return.
 */
struct stack_run {
    uint32_t n;
    uint32_t unknown;           /* this many of them are STACK_EDGE_UNKNOWN */
};

struct stack_edges;

#define STACK_MANY_EDGES (4u << 20)

/* @many edges are many; 0: STACK_MANY_EDGES. */
struct stack_edges *stack_edges_new(struct symbolizer *s, unsigned many);
void stack_edges_free(struct stack_edges *st);

/*
 * What the edge of a record does, which @process made at @where.  Where other
 * names are known, or other code, it is another edge.  The result is valid until
 * stack_edges_reset(), and does not change.
 */
const struct stack_edge *
stack_edges_get(struct stack_edges *st, const struct process *process,
                const struct symbolizer_where *where,
                const struct btrail_record *r);

/*
 * The same for @n records from @where on.  Each run belongs to a record and has
 * those after it; the next one belongs to the first record after the run.
 * Both arrays have room for @n.
 */
void stack_edges_get_all(struct stack_edges *st, const struct process *process,
                         const struct symbolizer_where *where,
                         const struct btrail_record *records, size_t n,
                         const struct stack_edge **edges,
                         struct stack_run *runs);

/* Are there so many edges that it is time for stack_edges_reset()? */
bool stack_edges_many(const struct stack_edges *st);

/* Forgets all edges, and frees them. */
void stack_edges_reset(struct stack_edges *st);

#endif /* BTRAIL_STACK_EDGE_H */
