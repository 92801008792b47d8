/*
 * Branch trace: the stream of one vCPU
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_MISC_BRANCH_TRACE_STREAM_H
#define HW_MISC_BRANCH_TRACE_STREAM_H

#include "hw/misc/branch-trace.h"
#include "qapi/qapi-types-branch-trace.h"
#include "blocks.h"
#include "buffer.h"
#include "code.h"

/**
 * BranchTracePolicy - what a stream does when it has no free slab
 * @overflow:   enum btrail_overflow_policy.  The loss of the agent can make it
 *              another one than was asked for.
 * @gap_reason: of records that are lost, enum btrail_gap_reason
 *
 * Written with the BQL held, read by the vCPUs.
 */
typedef struct BranchTracePolicy {
    uint32_t overflow;
    uint32_t gap_reason;
} BranchTracePolicy;

/* Of threads, by their number: a power of two */
#define BRANCH_TRACE_PLACES 4096

/**
 * BranchTraceShared - what all streams of a capture share
 * @code:    NULL if code is not reported
 * @kernels: the agent knows KERNEL events
 * @places:  where the thread of a number ran last: that thread, and the vCPU
 */
typedef struct BranchTraceShared {
    BranchTraceBuffer buf;
    BranchTracePolicy policy;
    BranchTraceCode *code;
    bool kernels;
    uint64_t places[BRANCH_TRACE_PLACES];
} BranchTraceShared;

/* @tasks is as for branch_trace_stream_set_tasks(). */
BranchTraceStream *branch_trace_stream_new(CPUState *cpu,
                                           BranchTraceShared *shared,
                                           const BranchTraceFilter *filter,
                                           const BranchTraceKernels *tasks);
void branch_trace_stream_free(BranchTraceStream *s);

/*
 * These run on the thread of the vCPU, or with the BQL held while it does not
 * run.
 */

/* Starts the stream, or continues it on @cpu if its vCPU was unplugged. */
void branch_trace_stream_plug(BranchTraceStream *s, CPUState *cpu);
void branch_trace_stream_unplug(BranchTraceStream *s);

void branch_trace_stream_change(BranchTraceStream *s,
                                const BranchTraceFilter *filter);

/* Changes how tasks are found; NULL in between. */
void branch_trace_stream_set_tasks(BranchTraceStream *s,
                                   const BranchTraceKernels *tasks);

/* Publishes the slab in progress, if the vCPU need not wait for the next. */
void branch_trace_stream_flush(BranchTraceStream *s);

/* Publishes the end; @reason is enum btrail_end_reason. */
void branch_trace_stream_end(BranchTraceStream *s, uint16_t reason);

/* Continues in a slab, if one has become free. */
void branch_trace_stream_refill(BranchTraceStream *s);

/* The guest was stopped or resumed. */
void branch_trace_stream_vm_state(BranchTraceStream *s, bool running);

/* Index of the next record */
uint64_t branch_trace_stream_index(BranchTraceStream *s);

/*
 * The slab in progress (@n is 0), or that number @n before it.  False if the
 * buffer does not have it any more.  With policy overwrite, and only if no agent
 * has the buffer: nothing of it is checked.
 */
bool branch_trace_stream_slab(BranchTraceStream *s, unsigned n,
                              BranchTraceSlab *slab);

/* CR3 of the next record, as it is reported */
uint64_t branch_trace_stream_get_cr3(const BranchTraceStream *s);

/* The rest may run on any thread. */

/* The vCPU; NULL while it is unplugged, and after the end */
CPUState *branch_trace_stream_cpu(const BranchTraceStream *s);

enum btrail_vcpu_state branch_trace_stream_state(const BranchTraceStream *s);

/* Makes the vCPU read the clock at its next record. */
void branch_trace_stream_tick(BranchTraceStream *s);

/* Is there room for a vCPU that has none? */
bool branch_trace_stream_can_refill(BranchTraceStream *s);

/*
 * Reads how far the agent is.  Returns false if it has written a tail that is
 * not possible: it is lost then, and the last valid tail stays in force.
 */
bool branch_trace_stream_read_tail(BranchTraceStream *s);

/* From now on the agent in @slot drains; it continues where the last one was. */
void branch_trace_stream_hand_over(BranchTraceStream *s, uint32_t slot);

/* Has the agent drained anything since the last call? */
bool branch_trace_stream_has_progressed(BranchTraceStream *s);

/* Were records lost since the last call?  @lost is set to their sum. */
bool branch_trace_stream_has_lost(BranchTraceStream *s, uint64_t *lost);

/* What is known of the stream, with a state that ignores the selection */
BranchTraceVcpu *branch_trace_stream_info(BranchTraceStream *s);

#endif /* HW_MISC_BRANCH_TRACE_STREAM_H */
