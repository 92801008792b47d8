/*
 * Branch trace: the bytes that are executed
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_MISC_BRANCH_TRACE_CODE_H
#define HW_MISC_BRANCH_TRACE_CODE_H

#include "hw/misc/branch-trace.h"
#include "buffer.h"
#include "queue.h"

/* The code that a capture has reported, for all vCPUs */
typedef struct BranchTraceCode BranchTraceCode;

/* The ring of items of one vCPU */
typedef struct BranchTraceCodeRing BranchTraceCodeRing;

BranchTraceCode *branch_trace_code_new(void);
void branch_trace_code_free(BranchTraceCode *code);

/* Any thread: reports everything again, for an agent that has not seen it. */
void branch_trace_code_forget(BranchTraceCode *code);

/* Makes the ring of a vCPU, with @queue for its items; NULL if @code is. */
BranchTraceCodeRing *branch_trace_code_ring_new(BranchTraceCode *code,
                                                BranchTraceBuffer *buf,
                                                BranchTraceQueue *queue,
                                                int cpu_index);
void branch_trace_code_ring_free(BranchTraceCodeRing *c);

/*
 * The rest runs like the functions of a stream: on the thread of the vCPU, or
 * with the BQL held while it does not run.
 */

/* The vCPU of the ring comes and goes; @c may be NULL. */
void branch_trace_code_join(BranchTraceCodeRing *c, CPUState *cpu);
void branch_trace_code_leave(BranchTraceCodeRing *c);

/*
 * Moves items that wait for room to the ring.  Returns false if some still
 * wait: with policy pause, the vCPU must wait then, too.  @c may be NULL.
 */
bool branch_trace_code_settle(BranchTraceCodeRing *c);

/* Does an item wait for room?  Does not move any.  @c may be NULL. */
bool branch_trace_code_waits(const BranchTraceCodeRing *c);

/* As branch_trace_stream_code_known(), with CR3 @cr3 */
bool branch_trace_code_known(BranchTraceCodeRing *c, uint64_t cr3,
                             uint64_t linear, uint64_t ram);

/*
 * As branch_trace_stream_code_executed(); @item says where and when, and gets
 * the number of the content.
 */
void branch_trace_code_executed(BranchTraceCodeRing *c,
                                struct btrail_code_item *item, uint64_t ram,
                                const void *bytes);

/* As branch_trace_stream_code_translated(), before record @index */
bool branch_trace_code_translated(BranchTraceCodeRing *c, uint64_t index,
                                  uint64_t ram, const void *bytes,
                                  unsigned offset, unsigned size);

#endif /* HW_MISC_BRANCH_TRACE_CODE_H */
