/*
 * Branch trace device
 *
 * Records every branch that the guest takes, for an agent on the host.  The
 * guest does not see the device.  There is one capture at a time; an
 * agent that serves several consumers makes their sessions out of it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "hw/boards.h"
#include "hw/misc/branch-trace.h"
#include "hw/qdev-core.h"
#include "hw/qdev-properties.h"
#include "migration/misc.h"
#include "migration/vmstate.h"
#include "qapi/clone-visitor.h"
#include "qapi/error.h"
#include "qapi/qapi-commands-branch-trace.h"
#include "qapi/qapi-events-branch-trace.h"
#include "qapi/qapi-visit-sockets.h"
#include "qapi/qmp/qerror.h"
#include "qemu/cutils.h"
#include "qemu/main-loop.h"
#include "qemu/timer.h"
#include "qemu/units.h"
#include "system/reset.h"
#include "system/runstate.h"
#include "system/runstate-action.h"
#include "system/system.h"
#include "branch-trace-agent.h"
#include "branch-trace-control.h"
#include "branch-trace-internal.h"

#define DEFAULT_BUFFER_SIZE     (2 * MiB)
#define MIN_BUFFER_SIZE         (128 * KiB)
#define MAX_BUFFER_SIZE         (4 * GiB)
#define DEFAULT_AGENT_TIMEOUT   5000
#define DEFAULT_CODE_PAGES      512
#define DEFAULT_COMMAND_TIMEOUT 30000
#define MAX_COMMAND_TIMEOUT     600000

/*
 * How often a TIME event is made at most.  Half of what the trace promises,
 * for the host's scheduler has a say in it.
 */
#define TICK_NS                 (500 * SCALE_US)

/* Partial slabs are published, and the agent is watched, this often. */
#define HOUSEKEEPING_MS         100

/*
 * What a capture records.  Another one takes its place as a whole, and is
 * freed when no vCPU looks at it any more.
 */
typedef struct BranchTraceSelection {
    BranchTracePrivilege privilege;
    unsigned long *vcpus;       /* bitmap, NULL for all */
    BranchTraceFilter filter;   /* of those */
} BranchTraceSelection;

/* Of the others, if they were selected before */
static const BranchTraceFilter filter_nothing;

typedef struct BranchTraceCapture {
    char *name;
    BranchTraceOverflow overflow;
    uint64_t buffer_size;
    uint32_t agent_timeout;
    BranchTraceSelection *selection;
    BranchTraceBuffer buffer;
    BranchTracePolicy policy;
    BranchTraceCode *code;      /* NULL if it is not told */
    BranchTraceState state;
    bool ending;
    BranchTraceAgent *agent;
    int64_t progress_ms;        /* when the agent last drained something */
    int64_t resent_ms;          /* when all code was last told again */
    bool resend;                /* it shall be once more, but not so soon */
} BranchTraceCapture;

struct BranchTraceDevice {
    DeviceState parent_obj;

    char *agent_path;
    uint32_t code_pages;
    bool traced;                /* for VMState */

    BranchTraceCapture *capture;    /* the current or the last one */
    bool busy;                  /* a command is between two coroutine yields */
    QEMUTimer *housekeeping;
    DeviceListener cpu_listener;
    VMChangeStateEntry *vm_change;
    NotifierWithReturn migration;
    Notifier exit;
    Notifier shutdown;
    Notifier panicked;
    BranchTraceControl *control;
    bool exiting;

    /* The tick thread walks the streams, the BQL holder changes the list. */
    QemuMutex streams_lock;
    QTAILQ_HEAD(, BranchTraceStream) streams;
    QemuThread tick_thread;
    bool ticking;
};

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

static bool capture_active(BranchTraceDevice *d)
{
    return d->capture && d->capture->state != BRANCH_TRACE_STATE_INACTIVE;
}

static void capture_set_state(BranchTraceDevice *d, BranchTraceState state,
                              BranchTraceReason reason)
{
    /* A new agent is news even if the last one was not lost. */
    if (d->capture->state != state ||
        reason == BRANCH_TRACE_REASON_ATTACHED) {
        QDict *data = qdict_new();

        d->capture->state = state;
        qapi_event_send_branch_trace_state(d->capture->name, state, reason);
        qdict_put_str(data, "capture", d->capture->name);
        qdict_put_str(data, "state", BranchTraceState_str(state));
        qdict_put_str(data, "reason", BranchTraceReason_str(reason));
        branch_trace_control_event(d->control, "state", data);
    }
}

/* TIME events */

static void *tick_thread_fn(void *opaque)
{
    BranchTraceDevice *d = opaque;
    BranchTraceStream *s;

    while (qatomic_read(&d->ticking)) {
        g_usleep(TICK_NS / SCALE_US);
        qemu_mutex_lock(&d->streams_lock);
        QTAILQ_FOREACH(s, &d->streams, next) {
            branch_trace_stream_tick(s);
        }
        qemu_mutex_unlock(&d->streams_lock);
    }
    return NULL;
}

static void tick_start(BranchTraceDevice *d)
{
    qatomic_set(&d->ticking, true);
    qemu_thread_create(&d->tick_thread, "branch-trace", tick_thread_fn, d,
                       QEMU_THREAD_JOINABLE);
}

static void tick_stop(BranchTraceDevice *d)
{
    qatomic_set(&d->ticking, false);
    qemu_thread_join(&d->tick_thread);
}

/* Streams */

static BranchTraceStream *find_stream(BranchTraceDevice *d, CPUState *cpu)
{
    BranchTraceStream *s;

    QTAILQ_FOREACH(s, &d->streams, next) {
        if (s->cpu_index == cpu->cpu_index) {
            return s;
        }
    }
    return NULL;
}

/* @s is new, or its vCPU was unplugged before. */
static void do_begin(CPUState *cpu, run_on_cpu_data data)
{
    BranchTraceStream *s = data.host_ptr;

    if (s->cpu) {
        branch_trace_stream_begin(s);
    } else {
        branch_trace_stream_replug(s, cpu);
    }
}

static void do_end(CPUState *cpu, run_on_cpu_data data)
{
    BranchTraceDevice *d = branch_trace_device;

    branch_trace_stream_end(find_stream(d, cpu), data.host_int);
}

/* The stream may be gone by the time its vCPU gets to these two. */
static void do_flush(CPUState *cpu, run_on_cpu_data data)
{
    BranchTraceStream *s = find_stream(branch_trace_device, cpu);

    if (s) {
        branch_trace_stream_flush(s);
    }
}

static void do_refill(CPUState *cpu, run_on_cpu_data data)
{
    BranchTraceStream *s = find_stream(branch_trace_device, cpu);

    if (s) {
        branch_trace_stream_refill(s);
    }
}

/*
 * A vCPU that is unplugged loses its thread first, and the BQL is not held
 * until the rest follows: it is still there then, and nobody does its work.
 */
static bool thread_ended(CPUState *cpu)
{
    return !cpu->created;
}

static bool selected(const BranchTraceSelection *selection, int cpu_index)
{
    return !selection->vcpus || test_bit(cpu_index, selection->vcpus);
}

static void start_stream(BranchTraceDevice *d, CPUState *cpu)
{
    BranchTraceCapture *capture = d->capture;
    BranchTraceStream *s;

    if (!selected(capture->selection, cpu->cpu_index)) {
        return;
    }
    if (thread_ended(cpu)) {
        return;
    }
    s = find_stream(d, cpu);
    if (!s) {
        s = branch_trace_stream_new(cpu, &capture->buffer, producer,
                                    &capture->selection->filter,
                                    &capture->policy, capture->code);
        WITH_QEMU_LOCK_GUARD(&d->streams_lock) {
            QTAILQ_INSERT_TAIL(&d->streams, s, next);
        }
    }
    run_on_cpu(cpu, do_begin, RUN_ON_CPU_HOST_PTR(s));
}

static void do_change(CPUState *cpu, run_on_cpu_data data)
{
    BranchTraceStream *s = data.host_ptr;
    BranchTraceSelection *selection = branch_trace_device->capture->selection;

    branch_trace_stream_change(s, selected(selection, s->cpu_index)
                                  ? &selection->filter : &filter_nothing);
}

/*
 * Let a stream have the new selection.  One whose vCPU is not selected any
 * more goes on, for its vCPU may be selected again: it has events, and no
 * records.
 */
static void change_stream(BranchTraceStream *s)
{
    if (s->cpu && !thread_ended(s->cpu)) {
        run_on_cpu(s->cpu, do_change, RUN_ON_CPU_HOST_PTR(s));
    } else {
        do_change(s->cpu, RUN_ON_CPU_HOST_PTR(s));
    }
}

/* The stream stays, for queries, until the next capture starts. */
static void end_stream(BranchTraceStream *s, uint16_t reason)
{
    if (s->state == BTRAIL_VCPU_ENDED) {
        return;
    }
    if (!s->cpu || thread_ended(s->cpu)) {
        branch_trace_stream_end(s, BTRAIL_END_UNPLUGGED);
    } else if (!runstate_is_running()) {
        /* QEMU may be on its way out, and its vCPUs wait for nothing. */
        branch_trace_stream_end(s, reason);
    } else {
        run_on_cpu(s->cpu, do_end, RUN_ON_CPU_HOST_INT(reason));
    }
}

static void wake_streams(BranchTraceDevice *d)
{
    BranchTraceStream *s;

    QTAILQ_FOREACH(s, &d->streams, next) {
        branch_trace_stream_read_tail(s);
        if (s->cpu && branch_trace_stream_can_refill(s)) {
            async_run_on_cpu(s->cpu, do_refill, RUN_ON_CPU_NULL);
        }
    }
}

static void flush_streams(BranchTraceDevice *d)
{
    BranchTraceStream *s;

    QTAILQ_FOREACH(s, &d->streams, next) {
        if (s->cpu && s->state == BTRAIL_VCPU_RUNNING) {
            async_run_on_cpu(s->cpu, do_flush, RUN_ON_CPU_NULL);
        }
    }
}

static void report_gaps(BranchTraceDevice *d)
{
    BranchTraceStream *s;

    /* What is overwritten is what the user asked for. */
    if (d->capture->overflow == BRANCH_TRACE_OVERFLOW_OVERWRITE) {
        return;
    }
    QTAILQ_FOREACH(s, &d->streams, next) {
        uint64_t lost = branch_trace_stream_lost(s);

        if (lost != s->gap_reported) {
            s->gap_reported = lost;
            qapi_event_send_branch_trace_gap(d->capture->name,
                                             s->cpu_index, lost);
        }
    }
}

/* Captures */

static void selection_free(BranchTraceSelection *selection)
{
    if (selection) {
        g_free(selection->vcpus);
        g_free(selection);
    }
}

static void capture_free(BranchTraceCapture *capture)
{
    if (!capture) {
        return;
    }
    if (capture->agent) {
        branch_trace_agent_close(capture->agent);
    }
    branch_trace_buffer_destroy(&capture->buffer);
    branch_trace_code_free(capture->code);
    selection_free(capture->selection);
    g_free(capture->name);
    g_free(capture);
}

static void free_streams(BranchTraceDevice *d)
{
    BranchTraceStream *s, *next;

    QEMU_LOCK_GUARD(&d->streams_lock);
    QTAILQ_FOREACH_SAFE(s, &d->streams, next, next) {
        QTAILQ_REMOVE(&d->streams, s, next);
        branch_trace_stream_free(s);
    }
}

static void slabs_are_free(void *opaque)
{
    BranchTraceDevice *d = opaque;

    branch_trace_buffer_read_free(&d->capture->buffer);
    wake_streams(d);
}

static void capture_end(BranchTraceDevice *d, BranchTraceReason reason,
                        uint16_t end_reason)
{
    BranchTraceCapture *capture = d->capture;
    BranchTraceStream *s;

    capture->ending = true;
    branch_trace_control_own(d->control, false);
    tick_stop(d);
    timer_del(d->housekeeping);
    qemu_set_fd_handler(capture->buffer.free[0], NULL, NULL, NULL);

    QTAILQ_FOREACH(s, &d->streams, next) {
        end_stream(s, end_reason);
    }
    report_gaps(d);

    if (capture->agent) {
        branch_trace_agent_send_end(capture->agent, end_reason);
        branch_trace_agent_close(capture->agent);
        capture->agent = NULL;
    }
    /* The agent has a mapping of its own to drain the rest from. */
    capture_set_state(d, BRANCH_TRACE_STATE_INACTIVE, reason);
}

/* What the streams are to do, with an agent or with one that is @lost */
static void capture_set_policy(BranchTraceCapture *capture, bool lost)
{
    uint32_t policy = capture->overflow;
    uint32_t reason = BTRAIL_GAP_OVERFLOW;

    if (lost && policy == BTRAIL_OVERFLOW_PAUSE && capture->agent_timeout) {
        policy = BTRAIL_OVERFLOW_DROP;
    }
    if (lost && policy == BTRAIL_OVERFLOW_DROP) {
        reason = BTRAIL_GAP_AGENT_LOST;
    }
    qatomic_set(&capture->policy.gap_reason, reason);
    qatomic_set(&capture->policy.overflow, policy);
}

static void agent_is_lost(BranchTraceDevice *d, BranchTraceReason reason)
{
    BranchTraceCapture *capture = d->capture;

    if (reason != BRANCH_TRACE_REASON_TIMEOUT && capture->agent) {
        branch_trace_agent_close(capture->agent);
        capture->agent = NULL;
    }
    capture_set_policy(capture, true);
    capture_set_state(d, BRANCH_TRACE_STATE_AGENT_LOST, reason);
    wake_streams(d);
}

static void agent_is_back(BranchTraceDevice *d, BranchTraceReason reason)
{
    BranchTraceCapture *capture = d->capture;

    capture_set_policy(capture, false);
    capture->progress_ms = qemu_clock_get_ms(QEMU_CLOCK_REALTIME);
    capture_set_state(d, BRANCH_TRACE_STATE_ACTIVE, reason);
    wake_streams(d);
}

/* It costs a look at all pages and all vCPUs something: not at any rate. */
static void resend(BranchTraceDevice *d)
{
    BranchTraceCapture *capture = d->capture;
    int64_t now = qemu_clock_get_ms(QEMU_CLOCK_REALTIME);

    capture->resend = now - capture->resent_ms < HOUSEKEEPING_MS;
    if (!capture->resend) {
        capture->resent_ms = now;
        branch_trace_code_forget(capture->code);
    }
}

static void agent_event(void *opaque, BranchTraceAgentEvent event)
{
    BranchTraceDevice *d = opaque;

    switch (event) {
    case BRANCH_TRACE_AGENT_GONE:
        agent_is_lost(d, BRANCH_TRACE_REASON_DISCONNECTED);
        break;
    case BRANCH_TRACE_AGENT_GARBAGE:
        agent_is_lost(d, BRANCH_TRACE_REASON_PROTOCOL);
        break;
    case BRANCH_TRACE_AGENT_FLUSH:
        flush_streams(d);
        break;
    case BRANCH_TRACE_AGENT_RESEND_CODE:
        resend(d);
        break;
    case BRANCH_TRACE_AGENT_STOP:
        capture_end(d, BRANCH_TRACE_REASON_AGENT, BTRAIL_END_STOPPED);
        break;
    }
}

/* Does the agent drain?  Does it play by the rules? */
static void watch_agent(BranchTraceDevice *d)
{
    BranchTraceCapture *capture = d->capture;
    int64_t now = qemu_clock_get_ms(QEMU_CLOCK_REALTIME);
    bool progress = false, stuck = false;
    BranchTraceStream *s;

    QTAILQ_FOREACH(s, &d->streams, next) {
        if (!branch_trace_stream_read_tail(s)) {
            if (capture->agent) {
                agent_is_lost(d, BRANCH_TRACE_REASON_PROTOCOL);
            }
            return;
        }
        if (qatomic_read(&s->tail) != s->wait_tail ||
            branch_trace_code_tail(s) != s->wait_code_tail) {
            s->wait_tail = qatomic_read(&s->tail);
            s->wait_code_tail = branch_trace_code_tail(s);
            progress = true;
        }
        stuck |= qatomic_read(&s->state) == BTRAIL_VCPU_WAITING ||
                 qatomic_read(&s->state) == BTRAIL_VCPU_LOSING;
    }

    if (progress && capture->agent &&
        capture->state == BRANCH_TRACE_STATE_AGENT_LOST) {
        agent_is_back(d, BRANCH_TRACE_REASON_AGENT);
    }
    if (progress || !stuck) {
        capture->progress_ms = now;
    } else if (capture->state == BRANCH_TRACE_STATE_ACTIVE &&
               capture->agent_timeout &&
               now - capture->progress_ms >= capture->agent_timeout) {
        agent_is_lost(d, BRANCH_TRACE_REASON_TIMEOUT);
    }
}

static void housekeeping(void *opaque)
{
    BranchTraceDevice *d = opaque;

    watch_agent(d);
    flush_streams(d);
    report_gaps(d);
    if (d->capture->resend) {
        resend(d);
    }
    timer_mod(d->housekeeping,
              qemu_clock_get_ms(QEMU_CLOCK_REALTIME) + HOUSEKEEPING_MS);
}

static uint32_t privilege_bits(BranchTracePrivilege privilege)
{
    switch (privilege) {
    case BRANCH_TRACE_PRIVILEGE_USER:
        return BTRAIL_PRIVILEGE_USER;
    case BRANCH_TRACE_PRIVILEGE_KERNEL:
        return BTRAIL_PRIVILEGE_KERNEL;
    default:
        return BTRAIL_PRIVILEGE_USER | BTRAIL_PRIVILEGE_KERNEL;
    }
}

/* These can change, for an agent that attaches later. */
static void capture_describe_selection(BranchTraceCapture *capture)
{
    struct btrail_shm_header *header =
        (struct btrail_shm_header *)capture->buffer.base;

    header->policy = capture->overflow;
    header->privilege = capture->selection->filter.privilege;
}

static void capture_describe(BranchTraceCapture *capture)
{
    struct btrail_shm_header *header =
        (struct btrail_shm_header *)capture->buffer.base;

    header->producer = producer->type;
    header->tick_ns = TICK_NS;
    header->tsc_hz = producer->tsc_hz(first_cpu);
    header->start_monotonic = get_clock();
    header->start_realtime = get_clock_realtime();
    pstrcpy(header->capture, sizeof(header->capture), capture->name);
    capture_describe_selection(capture);
}

static int compare_cr3(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* NULL if it makes no sense */
static BranchTraceSelection *
selection_new(bool has_vcpus, uint16List *vcpus, bool has_privilege,
              BranchTracePrivilege privilege, bool has_cr3, uint64List *cr3,
              Error **errp)
{
    BranchTraceSelection *selection = g_new0(BranchTraceSelection, 1);
    BranchTraceFilter *filter = &selection->filter;
    unsigned max_cpus = current_machine->smp.max_cpus;

    selection->privilege = has_privilege ? privilege
                                         : BRANCH_TRACE_PRIVILEGE_ALL;
    filter->privilege = privilege_bits(selection->privilege);
    if (has_vcpus) {
        selection->vcpus = bitmap_new(max_cpus);
        for (; vcpus; vcpus = vcpus->next) {
            if (!qemu_get_cpu(vcpus->value)) {
                error_setg(errp, "there is no vCPU %u: see query-cpus-fast",
                           vcpus->value);
                goto fail;
            }
            set_bit(vcpus->value, selection->vcpus);
        }
        if (bitmap_empty(selection->vcpus, max_cpus)) {
            error_setg(errp, "the list of vCPUs is empty: leave it out to "
                       "trace all");
            goto fail;
        }
    }
    if (has_cr3) {
        for (; cr3; cr3 = cr3->next) {
            if (filter->cr3_count == BRANCH_TRACE_MAX_CR3) {
                error_setg(errp, "at most %d address spaces can be selected: "
                           "trace all and filter in the agent",
                           BRANCH_TRACE_MAX_CR3);
                goto fail;
            }
            filter->cr3[filter->cr3_count++] = cr3->value & BTRAIL_CR3_ROOT;
        }
        if (!filter->cr3_count) {
            error_setg(errp, "the list of address spaces is empty: leave it "
                       "out to trace all");
            goto fail;
        }
        qsort(filter->cr3, filter->cr3_count, sizeof(uint64_t), compare_cr3);
    }
    return selection;

fail:
    selection_free(selection);
    return NULL;
}

static BranchTraceDevice *get_device(Error **errp)
{
    if (!branch_trace_device) {
        error_set(errp, ERROR_CLASS_DEVICE_NOT_FOUND,
                  "this guest has no branch-trace device: start QEMU with "
                  "'-device branch-trace'");
    }
    return branch_trace_device;
}

/* The device, for a command that changes the capture. */
static BranchTraceDevice *get_idle_device(Error **errp)
{
    BranchTraceDevice *d = get_device(errp);

    if (d && d->busy) {
        error_setg(errp, "another branch-trace command is in progress: try "
                   "again when it has ended");
        return NULL;
    }
    if (d && d->exiting) {
        error_setg(errp, "QEMU is about to end");
        return NULL;
    }
    return d;
}

/* The active capture, if it has this name */
static BranchTraceCapture *get_capture(BranchTraceDevice *d, const char *name,
                                       Error **errp)
{
    if (!capture_active(d) || strcmp(d->capture->name, name)) {
        error_setg(errp, "no capture '%s' is active: see query-branch-trace",
                   name);
        return NULL;
    }
    return d->capture;
}

static SocketAddress *agent_address(BranchTraceDevice *d, SocketAddress *addr,
                                    Error **errp)
{
    SocketAddress *def;

    if (addr) {
        return QAPI_CLONE(SocketAddress, addr);
    }
    if (branch_trace_control_executes(d->control) &&
        branch_trace_control_address(d->control)) {
        return QAPI_CLONE(SocketAddress,
                          branch_trace_control_address(d->control));
    }
    if (!d->agent_path) {
        error_setg(errp, "no trace agent: name one with 'agent', or start "
                   "QEMU with '-device branch-trace,agent=PATH'");
        return NULL;
    }
    def = g_new0(SocketAddress, 1);
    def->type = SOCKET_ADDRESS_TYPE_UNIX;
    def->u.q_unix.path = g_strdup(d->agent_path);
    return def;
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
    BranchTraceDevice *d = get_idle_device(errp);
    g_autoptr(SocketAddress) addr = NULL;
    BranchTraceCapture *capture;
    unsigned i;

    if (!d) {
        return;
    }
    if (!producer) {
        error_setg(errp, "this accelerator cannot trace branches: use "
                   "'-accel tcg'");
        return;
    }
    if (capture_active(d)) {
        error_setg(errp, "capture '%s' is active: stop it with "
                   "branch-trace-stop first", d->capture->name);
        return;
    }
    if (!*name || strlen(name) >= BTRAIL_CAPTURE_NAME_MAX) {
        error_setg(errp, "a capture name has 1 to %d bytes",
                   BTRAIL_CAPTURE_NAME_MAX - 1);
        return;
    }
    if (!has_buffer_size) {
        buffer_size = DEFAULT_BUFFER_SIZE;
    }
    if (buffer_size < MIN_BUFFER_SIZE || buffer_size > MAX_BUFFER_SIZE) {
        error_setg(errp, "buffer-size must be from 128 KiB to 4 GiB");
        return;
    }
    addr = agent_address(d, agent, errp);
    if (!addr) {
        return;
    }

    capture = g_new0(BranchTraceCapture, 1);
    capture->name = g_strdup(name);
    capture->overflow = has_overflow ? overflow : BRANCH_TRACE_OVERFLOW_PAUSE;
    capture->agent_timeout = has_agent_timeout ? agent_timeout
                                               : DEFAULT_AGENT_TIMEOUT;
    capture->policy.overflow = capture->overflow;
    capture->policy.gap_reason = BTRAIL_GAP_OVERFLOW;
    branch_trace_buffer_init(&capture->buffer);

    capture->selection = selection_new(has_vcpus, vcpus, has_privilege,
                                       privilege, has_cr3, cr3, errp);
    if (!capture->selection ||
        !branch_trace_buffer_create(&capture->buffer,
                                    current_machine->smp.max_cpus,
                                    buffer_size, d->code_pages, errp)) {
        capture_free(capture);
        return;
    }
    if (d->code_pages) {
        capture->code = branch_trace_code_new();
    }
    capture->buffer_size = (uint64_t)capture->buffer.slabs *
                           capture->buffer.slab_size;
    capture_describe(capture);

    d->busy = true;
    capture->agent = branch_trace_agent_connect(addr, &capture->buffer,
                                                capture->policy.slot,
                                                agent_event, d, errp);
    d->busy = false;
    if (capture->agent && d->exiting) {
        error_setg(errp, "QEMU is about to end");
    }
    if (!capture->agent || d->exiting) {
        capture_free(capture);
        return;
    }

    free_streams(d);
    capture_free(d->capture);
    d->capture = capture;
    capture->progress_ms = qemu_clock_get_ms(QEMU_CLOCK_REALTIME);

    /* Not CPU_FOREACH(): the list can change while a vCPU is waited for. */
    for (i = 0; i < current_machine->smp.max_cpus; i++) {
        CPUState *cpu = qemu_get_cpu(i);

        if (cpu) {
            start_stream(d, cpu);
        }
    }
    tick_start(d);
    qemu_set_fd_handler(capture->buffer.free[0], slabs_are_free, NULL, d);
    timer_mod(d->housekeeping,
              qemu_clock_get_ms(QEMU_CLOCK_REALTIME) + HOUSEKEEPING_MS);
    capture_set_state(d, BRANCH_TRACE_STATE_ACTIVE,
                      BRANCH_TRACE_REASON_COMMAND);
    branch_trace_control_own(d->control,
                             branch_trace_control_executes(d->control));
    /* Now the agent may speak: it could end what has begun. */
    branch_trace_agent_listen(capture->agent);
}

void coroutine_fn qmp_branch_trace_attach(SocketAddress *agent, Error **errp)
{
    BranchTraceDevice *d = get_idle_device(errp);
    g_autoptr(SocketAddress) addr = NULL;
    BranchTraceAgent *attached;
    BranchTraceStream *s;
    uint32_t slot;

    if (!d) {
        return;
    }
    if (!capture_active(d)) {
        error_setg(errp, "no capture is active: start one with "
                   "branch-trace-start");
        return;
    }
    addr = agent_address(d, agent, errp);
    if (!addr) {
        return;
    }

    /* Two agents must not drain at the same time. */
    if (d->capture->agent) {
        branch_trace_agent_close(d->capture->agent);
        d->capture->agent = NULL;
    }
    slot = (d->capture->policy.slot + 1) % BTRAIL_AGENT_SLOTS;
    QTAILQ_FOREACH(s, &d->streams, next) {
        /* What the last one gave back since its tail was looked at */
        branch_trace_stream_read_tail(s);
        branch_trace_stream_init_tail(s, slot);
    }
    qatomic_set(&d->capture->policy.slot, slot);
    d->busy = true;
    attached = branch_trace_agent_connect(addr, &d->capture->buffer, slot,
                                          agent_event, d, errp);
    d->busy = false;
    if (!capture_active(d)) {
        /* Ended meanwhile, by the guest. */
        if (attached) {
            branch_trace_agent_send_end(attached, BTRAIL_END_SHUTDOWN);
            branch_trace_agent_close(attached);
        }
        return;
    }
    if (!attached) {
        agent_is_lost(d, BRANCH_TRACE_REASON_DISCONNECTED);
        return;
    }
    d->capture->agent = attached;
    branch_trace_control_own(d->control,
                             branch_trace_control_executes(d->control));
    /* What the last one was told may have got lost with it. */
    branch_trace_code_forget(d->capture->code);
    agent_is_back(d, BRANCH_TRACE_REASON_ATTACHED);
    branch_trace_agent_listen(attached);
}

static BranchTraceVcpuState vcpu_state(BranchTraceStream *s,
                                       const BranchTraceSelection *selection)
{
    if (!s->cpu) {
        return BRANCH_TRACE_VCPU_STATE_ENDED;
    }
    switch (qatomic_read(&s->state)) {
    case BTRAIL_VCPU_WAITING:
        return BRANCH_TRACE_VCPU_STATE_WAITING;
    case BTRAIL_VCPU_LOSING:
        return BRANCH_TRACE_VCPU_STATE_LOSING;
    default:
        return selected(selection, s->cpu_index)
               ? BRANCH_TRACE_VCPU_STATE_RUNNING
               : BRANCH_TRACE_VCPU_STATE_IDLE;
    }
}

static BranchTraceInfo *capture_info(BranchTraceDevice *d)
{
    BranchTraceInfo *info = g_new0(BranchTraceInfo, 1);
    BranchTraceCapture *capture = d->capture;
    BranchTraceVcpuList **tail = &info->vcpus;
    uint64List **cr3_tail = &info->cr3;
    const BranchTraceSelection *selection;
    BranchTraceStream *s;
    unsigned i;

    if (!capture) {
        info->state = BRANCH_TRACE_STATE_INACTIVE;
        return info;
    }
    selection = capture->selection;
    info->state = capture->state;
    info->capture = g_strdup(capture->name);
    info->has_privilege = true;
    info->privilege = selection->privilege;
    info->has_overflow = true;
    info->overflow = capture->overflow;
    info->has_buffer_size = true;
    info->buffer_size = capture->buffer_size;
    info->has_agent_timeout = true;
    info->agent_timeout = capture->agent_timeout;
    info->has_cr3 = selection->filter.cr3_count > 0;
    for (i = 0; i < selection->filter.cr3_count; i++) {
        QAPI_LIST_APPEND(cr3_tail, selection->filter.cr3[i]);
    }

    QTAILQ_FOREACH(s, &d->streams, next) {
        BranchTraceVcpu *vcpu = g_new0(BranchTraceVcpu, 1);

        branch_trace_stream_read_tail(s);
        vcpu->cpu_index = s->cpu_index;
        vcpu->state = vcpu_state(s, selection);
        vcpu->records = branch_trace_stream_index(s);
        vcpu->since = branch_trace_stream_since(s);
        vcpu->drained = branch_trace_stream_drained(s);
        vcpu->lost = branch_trace_stream_lost(s);
        vcpu->paused_ns = branch_trace_stream_paused_ns(s);
        QAPI_LIST_APPEND(tail, vcpu);
    }
    return info;
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
    BranchTraceDevice *d = get_idle_device(errp);
    BranchTraceSelection *selection, *old;
    BranchTraceCapture *capture;
    BranchTraceStream *s;
    unsigned i;

    if (!d) {
        return NULL;
    }
    capture = get_capture(d, name, errp);
    if (!capture) {
        return NULL;
    }
    if (!has_overflow) {
        overflow = BRANCH_TRACE_OVERFLOW_PAUSE;
    }
    if (overflow != capture->overflow &&
        (overflow == BRANCH_TRACE_OVERFLOW_OVERWRITE ||
         capture->overflow == BRANCH_TRACE_OVERFLOW_OVERWRITE)) {
        error_setg(errp, "an agent cannot drain with policy 'overwrite': "
                   "start a capture of its own with it");
        return NULL;
    }
    selection = selection_new(has_vcpus, vcpus, has_privilege, privilege,
                              has_cr3, cr3, errp);
    if (!selection) {
        return NULL;
    }

    old = capture->selection;
    capture->selection = selection;
    /*
     * Nobody takes streams away meanwhile.  But while a vCPU is waited for the
     * BQL is not held: the capture may end.
     */
    QTAILQ_FOREACH(s, &d->streams, next) {
        change_stream(s);
    }
    selection_free(old);
    for (i = 0; i < current_machine->smp.max_cpus; i++) {
        CPUState *cpu = qemu_get_cpu(i);

        if (cpu && capture_active(d) && !capture->ending) {
            s = find_stream(d, cpu);
            if (!s || !s->cpu) {
                start_stream(d, cpu);
            }
        }
    }

    capture->overflow = overflow;
    capture_describe_selection(capture);
    if (capture_active(d)) {
        capture_set_policy(capture,
                           capture->state == BRANCH_TRACE_STATE_AGENT_LOST);
        wake_streams(d);
    }
    return capture_info(d);
}

BranchTraceInfo *qmp_branch_trace_stop(const char *name, Error **errp)
{
    BranchTraceDevice *d = get_idle_device(errp);

    if (!d) {
        return NULL;
    }
    if (!get_capture(d, name, errp)) {
        return NULL;
    }
    capture_end(d, BRANCH_TRACE_REASON_COMMAND, BTRAIL_END_STOPPED);
    return capture_info(d);
}

BranchTraceInfo *qmp_query_branch_trace(Error **errp)
{
    BranchTraceDevice *d = get_device(errp);

    return d ? capture_info(d) : NULL;
}

QObject *coroutine_fn qmp_branch_trace_agent(QObject *command,
                                             SocketAddress *agent,
                                             bool has_timeout,
                                             uint32_t timeout, Error **errp)
{
    BranchTraceDevice *d = get_device(errp);
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
    addr = agent_address(d, agent, errp);
    if (!addr) {
        return NULL;
    }
    return branch_trace_control_command(d->control, command, addr,
                                        agent != NULL, timeout, errp);
}

static BranchTraceInfo *active_capture(void *opaque)
{
    BranchTraceDevice *d = opaque;

    return capture_active(d) ? capture_info(d) : NULL;
}

/* What happens to the guest */

static void vm_state_changed(void *opaque, bool running, RunState state)
{
    BranchTraceDevice *d = opaque;
    BranchTraceStream *s;

    if (running) {
        branch_trace_control_event(d->control, "running", NULL);
    } else {
        QDict *data = qdict_new();

        qdict_put_str(data, "state", RunState_str(state));
        branch_trace_control_event(d->control, "stopped", data);
    }
    if (!capture_active(d)) {
        return;
    }
    /* No vCPU runs at this moment, whichever way it goes. */
    QTAILQ_FOREACH(s, &d->streams, next) {
        if (s->cpu && s->state != BTRAIL_VCPU_ENDED) {
            branch_trace_stream_vm_state(s, running);
        }
    }
    if (state == RUN_STATE_SHUTDOWN) {
        capture_end(d, BRANCH_TRACE_REASON_SHUTDOWN, BTRAIL_END_SHUTDOWN);
    } else if (!running) {
        QTAILQ_FOREACH(s, &d->streams, next) {
            branch_trace_stream_flush(s);
        }
    }
}

/* On the thread of the vCPU, as a rule */
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

/* The guest has powered off, or QEMU was told to end. */
static void guest_shuts_down(Notifier *notifier, void *opaque)
{
    BranchTraceDevice *d = container_of(notifier, BranchTraceDevice, shutdown);
    const ShutdownCause *cause = opaque;
    QDict *data = qdict_new();

    qdict_put_str(data, "reason", ShutdownCause_str(*cause));
    branch_trace_control_event(d->control, "shutdown", data);
    if (shutdown_action != SHUTDOWN_ACTION_PAUSE) {
        /*
         * The main loop ends, and no timer comes any more; but QEMU waits for
         * commands that are in progress.
         */
        d->exiting = true;
        branch_trace_control_exit(d->control);
        branch_trace_agent_cancel();
    }
}

/* QEMU exits, perhaps with the guest stopped long before. */
static void qemu_exits(Notifier *notifier, void *opaque)
{
    BranchTraceDevice *d = container_of(notifier, BranchTraceDevice, exit);

    if (capture_active(d)) {
        capture_end(d, BRANCH_TRACE_REASON_SHUTDOWN, BTRAIL_END_SHUTDOWN);
    }
}

static int migration_changed(NotifierWithReturn *notify, MigrationEvent *e,
                             Error **errp)
{
    BranchTraceDevice *d = container_of(notify, BranchTraceDevice, migration);

    if (e->type == MIG_EVENT_PRECOPY_DONE) {
        if (capture_active(d)) {
            capture_end(d, BRANCH_TRACE_REASON_MIGRATED, BTRAIL_END_MIGRATED);
        }
        branch_trace_control_event(d->control, "migrated", NULL);
    }
    return 0;
}

static void cpu_realized(DeviceListener *listener, DeviceState *dev)
{
    BranchTraceDevice *d = container_of(listener, BranchTraceDevice,
                                        cpu_listener);
    CPUState *cpu = (CPUState *)object_dynamic_cast(OBJECT(dev), TYPE_CPU);

    if (cpu && capture_active(d) && !d->capture->ending) {
        start_stream(d, cpu);
    }
}

static void cpu_unrealized(DeviceListener *listener, DeviceState *dev)
{
    BranchTraceDevice *d = container_of(listener, BranchTraceDevice,
                                        cpu_listener);
    CPUState *cpu = (CPUState *)object_dynamic_cast(OBJECT(dev), TYPE_CPU);
    BranchTraceStream *s;

    if (!cpu || !capture_active(d)) {
        return;
    }
    /* Not by its index, which it has lost already. */
    QTAILQ_FOREACH(s, &d->streams, next) {
        if (s->cpu == cpu) {
            break;
        }
    }
    if (s) {
        /* Its thread is gone; the tick must not find its cursor any more. */
        QEMU_LOCK_GUARD(&d->streams_lock);
        branch_trace_stream_unplug(s);
    }
}

static int branch_trace_pre_save(void *opaque)
{
    BranchTraceDevice *d = opaque;

    d->traced = capture_active(d);
    return 0;
}

static int branch_trace_post_load(void *opaque, int version_id)
{
    BranchTraceDevice *d = opaque;
    BranchTraceStream *s;

    if (capture_active(d)) {
        QTAILQ_FOREACH(s, &d->streams, next) {
            if (s->cpu) {
                s->ops->discontinuity(s->cpu, BTRAIL_GAP_RESTORED);
            }
        }
    }
    return 0;
}

/*
 * A capture belongs to this QEMU, not to the guest: it goes on when a snapshot
 * is loaded, and it does not travel.
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

    d->control = branch_trace_control_new(active_capture, d);
    qemu_mutex_init(&d->streams_lock);
    QTAILQ_INIT(&d->streams);
    d->housekeeping = timer_new_ms(QEMU_CLOCK_REALTIME, housekeeping, d);
    d->vm_change = qemu_add_vm_change_state_handler(vm_state_changed, d);
    migration_add_notifier(&d->migration, migration_changed);
    d->exit.notify = qemu_exits;
    qemu_add_exit_notifier(&d->exit);
    d->shutdown.notify = guest_shuts_down;
    qemu_register_shutdown_notifier(&d->shutdown);
    d->panicked.notify = guest_panicked;
    qemu_register_guest_panicked_notifier(&d->panicked);
    /* It is on no bus that would reset it. */
    qemu_register_resettable(OBJECT(d));
    d->cpu_listener.realize = cpu_realized;
    d->cpu_listener.unrealize = cpu_unrealized;
    device_listener_register(&d->cpu_listener);
    branch_trace_device = d;
}

static const Property branch_trace_properties[] = {
    DEFINE_PROP_STRING("agent", BranchTraceDevice, agent_path),
    DEFINE_PROP_UINT32("code-pages", BranchTraceDevice, code_pages,
                       DEFAULT_CODE_PAGES),
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
    set_bit(DEVICE_CATEGORY_MISC, dc->categories);
}

static const TypeInfo branch_trace_types[] = {
    {
        .name           = TYPE_BRANCH_TRACE,
        .parent         = TYPE_DEVICE,
        .instance_size  = sizeof(BranchTraceDevice),
        .class_init     = branch_trace_class_init,
    },
};

DEFINE_TYPES(branch_trace_types)
