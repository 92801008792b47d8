/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What gdbs connect to: a replay, forwards and backwards
 *
 * Several gdbs can be connected at once.  Each has a place of its own, and
 * breakpoints of its own: before a request of one is served, the guest is taken
 * to where that one has left it.  While the guest runs for one of them and
 * another has a request, the run is interrupted, and goes on when the others
 * have been quiet for a moment; and so does each way that the guest goes for a
 * request; what comes no further so is left alone for longer from time to
 * time.  The trace is searched apart, see apart.h.  So each sees a guest of its
 * own; what it has written to the guest's state is lost when another one has its
 * turn.
 */

#ifndef BTRAIL_GDB_FRONT_END_H
#define BTRAIL_GDB_FRONT_END_H

#include "gdb/process-symbols.h"
#include "gdb/target.h"
#include "gdb/trace-index.h"

struct front_end;

/**
 * front_end_new
 * @target: is taken
 * @ended:  QEMU is gone, or does not answer as it should: @error says which.
 *          The front end is of no more use.
 */
struct front_end *front_end_new(struct target *target,
                                void (*ended)(void *opaque,
                                              const GError *error),
                                void *opaque);
void front_end_free(struct front_end *fe);

/* Goes back by the trace, and says what it knows; it must live as long. */
void front_end_set_trace(struct front_end *fe, struct trace_index *trace);

/* Keeps the symbols of the first gdb up to date; they must live as long. */
void front_end_set_symbols(struct front_end *fe,
                           struct process_symbols *symbols);

/* For target_moves: is what takes long to go on? */
bool front_end_goes_on(struct front_end *fe);

/* Interrupts the searches, and the way of the guest, of gdbs that @meant says
 * are meant; runs are interrupted by gdb. */
void front_end_interrupt(struct front_end *fe, bool (*meant)(int sock));

/* So many gdbs are served at a time; others are hung up on. */
#define FRONT_END_GDBS_MAX  16

/* Serves a gdb; takes the connected socket. */
void front_end_add(struct front_end *fe, int sock);

#endif /* BTRAIL_GDB_FRONT_END_H */
