/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the parts of a walker share; not for others
 */

#ifndef BTRAIL_GDB_WALKER_PARTS_H
#define BTRAIL_GDB_WALKER_PARTS_H

#include "gdb/lane-stack.h"
#include "gdb/walker.h"

/*
 * Records that are kept on either side of the one where it is; and the most
 * of them, on the side that it goes far to
 */
#define WALKER_AROUND   4096
#define WALKER_FAR      (WALKER_AROUND << 6)

/**
 * struct walker
 * @records, @here: as lane_read() has returned them; @here is the record where
 *          it is, or -1
 * @block:  after it, once somebody has asked for it
 * @before: records that are read before it the next time
 * @after: the same after it
 * @kinds:  what edges do that it has met
 * @stack:  along the lane, or NULL; and of struct ended, in order
 */
struct walker {
    const struct btrail_trace *trace;
    struct symbolizer *symbols;
    struct lane *lane;
    GArray *records;
    ssize_t here;
    struct block block;
    struct walker_spot spot;
    size_t before;
    size_t after;
    struct kind *kinds;
    struct lane_stack *stack;
    GArray *ended;
};

/* A record that is kept, or NULL */
const struct lane_record *walker_kept(const struct walker *w, ssize_t i);

/*
 * The block where it is, and how many instructions of it are known.  Of a
 * walker that is nowhere, no block has instructions.
 */
const struct block *walker_block(struct walker *w);
unsigned walker_size(struct walker *w);

/* Goes to after a record that is kept. */
void walker_stand(struct walker *w, ssize_t i);

/* Keeps the records around one, and goes there; false if there are none. */
bool walker_load(struct walker *w, const struct lane_at *at);

/* To the record after or before; false if there is none. */
bool walker_move(struct walker *w, int by);

/* To the first block after here that has instructions, or before */
bool walker_move_on(struct walker *w, int by);

/* Is one of some sorted addresses in [@first, @last]? */
bool walker_has(const uint64_t *addresses, size_t n, uint64_t first,
                uint64_t last);

/*
 * Which instruction of the block has one of them: the first one from @from on,
 * or the last one before it; -1 if none
 */
int walker_find(struct walker *w, const uint64_t *addresses, size_t n,
                bool forward, unsigned from);

/* Goes to a stop of the block, as walker_find(); false if it has none. */
bool walker_stop_in_block(struct walker *w, const struct walker_stops *stops,
                          bool forward, unsigned from);

/* Goes to a stop in the block between two records, of which the second one may
 * not be known; @pc: where it begins */
bool walker_stop_between(struct walker *w, const struct walker_stops *stops,
                         const struct lane_at *begin,
                         const struct lane_record *next, uint64_t pc);

/*
 * Goes back to a stop, in blocks after records from @until on; @before: this
 * instruction of the block where it is
 */
bool walker_back_to_stop(struct walker *w, const struct walker_stops *stops,
                         const struct lane_at *until, unsigned before);

/* Is there patience for so many records more? */
bool walker_has_patience(const struct walker_stops *stops, uint64_t left);

/**
 * enum call_found - what is known of a call
 * @FOUND_NONE:   the record is none that a call ends with
 * @FOUND_CALL:   where it is
 * @FOUND_UNSURE: more would have to be known of the stack
 */
enum call_found {
    FOUND_NONE,
    FOUND_CALL,
    FOUND_UNSURE,
};

/*
 * Which call has ended with the record after which it is.  @way: of the record,
 * backwards
 */
enum call_found walker_ended(struct walker *w, struct stack_edges *edges,
                             uint64_t limit, const struct walker_stops *stops,
                             enum walker_way *way, struct lane_at *call);

/*
 * To a call from @from on, unless there is a stop in between; WALKER_NOWHERE if
 * that is not known.  @at_once: also where what was called, or where it
 * returned to, was interrupted before it did anything
 */
enum walker_way walker_back_to_call(struct walker *w,
                                    const struct walker_stops *stops,
                                    const struct walker_spot *from,
                                    const struct lane_at *call, bool at_once);

#endif /* BTRAIL_GDB_WALKER_PARTS_H */
