/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Aligning what one task did in two runs
 *
 * As long as both sequences of edges are the same, they are followed edge by
 * edge, with one stack of calls for both.  Where they diverge, in some
 * function, both sides are searched for the first place where they do the same
 * again.  Only edges of this function count, and after its return those of its
 * caller, and so on: what the function calls is skipped as a whole.  So a loop
 * with one more turn, a call that one side leaves out, or a slow path is a
 * difference of a few edges, however much was executed in it, and at the latest
 * the return to a caller that both have brings them together.
 *
 * Where that fails, and where records are missing, the edges themselves are
 * searched for a piece that both sides have; then nothing is known of the
 * stack.
 */

#ifndef BTRAIL_DIFF_ALIGN_H
#define BTRAIL_DIFF_ALIGN_H

#include "analyze/diff-edges.h"
#include "analyze/diff-sequence.h"

/* This many edges before a difference are kept. */
#define DIFF_HISTORY    4096

/**
 * enum diff_end - how a difference ends
 *
 * @DIFF_TOGETHER: both do the same again
 * @DIFF_ENDED:    at least one of them ends
 * @DIFF_LOST:     no place is found from which on both do the same
 */
enum diff_end {
    DIFF_TOGETHER,
    DIFF_ENDED,
    DIFF_LOST,
};

/**
 * struct diff_difference
 * @at:     of each side: the position of the first edge that differs
 * @n:      edges of each side up to where they do the same again; if they do
 *          not, as many as were read until then
 * @edge:   the first edge; DIFF_EDGE_GAP if there is none, or it is missing
 * @gap:    records of one side are missing at the beginning
 * @levels: this many frames of the stack have returned meanwhile
 * @end:    how it ends
 */
struct diff_difference {
    uint64_t at[DIFF_SIDES];
    uint64_t n[DIFF_SIDES];
    uint32_t edge[DIFF_SIDES];
    bool gap;
    unsigned levels;
    enum diff_end end;
};

/**
 * diff_differs_fn - receives a difference
 *
 * The sequences have the edges from DIFF_HISTORY before it on, and at least
 * some after it.
 */
struct diff_align;
typedef void diff_differs_fn(void *opaque, struct diff_align *a,
                             const struct diff_difference *d);

/**
 * struct diff_align
 * @sequence: the two; the caller adds to them
 * @at:       how far they are compared
 * @since:    where this side has last begun to do the same
 * @same:     edges that both have
 * @searched: edges that were searched for places where both are the same
 * @stack:    calls that have not returned, the innermost last: numbers of edges
 * @done:     there is no more to compare
 */
struct diff_align {
    const struct diff_edges *edges;
    struct diff_scratch *scratch;
    diff_differs_fn *differs;
    void *opaque;
    struct diff_sequence sequence[DIFF_SIDES];
    uint64_t at[DIFF_SIDES];
    uint64_t since[DIFF_SIDES];
    uint64_t same;
    uint64_t searched;
    GArray *stack;
    unsigned effort;
    bool done;
};

/* Memory that several alignments can use one after the other */
struct diff_scratch *diff_scratch_new(void);
void diff_scratch_free(struct diff_scratch *s);

void diff_align_init(struct diff_align *a, const struct diff_edges *edges,
                     struct diff_scratch *scratch, diff_differs_fn *differs,
                     void *opaque);
void diff_align_clear(struct diff_align *a);

/*
 * Continues as far as the sequences reach.  @dropped gets the number of edges
 * of each side that were dropped.
 */
void diff_align_run(struct diff_align *a, uint64_t dropped[DIFF_SIDES]);

#endif /* BTRAIL_DIFF_ALIGN_H */
