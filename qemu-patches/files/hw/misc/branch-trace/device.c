/*
 * Branch trace: what commands need of the device
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qapi/clone-visitor.h"
#include "qapi/error.h"
#include "qapi/qapi-visit-sockets.h"
#include "qemu/cutils.h"
#include "qemu/units.h"
#include "device.h"

BranchTraceDevice *branch_trace_device_get(Error **errp)
{
    Object *obj = object_resolve_path_type("", TYPE_BRANCH_TRACE, NULL);

    if (!obj) {
        error_set(errp, ERROR_CLASS_DEVICE_NOT_FOUND,
                  "this guest has no branch-trace device: start QEMU with "
                  "'-device branch-trace'");
    }
    return (BranchTraceDevice *)obj;
}

bool branch_trace_device_may_start(BranchTraceDevice *d, Error **errp)
{
    if (d->exiting) {
        error_setg(errp, "QEMU is about to end");
    }
    return !d->exiting;
}

BranchTraceDevice *branch_trace_device_get_idle(Error **errp)
{
    BranchTraceDevice *d = branch_trace_device_get(errp);

    if (d && d->busy) {
        error_setg(errp, "another branch-trace command is in progress: try "
                   "again when it has ended");
        return NULL;
    }
    return d && branch_trace_device_may_start(d, errp) ? d : NULL;
}

bool branch_trace_device_can_capture(const BranchTraceDevice *d,
                                     const char *name, uint64_t buffer_size,
                                     Error **errp)
{
    const BranchTraceProducerOps *producer = branch_trace_producer();
    BranchTraceCapture *active = branch_trace_capture_active(&d->captures);

    if (!producer) {
        error_setg(errp, "this accelerator cannot trace branches: use "
                   "'-accel tcg' or '-accel kvm'");
        return false;
    }
    if (producer->supported && !producer->supported(errp)) {
        return false;
    }
    if (active) {
        error_setg(errp, "capture '%s' is active: stop it with "
                   "branch-trace-stop first",
                   branch_trace_capture_name(active));
        return false;
    }
    if (!*name || strlen(name) >= BTRAIL_CAPTURE_NAME_MAX) {
        error_setg(errp, "the name of a capture must have 1 to %d bytes",
                   BTRAIL_CAPTURE_NAME_MAX - 1);
        return false;
    }
    if (buffer_size < BRANCH_TRACE_MIN_BUFFER_SIZE ||
        buffer_size > d->max_buffer_size) {
        g_autofree char *most = size_to_str(d->max_buffer_size);

        error_setg(errp, "buffer-size must be from 128 KiB to %s: that is "
                   "max-buffer-size of the branch-trace device", most);
        return false;
    }
    return true;
}

SocketAddress *branch_trace_device_agent(BranchTraceDevice *d,
                                         SocketAddress *addr, Error **errp)
{
    if (!addr && branch_trace_control_executes(d->control)) {
        addr = branch_trace_control_address(d->control);
    }
    if (addr) {
        return QAPI_CLONE(SocketAddress, addr);
    }
    if (!d->agent_path) {
        error_setg(errp, "no trace agent: name one with 'agent', or start "
                   "QEMU with '-device branch-trace,agent=PATH'");
        return NULL;
    }
    addr = g_new0(SocketAddress, 1);
    addr->type = SOCKET_ADDRESS_TYPE_UNIX;
    addr->u.q_unix.path = g_strdup(d->agent_path);
    return addr;
}
