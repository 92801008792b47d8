/*
 * Branch trace: the connection to the agent
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_MISC_BRANCH_TRACE_AGENT_H
#define HW_MISC_BRANCH_TRACE_AGENT_H

#include "io/channel-socket.h"
#include "qapi/qapi-types-sockets.h"
#include "qemu/coroutine.h"
#include "branch-trace-internal.h"

typedef struct BranchTraceAgent BranchTraceAgent;

typedef enum BranchTraceAgentEvent {
    BRANCH_TRACE_AGENT_GONE,    /* closed the connection */
    BRANCH_TRACE_AGENT_GARBAGE, /* sent something it must not */
    BRANCH_TRACE_AGENT_FLUSH,   /* wants the slabs in progress */
    BRANCH_TRACE_AGENT_RESEND_CODE,  /* wants to be told all code again */
    BRANCH_TRACE_AGENT_STOP,    /* wants the capture to end */
} BranchTraceAgentEvent;

/* Called in the main loop; may close the agent after the first two. */
typedef void BranchTraceAgentHandler(void *opaque,
                                     BranchTraceAgentEvent event);

/* A new connection to where the agent listens, on which no call ever waits */
QIOChannelSocket *branch_trace_agent_open(SocketAddress *addr, Error **errp);

/**
 * branch_trace_agent_connect - connect and hand over the buffer
 *
 * @slot: which tail the agent is to use
 *
 * Returns: the agent once it is ready, or NULL
 */
BranchTraceAgent *coroutine_fn
branch_trace_agent_connect(SocketAddress *addr, const BranchTraceBuffer *buf,
                           uint32_t slot, BranchTraceAgentHandler *handler,
                           void *opaque, Error **errp);

/* QEMU exits: let a call of that function that is in progress fail. */
void branch_trace_agent_cancel(void);

/* Start to call the handler. */
void branch_trace_agent_listen(BranchTraceAgent *agent);

/* No more slabs will be published; @reason is enum btrail_end_reason. */
void branch_trace_agent_send_end(BranchTraceAgent *agent, uint32_t reason);

void branch_trace_agent_close(BranchTraceAgent *agent);

#endif /* HW_MISC_BRANCH_TRACE_AGENT_H */
