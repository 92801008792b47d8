/*
 * Branch trace: the last branches of each vCPU, for a debugger
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_MISC_BRANCH_TRACE_LIVE_H
#define HW_MISC_BRANCH_TRACE_LIVE_H

#include "hw/core/cpu.h"
#include "device.h"

typedef struct BranchTraceLive BranchTraceLive;

BranchTraceLive *branch_trace_live_new(BranchTraceDevice *d);

/*
 * All functions are called with the BQL held, and those that can fail while the
 * guest is stopped.
 */

/*
 * Starts to trace a vCPU.  A first one starts a capture that keeps the last
 * branches of each, as many as fit into @size bytes of records or, if the device
 * permits no such buffer, fewer.
 */
bool branch_trace_live_enable(BranchTraceLive *live, CPUState *cpu,
                              uint64_t size, Error **errp);

/* Stops it; the last one ends the capture and frees its memory. */
bool branch_trace_live_disable(BranchTraceLive *live, CPUState *cpu,
                               Error **errp);

/* Stops all, if there are any. */
void branch_trace_live_end(BranchTraceLive *live);

/* Is the vCPU traced?  If not, sets @errp to the reason. */
bool branch_trace_live_check(BranchTraceLive *live, CPUState *cpu,
                             Error **errp);

/* Bytes of records that are kept of each vCPU */
uint64_t branch_trace_live_size(const BranchTraceLive *live);

typedef enum BranchTraceLiveType {
    BRANCH_TRACE_LIVE_ALL,
    BRANCH_TRACE_LIVE_NEW,      /* all, or none if nothing was executed */
    BRANCH_TRACE_LIVE_DELTA,    /* what was executed since the last time */
} BranchTraceLiveType;

/*
 * The blocks of a vCPU, as an array of BranchTraceBlock, see blocks.h.  NULL if
 * @type is BRANCH_TRACE_LIVE_DELTA and there is no such continuation.
 */
GArray *branch_trace_live_blocks(BranchTraceLive *live, CPUState *cpu,
                                 BranchTraceLiveType type, Error **errp);

/* The debugger has what the last call has returned for this vCPU. */
void branch_trace_live_taken(BranchTraceLive *live, CPUState *cpu);

#endif /* HW_MISC_BRANCH_TRACE_LIVE_H */
