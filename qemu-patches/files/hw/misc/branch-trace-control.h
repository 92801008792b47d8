/*
 * Branch trace: the control connection to the agent
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_MISC_BRANCH_TRACE_CONTROL_H
#define HW_MISC_BRANCH_TRACE_CONTROL_H

#include "qapi/qapi-types-branch-trace.h"
#include "qapi/qapi-types-sockets.h"
#include "qemu/coroutine.h"
#include "qobject/qdict.h"

/* The connection, or the lack of one, and who waits for a reply */
typedef struct BranchTraceLink BranchTraceLink;

/* The session that is active, or NULL; the caller frees it. */
typedef BranchTraceInfo *BranchTraceCapture(void *opaque);

/*
 * All functions are called with the BQL held, and in the main loop but for
 * branch_trace_control_event() and branch_trace_control_own().  None waits for
 * the agent but branch_trace_control_command().
 */

BranchTraceLink *branch_trace_control_new(BranchTraceCapture *capture,
                                          void *opaque);

/**
 * branch_trace_control_command - have the agent do something
 * @command:    a JSON object
 * @addr:       where it listens
 * @named:      @addr was asked for: a connection to another one does not do
 * @timeout_ms: how long to wait for its reply
 *
 * Returns: what it replies, or NULL
 */
QObject *coroutine_fn
branch_trace_control_command(BranchTraceLink *link, QObject *command,
                             SocketAddress *addr, bool named,
                             uint32_t timeout_ms, Error **errp);

/* Tell the agent, if there is one.  Takes @data, which may be NULL. */
void branch_trace_control_event(BranchTraceLink *link, const char *event,
                                QDict *data);

/* Is the agent having the command executed that now runs? */
bool branch_trace_control_executes(BranchTraceLink *link);

/* Where it listens, to whom the connection is or last was; may be NULL. */
SocketAddress *branch_trace_control_address(BranchTraceLink *link);

/* The active session is the agent's: look for it again when it is lost. */
void branch_trace_control_own(BranchTraceLink *link, bool own);

/* QEMU exits: nobody waits for the agent any more. */
void branch_trace_control_exit(BranchTraceLink *link);

#endif /* HW_MISC_BRANCH_TRACE_CONTROL_H */
