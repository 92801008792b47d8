/*
 * Branch trace device
 *
 * Records every branch that the guest takes, for an agent on the host.  The
 * guest does not see the device.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "hw/boards.h"
#include "hw/qdev-properties.h"
#include "migration/misc.h"
#include "migration/vmstate.h"
#include "qapi/clone-visitor.h"
#include "qapi/error.h"
#include "qapi/qapi-visit-sockets.h"
#include "qapi/visitor.h"
#include "qemu/cutils.h"
#include "qemu/units.h"
#include "system/reset.h"
#include "system/runstate.h"
#include "system/runstate-action.h"
#include "system/system.h"
#include "capture.h"
#include "data-connection.h"
#include "device.h"
#include "gdb.h"

#define DEFAULT_MAX_BUFFER_SIZE (64 * MiB)
#define DEFAULT_CODE_PAGES      512

static BranchTraceDevice *branch_trace_device;
static const BranchTraceProducerOps *producer;

void branch_trace_set_producer(const BranchTraceProducerOps *ops)
{
    producer = ops;
}

const BranchTraceProducerOps *branch_trace_producer(void)
{
    return producer;
}

unsigned branch_trace_kvm_root_entry(void)
{
    return branch_trace_device->kvm_root_entry;
}

bool branch_trace_kvm_guest_window(void)
{
    return branch_trace_device->kvm_guest_window;
}

/* Commands */

BranchTraceDevice *branch_trace_device_get(Error **errp)
{
    if (!branch_trace_device) {
        error_set(errp, ERROR_CLASS_DEVICE_NOT_FOUND,
                  "this guest has no branch-trace device: start QEMU with "
                  "'-device branch-trace'");
    }
    return branch_trace_device;
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
    BranchTraceCapture *active = branch_trace_capture_active();

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

/* Events of the guest */

static void end_capture(BranchTraceReason reason, uint16_t end_reason)
{
    BranchTraceCapture *capture = branch_trace_capture_active();

    if (capture) {
        branch_trace_capture_end(capture, reason, end_reason);
    }
}

static void vm_state_changed(void *opaque, bool running, RunState state)
{
    BranchTraceDevice *d = opaque;
    BranchTraceCapture *capture = branch_trace_capture_active();

    if (running) {
        branch_trace_control_event(d->control, "running", NULL);
    } else {
        QDict *data = qdict_new();

        qdict_put_str(data, "state", RunState_str(state));
        branch_trace_control_event(d->control, "stopped", data);
    }
    if (!capture) {
        return;
    }
    branch_trace_capture_vm_state(capture, running);
    if (state == RUN_STATE_SHUTDOWN) {
        end_capture(BRANCH_TRACE_REASON_SHUTDOWN, BTRAIL_END_SHUTDOWN);
    }
}

/* Called on the thread of the vCPU in most cases. */
static void guest_panicked(Notifier *notifier, void *opaque)
{
    BranchTraceDevice *d = container_of(notifier, BranchTraceDevice, panicked);

    branch_trace_control_event(d->control, "panic", NULL);
}

static void branch_trace_reset_hold(Object *obj, ResetType type)
{
    BranchTraceDevice *d = BRANCH_TRACE(obj);

    if (type == RESET_TYPE_COLD) {
        branch_trace_control_event(d->control, "reset", NULL);
    }
}

/* The guest has powered off, or QEMU was asked to quit. */
static void guest_shuts_down(Notifier *notifier, void *opaque)
{
    BranchTraceDevice *d = container_of(notifier, BranchTraceDevice, shutdown);
    const ShutdownCause *cause = opaque;
    QDict *data = qdict_new();

    qdict_put_str(data, "reason", ShutdownCause_str(*cause));
    branch_trace_control_event(d->control, "shutdown", data);
    if (shutdown_action != SHUTDOWN_ACTION_PAUSE) {
        /*
         * The main loop ends and no timer fires any more, but QEMU waits for
         * commands that are in progress.
         */
        d->exiting = true;
        branch_trace_control_exit(d->control);
        branch_trace_data_cancel();
    }
}

/* QEMU exits, perhaps long after the guest was stopped. */
static void qemu_exits(Notifier *notifier, void *opaque)
{
    end_capture(BRANCH_TRACE_REASON_SHUTDOWN, BTRAIL_END_SHUTDOWN);
}

static int migration_changed(NotifierWithReturn *notify, MigrationEvent *e,
                             Error **errp)
{
    BranchTraceDevice *d = container_of(notify, BranchTraceDevice, migration);

    if (e->type == MIG_EVENT_PRECOPY_DONE) {
        end_capture(BRANCH_TRACE_REASON_MIGRATED, BTRAIL_END_MIGRATED);
        branch_trace_control_event(d->control, "migrated", NULL);
    }
    return 0;
}

static void cpu_realized(DeviceListener *listener, DeviceState *dev)
{
    BranchTraceCapture *capture = branch_trace_capture_active();
    CPUState *cpu = (CPUState *)object_dynamic_cast(OBJECT(dev), TYPE_CPU);

    if (cpu && capture) {
        branch_trace_capture_plug(capture, cpu);
    }
}

static void cpu_unrealized(DeviceListener *listener, DeviceState *dev)
{
    /* Not only one that is active: one that starts waits for vCPUs. */
    BranchTraceCapture *capture = branch_trace_capture_latest();
    CPUState *cpu = (CPUState *)object_dynamic_cast(OBJECT(dev), TYPE_CPU);

    if (cpu && capture) {
        branch_trace_capture_unplug(capture, cpu);
    }
}

static int branch_trace_pre_save(void *opaque)
{
    BranchTraceDevice *d = opaque;

    d->traced = branch_trace_capture_active();
    return 0;
}

static int branch_trace_post_load(void *opaque, int version_id)
{
    BranchTraceCapture *capture = branch_trace_capture_active();

    if (capture) {
        branch_trace_capture_restored(capture);
    }
    return 0;
}

/*
 * A capture belongs to this QEMU, not to the guest: it continues when a
 * snapshot is loaded, and does not migrate.
 */
static const VMStateDescription vmstate_branch_trace = {
    .name = "branch-trace",
    .version_id = 1,
    .minimum_version_id = 1,
    .pre_save = branch_trace_pre_save,
    .post_load = branch_trace_post_load,
    .fields = (const VMStateField[]) {
        VMSTATE_BOOL(traced, BranchTraceDevice),
        VMSTATE_END_OF_LIST()
    },
};

static void branch_trace_realize(DeviceState *dev, Error **errp)
{
    BranchTraceDevice *d = BRANCH_TRACE(dev);

    if (branch_trace_device) {
        error_setg(errp, "at most one %s device is permitted",
                   TYPE_BRANCH_TRACE);
        return;
    }
    if (d->code_pages > BTRAIL_MAX_CODE_ITEMS) {
        error_setg(errp, "code-pages must be from 0 to %d",
                   BTRAIL_MAX_CODE_ITEMS);
        return;
    }
    if (current_machine->smp.max_cpus > BTRAIL_MAX_VCPUS) {
        error_setg(errp, "%s works with at most %d vCPUs", TYPE_BRANCH_TRACE,
                   BTRAIL_MAX_VCPUS);
        return;
    }

    if (d->kvm_root_entry &&
        (d->kvm_root_entry < 256 || d->kvm_root_entry > 511)) {
        error_setg(errp, "kvm-root-entry must be from 256 to 511");
        return;
    }
    if (d->kvm_root_entry && d->kvm_guest_window) {
        error_setg(errp, "kvm-root-entry is an entry that KVM may write, and "
                   "with kvm-guest-window it writes none: set one of them");
        return;
    }

    branch_trace_device = d;
    if (producer && producer->realize && !producer->realize(errp)) {
        branch_trace_device = NULL;
        return;
    }
    d->control = branch_trace_control_new();
    qemu_add_vm_change_state_handler(vm_state_changed, d);
    migration_add_notifier(&d->migration, migration_changed);
    d->exit.notify = qemu_exits;
    qemu_add_exit_notifier(&d->exit);
    d->shutdown.notify = guest_shuts_down;
    qemu_register_shutdown_notifier(&d->shutdown);
    d->panicked.notify = guest_panicked;
    qemu_register_guest_panicked_notifier(&d->panicked);
    /* It is on no bus that would reset it. */
    qemu_register_resettable(OBJECT(d));
    branch_trace_gdb_init();
    d->cpu_listener.realize = cpu_realized;
    d->cpu_listener.unrealize = cpu_unrealized;
    device_listener_register(&d->cpu_listener);
}

static void get_max_buffer_size(Object *obj, Visitor *v, const char *name,
                                void *opaque, Error **errp)
{
    visit_type_size(v, name, &BRANCH_TRACE(obj)->max_buffer_size, errp);
}

static void set_max_buffer_size(Object *obj, Visitor *v, const char *name,
                                void *opaque, Error **errp)
{
    uint64_t size;

    if (!visit_type_size(v, name, &size, errp)) {
        return;
    }
    if (size < BRANCH_TRACE_MIN_BUFFER_SIZE ||
        size > BRANCH_TRACE_MAX_BUFFER_SIZE) {
        error_setg(errp, "%s must be from 128 KiB to 4 GiB", name);
        return;
    }
    BRANCH_TRACE(obj)->max_buffer_size = size;
}

static void branch_trace_instance_init(Object *obj)
{
    BRANCH_TRACE(obj)->max_buffer_size = DEFAULT_MAX_BUFFER_SIZE;
}

static const Property branch_trace_properties[] = {
    DEFINE_PROP_STRING("agent", BranchTraceDevice, agent_path),
    DEFINE_PROP_UINT32("code-pages", BranchTraceDevice, code_pages,
                       DEFAULT_CODE_PAGES),
    DEFINE_PROP_UINT32("kvm-root-entry", BranchTraceDevice, kvm_root_entry, 0),
    DEFINE_PROP_BOOL("kvm-guest-window", BranchTraceDevice, kvm_guest_window,
                     false),
};

static void branch_trace_class_init(ObjectClass *klass, void *data)
{
    DeviceClass *dc = DEVICE_CLASS(klass);
    ResettableClass *rc = RESETTABLE_CLASS(klass);

    dc->desc = "Records the branches that the guest takes";
    dc->realize = branch_trace_realize;
    dc->vmsd = &vmstate_branch_trace;
    rc->phases.hold = branch_trace_reset_hold;
    /* The guest does not see it, so nothing could unplug it. */
    dc->hotpluggable = false;
    device_class_set_props(dc, branch_trace_properties);
    /* Not one of those, which cannot be changed while the guest runs. */
    object_class_property_add(klass, "max-buffer-size", "size",
                              get_max_buffer_size, set_max_buffer_size, NULL,
                              NULL);
    object_class_property_set_description(
        klass, "max-buffer-size",
        "most bytes of buffer per vCPU that a capture can have");
    set_bit(DEVICE_CATEGORY_MISC, dc->categories);
}

static const TypeInfo branch_trace_types[] = {
    {
        .name           = TYPE_BRANCH_TRACE,
        .parent         = TYPE_DEVICE,
        .instance_size  = sizeof(BranchTraceDevice),
        .instance_init  = branch_trace_instance_init,
        .class_init     = branch_trace_class_init,
    },
};

DEFINE_TYPES(branch_trace_types)
