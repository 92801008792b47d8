/*
 * Branch trace device
 *
 * Records every branch that the guest takes, for an agent on the host.  The
 * guest does not see the device.  One session at a time: the agent makes many
 * out of one where that is wanted.
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
 * What a session records.  Another one takes its place as a whole, and is
 * freed when no vCPU looks at it any more.
 */
typedef struct BranchTraceSelection {
    BranchTracePrivilege privilege;
    unsigned long *vcpus;       /* bitmap, NULL for all */
    BranchTraceFilter filter;   /* of those */
} BranchTraceSelection;

/* Of the others, if they were selected before */
static const BranchTraceFilter filter_nothing;

typedef struct BranchTraceSession {
    char *name;
    BranchTraceOverflow overflow;
    uint64_t buffer_size;
    uint32_t agent_timeout;
    BranchTraceSelection *selection;
    BranchTraceBuffer buffer;
    BranchTraceControl control;
    BranchTraceCode *code;      /* NULL if it is not told */
    BranchTraceState state;
    bool ending;
    BranchTraceAgent *agent;
    int64_t progress_ms;        /* when the agent last drained something */
    int64_t resent_ms;          /* when all code was last told again */
    bool resend;                /* it shall be once more, but not so soon */
} BranchTraceSession;

struct BranchTraceDevice {
    DeviceState parent_obj;

    char *agent_path;
    uint32_t code_pages;
    bool traced;                /* for VMState */

    BranchTraceSession *session;    /* the current or the last one */
    bool busy;                  /* a command is between two coroutine yields */
    QEMUTimer *housekeeping;
    DeviceListener cpu_listener;
    VMChangeStateEntry *vm_change;
    NotifierWithReturn migration;
    Notifier exit;
    Notifier shutdown;
    Notifier panicked;
    BranchTraceLink *link;
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

static bool session_active(BranchTraceDevice *d)
{
    return d->session && d->session->state != BRANCH_TRACE_STATE_INACTIVE;
}

static void session_set_state(BranchTraceDevice *d, BranchTraceState state,
                              BranchTraceReason reason)
{
    /* A new agent is news even if the last one was not lost. */
    if (d->session->state != state ||
        reason == BRANCH_TRACE_REASON_ATTACHED) {
        QDict *data = qdict_new();

        d->session->state = state;
        qapi_event_send_branch_trace_state(d->session->name, state, reason);
        qdict_put_str(data, "session", d->session->name);
        qdict_put_str(data, "state", BranchTraceState_str(state));
        qdict_put_str(data, "reason", BranchTraceReason_str(reason));
        branch_trace_control_event(d->link, "state", data);
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
    BranchTraceSession *session = d->session;
    BranchTraceStream *s;

    if (!selected(session->selection, cpu->cpu_index)) {
        return;
    }
    if (thread_ended(cpu)) {
        return;
    }
    s = find_stream(d, cpu);
    if (!s) {
        s = branch_trace_stream_new(cpu, &session->buffer, producer,
                                    &session->selection->filter,
                                    &session->control, session->code);
        WITH_QEMU_LOCK_GUARD(&d->streams_lock) {
            QTAILQ_INSERT_TAIL(&d->streams, s, next);
        }
    }
    run_on_cpu(cpu, do_begin, RUN_ON_CPU_HOST_PTR(s));
}

static void do_change(CPUState *cpu, run_on_cpu_data data)
{
    BranchTraceStream *s = data.host_ptr;
    BranchTraceSelection *selection = branch_trace_device->session->selection;

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

/* The stream stays, for queries, until the next session starts. */
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
    if (d->session->overflow == BRANCH_TRACE_OVERFLOW_OVERWRITE) {
        return;
    }
    QTAILQ_FOREACH(s, &d->streams, next) {
        uint64_t lost = branch_trace_stream_lost(s);

        if (lost != s->gap_reported) {
            s->gap_reported = lost;
            qapi_event_send_branch_trace_gap(d->session->name,
                                             s->cpu_index, lost);
        }
    }
}

/* Sessions */

static void selection_free(BranchTraceSelection *selection)
{
    if (selection) {
        g_free(selection->vcpus);
        g_free(selection);
    }
}

static void session_free(BranchTraceSession *session)
{
    if (!session) {
        return;
    }
    if (session->agent) {
        branch_trace_agent_close(session->agent);
    }
    branch_trace_buffer_destroy(&session->buffer);
    branch_trace_code_free(session->code);
    selection_free(session->selection);
    g_free(session->name);
    g_free(session);
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

    branch_trace_buffer_read_free(&d->session->buffer);
    wake_streams(d);
}

static void session_end(BranchTraceDevice *d, BranchTraceReason reason,
                        uint16_t end_reason)
{
    BranchTraceSession *session = d->session;
    BranchTraceStream *s;

    session->ending = true;
    branch_trace_control_own(d->link, false);
    tick_stop(d);
    timer_del(d->housekeeping);
    qemu_set_fd_handler(session->buffer.free[0], NULL, NULL, NULL);

    QTAILQ_FOREACH(s, &d->streams, next) {
        end_stream(s, end_reason);
    }
    report_gaps(d);

    if (session->agent) {
        branch_trace_agent_send_end(session->agent, end_reason);
        branch_trace_agent_close(session->agent);
        session->agent = NULL;
    }
    /* The agent has a mapping of its own to drain the rest from. */
    session_set_state(d, BRANCH_TRACE_STATE_INACTIVE, reason);
}

/* What the streams are to do, with an agent or with one that is @lost */
static void session_set_policy(BranchTraceSession *session, bool lost)
{
    uint32_t policy = session->overflow;
    uint32_t reason = BTRAIL_GAP_OVERFLOW;

    if (lost && policy == BTRAIL_OVERFLOW_PAUSE && session->agent_timeout) {
        policy = BTRAIL_OVERFLOW_DROP;
    }
    if (lost && policy == BTRAIL_OVERFLOW_DROP) {
        reason = BTRAIL_GAP_AGENT_LOST;
    }
    qatomic_set(&session->control.gap_reason, reason);
    qatomic_set(&session->control.policy, policy);
}

static void agent_is_lost(BranchTraceDevice *d, BranchTraceReason reason)
{
    BranchTraceSession *session = d->session;

    if (reason != BRANCH_TRACE_REASON_TIMEOUT && session->agent) {
        branch_trace_agent_close(session->agent);
        session->agent = NULL;
    }
    session_set_policy(session, true);
    session_set_state(d, BRANCH_TRACE_STATE_AGENT_LOST, reason);
    wake_streams(d);
}

static void agent_is_back(BranchTraceDevice *d, BranchTraceReason reason)
{
    BranchTraceSession *session = d->session;

    session_set_policy(session, false);
    session->progress_ms = qemu_clock_get_ms(QEMU_CLOCK_REALTIME);
    session_set_state(d, BRANCH_TRACE_STATE_ACTIVE, reason);
    wake_streams(d);
}

/* It costs a look at all pages and all vCPUs something: not at any rate. */
static void resend(BranchTraceDevice *d)
{
    BranchTraceSession *session = d->session;
    int64_t now = qemu_clock_get_ms(QEMU_CLOCK_REALTIME);

    session->resend = now - session->resent_ms < HOUSEKEEPING_MS;
    if (!session->resend) {
        session->resent_ms = now;
        branch_trace_code_forget(session->code);
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
        session_end(d, BRANCH_TRACE_REASON_AGENT, BTRAIL_END_STOPPED);
        break;
    }
}

/* Does the agent drain?  Does it play by the rules? */
static void watch_agent(BranchTraceDevice *d)
{
    BranchTraceSession *session = d->session;
    int64_t now = qemu_clock_get_ms(QEMU_CLOCK_REALTIME);
    bool progress = false, stuck = false;
    BranchTraceStream *s;

    QTAILQ_FOREACH(s, &d->streams, next) {
        if (!branch_trace_stream_read_tail(s)) {
            if (session->agent) {
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

    if (progress && session->agent &&
        session->state == BRANCH_TRACE_STATE_AGENT_LOST) {
        agent_is_back(d, BRANCH_TRACE_REASON_AGENT);
    }
    if (progress || !stuck) {
        session->progress_ms = now;
    } else if (session->state == BRANCH_TRACE_STATE_ACTIVE &&
               session->agent_timeout &&
               now - session->progress_ms >= session->agent_timeout) {
        agent_is_lost(d, BRANCH_TRACE_REASON_TIMEOUT);
    }
}

static void housekeeping(void *opaque)
{
    BranchTraceDevice *d = opaque;

    watch_agent(d);
    flush_streams(d);
    report_gaps(d);
    if (d->session->resend) {
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
static void session_describe_wishes(BranchTraceSession *session)
{
    struct btrail_shm_header *header =
        (struct btrail_shm_header *)session->buffer.base;

    header->policy = session->overflow;
    header->privilege = session->selection->filter.privilege;
}

static void session_describe(BranchTraceSession *session)
{
    struct btrail_shm_header *header =
        (struct btrail_shm_header *)session->buffer.base;

    header->producer = producer->type;
    header->tick_ns = TICK_NS;
    header->tsc_hz = producer->tsc_hz(first_cpu);
    header->start_monotonic = get_clock();
    header->start_realtime = get_clock_realtime();
    pstrcpy(header->session, sizeof(header->session), session->name);
    session_describe_wishes(session);
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
            filter->cr3[filter->cr3_count++] =
                cr3->value & BRANCH_TRACE_CR3_MASK;
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

/* The device, for a command that changes the session. */
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

/* The active session, if it has this name */
static BranchTraceSession *get_session(BranchTraceDevice *d, const char *name,
                                       Error **errp)
{
    if (!session_active(d) || strcmp(d->session->name, name)) {
        error_setg(errp, "no session '%s' is active: see query-branch-trace",
                   name);
        return NULL;
    }
    return d->session;
}

static SocketAddress *agent_address(BranchTraceDevice *d, SocketAddress *addr,
                                    Error **errp)
{
    SocketAddress *def;

    if (addr) {
        return QAPI_CLONE(SocketAddress, addr);
    }
    if (branch_trace_control_executes(d->link) &&
        branch_trace_control_address(d->link)) {
        return QAPI_CLONE(SocketAddress,
                          branch_trace_control_address(d->link));
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
    BranchTraceSession *session;
    unsigned i;

    if (!d) {
        return;
    }
    if (!producer) {
        error_setg(errp, "this accelerator cannot trace branches: use "
                   "'-accel tcg'");
        return;
    }
    if (session_active(d)) {
        error_setg(errp, "session '%s' is active: stop it with "
                   "branch-trace-stop first", d->session->name);
        return;
    }
    if (!*name || strlen(name) >= BTRAIL_SESSION_NAME_MAX) {
        error_setg(errp, "a session name has 1 to %d bytes",
                   BTRAIL_SESSION_NAME_MAX - 1);
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

    session = g_new0(BranchTraceSession, 1);
    session->name = g_strdup(name);
    session->overflow = has_overflow ? overflow : BRANCH_TRACE_OVERFLOW_PAUSE;
    session->agent_timeout = has_agent_timeout ? agent_timeout
                                               : DEFAULT_AGENT_TIMEOUT;
    session->control.policy = session->overflow;
    session->control.gap_reason = BTRAIL_GAP_OVERFLOW;
    branch_trace_buffer_init(&session->buffer);

    session->selection = selection_new(has_vcpus, vcpus, has_privilege,
                                       privilege, has_cr3, cr3, errp);
    if (!session->selection ||
        !branch_trace_buffer_create(&session->buffer,
                                    current_machine->smp.max_cpus,
                                    buffer_size, d->code_pages, errp)) {
        session_free(session);
        return;
    }
    if (d->code_pages) {
        session->code = branch_trace_code_new();
    }
    session->buffer_size = (uint64_t)session->buffer.slabs *
                           session->buffer.slab_size;
    session_describe(session);

    d->busy = true;
    session->agent = branch_trace_agent_connect(addr, &session->buffer,
                                                session->control.slot,
                                                agent_event, d, errp);
    d->busy = false;
    if (session->agent && d->exiting) {
        error_setg(errp, "QEMU is about to end");
    }
    if (!session->agent || d->exiting) {
        session_free(session);
        return;
    }

    free_streams(d);
    session_free(d->session);
    d->session = session;
    session->progress_ms = qemu_clock_get_ms(QEMU_CLOCK_REALTIME);

    /* Not CPU_FOREACH(): the list can change while a vCPU is waited for. */
    for (i = 0; i < current_machine->smp.max_cpus; i++) {
        CPUState *cpu = qemu_get_cpu(i);

        if (cpu) {
            start_stream(d, cpu);
        }
    }
    tick_start(d);
    qemu_set_fd_handler(session->buffer.free[0], slabs_are_free, NULL, d);
    timer_mod(d->housekeeping,
              qemu_clock_get_ms(QEMU_CLOCK_REALTIME) + HOUSEKEEPING_MS);
    session_set_state(d, BRANCH_TRACE_STATE_ACTIVE,
                      BRANCH_TRACE_REASON_COMMAND);
    branch_trace_control_own(d->link, branch_trace_control_executes(d->link));
    /* Now the agent may speak: it could end what has begun. */
    branch_trace_agent_listen(session->agent);
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
    if (!session_active(d)) {
        error_setg(errp, "no session is active: start one with "
                   "branch-trace-start");
        return;
    }
    addr = agent_address(d, agent, errp);
    if (!addr) {
        return;
    }

    /* Two agents must not drain at the same time. */
    if (d->session->agent) {
        branch_trace_agent_close(d->session->agent);
        d->session->agent = NULL;
    }
    slot = (d->session->control.slot + 1) % BTRAIL_AGENT_SLOTS;
    QTAILQ_FOREACH(s, &d->streams, next) {
        /* What the last one gave back since its tail was looked at */
        branch_trace_stream_read_tail(s);
        branch_trace_stream_init_tail(s, slot);
    }
    qatomic_set(&d->session->control.slot, slot);
    d->busy = true;
    attached = branch_trace_agent_connect(addr, &d->session->buffer, slot,
                                          agent_event, d, errp);
    d->busy = false;
    if (!session_active(d)) {
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
    d->session->agent = attached;
    branch_trace_control_own(d->link, branch_trace_control_executes(d->link));
    /* What the last one was told may have got lost with it. */
    branch_trace_code_forget(d->session->code);
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

static BranchTraceInfo *session_info(BranchTraceDevice *d)
{
    BranchTraceInfo *info = g_new0(BranchTraceInfo, 1);
    BranchTraceSession *session = d->session;
    BranchTraceVcpuList **tail = &info->vcpus;
    uint64List **cr3_tail = &info->cr3;
    const BranchTraceSelection *selection;
    BranchTraceStream *s;
    unsigned i;

    if (!session) {
        info->state = BRANCH_TRACE_STATE_INACTIVE;
        return info;
    }
    selection = session->selection;
    info->state = session->state;
    info->session = g_strdup(session->name);
    info->has_privilege = true;
    info->privilege = selection->privilege;
    info->has_overflow = true;
    info->overflow = session->overflow;
    info->has_buffer_size = true;
    info->buffer_size = session->buffer_size;
    info->has_agent_timeout = true;
    info->agent_timeout = session->agent_timeout;
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
    BranchTraceSession *session;
    BranchTraceStream *s;
    unsigned i;

    if (!d) {
        return NULL;
    }
    session = get_session(d, name, errp);
    if (!session) {
        return NULL;
    }
    if (!has_overflow) {
        overflow = BRANCH_TRACE_OVERFLOW_PAUSE;
    }
    if (overflow != session->overflow &&
        (overflow == BRANCH_TRACE_OVERFLOW_OVERWRITE ||
         session->overflow == BRANCH_TRACE_OVERFLOW_OVERWRITE)) {
        error_setg(errp, "an agent cannot drain with policy 'overwrite': "
                   "start a session of its own with it");
        return NULL;
    }
    selection = selection_new(has_vcpus, vcpus, has_privilege, privilege,
                              has_cr3, cr3, errp);
    if (!selection) {
        return NULL;
    }

    old = session->selection;
    session->selection = selection;
    /*
     * Nobody takes streams away meanwhile.  But while a vCPU is waited for the
     * BQL is not held: the session may end.
     */
    QTAILQ_FOREACH(s, &d->streams, next) {
        change_stream(s);
    }
    selection_free(old);
    for (i = 0; i < current_machine->smp.max_cpus; i++) {
        CPUState *cpu = qemu_get_cpu(i);

        if (cpu && session_active(d) && !session->ending) {
            s = find_stream(d, cpu);
            if (!s || !s->cpu) {
                start_stream(d, cpu);
            }
        }
    }

    session->overflow = overflow;
    session_describe_wishes(session);
    if (session_active(d)) {
        session_set_policy(session,
                           session->state == BRANCH_TRACE_STATE_AGENT_LOST);
        wake_streams(d);
    }
    return session_info(d);
}

BranchTraceInfo *qmp_branch_trace_stop(const char *name, Error **errp)
{
    BranchTraceDevice *d = get_idle_device(errp);

    if (!d) {
        return NULL;
    }
    if (!get_session(d, name, errp)) {
        return NULL;
    }
    session_end(d, BRANCH_TRACE_REASON_COMMAND, BTRAIL_END_STOPPED);
    return session_info(d);
}

BranchTraceInfo *qmp_query_branch_trace(Error **errp)
{
    BranchTraceDevice *d = get_device(errp);

    return d ? session_info(d) : NULL;
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
    return branch_trace_control_command(d->link, command, addr, agent != NULL,
                                        timeout, errp);
}

static BranchTraceInfo *active_session(void *opaque)
{
    BranchTraceDevice *d = opaque;

    return session_active(d) ? session_info(d) : NULL;
}

/* What happens to the guest */

static void vm_state_changed(void *opaque, bool running, RunState state)
{
    BranchTraceDevice *d = opaque;
    BranchTraceStream *s;

    if (running) {
        branch_trace_control_event(d->link, "running", NULL);
    } else {
        QDict *data = qdict_new();

        qdict_put_str(data, "state", RunState_str(state));
        branch_trace_control_event(d->link, "stopped", data);
    }
    if (!session_active(d)) {
        return;
    }
    /* No vCPU runs at this moment, whichever way it goes. */
    QTAILQ_FOREACH(s, &d->streams, next) {
        if (s->cpu && s->state != BTRAIL_VCPU_ENDED) {
            branch_trace_stream_vm_state(s, running);
        }
    }
    if (state == RUN_STATE_SHUTDOWN) {
        session_end(d, BRANCH_TRACE_REASON_SHUTDOWN, BTRAIL_END_SHUTDOWN);
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

    branch_trace_control_event(d->link, "panic", NULL);
}

static void branch_trace_reset_hold(Object *obj, ResetType type)
{
    BranchTraceDevice *d = BRANCH_TRACE(obj);

    if (type == RESET_TYPE_COLD) {
        branch_trace_control_event(d->link, "reset", NULL);
    }
}

/* The guest has powered off, or QEMU was told to end. */
static void guest_shuts_down(Notifier *notifier, void *opaque)
{
    BranchTraceDevice *d = container_of(notifier, BranchTraceDevice, shutdown);
    const ShutdownCause *cause = opaque;
    QDict *data = qdict_new();

    qdict_put_str(data, "reason", ShutdownCause_str(*cause));
    branch_trace_control_event(d->link, "shutdown", data);
    if (shutdown_action != SHUTDOWN_ACTION_PAUSE) {
        /*
         * The main loop ends, and no timer comes any more; but QEMU waits for
         * commands that are in progress.
         */
        d->exiting = true;
        branch_trace_control_exit(d->link);
        branch_trace_agent_cancel();
    }
}

/* QEMU exits, perhaps with the guest stopped long before. */
static void qemu_exits(Notifier *notifier, void *opaque)
{
    BranchTraceDevice *d = container_of(notifier, BranchTraceDevice, exit);

    if (session_active(d)) {
        session_end(d, BRANCH_TRACE_REASON_SHUTDOWN, BTRAIL_END_SHUTDOWN);
    }
}

static int migration_changed(NotifierWithReturn *notify, MigrationEvent *e,
                             Error **errp)
{
    BranchTraceDevice *d = container_of(notify, BranchTraceDevice, migration);

    if (e->type == MIG_EVENT_PRECOPY_DONE) {
        if (session_active(d)) {
            session_end(d, BRANCH_TRACE_REASON_MIGRATED, BTRAIL_END_MIGRATED);
        }
        branch_trace_control_event(d->link, "migrated", NULL);
    }
    return 0;
}

static void cpu_realized(DeviceListener *listener, DeviceState *dev)
{
    BranchTraceDevice *d = container_of(listener, BranchTraceDevice,
                                        cpu_listener);
    CPUState *cpu = (CPUState *)object_dynamic_cast(OBJECT(dev), TYPE_CPU);

    if (cpu && session_active(d) && !d->session->ending) {
        start_stream(d, cpu);
    }
}

static void cpu_unrealized(DeviceListener *listener, DeviceState *dev)
{
    BranchTraceDevice *d = container_of(listener, BranchTraceDevice,
                                        cpu_listener);
    CPUState *cpu = (CPUState *)object_dynamic_cast(OBJECT(dev), TYPE_CPU);
    BranchTraceStream *s;

    if (!cpu || !session_active(d)) {
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

    d->traced = session_active(d);
    return 0;
}

static int branch_trace_post_load(void *opaque, int version_id)
{
    BranchTraceDevice *d = opaque;
    BranchTraceStream *s;

    if (session_active(d)) {
        QTAILQ_FOREACH(s, &d->streams, next) {
            if (s->cpu) {
                s->ops->discontinuity(s->cpu, BTRAIL_GAP_RESTORED);
            }
        }
    }
    return 0;
}

/*
 * A session belongs to this QEMU, not to the guest: it goes on when a snapshot
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

    d->link = branch_trace_control_new(active_session, d);
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
