/*
 * Branch trace: the data connection, over which an agent gets a capture
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_MISC_BRANCH_TRACE_DATA_CONNECTION_H
#define HW_MISC_BRANCH_TRACE_DATA_CONNECTION_H

#include "qapi/qapi-types-sockets.h"
#include "qemu/coroutine.h"
#include "buffer.h"
#include "hw/misc/branch-trace.h"

typedef struct BranchTraceData BranchTraceData;

typedef enum BranchTraceDataEvent {
    BRANCH_TRACE_DATA_CLOSED,   /* the agent has closed the connection */
    BRANCH_TRACE_DATA_INVALID,  /* it has sent something that it must not */
    BRANCH_TRACE_DATA_FLUSH,    /* it requests the slabs in progress */
    BRANCH_TRACE_DATA_RESEND_CODE,  /* it requests all code again */
    BRANCH_TRACE_DATA_TASKS,    /* it has sent branch_trace_data_tasks() */
    BRANCH_TRACE_DATA_STOP,     /* it requests the end of the capture */
} BranchTraceDataEvent;

/* Called in the main loop; closes the connection after the first two events. */
typedef void BranchTraceDataHandler(void *opaque, BranchTraceDataEvent event);

/*
 * Connects to an agent and hands over @buf; NULL if it does not get ready.
 * While it waits for the agent, the connection is in @connecting.
 */
BranchTraceData *coroutine_fn
branch_trace_data_connect(SocketAddress *addr, const BranchTraceBuffer *buf,
                          BranchTraceDataHandler *handler, void *opaque,
                          BranchTraceData **connecting, Error **errp);

/* Makes a call of that function that waits fail. */
void branch_trace_data_cancel(BranchTraceData *data);

/* Starts to call the handler. */
void branch_trace_data_listen(BranchTraceData *data);

/*
 * Does the device accept descriptions of tasks?  With record/replay it does
 * not: to read the guest's memory marks its page tables, and a replay without
 * these marks would differ.
 */
bool branch_trace_data_accepts_tasks(void);

/* Does the agent know KERNEL events? */
bool branch_trace_data_knows_kernels(const BranchTraceData *data);

/* How tasks are found, as the agent has sent it last; at first no kernel */
const BranchTraceKernels *branch_trace_data_tasks(const BranchTraceData *data);

/*
 * Sends the agent MEMORY again if it has requested that, and RAM has come or
 * gone.  To be called now and then: the agent waits for it, and the guest can
 * have it sent that often.
 */
void branch_trace_data_send_memory(BranchTraceData *data);

/* No more slabs will be published; @reason is enum btrail_end_reason. */
void branch_trace_data_send_end(BranchTraceData *data, uint32_t reason);

void branch_trace_data_close(BranchTraceData *data);

#endif /* HW_MISC_BRANCH_TRACE_DATA_CONNECTION_H */
