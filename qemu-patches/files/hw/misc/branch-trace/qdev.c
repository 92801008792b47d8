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
#include "qapi/error.h"
#include "qapi/visitor.h"
#include "qemu/units.h"
#include "system/reset.h"
#include "system/runstate.h"
#include "system/runstate-action.h"
#include "system/system.h"
#include "device.h"
#include "gdb.h"

#define DEFAULT_MAX_BUFFER_SIZE (64 * MiB)
#define DEFAULT_CODE_PAGES      512

/* Events of the guest */

static void end_capture(BranchTraceDevice *d, BranchTraceReason reason,
                        uint16_t end_reason)
{
    BranchTraceCapture *capture = branch_trace_capture_active(&d->captures);

    if (capture) {
        branch_trace_capture_end(capture, reason, end_reason);
    }
}

static void vm_state_changed(void *opaque, bool running, RunState state)
{
    BranchTraceDevice *d = opaque;
    BranchTraceCapture *capture = branch_trace_capture_active(&d->captures);

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
        end_capture(d, BRANCH_TRACE_REASON_SHUTDOWN, BTRAIL_END_SHUTDOWN);
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
        branch_trace_capture_cancel(&d->captures);
    }
}

/* QEMU exits, perhaps long after the guest was stopped. */
static void qemu_exits(Notifier *notifier, void *opaque)
{
    BranchTraceDevice *d = container_of(notifier, BranchTraceDevice, exit);

    end_capture(d, BRANCH_TRACE_REASON_SHUTDOWN, BTRAIL_END_SHUTDOWN);
}

static int migration_changed(NotifierWithReturn *notify, MigrationEvent *e,
                             Error **errp)
{
    BranchTraceDevice *d = container_of(notify, BranchTraceDevice, migration);

    if (e->type == MIG_EVENT_PRECOPY_DONE) {
        end_capture(d, BRANCH_TRACE_REASON_MIGRATED, BTRAIL_END_MIGRATED);
        branch_trace_control_event(d->control, "migrated", NULL);
    }
    return 0;
}

static void cpu_realized(DeviceListener *listener, DeviceState *dev)
{
    BranchTraceDevice *d = container_of(listener, BranchTraceDevice,
                                        cpu_listener);
    BranchTraceCapture *capture = branch_trace_capture_active(&d->captures);
    CPUState *cpu = (CPUState *)object_dynamic_cast(OBJECT(dev), TYPE_CPU);

    if (cpu && capture) {
        branch_trace_capture_plug(capture, cpu);
    }
}

static void cpu_unrealized(DeviceListener *listener, DeviceState *dev)
{
    BranchTraceDevice *d = container_of(listener, BranchTraceDevice,
                                        cpu_listener);
    CPUState *cpu = (CPUState *)object_dynamic_cast(OBJECT(dev), TYPE_CPU);

    /* Not only of one that is active: one that starts waits for vCPUs. */
    if (cpu && d->captures.streams) {
        branch_trace_streams_unplug(d->captures.streams, cpu);
    }
}

static int branch_trace_pre_save(void *opaque)
{
    BranchTraceDevice *d = opaque;

    d->traced = branch_trace_capture_active(&d->captures);
    return 0;
}

static int branch_trace_post_load(void *opaque, int version_id)
{
    BranchTraceDevice *d = opaque;
    BranchTraceCapture *capture = branch_trace_capture_active(&d->captures);

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

/* For an agent; GDB's is none of theirs. */
static BranchTraceInfo *active_capture(void *opaque)
{
    BranchTraceDevice *d = opaque;
    BranchTraceCapture *capture = branch_trace_capture_active(&d->captures);

    return capture && !branch_trace_capture_is_local(capture)
           ? branch_trace_capture_info(capture) : NULL;
}

static void branch_trace_realize(DeviceState *dev, Error **errp)
{
    const BranchTraceProducerOps *producer = branch_trace_producer();
    BranchTraceDevice *d = BRANCH_TRACE(dev);

    if (!branch_trace_device_get(NULL)) {
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

    if (d->kvm.root_entry &&
        (d->kvm.root_entry < 256 || d->kvm.root_entry > 511)) {
        error_setg(errp, "kvm-root-entry must be from 256 to 511");
        return;
    }
    if (d->kvm.root_entry && d->kvm.guest_window) {
        error_setg(errp, "kvm-root-entry is an entry that KVM may write, and "
                   "with kvm-guest-window it writes none: set one of them");
        return;
    }

    if (producer && producer->realize && !producer->realize(&d->kvm, errp)) {
        return;
    }
    d->control = branch_trace_control_new(active_capture, d);
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
    d->gdb = branch_trace_gdb_new(d);
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
    DEFINE_PROP_UINT32("kvm-root-entry", BranchTraceDevice, kvm.root_entry, 0),
    DEFINE_PROP_BOOL("kvm-guest-window", BranchTraceDevice, kvm.guest_window,
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
