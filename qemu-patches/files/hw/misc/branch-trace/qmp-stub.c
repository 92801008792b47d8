/*
 * Branch trace commands for targets that have no such device
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qapi/qapi-commands-branch-trace.h"
#include "qapi/qmp/qerror.h"

static void no_device(Error **errp)
{
    error_set(errp, ERROR_CLASS_DEVICE_NOT_FOUND,
              "this QEMU has no branch-trace device");
}

void coroutine_fn qmp_branch_trace_start(const char *name,
                                         SocketAddress *agent,
                                         bool has_vcpus, uint16List *vcpus,
                                         bool has_privilege,
                                         BranchTracePrivilege privilege,
                                         bool has_cr3, uint64List *cr3,
                                         bool has_overflow,
                                         BranchTraceOverflow overflow,
                                         bool has_buffer_size,
                                         uint64_t buffer_size,
                                         bool has_agent_timeout,
                                         uint32_t agent_timeout,
                                         Error **errp)
{
    no_device(errp);
}

void coroutine_fn qmp_branch_trace_attach(SocketAddress *agent, Error **errp)
{
    no_device(errp);
}

BranchTraceInfo *qmp_branch_trace_change(const char *name,
                                         bool has_vcpus, uint16List *vcpus,
                                         bool has_privilege,
                                         BranchTracePrivilege privilege,
                                         bool has_cr3, uint64List *cr3,
                                         bool has_overflow,
                                         BranchTraceOverflow overflow,
                                         Error **errp)
{
    no_device(errp);
    return NULL;
}

QObject *coroutine_fn qmp_branch_trace_agent(QObject *command,
                                             SocketAddress *agent,
                                             bool has_timeout,
                                             uint32_t timeout, Error **errp)
{
    no_device(errp);
    return NULL;
}

BranchTraceInfo *qmp_branch_trace_stop(const char *name, Error **errp)
{
    no_device(errp);
    return NULL;
}

BranchTraceInfo *qmp_query_branch_trace(Error **errp)
{
    no_device(errp);
    return NULL;
}
