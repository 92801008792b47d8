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

/*
 * All functions are called with the BQL held, and all except
 * branch_trace_control_event() and branch_trace_control_own() in the main loop.
 * Only branch_trace_control_command() waits for the agent.
 */

/* @capture returns what a query does, or NULL if no capture is active. */
BranchTraceControl *
branch_trace_control_new(BranchTraceInfo *(*capture)(void *opaque),
                         void *opaque);

/**
 * branch_trace_control_command - forward a command to the agent
 * @command:    a JSON object
 * @addr:       where the agent listens
 * @named:      the user has named @addr: do not use a connection to another one
 * @timeout_ms: how long to wait for the reply
 *
 * Returns: the agent's reply, or NULL
 */
QObject *coroutine_fn
branch_trace_control_command(BranchTraceControl *control, QObject *command,
                             SocketAddress *addr, bool named,
                             uint32_t timeout_ms, Error **errp);

/* Notifies the agent, if there is one.  Takes over @data, which may be NULL. */
void branch_trace_control_event(BranchTraceControl *control, const char *event,
                                QDict *data);

/* Was the command that runs now sent by the agent? */
bool branch_trace_control_executes(BranchTraceControl *control);

/* Where the agent of the current or last connection listens; may be NULL */
SocketAddress *branch_trace_control_address(BranchTraceControl *control);

/* Does the agent own the active capture?  Then connect again if it is lost. */
void branch_trace_control_own(BranchTraceControl *control, bool own);

/* QEMU exits: no command waits for the agent any more. */
void branch_trace_control_exit(BranchTraceControl *control);

#endif /* HW_MISC_BRANCH_TRACE_CONTROL_H */
