/*
 * Branch trace: the streams of a capture
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_MISC_BRANCH_TRACE_STREAMS_H
#define HW_MISC_BRANCH_TRACE_STREAMS_H

#include "qemu/timer.h"
#include "selection.h"
#include "stream.h"

/*
 * The shortest time between two TIME events.  It is half of what the trace
 * promises, because the host's scheduler adds to it.
 */
#define BRANCH_TRACE_TICK_NS    (500 * SCALE_US)

/* At most one for each vCPU: it is made when the vCPU is selected. */
typedef struct BranchTraceStreams BranchTraceStreams;

/* All functions are called with the BQL held. */

/*
 * Work that waits for a vCPU finds the streams in @latest, where the caller
 * puts them before anything else is done with them: those for which it was
 * queued may have been freed.
 */
BranchTraceStreams *branch_trace_streams_new(BranchTraceStreams **latest,
                                             BranchTraceShared *shared);

/* Any thread, without BQL; may wait for the tick. */
void branch_trace_streams_free(BranchTraceStreams *streams);

/* The stream of a vCPU, or NULL if it was never selected */
BranchTraceStream *branch_trace_streams_find(const BranchTraceStreams *streams,
                                             const CPUState *cpu);

/*
 * The stream of vCPU @i, or of the next vCPU that has one, which @i becomes, or
 * NULL
 */
BranchTraceStream *branch_trace_streams_next(const BranchTraceStreams *streams,
                                             unsigned *i);

/* While a vCPU is waited for the BQL is not held: there may be more then. */
#define STREAM_FOREACH(streams, i, s) \
    for (i = 0; (s = branch_trace_streams_next(streams, &i)); i++)

/*
 * Records what @selection says, which the caller keeps until the next one has
 * replaced it.  Waits for the vCPUs.
 */
void branch_trace_streams_select(BranchTraceStreams *streams,
                                 const BranchTraceSelection *selection);

/* Begins to have TIME events made. */
void branch_trace_streams_start_tick(BranchTraceStreams *streams);

/* Ends all; @reason is enum btrail_end_reason.  Waits for the vCPUs. */
void branch_trace_streams_end(BranchTraceStreams *streams, uint16_t reason);

/* A vCPU has come, and is waited for, or is about to go. */
void branch_trace_streams_plug(BranchTraceStreams *streams, CPUState *cpu);
void branch_trace_streams_unplug(BranchTraceStreams *streams, CPUState *cpu);

/* Has all publish the slabs in progress, or continue in a slab. */
void branch_trace_streams_flush(BranchTraceStreams *streams);
void branch_trace_streams_wake(BranchTraceStreams *streams);

/*
 * Changes how tasks are found, or not, if that is NULL.  Does not wait for the
 * vCPUs; @done is called after each one that has done it.
 */
void branch_trace_streams_set_tasks(BranchTraceStreams *streams,
                                    const BranchTraceKernels *tasks,
                                    void (*done)(void *opaque), void *opaque);

#endif /* HW_MISC_BRANCH_TRACE_STREAMS_H */
