/*
 * Branch trace device
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_MISC_BRANCH_TRACE_DEVICE_H
#define HW_MISC_BRANCH_TRACE_DEVICE_H

#include "hw/misc/branch-trace.h"
#include "hw/qdev-core.h"
#include "qemu/notify.h"
#include "qapi/qapi-types-sockets.h"
#include "capture.h"
#include "control.h"

typedef struct BranchTraceGdb BranchTraceGdb;

/**
 * BranchTraceDevice
 * @max_buffer_size: bytes per vCPU; the QMP user, but no agent, can change it
 * @kvm:     its properties for KVM
 * @busy:    a command that changes the capture waits for its agent; others that
 *           would change it fail until it is done
 * @exiting: QEMU is about to exit
 * @traced:  for VMState
 */
struct BranchTraceDevice {
    DeviceState parent_obj;

    char *agent_path;
    uint64_t max_buffer_size;
    uint32_t code_pages;
    BranchTraceKvmProperties kvm;
    bool traced;

    BranchTraceControl *control;
    BranchTraceCaptures captures;
    BranchTraceGdb *gdb;
    bool busy;
    bool exiting;
    DeviceListener cpu_listener;
    NotifierWithReturn migration;
    Notifier exit;
    Notifier shutdown;
    Notifier panicked;
};

/* What a capture can have as buffer, in bytes per vCPU */
#define BRANCH_TRACE_MIN_BUFFER_SIZE    (128 * KiB)
#define BRANCH_TRACE_MAX_BUFFER_SIZE    (4 * GiB)

/* The device of this guest */
BranchTraceDevice *branch_trace_device_get(Error **errp);

/* The device, for a command that changes the capture */
BranchTraceDevice *branch_trace_device_get_idle(Error **errp);

/* Fails if QEMU is about to exit. */
bool branch_trace_device_may_start(BranchTraceDevice *d, Error **errp);

/* Can a capture of this name and size, in bytes per vCPU, be started? */
bool branch_trace_device_can_capture(const BranchTraceDevice *d,
                                     const char *name, uint64_t buffer_size,
                                     Error **errp);

/*
 * Where the agent listens: at @addr or, if that is NULL, where the control
 * connection of the command goes, or as the property says.
 */
SocketAddress *branch_trace_device_agent(BranchTraceDevice *d,
                                         SocketAddress *addr, Error **errp);

#endif /* HW_MISC_BRANCH_TRACE_DEVICE_H */
