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
#include "qemu/lockable.h"
#include "qemu/main-loop.h"
#include "qemu/timer.h"
#include "system/replay.h"
#include "system/runstate.h"
#include "background.h"
#include "capture.h"
#include "data-connection.h"
#include "stream.h"

/*
 * The shortest time between two TIME events.  It is half of what the trace
 * promises, because the host's scheduler adds to it.
 */
#define TICK_NS                 (500 * SCALE_US)

/* Partial slabs are published, and the agent is watched, this often. */
#define HOUSEKEEPING_MS         100

struct BranchTraceCapture {
    char *name;
    BranchTraceOverflow overflow;
    uint64_t buffer_size;
    uint32_t agent_timeout;
    BranchTraceSelection *selection;
    BranchTraceBuffer buffer;
    BranchTracePolicy policy;
    BranchTraceCode *code;      /* NULL if code is not reported */
    BranchTraceControl *control;
    BranchTraceData *agent;     /* NULL while there is none */
    bool local;                 /* there is never one */
    BranchTraceState state;
    bool ending;
    int64_t progress_ms;        /* when the agent last drained something */
    int64_t resent_ms;          /* when all code was last sent again */
    bool resend;                /* requested once more, but not due yet */
    bool kernels;               /* its agents know KERNEL events */
    BranchTraceKernels tasks;   /* how tasks are found; none: they are not */
    BranchTraceKernels next_tasks;      /* will replace it */
    int64_t tasks_ms;           /* when that was last changed */
    bool tasks_due;             /* it must be changed, but not yet */
    bool tasks_change;          /* when no vCPU uses @tasks any more */
    QEMUTimer *housekeeping;

    /* The tick thread reads the streams, the BQL holder changes the list. */
    QemuMutex streams_lock;
    GPtrArray *streams;
    QemuThread tick_thread;
    bool has_tick_thread;
    bool ticking;               /* protected by streams_lock */
};

/*
 * Work that waits for a vCPU finds the capture here: the capture for which it
 * was queued may have been freed.
 */
static BranchTraceCapture *latest;

BranchTraceCapture *branch_trace_capture_latest(void)
{
    return latest;
}

static bool is_active(const BranchTraceCapture *capture)
{
    return capture && capture->state != BRANCH_TRACE_STATE_INACTIVE;
}

BranchTraceCapture *branch_trace_capture_active(void)
{
    return is_active(latest) ? latest : NULL;
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

/* TIME events */

static void *tick_thread_fn(void *opaque)
{
    BranchTraceCapture *capture = opaque;
    bool ticking = true;
    unsigned i;

    while (ticking) {
        g_usleep(TICK_NS / SCALE_US);
        WITH_QEMU_LOCK_GUARD(&capture->streams_lock) {
            ticking = capture->ticking;
            for (i = 0; ticking && i < capture->streams->len; i++) {
                branch_trace_stream_tick(capture->streams->pdata[i]);
            }
        }
    }
    return NULL;
}

static void tick_start(BranchTraceCapture *capture)
{
    capture->ticking = true;
    capture->has_tick_thread = true;
    qemu_thread_create(&capture->tick_thread, "branch-trace", tick_thread_fn,
                       capture, QEMU_THREAD_JOINABLE);
}

/* The thread, which may sleep, does nothing more; release() waits for it. */
static void tick_stop(BranchTraceCapture *capture)
{
    QEMU_LOCK_GUARD(&capture->streams_lock);
    capture->ticking = false;
}

/* Streams */

static BranchTraceStream *stream_at(const BranchTraceCapture *capture,
                                    unsigned i)
{
    return i < capture->streams->len ? capture->streams->pdata[i] : NULL;
}

/* While a vCPU is waited for the BQL is not held: there may be more then. */
#define FOREACH_STREAM(capture, i, s) \
    for (i = 0; (s = stream_at(capture, i)); i++)

static BranchTraceStream *find_stream(const BranchTraceCapture *capture,
                                      CPUState *cpu)
{
    BranchTraceStream *s;
    unsigned i;

    if (!capture) {
        return NULL;
    }
    FOREACH_STREAM(capture, i, s) {
        if (s->cpu_index == cpu->cpu_index) {
            return s;
        }
    }
    return NULL;
}

BranchTraceStream *branch_trace_capture_stream(BranchTraceCapture *capture,
                                               CPUState *cpu)
{
    return find_stream(capture, cpu);
}

/* The stream may be gone by the time its vCPU executes its work. */

static void do_plug(CPUState *cpu, run_on_cpu_data data)
{
    BranchTraceStream *s = find_stream(latest, cpu);

    if (s) {
        branch_trace_stream_plug(s, cpu);
        if (s->tasks) {
            branch_trace_stream_set_tasks(s, s->tasks);
        }
    }
}

static void do_end(CPUState *cpu, run_on_cpu_data data)
{
    BranchTraceStream *s = find_stream(latest, cpu);

    if (s) {
        branch_trace_stream_end(s, data.host_int);
    }
}

static void do_flush(CPUState *cpu, run_on_cpu_data data)
{
    BranchTraceStream *s = find_stream(latest, cpu);

    if (s) {
        s->flush_queued = false;
        branch_trace_stream_flush(s);
    }
}

static void do_refill(CPUState *cpu, run_on_cpu_data data)
{
    BranchTraceStream *s = find_stream(latest, cpu);

    if (s) {
        s->refill_queued = false;
        branch_trace_stream_refill(s);
    }
}

static void do_change(CPUState *cpu, run_on_cpu_data data)
{
    BranchTraceStream *s = find_stream(latest, cpu);

    if (s) {
        branch_trace_stream_change(
            s, branch_trace_selection_filter(latest->selection, s->cpu_index));
    }
}

/*
 * When a vCPU is unplugged its thread ends first, and the BQL is not held
 * until the rest follows.  The vCPU is still in the list then, but nothing
 * executes its work.
 */
static bool thread_ended(CPUState *cpu)
{
    return !cpu->created;
}

/* Work for the vCPU of a stream, if it has one that executes work */
static bool queue_work(BranchTraceStream *s, run_on_cpu_func work,
                       run_on_cpu_data data)
{
    CPUState *cpu = s->cpu;

    if (!cpu || thread_ended(cpu)) {
        return false;
    }
    if (qemu_cpu_is_self(cpu)) {
        work(cpu, data);
    } else {
        async_run_on_cpu(cpu, work, data);
    }
    return true;
}

struct wait {
    unsigned vcpus;             /* that have work left; under the BQL */
    QemuCond done;
};

static void do_done(CPUState *cpu, run_on_cpu_data data)
{
    struct wait *wait = data.host_ptr;

    if (!--wait->vcpus) {
        qemu_cond_signal(&wait->done);
    }
}

/*
 * Waits until all vCPUs have done what was queued.  They do it at the same
 * time: one after the other, each could have to wait until the host runs it.
 *
 * With record/replay the main loop has a lock that a vCPU may need before it
 * does any work, see pause_all_vcpus().
 */
static void wait_for_work(BranchTraceCapture *capture)
{
    bool locked = replay_mode != REPLAY_MODE_NONE && !current_cpu;
    struct wait wait = { 0 };
    BranchTraceStream *s;
    unsigned i;

    if (locked) {
        replay_mutex_unlock();
    }
    qemu_cond_init(&wait.done);
    FOREACH_STREAM(capture, i, s) {
        CPUState *cpu = s->cpu;

        if (cpu && !thread_ended(cpu) && !qemu_cpu_is_self(cpu)) {
            wait.vcpus++;
            async_run_on_cpu(cpu, do_done, RUN_ON_CPU_HOST_PTR(&wait));
        }
    }
    while (wait.vcpus) {
        qemu_cond_wait_bql(&wait.done);
    }
    qemu_cond_destroy(&wait.done);
    if (locked) {
        /* In the order of these locks */
        bql_unlock();
        replay_mutex_lock();
        bql_lock();
    }
}

/* NULL while it changes */
static const BranchTraceKernels *get_tasks(const BranchTraceCapture *capture)
{
    return capture->tasks.n && !capture->tasks_change ? &capture->tasks : NULL;
}

/* The caller waits for the vCPU. */
static void start_stream(BranchTraceCapture *capture, CPUState *cpu)
{
    BranchTraceStream *s;

    if (!branch_trace_selection_has(capture->selection, cpu->cpu_index) ||
        thread_ended(cpu)) {
        return;
    }
    s = find_stream(capture, cpu);
    if (!s) {
        s = branch_trace_stream_new(
            cpu, &capture->buffer,
            branch_trace_selection_filter(capture->selection, cpu->cpu_index),
            &capture->policy, capture->code);
        s->tasks = get_tasks(capture);
        s->kernels = capture->kernels;
        WITH_QEMU_LOCK_GUARD(&capture->streams_lock) {
            g_ptr_array_add(capture->streams, s);
        }
    }
    async_run_on_cpu(cpu, do_plug, RUN_ON_CPU_NULL);
}

/*
 * The stream of a vCPU that is not selected any more continues, since the vCPU
 * may be selected again: it has events, and no records.  The caller waits for
 * the vCPU.
 */
static void change_stream(BranchTraceCapture *capture, BranchTraceStream *s)
{
    if (!queue_work(s, do_change, RUN_ON_CPU_NULL)) {
        branch_trace_stream_change(
            s, branch_trace_selection_filter(capture->selection,
                                             s->cpu_index));
    }
}

/*
 * Does its vCPU execute nothing as long as the BQL is held?  The guest's state
 * alone does not say that: it changes before the vCPUs are waited for, and who
 * stops the guest, a migration, has released the BQL meanwhile.
 */
static bool stands(BranchTraceStream *s)
{
    return !runstate_is_running() && (!s->cpu || s->cpu->stopped);
}

/* The caller waits for the vCPU. */
static void end_stream(BranchTraceStream *s, uint16_t reason)
{
    if (stands(s)) {
        /* QEMU may be about to exit, and its vCPUs execute no more work. */
        branch_trace_stream_end(s, s->cpu && !thread_ended(s->cpu)
                                   ? reason : BTRAIL_END_UNPLUGGED);
    } else if (!queue_work(s, do_end, RUN_ON_CPU_HOST_INT(reason))) {
        branch_trace_stream_end(s, BTRAIL_END_UNPLUGGED);
    }
}

/*
 * Another description of tasks comes into force in two steps, because code
 * that was translated with one must not be executed with another: first no
 * vCPU uses the old one any more, then all use the new one.  Nothing waits for
 * the vCPUs: an agent could have the main loop do that all the time.
 */

static void do_tasks_on(CPUState *cpu, run_on_cpu_data data)
{
    BranchTraceStream *s = find_stream(latest, cpu);

    if (s) {
        branch_trace_stream_set_tasks(s, get_tasks(latest));
    }
}

static void replace_tasks(BranchTraceCapture *capture)
{
    BranchTraceStream *s;
    unsigned i;

    FOREACH_STREAM(capture, i, s) {
        if (s->tasks) {
            return;
        }
    }
    capture->tasks = capture->next_tasks;
    capture->tasks_change = false;
    if (get_tasks(capture)) {
        FOREACH_STREAM(capture, i, s) {
            if (!queue_work(s, do_tasks_on, RUN_ON_CPU_NULL)) {
                branch_trace_stream_set_tasks(s, get_tasks(capture));
            }
        }
    }
}

static void do_tasks_off(CPUState *cpu, run_on_cpu_data data)
{
    BranchTraceStream *s = find_stream(latest, cpu);

    if (s) {
        branch_trace_stream_set_tasks(s, NULL);
    }
    if (latest && latest->tasks_change) {
        replace_tasks(latest);
    }
}

/* Has @next_tasks replace what there is. */
static void start_tasks_change(BranchTraceCapture *capture)
{
    BranchTraceStream *s;
    unsigned i;

    if (!capture->tasks_change) {
        capture->tasks_change = true;
        FOREACH_STREAM(capture, i, s) {
            if (!queue_work(s, do_tasks_off, RUN_ON_CPU_NULL)) {
                branch_trace_stream_set_tasks(s, NULL);
            }
        }
    }
    replace_tasks(capture);
}

static void wake_streams(BranchTraceCapture *capture)
{
    BranchTraceStream *s;
    unsigned i;

    FOREACH_STREAM(capture, i, s) {
        CPUState *cpu = s->cpu;

        branch_trace_stream_read_tail(s);
        if (cpu && !s->refill_queued && branch_trace_stream_can_refill(s)) {
            s->refill_queued = true;
            async_run_on_cpu(cpu, do_refill, RUN_ON_CPU_NULL);
        }
    }
}

static void flush_streams(BranchTraceCapture *capture)
{
    BranchTraceStream *s;
    unsigned i;

    FOREACH_STREAM(capture, i, s) {
        CPUState *cpu = s->cpu;

        if (cpu && !s->flush_queued &&
            qatomic_read(&s->state) == BTRAIL_VCPU_RUNNING) {
            s->flush_queued = true;
            async_run_on_cpu(cpu, do_flush, RUN_ON_CPU_NULL);
        }
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
    FOREACH_STREAM(capture, i, s) {
        if (branch_trace_stream_has_lost(s, &lost)) {
            qapi_event_send_branch_trace_gap(capture->name, s->cpu_index,
                                             lost);
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
    qatomic_set(&capture->policy.gap_reason, reason);
    qatomic_set(&capture->policy.overflow, overflow);
}

static void close_agent(BranchTraceCapture *capture)
{
    if (capture->agent) {
        qemu_set_fd_handler(capture->buffer.free[0], NULL, NULL, NULL);
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
    wake_streams(capture);
}

static void agent_is_back(BranchTraceCapture *capture,
                          BranchTraceReason reason)
{
    set_policy(capture, false);
    capture->progress_ms = qemu_clock_get_ms(QEMU_CLOCK_REALTIME);
    set_state(capture, BRANCH_TRACE_STATE_ACTIVE, reason);
    wake_streams(capture);
}

/* Sends all code again, but not too often: it costs every page and vCPU. */
static void resend_code(BranchTraceCapture *capture)
{
    int64_t now = qemu_clock_get_ms(QEMU_CLOCK_REALTIME);

    capture->resend = now - capture->resent_ms < HOUSEKEEPING_MS;
    if (!capture->resend) {
        capture->resent_ms = now;
        branch_trace_code_forget(capture->code);
    }
}

/* Not too often: code may have to be translated again. */
static void change_tasks(BranchTraceCapture *capture)
{
    int64_t now = qemu_clock_get_ms(QEMU_CLOCK_REALTIME);

    capture->tasks_due = now - capture->tasks_ms < HOUSEKEEPING_MS;
    if (!capture->tasks_due) {
        capture->tasks_ms = now;
        start_tasks_change(capture);
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
        flush_streams(capture);
        break;
    case BRANCH_TRACE_DATA_RESEND_CODE:
        resend_code(capture);
        break;
    case BRANCH_TRACE_DATA_TASKS:
        capture->next_tasks = *branch_trace_data_tasks(capture->agent);
        change_tasks(capture);
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
    BranchTraceStream *s;
    unsigned i;

    FOREACH_STREAM(capture, i, s) {
        if (!branch_trace_stream_read_tail(s)) {
            if (capture->agent) {
                agent_is_lost(capture, BRANCH_TRACE_REASON_PROTOCOL);
            }
            return;
        }
        progress |= branch_trace_stream_has_progressed(s);
        stuck |= qatomic_read(&s->state) == BTRAIL_VCPU_WAITING ||
                 qatomic_read(&s->state) == BTRAIL_VCPU_LOSING;
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
    flush_streams(capture);
    report_gaps(capture);
    if (capture->resend) {
        resend_code(capture);
    }
    if (capture->tasks_due) {
        change_tasks(capture);
    }
    /* The BQL was not always held. */
    if (!capture->ending) {
        housekeeping_later(capture);
    }
}

static void slabs_are_free(void *opaque)
{
    BranchTraceCapture *capture = opaque;

    if (branch_trace_buffer_read_free(&capture->buffer)) {
        wake_streams(capture);
    } else {
        agent_is_lost(capture, BRANCH_TRACE_REASON_PROTOCOL);
    }
}

/* From now on the agent can end the capture. */
static void listen_to_agent(BranchTraceCapture *capture)
{
    qemu_set_fd_handler(capture->buffer.free[0], slabs_are_free, NULL,
                        capture);
    branch_trace_data_listen(capture->agent);
}

/* Life */

static struct btrail_shm_header *shm_header(const BranchTraceCapture *capture)
{
    return (struct btrail_shm_header *)capture->buffer.base;
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
    header->accepts = BTRAIL_ACCEPTS_MEMORY;
    if (branch_trace_data_accepts_tasks()) {
        header->accepts |= BTRAIL_ACCEPTS_TASKS | BTRAIL_ACCEPTS_HOLD |
                           BTRAIL_ACCEPTS_KERNELS | BTRAIL_ACCEPTS_NESTED;
    }
    header->tick_ns = TICK_NS;
    header->tsc_hz = producer->tsc_hz(first_cpu);
    header->record_has = producer->record_has();
    header->start_monotonic = get_clock();
    header->start_realtime = get_clock_realtime();
    pstrcpy(header->capture, sizeof(header->capture), capture->name);
    describe_selection(capture);
}

BranchTraceCapture *
branch_trace_capture_new(const BranchTraceCaptureOptions *options,
                         BranchTraceSelection *selection,
                         BranchTraceControl *control, Error **errp)
{
    BranchTraceCapture *capture = g_new0(BranchTraceCapture, 1);

    capture->name = g_strdup(options->name);
    capture->overflow = options->overflow;
    capture->agent_timeout = options->agent_timeout;
    capture->local = options->local;
    capture->selection = selection;
    capture->control = control;
    capture->housekeeping = timer_new_ms(QEMU_CLOCK_REALTIME, housekeeping,
                                         capture);
    capture->streams = g_ptr_array_new_with_free_func(
        (GDestroyNotify)branch_trace_stream_free);
    qemu_mutex_init(&capture->streams_lock);
    set_policy(capture, false);
    if (!branch_trace_buffer_create(&capture->buffer,
                                    current_machine->smp.max_cpus,
                                    options->buffer_size, options->code_pages,
                                    errp)) {
        branch_trace_capture_free(capture);
        return NULL;
    }
    if (options->code_pages) {
        capture->code = branch_trace_code_new();
    }
    capture->buffer_size = (uint64_t)capture->buffer.slabs *
                           capture->buffer.slab_size;
    describe(capture);
    return capture;
}

static void release(void *opaque)
{
    BranchTraceCapture *capture = opaque;

    if (capture->has_tick_thread) {
        qemu_thread_join(&capture->tick_thread);
    }
    g_ptr_array_unref(capture->streams);
    qemu_mutex_destroy(&capture->streams_lock);
    branch_trace_buffer_destroy(&capture->buffer);
    branch_trace_code_free(capture->code);
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

bool branch_trace_capture_connect(BranchTraceCapture *capture,
                                  SocketAddress *agent, Error **errp)
{
    capture->agent = branch_trace_data_connect(agent, &capture->buffer,
                                               agent_event, capture, errp);
    return capture->agent;
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
    unsigned i;

    if (producer->start && !producer->start(errp)) {
        return false;
    }
    branch_trace_capture_free(latest);
    latest = capture;
    capture->progress_ms = qemu_clock_get_ms(QEMU_CLOCK_REALTIME);
    if (capture->agent) {
        capture->tasks = *branch_trace_data_tasks(capture->agent);
        capture->kernels = branch_trace_data_knows_kernels(capture->agent);
    }

    /* Not CPU_FOREACH(): the list can change while a vCPU is waited for. */
    for (i = 0; i < current_machine->smp.max_cpus; i++) {
        CPUState *cpu = qemu_get_cpu(i);

        if (cpu) {
            start_stream(capture, cpu);
        }
    }
    wait_for_work(capture);
    tick_start(capture);
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
    BranchTraceStream *s;
    unsigned i;

    capture->ending = true;
    branch_trace_control_own(capture->control, false);
    tick_stop(capture);
    timer_del(capture->housekeeping);

    FOREACH_STREAM(capture, i, s) {
        end_stream(s, end_reason);
    }
    wait_for_work(capture);
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

void branch_trace_capture_forget(void)
{
    BranchTraceCapture *capture = latest;

    assert(!is_active(capture));
    latest = NULL;
    branch_trace_capture_free(capture);
}

void branch_trace_capture_attach(BranchTraceCapture *capture,
                                 SocketAddress *agent, Error **errp)
{
    uint32_t slot = (capture->buffer.slot + 1) % BTRAIL_AGENT_SLOTS;
    BranchTraceData *attached;
    BranchTraceStream *s;
    unsigned i;

    /* Two agents must not drain at the same time. */
    close_agent(capture);
    /* It may not want names, or may know better. */
    capture->tasks_due = false;
    capture->next_tasks.n = 0;
    start_tasks_change(capture);
    FOREACH_STREAM(capture, i, s) {
        branch_trace_stream_hand_over(s, slot);
    }
    capture->buffer.slot = slot;
    attached = branch_trace_buffer_renew_free(&capture->buffer, errp)
               ? branch_trace_data_connect(agent, &capture->buffer,
                                           agent_event, capture, errp)
               : NULL;
    if (!is_active(capture)) {
        /* The guest has ended it meanwhile. */
        if (attached) {
            branch_trace_data_send_end(attached, BTRAIL_END_SHUTDOWN);
            branch_trace_data_close(attached);
        }
        return;
    }
    if (attached && capture->kernels &&
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
    capture->next_tasks = *branch_trace_data_tasks(attached);
    start_tasks_change(capture);
    set_owner(capture);
    /* Code that was sent to the last agent may be lost with it. */
    branch_trace_code_forget(capture->code);
    agent_is_back(capture, BRANCH_TRACE_REASON_ATTACHED);
    listen_to_agent(capture);
}

bool branch_trace_capture_change(BranchTraceCapture *capture,
                                 BranchTraceSelection *selection,
                                 BranchTraceOverflow overflow, Error **errp)
{
    BranchTraceSelection *old = capture->selection;
    BranchTraceStream *s;
    unsigned i;

    if (overflow != capture->overflow &&
        (overflow == BRANCH_TRACE_OVERFLOW_OVERWRITE ||
         capture->overflow == BRANCH_TRACE_OVERFLOW_OVERWRITE)) {
        error_setg(errp, "policy 'overwrite' cannot be changed to or from: "
                   "stop the capture and start another");
        branch_trace_selection_free(selection);
        return false;
    }

    capture->selection = selection;
    FOREACH_STREAM(capture, i, s) {
        change_stream(capture, s);
    }
    for (i = 0; i < current_machine->smp.max_cpus; i++) {
        CPUState *cpu = qemu_get_cpu(i);

        if (cpu) {
            s = find_stream(capture, cpu);
            if (!s || !s->cpu) {
                start_stream(capture, cpu);
            }
        }
    }
    /* The BQL is not held meanwhile: the capture may end. */
    wait_for_work(capture);
    branch_trace_selection_free(old);

    capture->overflow = overflow;
    describe_selection(capture);
    if (is_active(capture)) {
        set_policy(capture, capture->state == BRANCH_TRACE_STATE_AGENT_LOST);
        wake_streams(capture);
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

    FOREACH_STREAM(capture, i, s) {
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

    FOREACH_STREAM(capture, i, s) {
        /* A debugger that steps would fill slabs with events and no records. */
        if (s->cpu && !capture->local) {
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

    FOREACH_STREAM(capture, i, s) {
        if (s->cpu) {
            s->ops->discontinuity(s->cpu, BTRAIL_GAP_RESTORED);
        }
    }
}

void branch_trace_capture_plug(BranchTraceCapture *capture, CPUState *cpu)
{
    if (!capture->ending) {
        start_stream(capture, cpu);
        wait_for_work(capture);
    }
}

void branch_trace_capture_unplug(BranchTraceCapture *capture, CPUState *cpu)
{
    BranchTraceStream *s;
    unsigned i;

    /* Not by its index, which it has lost already. */
    FOREACH_STREAM(capture, i, s) {
        if (s->cpu == cpu) {
            /* Its thread is gone; the tick must not use its cursor. */
            QEMU_LOCK_GUARD(&capture->streams_lock);
            branch_trace_stream_unplug(s);
            break;
        }
    }
}
