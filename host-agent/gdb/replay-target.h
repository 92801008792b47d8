/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A replay, forwards and backwards: a target of the servers of several gdbs
 *
 * Each has a place of its own, and breakpoints of its own: before a request of
 * one is served, the guest is taken to where that one has left it.  While the
 * guest runs for one of them and another has a request, the run is interrupted,
 * and continues when the others have been quiet for a moment.  The same holds
 * for each way that the guest goes for a request; one that makes no progress is
 * then left alone for longer from time to time.  The trace is searched apart,
 * see apart.h.  So each sees a guest of its own; what it has written to the
 * guest's state is lost when another one has its turn.
 */

#ifndef BTRAIL_GDB_REPLAY_TARGET_H
#define BTRAIL_GDB_REPLAY_TARGET_H

#include "gdb/process-symbols.h"
#include "gdb/vm.h"
#include "replay/trace-index.h"

struct replay_target;

/**
 * replay_target_new
 * @vm:    is taken
 * @ended:  QEMU is gone, or does not answer as it should: @error says which.
 *          The target is of no use then.
 */
struct replay_target *replay_target_new(struct vm *vm,
                                void (*ended)(void *opaque,
                                              const GError *error),
                                void *opaque);
void replay_target_free(struct replay_target *r);

/* Goes back by the trace, and says what it knows; it must live as long. */
void replay_target_set_trace(struct replay_target *r,
                             struct trace_index *trace);

/* Keeps the symbols of the first gdb up to date; they must live as long. */
void replay_target_set_symbols(struct replay_target *r,
                           struct process_symbols *symbols);

/* For vm_moves: shall what takes long continue? */
bool replay_target_goes_on(struct replay_target *r);

/*
 * Interrupts the searches, and the way of the guest, of gdbs that @meant says
 * are meant; runs are interrupted by gdb.
 */
void replay_target_interrupt(struct replay_target *r, bool (*meant)(int sock));

/*
 * Serves a gdb, or disconnects one beyond GDB_SERVERS_MAX; takes the connected
 * socket.
 */
void replay_target_add(struct replay_target *r, int sock);

#endif /* BTRAIL_GDB_REPLAY_TARGET_H */
