/*
 * Branch trace: the bytes that are executed
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_MISC_BRANCH_TRACE_CODE_H
#define HW_MISC_BRANCH_TRACE_CODE_H

#include "hw/misc/branch-trace.h"
#include "buffer.h"

/* The code that a capture has reported, for all vCPUs */
typedef struct BranchTraceCode BranchTraceCode;

/* The ring of items of one vCPU.  Each function accepts NULL: no code. */
typedef struct BranchTraceCodeRing BranchTraceCodeRing;

BranchTraceCode *branch_trace_code_new(void);
void branch_trace_code_free(BranchTraceCode *code);

/* Any thread: reports everything again, for an agent that has not seen it. */
void branch_trace_code_forget(BranchTraceCode *code);

/* Makes the ring in the vCPU area @area of @buf; NULL if @code is. */
BranchTraceCodeRing *
branch_trace_code_ring_new(BranchTraceCode *code, BranchTraceBuffer *buf,
                           const BranchTraceProducerOps *ops, uint8_t *area);
void branch_trace_code_ring_free(BranchTraceCodeRing *c);

/*
 * The rest runs like the functions of a stream: on the thread of the vCPU, or
 * with the BQL held while it does not run.  @index is that of the next record.
 */

/* The vCPU of the stream comes and goes. */
void branch_trace_code_join(BranchTraceCodeRing *c, CPUState *cpu);
void branch_trace_code_leave(BranchTraceCodeRing *c, uint64_t index);

/* See the functions of these names in hw/misc/branch-trace.h. */
bool branch_trace_code_known(BranchTraceCodeRing *c, uint64_t cr3,
                             uint64_t linear, uint64_t ram);
void branch_trace_code_executed(BranchTraceCodeRing *c, uint64_t index,
                                uint64_t cr3, uint64_t linear,
                                uint64_t physical, uint64_t ram,
                                const void *bytes);
bool branch_trace_code_translated(BranchTraceCodeRing *c, uint64_t index,
                                  uint64_t ram, const void *bytes,
                                  unsigned offset, unsigned size);

/*
 * Moves items that wait for room to the ring.  Returns false if some still
 * wait: with policy pause, the vCPU must wait then, too.
 */
bool branch_trace_code_settle(BranchTraceCodeRing *c);

/* Does an item wait for room?  Does not move any. */
bool branch_trace_code_waits(const BranchTraceCodeRing *c);

/* Any thread: see the functions of the stream. */
bool branch_trace_code_read_tail(BranchTraceCodeRing *c);
void branch_trace_code_init_tail(BranchTraceCodeRing *c, uint32_t slot);
uint64_t branch_trace_code_tail(const BranchTraceCodeRing *c);
bool branch_trace_code_half_free(const BranchTraceCodeRing *c);

#endif /* HW_MISC_BRANCH_TRACE_CODE_H */
