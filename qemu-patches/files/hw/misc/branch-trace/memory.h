/*
 * Branch trace: the guest's RAM, for the agent to read
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_MISC_BRANCH_TRACE_MEMORY_H
#define HW_MISC_BRANCH_TRACE_MEMORY_H

#include "io/channel.h"

/**
 * branch_trace_memory_send - give an agent the guest's RAM to read
 *
 * Sends BTRAIL_MSG_MEMORY.  Does not wait.
 *
 * Returns: false if there was no room for the message
 */
bool branch_trace_memory_send(QIOChannel *ioc);

#endif /* HW_MISC_BRANCH_TRACE_MEMORY_H */
