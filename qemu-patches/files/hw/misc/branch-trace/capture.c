/*
 * Branch trace: what the device records of a guest, from start to end
 *
 * A capture has a buffer, a stream for each vCPU, and an agent.  If the agent
 * is lost the capture continues, as its policy says, until another attaches.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "hw/boards.h"
#include "hw/core/cpu.h"
#include "qapi/error.h"
#include "qapi/qapi-events-branch-trace.h"
#include "qemu/cutils.h"
#include "qemu/main-loop.h"
#include "qemu/timer.h"
#include "background.h"
#include "capture.h"
#include "data-connection.h"
#include "tasks.h"

/* Partial slabs are published, and the agent is watched, this often. */
#define HOUSEKEEPING_MS         100

struct BranchTraceCapture {
    char *name;
    BranchTraceOverflow overflow;
    uint64_t buffer_size;
    uint32_t agent_timeout;
    BranchTraceSelection *selection;
    BranchTraceShared shared;
    BranchTraceStreams *streams;
    BranchTraceTasks tasks;
    BranchTraceCaptures *captures;
    BranchTraceControl *control;
    BranchTraceData *agent;     /* NULL while there is none */
    bool local;                 /* there is never one */
    BranchTraceState state;
    bool ending;
    int64_t progress_ms;        /* when the agent last drained something */
    int64_t resent_ms;          /* when all code was last sent again */
    bool resend;                /* requested once more, but not due yet */
    QEMUTimer *housekeeping;
};

static bool is_active(const BranchTraceCapture *capture)
{
    return capture && capture->state != BRANCH_TRACE_STATE_INACTIVE;
}

BranchTraceCapture *
branch_trace_capture_active(const BranchTraceCaptures *captures)
{
    return is_active(captures->latest) ? captures->latest : NULL;
}

const char *branch_trace_capture_name(const BranchTraceCapture *capture)
{
    return capture->name;
}

bool branch_trace_capture_is_local(const BranchTraceCapture *capture)
{
    return capture->local;
}

static void set_state(BranchTraceCapture *capture, BranchTraceState state,
                      BranchTraceReason reason)
{
    /* A new agent is reported even if the last one was not lost. */
    if (capture->state != state || reason == BRANCH_TRACE_REASON_ATTACHED) {
        QDict *data = qdict_new();

        capture->state = state;
        qapi_event_send_branch_trace_state(capture->name, state, reason);
        qdict_put_str(data, "capture", capture->name);
        qdict_put_str(data, "state", BranchTraceState_str(state));
        qdict_put_str(data, "reason", BranchTraceReason_str(reason));
        branch_trace_control_event(capture->control, "state", data);
    }
}

static void report_gaps(BranchTraceCapture *capture)
{
    BranchTraceStream *s;
    uint64_t lost;
    unsigned i;

    /* Records that are overwritten are what the user asked for. */
    if (capture->overflow == BRANCH_TRACE_OVERFLOW_OVERWRITE) {
        return;
    }
    STREAM_FOREACH(capture->streams, i, s) {
        if (branch_trace_stream_has_lost(s, &lost)) {
            qapi_event_send_branch_trace_gap(capture->name, i, lost);
        }
    }
}

/* Policy */

/* Has the streams follow the policy, with an agent or with one that is @lost */
static void set_policy(BranchTraceCapture *capture, bool lost)
{
    uint32_t overflow = capture->overflow;
    uint32_t reason = BTRAIL_GAP_OVERFLOW;

    if (lost && overflow == BTRAIL_OVERFLOW_PAUSE && capture->agent_timeout) {
        overflow = BTRAIL_OVERFLOW_DROP;
    }
    if (lost && overflow == BTRAIL_OVERFLOW_DROP) {
        reason = BTRAIL_GAP_AGENT_LOST;
    }
    qatomic_set(&capture->shared.policy.gap_reason, reason);
    qatomic_set(&capture->shared.policy.overflow, overflow);
}

static void close_agent(BranchTraceCapture *capture)
{
    if (capture->agent) {
        qemu_set_fd_handler(capture->shared.buf.free[0], NULL, NULL, NULL);
        branch_trace_data_close(capture->agent);
        capture->agent = NULL;
    }
}

static void agent_is_lost(BranchTraceCapture *capture,
                          BranchTraceReason reason)
{
    if (reason != BRANCH_TRACE_REASON_TIMEOUT) {
        close_agent(capture);
    }
    set_policy(capture, true);
    set_state(capture, BRANCH_TRACE_STATE_AGENT_LOST, reason);
    branch_trace_streams_wake(capture->streams);
}

static void agent_is_back(BranchTraceCapture *capture,
                          BranchTraceReason reason)
{
    set_policy(capture, false);
    capture->progress_ms = qemu_clock_get_ms(QEMU_CLOCK_REALTIME);
    set_state(capture, BRANCH_TRACE_STATE_ACTIVE, reason);
    branch_trace_streams_wake(capture->streams);
}

/* Sends all code again, but not too often: it costs every page and vCPU. */
static void resend_code(BranchTraceCapture *capture)
{
    int64_t now = qemu_clock_get_ms(QEMU_CLOCK_REALTIME);

    capture->resend = now - capture->resent_ms < HOUSEKEEPING_MS;
    if (!capture->resend) {
        capture->resent_ms = now;
        branch_trace_code_forget(capture->shared.code);
    }
}

static void agent_event(void *opaque, BranchTraceDataEvent event)
{
    BranchTraceCapture *capture = opaque;

    switch (event) {
    case BRANCH_TRACE_DATA_CLOSED:
        agent_is_lost(capture, BRANCH_TRACE_REASON_DISCONNECTED);
        break;
    case BRANCH_TRACE_DATA_INVALID:
        agent_is_lost(capture, BRANCH_TRACE_REASON_PROTOCOL);
        break;
    case BRANCH_TRACE_DATA_FLUSH:
        branch_trace_streams_flush(capture->streams);
        break;
    case BRANCH_TRACE_DATA_RESEND_CODE:
        resend_code(capture);
        break;
    case BRANCH_TRACE_DATA_TASKS:
        branch_trace_tasks_request(&capture->tasks,
                                   branch_trace_data_tasks(capture->agent));
        break;
    case BRANCH_TRACE_DATA_STOP:
        branch_trace_capture_end(capture, BRANCH_TRACE_REASON_AGENT,
                                 BTRAIL_END_STOPPED);
        break;
    }
}

/* Checks that the agent drains, and that what it writes is valid. */
static void watch_agent(BranchTraceCapture *capture)
{
    int64_t now = qemu_clock_get_ms(QEMU_CLOCK_REALTIME);
    bool progress = false, stuck = false;
    enum btrail_vcpu_state state;
    BranchTraceStream *s;
    unsigned i;

    STREAM_FOREACH(capture->streams, i, s) {
        if (!branch_trace_stream_read_tail(s)) {
            if (capture->agent) {
                agent_is_lost(capture, BRANCH_TRACE_REASON_PROTOCOL);
            }
            return;
        }
        progress |= branch_trace_stream_has_progressed(s);
        state = branch_trace_stream_state(s);
        stuck |= state == BTRAIL_VCPU_WAITING || state == BTRAIL_VCPU_LOSING;
    }

    if (progress && capture->agent &&
        capture->state == BRANCH_TRACE_STATE_AGENT_LOST) {
        agent_is_back(capture, BRANCH_TRACE_REASON_AGENT);
    }
    if (progress || !stuck) {
        capture->progress_ms = now;
    } else if (capture->state == BRANCH_TRACE_STATE_ACTIVE &&
               capture->agent_timeout &&
               now - capture->progress_ms >= capture->agent_timeout) {
        agent_is_lost(capture, BRANCH_TRACE_REASON_TIMEOUT);
    }
}

static void housekeeping_later(BranchTraceCapture *capture)
{
    timer_mod(capture->housekeeping,
              qemu_clock_get_ms(QEMU_CLOCK_REALTIME) + HOUSEKEEPING_MS);
}

static void housekeeping(void *opaque)
{
    BranchTraceCapture *capture = opaque;

    watch_agent(capture);
    if (capture->agent) {
        branch_trace_data_send_memory(capture->agent);
    }
    branch_trace_streams_flush(capture->streams);
    report_gaps(capture);
    if (capture->resend) {
        resend_code(capture);
    }
    branch_trace_tasks_housekeeping(&capture->tasks);
    /* The BQL was not always held. */
    if (!capture->ending) {
        housekeeping_later(capture);
    }
}

static void slabs_are_free(void *opaque)
{
    BranchTraceCapture *capture = opaque;

    if (branch_trace_buffer_read_free(&capture->shared.buf)) {
        branch_trace_streams_wake(capture->streams);
    } else {
        agent_is_lost(capture, BRANCH_TRACE_REASON_PROTOCOL);
    }
}

/* From now on the agent can end the capture. */
static void listen_to_agent(BranchTraceCapture *capture)
{
    qemu_set_fd_handler(capture->shared.buf.free[0], slabs_are_free, NULL,
                        capture);
    branch_trace_data_listen(capture->agent);
}

/* Life */

static struct btrail_shm_header *shm_header(const BranchTraceCapture *capture)
{
    return (struct btrail_shm_header *)capture->shared.buf.base;
}

/* Describes what can change, for an agent that attaches later. */
static void describe_selection(BranchTraceCapture *capture)
{
    struct btrail_shm_header *header = shm_header(capture);

    header->policy = capture->overflow;
    header->privilege = capture->selection->filter.privilege;
}

static void describe(BranchTraceCapture *capture)
{
    struct btrail_shm_header *header = shm_header(capture);
    const BranchTraceProducerOps *producer = branch_trace_producer();

    header->producer = producer->type;
    header->accepts = BTRAIL_ACCEPTS_MEMORY | BTRAIL_ACCEPTS_FLUSH;
    if (branch_trace_data_accepts_tasks()) {
        header->accepts |= BTRAIL_ACCEPTS_TASKS | BTRAIL_ACCEPTS_HOLD |
                           BTRAIL_ACCEPTS_KERNELS | BTRAIL_ACCEPTS_NESTED |
                           BTRAIL_ACCEPTS_WAKES;
    }
    header->tick_ns = BRANCH_TRACE_TICK_NS;
    header->tsc_hz = producer->tsc_hz(first_cpu);
    header->record_has = producer->record_has();
    header->start_monotonic = get_clock();
    header->start_realtime = get_clock_realtime();
    pstrcpy(header->capture, sizeof(header->capture), capture->name);
    describe_selection(capture);
}

BranchTraceCapture *
branch_trace_capture_new(BranchTraceCaptures *captures,
                         const BranchTraceCaptureOptions *options,
                         BranchTraceSelection *selection,
                         BranchTraceControl *control, Error **errp)
{
    BranchTraceCapture *capture = g_new0(BranchTraceCapture, 1);

    capture->name = g_strdup(options->name);
    capture->overflow = options->overflow;
    capture->agent_timeout = options->agent_timeout;
    capture->local = options->local;
    capture->selection = selection;
    capture->captures = captures;
    capture->control = control;
    capture->housekeeping = timer_new_ms(QEMU_CLOCK_REALTIME, housekeeping,
                                         capture);
    set_policy(capture, false);
    if (!branch_trace_buffer_create(&capture->shared.buf,
                                    current_machine->smp.max_cpus,
                                    options->buffer_size, options->code_pages,
                                    errp)) {
        branch_trace_capture_free(capture);
        return NULL;
    }
    if (options->code_pages) {
        capture->shared.code = branch_trace_code_new();
    }
    capture->buffer_size = (uint64_t)capture->shared.buf.slabs *
                           capture->shared.buf.slab_size;
    capture->streams = branch_trace_streams_new(&captures->streams,
                                                &capture->shared);
    capture->tasks.streams = capture->streams;
    describe(capture);
    return capture;
}

static void release(void *opaque)
{
    BranchTraceCapture *capture = opaque;

    if (capture->streams) {
        branch_trace_streams_free(capture->streams);
    }
    branch_trace_buffer_destroy(&capture->shared.buf);
    branch_trace_code_free(capture->shared.code);
    branch_trace_selection_free(capture->selection);
    g_free(capture->name);
    g_free(capture);
}

void branch_trace_capture_free(BranchTraceCapture *capture)
{
    if (capture) {
        close_agent(capture);
        timer_free(capture->housekeeping);
        branch_trace_background_run(release, capture);
    }
}

static BranchTraceData *coroutine_fn
connect_agent(BranchTraceCapture *capture, SocketAddress *agent, Error **errp)
{
    return branch_trace_data_connect(agent, &capture->shared.buf, agent_event,
                                     capture, &capture->captures->connecting,
                                     errp);
}

bool branch_trace_capture_connect(BranchTraceCapture *capture,
                                  SocketAddress *agent, Error **errp)
{
    capture->agent = connect_agent(capture, agent, errp);
    return capture->agent;
}

void branch_trace_capture_cancel(BranchTraceCaptures *captures)
{
    if (captures->connecting) {
        branch_trace_data_cancel(captures->connecting);
    }
}

/* An agent that has the device record over its control connection owns it. */
static void set_owner(BranchTraceCapture *capture)
{
    branch_trace_control_own(capture->control,
                             branch_trace_control_executes(capture->control));
}

bool branch_trace_capture_start(BranchTraceCapture *capture, Error **errp)
{
    const BranchTraceProducerOps *producer = branch_trace_producer();
    const BranchTraceKernels *kernels = NULL;

    if (producer->start && !producer->start(errp)) {
        return false;
    }
    branch_trace_capture_free(capture->captures->latest);
    capture->captures->latest = capture;
    capture->captures->streams = capture->streams;
    capture->progress_ms = qemu_clock_get_ms(QEMU_CLOCK_REALTIME);
    if (capture->agent) {
        kernels = branch_trace_data_tasks(capture->agent);
        capture->shared.kernels =
            branch_trace_data_knows_kernels(capture->agent);
    }
    branch_trace_tasks_set(&capture->tasks, kernels);
    branch_trace_streams_select(capture->streams, capture->selection);
    branch_trace_streams_start_tick(capture->streams);
    set_state(capture, BRANCH_TRACE_STATE_ACTIVE, BRANCH_TRACE_REASON_COMMAND);
    if (capture->agent) {
        housekeeping_later(capture);
        set_owner(capture);
        listen_to_agent(capture);
    }
    return true;
}

void branch_trace_capture_end(BranchTraceCapture *capture,
                              BranchTraceReason reason, uint16_t end_reason)
{
    const BranchTraceProducerOps *producer = branch_trace_producer();

    capture->ending = true;
    branch_trace_control_own(capture->control, false);
    timer_del(capture->housekeeping);
    branch_trace_streams_end(capture->streams, end_reason);
    if (producer->stop) {
        producer->stop();
    }
    report_gaps(capture);

    if (capture->agent) {
        branch_trace_data_send_end(capture->agent, end_reason);
        close_agent(capture);
    }
    /* The agent drains the rest from a mapping of its own. */
    set_state(capture, BRANCH_TRACE_STATE_INACTIVE, reason);
}

void branch_trace_capture_forget(BranchTraceCaptures *captures)
{
    BranchTraceCapture *capture = captures->latest;

    assert(!is_active(capture));
    captures->latest = NULL;
    captures->streams = NULL;
    branch_trace_capture_free(capture);
}

void branch_trace_capture_attach(BranchTraceCapture *capture,
                                 SocketAddress *agent, Error **errp)
{
    uint32_t slot = (capture->shared.buf.slot + 1) % BTRAIL_AGENT_SLOTS;
    BranchTraceData *attached;
    BranchTraceStream *s;
    unsigned i;

    /* Two agents must not drain at the same time. */
    close_agent(capture);
    /* It may not want names, or may know better. */
    branch_trace_tasks_set(&capture->tasks, NULL);
    STREAM_FOREACH(capture->streams, i, s) {
        branch_trace_stream_hand_over(s, slot);
    }
    capture->shared.buf.slot = slot;
    attached = branch_trace_buffer_renew_free(&capture->shared.buf, errp)
               ? connect_agent(capture, agent, errp) : NULL;
    if (!is_active(capture)) {
        /* The guest has ended it meanwhile. */
        if (attached) {
            branch_trace_data_send_end(attached, BTRAIL_END_SHUTDOWN);
            branch_trace_data_close(attached);
        }
        return;
    }
    if (attached && capture->shared.kernels &&
        !branch_trace_data_knows_kernels(attached)) {
        error_setg(errp, "the trace agent is too old for this capture: it does "
                   "not know KERNEL events, which the one before it knew");
        branch_trace_data_close(attached);
        attached = NULL;
    }
    if (!attached) {
        agent_is_lost(capture, BRANCH_TRACE_REASON_DISCONNECTED);
        return;
    }
    capture->agent = attached;
    branch_trace_tasks_set(&capture->tasks, branch_trace_data_tasks(attached));
    set_owner(capture);
    /* Code that was sent to the last agent may be lost with it. */
    branch_trace_code_forget(capture->shared.code);
    agent_is_back(capture, BRANCH_TRACE_REASON_ATTACHED);
    listen_to_agent(capture);
}

bool branch_trace_capture_change(BranchTraceCapture *capture,
                                 BranchTraceSelection *selection,
                                 BranchTraceOverflow overflow, Error **errp)
{
    BranchTraceSelection *old = capture->selection;

    if (overflow != capture->overflow &&
        (overflow == BRANCH_TRACE_OVERFLOW_OVERWRITE ||
         capture->overflow == BRANCH_TRACE_OVERFLOW_OVERWRITE)) {
        error_setg(errp, "policy 'overwrite' cannot be changed to or from: "
                   "stop the capture and start another");
        branch_trace_selection_free(selection);
        return false;
    }

    capture->selection = selection;
    /* The BQL is not held meanwhile: the capture may end. */
    branch_trace_streams_select(capture->streams, selection);
    branch_trace_selection_free(old);

    capture->overflow = overflow;
    describe_selection(capture);
    if (is_active(capture)) {
        set_policy(capture, capture->state == BRANCH_TRACE_STATE_AGENT_LOST);
        branch_trace_streams_wake(capture->streams);
    }
    return true;
}

BranchTraceInfo *branch_trace_capture_info(BranchTraceCapture *capture)
{
    const BranchTraceProducerOps *producer = branch_trace_producer();
    BranchTraceInfo *info = g_new0(BranchTraceInfo, 1);
    BranchTraceVcpuList **tail = &info->vcpus;
    BranchTraceStream *s;
    unsigned i;

    if (producer) {
        info->has_producer = true;
        info->producer = producer->type == BTRAIL_PRODUCER_KVM
                         ? BRANCH_TRACE_PRODUCER_KVM
                         : BRANCH_TRACE_PRODUCER_TCG;
    }
    if (!capture) {
        info->state = BRANCH_TRACE_STATE_INACTIVE;
        return info;
    }
    info->state = capture->state;
    info->capture = g_strdup(capture->name);
    branch_trace_selection_info(capture->selection, info);
    info->has_overflow = true;
    info->overflow = capture->overflow;
    info->has_buffer_size = true;
    info->buffer_size = capture->buffer_size;
    info->has_agent_timeout = true;
    info->agent_timeout = capture->agent_timeout;

    STREAM_FOREACH(capture->streams, i, s) {
        BranchTraceVcpu *vcpu = branch_trace_stream_info(s);

        if (vcpu->state == BRANCH_TRACE_VCPU_STATE_RUNNING &&
            !branch_trace_selection_has(capture->selection, vcpu->cpu_index)) {
            vcpu->state = BRANCH_TRACE_VCPU_STATE_IDLE;
        }
        QAPI_LIST_APPEND(tail, vcpu);
    }
    return info;
}

/* Events of the guest */

void branch_trace_capture_vm_state(BranchTraceCapture *capture, bool running)
{
    const BranchTraceProducerOps *producer = branch_trace_producer();
    BranchTraceStream *s;
    unsigned i;

    STREAM_FOREACH(capture->streams, i, s) {
        /* A debugger that steps would fill slabs with events and no records. */
        if (branch_trace_stream_cpu(s) && !capture->local) {
            branch_trace_stream_vm_state(s, running);
        }
        if (!running) {
            branch_trace_stream_flush(s);
        }
    }
    if (!running && producer->stopped) {
        producer->stopped();
    }
}

void branch_trace_capture_restored(BranchTraceCapture *capture)
{
    BranchTraceStream *s;
    unsigned i;

    STREAM_FOREACH(capture->streams, i, s) {
        CPUState *cpu = branch_trace_stream_cpu(s);

        if (cpu) {
            branch_trace_producer()->discontinuity(cpu, BTRAIL_GAP_RESTORED);
        }
    }
}

void branch_trace_capture_plug(BranchTraceCapture *capture, CPUState *cpu)
{
    if (!capture->ending) {
        branch_trace_streams_plug(capture->streams, cpu);
    }
}
