/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The call stack along a lane: see symbolize/stack.h
 *
 * It is followed forwards from some record on, before which nothing is known.
 */

#ifndef BTRAIL_GDB_LANE_STACK_H
#define BTRAIL_GDB_LANE_STACK_H

#include "gdb/lane.h"
#include "symbolize/stack.h"

struct lane_stack;

/* All live as long.  @edges: of @symbols */
struct lane_stack *lane_stack_new(struct lane *lane, struct symbolizer *symbols,
                                  struct stack_edges *edges);
void lane_stack_free(struct lane_stack *s);

/* Begins @back records before one, or a few more. */
void lane_stack_begin(struct lane_stack *s, const struct lane_at *at,
                      uint64_t back);

/* The record that was followed last; NULL if none was, or if the ones after it
 * were read since, or looked for where there are none */
const struct lane_record *lane_stack_last(const struct lane_stack *s);

/*
 * Follows the next record, which is returned until there is another one; NULL
 * at the end of the lane, or where the trace is damaged.  Where records are
 * missing, it begins again.
 */
const struct lane_record *lane_stack_next(struct lane_stack *s);

/* Follows those up to before a record; false if that is not reached. */
bool lane_stack_follow(struct lane_stack *s, const struct lane_at *at);

/* After the last one; and what that does, if there is lane_stack_last() */
struct stack_state lane_stack_state(const struct lane_stack *s);
const struct stack_edge *lane_stack_edge(const struct lane_stack *s);

/* Would nothing more be known if it had begun before? */
bool lane_stack_whole(const struct lane_stack *s);

/* Where the record is with a number of struct stack_state */
struct lane_at lane_stack_where(const struct lane_stack *s, uint32_t number);

#endif /* BTRAIL_GDB_LANE_STACK_H */
