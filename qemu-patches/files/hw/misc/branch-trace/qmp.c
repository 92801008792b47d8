/*
 * Branch trace: the QMP commands
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qapi/qapi-commands-branch-trace.h"
#include "qemu/cutils.h"
#include "qemu/units.h"
#include "background.h"
#include "device.h"

#define DEFAULT_BUFFER_SIZE     (2 * MiB)
#define DEFAULT_AGENT_TIMEOUT   5000
#define DEFAULT_COMMAND_TIMEOUT 30000
#define MAX_COMMAND_TIMEOUT     600000

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
    BranchTraceDevice *d = branch_trace_device_get_idle(errp);
    BranchTraceCaptureOptions options = {
        .name = name,
        .overflow = has_overflow ? overflow : BRANCH_TRACE_OVERFLOW_PAUSE,
        .agent_timeout = has_agent_timeout ? agent_timeout
                                           : DEFAULT_AGENT_TIMEOUT,
    };
    g_autoptr(SocketAddress) addr = NULL;
    BranchTraceSelection *selection;
    BranchTraceCapture *capture;
    bool connected;

    if (!d) {
        return;
    }
    options.buffer_size = has_buffer_size
                          ? buffer_size
                          : MIN(DEFAULT_BUFFER_SIZE, d->max_buffer_size);
    if (!branch_trace_device_can_capture(d, name, options.buffer_size,
                                         errp)) {
        return;
    }
    addr = branch_trace_device_agent(d, agent, errp);
    if (!addr) {
        return;
    }
    selection = branch_trace_selection_new(has_vcpus, vcpus, has_privilege,
                                           privilege, has_cr3, cr3, errp);
    if (!selection) {
        return;
    }
    if (!branch_trace_background_has_room(errp)) {
        branch_trace_selection_free(selection);
        return;
    }
    options.code_pages = branch_trace_producer()->code_forget ? d->code_pages
                                                              : 0;
    capture = branch_trace_capture_new(&d->captures, &options, selection,
                                       d->control, errp);
    if (!capture) {
        return;
    }

    d->busy = true;
    connected = branch_trace_capture_connect(capture, addr, errp);
    d->busy = false;
    if (!connected || !branch_trace_device_may_start(d, errp) ||
        !branch_trace_capture_start(capture, errp)) {
        branch_trace_capture_free(capture);
    }
}

/* Sets @errp if nobody but its owner may change it. */
static bool is_local(const BranchTraceCapture *capture, Error **errp)
{
    if (branch_trace_capture_is_local(capture)) {
        error_setg(errp, "capture '%s' is GDB's: it can be stopped, and not "
                   "changed", branch_trace_capture_name(capture));
        return true;
    }
    return false;
}

void coroutine_fn qmp_branch_trace_attach(SocketAddress *agent, Error **errp)
{
    BranchTraceDevice *d = branch_trace_device_get_idle(errp);
    g_autoptr(SocketAddress) addr = NULL;
    BranchTraceCapture *capture;

    if (!d) {
        return;
    }
    capture = branch_trace_capture_active(&d->captures);
    if (!capture) {
        error_setg(errp, "no capture is active: start one with "
                   "branch-trace-start");
        return;
    }
    if (is_local(capture, errp)) {
        return;
    }
    addr = branch_trace_device_agent(d, agent, errp);
    if (!addr) {
        return;
    }
    d->busy = true;
    branch_trace_capture_attach(capture, addr, errp);
    d->busy = false;
}

/* The active capture, if it has this name and can be changed now */
static BranchTraceCapture *get_capture(const char *name, Error **errp)
{
    BranchTraceDevice *d = branch_trace_device_get_idle(errp);
    BranchTraceCapture *capture;

    if (!d) {
        return NULL;
    }
    capture = branch_trace_capture_active(&d->captures);
    if (!capture || strcmp(branch_trace_capture_name(capture), name)) {
        error_setg(errp, "no capture '%s' is active: see query-branch-trace",
                   name);
        return NULL;
    }
    return capture;
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
    BranchTraceCapture *capture = get_capture(name, errp);
    BranchTraceSelection *selection;

    if (!capture || is_local(capture, errp)) {
        return NULL;
    }
    selection = branch_trace_selection_new(has_vcpus, vcpus, has_privilege,
                                           privilege, has_cr3, cr3, errp);
    if (!selection ||
        !branch_trace_capture_change(capture, selection, has_overflow
                                     ? overflow : BRANCH_TRACE_OVERFLOW_PAUSE,
                                     errp)) {
        return NULL;
    }
    return branch_trace_capture_info(capture);
}

BranchTraceInfo *qmp_branch_trace_stop(const char *name, Error **errp)
{
    BranchTraceCapture *capture = get_capture(name, errp);

    if (!capture) {
        return NULL;
    }
    branch_trace_capture_end(capture, BRANCH_TRACE_REASON_COMMAND,
                             BTRAIL_END_STOPPED);
    return branch_trace_capture_info(capture);
}

BranchTraceInfo *qmp_query_branch_trace(Error **errp)
{
    BranchTraceDevice *d = branch_trace_device_get(errp);

    return d ? branch_trace_capture_info(d->captures.latest) : NULL;
}

QObject *coroutine_fn qmp_branch_trace_agent(QObject *command,
                                             SocketAddress *agent,
                                             bool has_timeout,
                                             uint32_t timeout, Error **errp)
{
    BranchTraceDevice *d = branch_trace_device_get(errp);
    g_autoptr(SocketAddress) addr = NULL;

    if (!d) {
        return NULL;
    }
    if (!has_timeout) {
        timeout = DEFAULT_COMMAND_TIMEOUT;
    }
    if (!timeout || timeout > MAX_COMMAND_TIMEOUT) {
        error_setg(errp, "timeout must be from 1 to %d ms",
                   MAX_COMMAND_TIMEOUT);
        return NULL;
    }
    addr = branch_trace_device_agent(d, agent, errp);
    if (!addr) {
        return NULL;
    }
    return branch_trace_control_command(d->control, command, addr,
                                        agent != NULL, timeout, errp);
}
