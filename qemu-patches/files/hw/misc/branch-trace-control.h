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

/* The control connection, if there is one, and the commands that wait for it */
typedef struct BranchTraceControl BranchTraceControl;

/* The active capture, or NULL; the caller frees it. */
typedef BranchTraceInfo *BranchTraceGetCapture(void *opaque);

/*
 * All functions are called with the BQL held, and in the main loop but for
 * branch_trace_control_event() and branch_trace_control_own().  None waits for
 * the agent but branch_trace_control_command().
 */

BranchTraceControl *branch_trace_control_new(BranchTraceGetCapture *get_capture,
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
branch_trace_control_command(BranchTraceControl *control, QObject *command,
                             SocketAddress *addr, bool named,
                             uint32_t timeout_ms, Error **errp);

/* Tell the agent, if there is one.  Takes @data, which may be NULL. */
void branch_trace_control_event(BranchTraceControl *control, const char *event,
                                QDict *data);

/* Is the agent having the command executed that now runs? */
bool branch_trace_control_executes(BranchTraceControl *control);

/* Where it listens, to whom the connection is or last was; may be NULL. */
SocketAddress *branch_trace_control_address(BranchTraceControl *control);

/* The active capture is the agent's: look for it again when it is lost. */
void branch_trace_control_own(BranchTraceControl *control, bool own);

/* QEMU exits: nobody waits for the agent any more. */
void branch_trace_control_exit(BranchTraceControl *control);

#endif /* HW_MISC_BRANCH_TRACE_CONTROL_H */
