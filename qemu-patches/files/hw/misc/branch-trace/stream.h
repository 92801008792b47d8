/*
 * Branch trace: the stream of one vCPU
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_MISC_BRANCH_TRACE_STREAM_H
#define HW_MISC_BRANCH_TRACE_STREAM_H

#include "hw/misc/branch-trace.h"
#include "qapi/qapi-types-branch-trace.h"
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

BranchTraceStream *branch_trace_stream_new(CPUState *cpu,
                                           BranchTraceBuffer *buf,
                                           const BranchTraceProducerOps *ops,
                                           const BranchTraceFilter *filter,
                                           const BranchTracePolicy *policy,
                                           BranchTraceCode *code);
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

/* Publishes the slab in progress, if the vCPU need not wait for the next. */
void branch_trace_stream_flush(BranchTraceStream *s);

/* Publishes the end; @reason is enum btrail_end_reason. */
void branch_trace_stream_end(BranchTraceStream *s, uint16_t reason);

/* Continues in a slab, if one has become free. */
void branch_trace_stream_refill(BranchTraceStream *s);

/* The guest was stopped or resumed. */
void branch_trace_stream_vm_state(BranchTraceStream *s, bool running);

/* The guest's state was loaded from a snapshot. */
void branch_trace_stream_restored(BranchTraceStream *s);

/* The rest may run on any thread. */

/* NULL while the vCPU is unplugged, and after the end */
CPUState *branch_trace_stream_cpu(const BranchTraceStream *s);
int branch_trace_stream_cpu_index(const BranchTraceStream *s);
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

/* Lets an agent that will use @slot continue where the last one was. */
void branch_trace_stream_init_tail(BranchTraceStream *s, uint32_t slot);

/* Has the agent drained anything since the last call? */
bool branch_trace_stream_has_progressed(BranchTraceStream *s);

/* Were records lost since the last call?  @lost is set to their sum. */
bool branch_trace_stream_has_lost(BranchTraceStream *s, uint64_t *lost);

/* What is known of the stream, with a state that ignores the selection */
BranchTraceVcpu *branch_trace_stream_info(BranchTraceStream *s);

#endif /* HW_MISC_BRANCH_TRACE_STREAM_H */
