/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Back to a breakpoint by the trace: one goto, whatever the distance
 */

#ifndef BTRAIL_GDB_REVERSE_H
#define BTRAIL_GDB_REVERSE_H

#include "find/past.h"
#include "gdb/vm.h"

/* What is wanted in the trace for one way back, which can be gone in parts */
struct reverse;

struct reverse *reverse_new(struct past *h);
void reverse_free(struct reverse *r);

/**
 * reverse_continue - go to where the guest was last at one of some breakpoints
 * @breakpoints: keys are "0,ADDRESS,1" or "1,ADDRESS,1", as in gdb's requests
 * @place:       where it is
 * @filter:      most of what does not count is passed over in the trace, apart
 *               (util/apart.h); NULL: all does
 *
 * PAST_NONE takes it to its first instruction.  After PAST_UNKNOWN it can be
 * anywhere: QEMU itself has to search; but not with an error, which means that
 * it shall not continue (vm_moves.goes_on).  It can be called again then: the
 * trace is searched meanwhile, apart.
 */
enum past_answer reverse_continue(struct vm *vm, struct reverse *r,
                                  GHashTable *breakpoints,
                                  const struct vm_place *place,
                                  const struct past_filter *filter,
                                  GError **error);

/**
 * reverse_find_watchpoint - what does the next instruction read or write, or
 * the delivery of interrupts and exceptions before it?
 * @breakpoints: those that are wanted, without "Z"
 * @hit:         the watchpoint that it meets, as in "watch:ADDRESS"; NULL if
 *               none
 *
 * The guest is before both afterwards, too: gdb expects to see what is there
 * before a write.
 */
bool reverse_find_watchpoint(struct vm *vm, GHashTable *breakpoints,
                             char **hit, GError **error);

#endif /* BTRAIL_GDB_REVERSE_H */
