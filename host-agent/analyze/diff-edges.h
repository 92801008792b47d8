/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Edges of two traces, with the same number in both
 *
 * The same code is at other addresses in another run.  So an edge goes from an
 * offset in a function to an offset in a function, and functions are the same
 * if their names and those of their modules are.  Code without a name has the
 * offset in its file, or its address if it is in none.
 *
 * Two threads can number edges at the same time.  Edges have been numbered
 * before another thread gets their numbers, so it may read them without a lock.
 */

#ifndef BTRAIL_DIFF_EDGES_H
#define BTRAIL_DIFF_EDGES_H

#include "symbolize/stack-edge.h"

/* These numbers distinguish the two traces. */
#define DIFF_SIDES  2

/* Set in the numbers of edges that change the stack of calls */
#define DIFF_EDGE_STACK     1u

/* Records are missing: equal to nothing, not even to itself */
#define DIFF_EDGE_GAP       0
/* All edges beyond the limit */
#define DIFF_EDGE_OTHERS    2

/**
 * struct diff_function
 * @name:    NAME_UNKNOWN for code without a name
 * @module:  without folders
 * @syscall: as in struct function
 * @calls:   how often it was called by each side, see diff_edges_functions()
 */
struct diff_function {
    const char *name;
    const char *module;
    const char *syscall;
    bool known;
    uint64_t calls[DIFF_SIDES];
};

/**
 * struct diff_edge
 * @from, @to: offsets in @from_fn and @to_fn
 * @back:      the return address, in @from_fn; 0: unknown
 * @pseudo:    `to` as it is, if it is a pseudo-address; or 0
 * @kind:      enum stack_edge_kind
 * @start:     @to is the start of a function
 * @user:      @from is in user mode
 * @async:     an exception whose handler is left out
 * @counts:    how often each side has taken it
 */
struct diff_edge {
    struct diff_function *from_fn;
    struct diff_function *to_fn;
    uint64_t from;
    uint64_t to;
    uint64_t back;
    uint64_t pseudo;
    uint8_t kind;
    bool start;
    bool user;
    bool async;
};

struct diff_edges;

struct diff_edges *diff_edges_new(void);
void diff_edges_free(struct diff_edges *d);

/**
 * diff_edges_number - the number of an edge
 * @edge:   of a trace
 * @from, @to: places of its addresses
 * @async:  it is an interrupt or exception, of which only this is kept
 */
uint32_t diff_edges_number(struct diff_edges *d, const struct stack_edge *edge,
                           const struct place *from, const struct place *to,
                           bool async);

/* Does an edge call the function that it goes to, or jump to its start? */
bool diff_edge_calls(const struct diff_edge *e);

/* An edge by its number */
struct diff_edge *diff_edges_get(const struct diff_edges *d, uint32_t number);

/**
 * diff_edges_functions - add up how often functions were called
 * @counts: of each side: how often it has taken each edge, of uint64_t, by half
 *          of the edge's number; those after its end were not taken
 *
 * Returns the functions, of struct diff_function *, in an array that the caller
 * frees.
 */
GPtrArray *diff_edges_functions(struct diff_edges *d,
                                GArray *const counts[DIFF_SIDES]);

#endif /* BTRAIL_DIFF_EDGES_H */
