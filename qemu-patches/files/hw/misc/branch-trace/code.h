/*
 * Branch trace: the bytes that are executed
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_MISC_BRANCH_TRACE_CODE_H
#define HW_MISC_BRANCH_TRACE_CODE_H

#include "hw/misc/branch-trace.h"

/* The code that a capture has reported, for all vCPUs */
typedef struct BranchTraceCode BranchTraceCode;

/* The ring of items of one vCPU */
typedef struct BranchTraceCodeRing BranchTraceCodeRing;

BranchTraceCode *branch_trace_code_new(void);
void branch_trace_code_free(BranchTraceCode *code);

/* Any thread: reports everything again, for an agent that has not seen it. */
void branch_trace_code_forget(BranchTraceCode *code);

/* Makes the ring of @s; NULL if @code is. */
BranchTraceCodeRing *branch_trace_code_ring_new(BranchTraceCode *code,
                                                BranchTraceStream *s);
void branch_trace_code_ring_free(BranchTraceCodeRing *c);

/*
 * The rest runs like the functions of a stream: on the thread of the vCPU, or
 * with the BQL held while it does not run.  Each accepts NULL: no code.
 */

/* The vCPU of the stream comes and goes. */
void branch_trace_code_join(BranchTraceCodeRing *c);
void branch_trace_code_leave(BranchTraceCodeRing *c);

/*
 * Moves items that wait for room to the ring.  Returns false if some still
 * wait: with policy pause, the vCPU must wait then, too.
 */
bool branch_trace_code_settle(BranchTraceCodeRing *c);

/* Does an item wait for room?  Does not move any. */
bool branch_trace_code_waits(const BranchTraceCodeRing *c);

#endif /* HW_MISC_BRANCH_TRACE_CODE_H */
