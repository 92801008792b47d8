/*
 * Branch trace: the guest's RAM, for the agent to read
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_MISC_BRANCH_TRACE_MEMORY_H
#define HW_MISC_BRANCH_TRACE_MEMORY_H

#include "io/channel.h"

/* Where the guest's RAM is, as an agent knows it */
typedef struct BranchTraceMemory BranchTraceMemory;

/**
 * branch_trace_memory_send - give an agent the guest's RAM to read
 * @known: what this agent knows, NULL if nothing; replaced by what is sent,
 *         to be freed with g_free()
 *
 * Sends BTRAIL_MSG_MEMORY, unless the agent knows it all.  Does not wait.
 *
 * Returns: 1 if it was sent, 0 if there is nothing new, and -1 if there was no
 * room for the message
 */
int branch_trace_memory_send(QIOChannel *ioc, BranchTraceMemory **known);

#endif /* HW_MISC_BRANCH_TRACE_MEMORY_H */
