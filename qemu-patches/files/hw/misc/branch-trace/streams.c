/*
 * Branch trace: the streams of a capture
 *
 * Has each vCPU work on its own stream, and the tick have it read the clock.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "hw/core/cpu.h"
#include "qemu/lockable.h"
#include "qemu/main-loop.h"
#include "system/replay.h"
#include "system/runstate.h"
#include "streams.h"

/* What a vCPU has to do with its stream, in this order */
#define WORK_PLUG       1
#define WORK_CHANGE     2
#define WORK_TASKS      4
#define WORK_REFILL     8
#define WORK_FLUSH      16
#define WORK_END        32

typedef struct Vcpu {
    BranchTraceStream *stream;  /* NULL if it was never selected */
    unsigned work;              /* WORK_* that is queued; with the BQL held */
} Vcpu;

struct BranchTraceStreams {
    BranchTraceStreams **latest;
    BranchTraceShared *shared;
    const BranchTraceSelection *selection;
    const BranchTraceKernels *tasks;    /* NULL if they are not noticed */
    void (*tasks_done)(void *opaque);
    void *tasks_opaque;
    uint16_t end_reason;

    /* The tick thread reads the streams, the BQL holder adds them. */
    QemuMutex lock;
    Vcpu *vcpus;                /* by their index, as many as the buffer has */
    QemuThread tick_thread;
    bool has_tick_thread;
    bool ticking;               /* protected by @lock */
};

BranchTraceStreams *branch_trace_streams_new(BranchTraceStreams **latest,
                                             BranchTraceShared *shared)
{
    BranchTraceStreams *streams = g_new0(BranchTraceStreams, 1);

    streams->latest = latest;
    streams->shared = shared;
    streams->vcpus = g_new0(Vcpu, shared->buf.vcpus);
    qemu_mutex_init(&streams->lock);
    return streams;
}

BranchTraceStream *branch_trace_streams_next(const BranchTraceStreams *streams,
                                             unsigned *i)
{
    for (; *i < streams->shared->buf.vcpus; ++*i) {
        if (streams->vcpus[*i].stream) {
            return streams->vcpus[*i].stream;
        }
    }
    return NULL;
}

void branch_trace_streams_free(BranchTraceStreams *streams)
{
    BranchTraceStream *s;
    unsigned i;

    if (streams->has_tick_thread) {
        qemu_thread_join(&streams->tick_thread);
    }
    STREAM_FOREACH(streams, i, s) {
        branch_trace_stream_free(s);
    }
    qemu_mutex_destroy(&streams->lock);
    g_free(streams->vcpus);
    g_free(streams);
}

BranchTraceStream *branch_trace_streams_find(const BranchTraceStreams *streams,
                                             const CPUState *cpu)
{
    return streams->vcpus[cpu->cpu_index].stream;
}

/* TIME events */

static void *tick_thread_fn(void *opaque)
{
    BranchTraceStreams *streams = opaque;
    bool ticking = true;
    BranchTraceStream *s;
    unsigned i;

    while (ticking) {
        g_usleep(BRANCH_TRACE_TICK_NS / SCALE_US);
        WITH_QEMU_LOCK_GUARD(&streams->lock) {
            ticking = streams->ticking;
            if (ticking) {
                STREAM_FOREACH(streams, i, s) {
                    branch_trace_stream_tick(s);
                }
            }
        }
    }
    return NULL;
}

void branch_trace_streams_start_tick(BranchTraceStreams *streams)
{
    streams->ticking = true;
    streams->has_tick_thread = true;
    qemu_thread_create(&streams->tick_thread, "branch-trace", tick_thread_fn,
                       streams, QEMU_THREAD_JOINABLE);
}

/* Work of the vCPUs */

static void plug(BranchTraceStream *s, CPUState *cpu)
{
    const BranchTraceKernels *tasks = branch_trace_stream_tasks(s);

    branch_trace_stream_plug(s, cpu);
    if (tasks) {
        branch_trace_stream_set_tasks(s, tasks);
    }
}

static void change(BranchTraceStreams *streams, unsigned i)
{
    branch_trace_stream_change(
        streams->vcpus[i].stream,
        branch_trace_selection_filter(streams->selection, i));
}

/* The streams for which it was queued may be gone. */
static void do_work(CPUState *cpu, run_on_cpu_data data)
{
    BranchTraceStreams *streams = *(BranchTraceStreams **)data.host_ptr;
    Vcpu *v = streams ? &streams->vcpus[cpu->cpu_index] : NULL;
    unsigned work;

    if (!v || !v->stream) {
        return;
    }
    work = v->work;
    v->work = 0;
    if (work & WORK_PLUG) {
        plug(v->stream, cpu);
    }
    if (work & WORK_CHANGE) {
        change(streams, cpu->cpu_index);
    }
    if (work & WORK_TASKS) {
        branch_trace_stream_set_tasks(v->stream, streams->tasks);
        streams->tasks_done(streams->tasks_opaque);
    }
    if (work & WORK_REFILL) {
        branch_trace_stream_refill(v->stream);
    }
    if (work & WORK_FLUSH) {
        branch_trace_stream_flush(v->stream);
    }
    if (work & WORK_END) {
        branch_trace_stream_end(v->stream, streams->end_reason);
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
static bool queue_work(BranchTraceStreams *streams, unsigned i, unsigned work)
{
    run_on_cpu_data latest = RUN_ON_CPU_HOST_PTR(streams->latest);
    Vcpu *v = &streams->vcpus[i];
    CPUState *cpu = branch_trace_stream_cpu(v->stream);
    bool queued = v->work;

    if (!cpu || thread_ended(cpu)) {
        return false;
    }
    v->work |= work;
    if (qemu_cpu_is_self(cpu)) {
        do_work(cpu, latest);
    } else if (!queued) {
        async_run_on_cpu(cpu, do_work, latest);
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
static void wait_for_work(BranchTraceStreams *streams)
{
    bool locked = replay_mode != REPLAY_MODE_NONE && !current_cpu;
    struct wait wait = { 0 };
    BranchTraceStream *s;
    unsigned i;

    if (locked) {
        replay_mutex_unlock();
    }
    qemu_cond_init(&wait.done);
    STREAM_FOREACH(streams, i, s) {
        CPUState *cpu = branch_trace_stream_cpu(s);

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

/* The caller waits for the vCPU. */
static void start_stream(BranchTraceStreams *streams, CPUState *cpu)
{
    Vcpu *v = &streams->vcpus[cpu->cpu_index];

    if (!branch_trace_selection_has(streams->selection, cpu->cpu_index) ||
        thread_ended(cpu)) {
        return;
    }
    if (!v->stream) {
        BranchTraceStream *s = branch_trace_stream_new(
            cpu, streams->shared,
            branch_trace_selection_filter(streams->selection, cpu->cpu_index),
            streams->tasks);

        QEMU_LOCK_GUARD(&streams->lock);
        v->stream = s;
    }
    /* What was queued for a vCPU that was unplugged is never executed. */
    v->work = WORK_PLUG;
    async_run_on_cpu(cpu, do_work, RUN_ON_CPU_HOST_PTR(streams->latest));
}

/*
 * The stream of a vCPU that is not selected any more continues, since the vCPU
 * may be selected again: it has events, and no records.
 */
void branch_trace_streams_select(BranchTraceStreams *streams,
                                 const BranchTraceSelection *selection)
{
    BranchTraceStream *s;
    unsigned i;

    streams->selection = selection;
    STREAM_FOREACH(streams, i, s) {
        if (!queue_work(streams, i, WORK_CHANGE)) {
            change(streams, i);
        }
    }
    /* Not CPU_FOREACH(): the list can change while a vCPU is waited for. */
    for (i = 0; i < streams->shared->buf.vcpus; i++) {
        CPUState *cpu = qemu_get_cpu(i);

        s = streams->vcpus[i].stream;
        if (cpu && (!s || !branch_trace_stream_cpu(s))) {
            start_stream(streams, cpu);
        }
    }
    wait_for_work(streams);
}

/*
 * Does its vCPU execute nothing as long as the BQL is held?  The guest's state
 * alone does not say that: it changes before the vCPUs are waited for, and
 * whoever stops the guest, such as a migration, has released the BQL meanwhile.
 */
static bool stands(const CPUState *cpu)
{
    return !runstate_is_running() && (!cpu || cpu->stopped);
}

void branch_trace_streams_end(BranchTraceStreams *streams, uint16_t reason)
{
    BranchTraceStream *s;
    unsigned i;

    /* The thread, which may sleep, does nothing more. */
    WITH_QEMU_LOCK_GUARD(&streams->lock) {
        streams->ticking = false;
    }
    streams->end_reason = reason;
    STREAM_FOREACH(streams, i, s) {
        CPUState *cpu = branch_trace_stream_cpu(s);

        if (stands(cpu)) {
            /* QEMU may be about to exit, and its vCPUs execute no more work. */
            branch_trace_stream_end(s, cpu && !thread_ended(cpu)
                                       ? reason : BTRAIL_END_UNPLUGGED);
        } else if (!queue_work(streams, i, WORK_END)) {
            branch_trace_stream_end(s, BTRAIL_END_UNPLUGGED);
        }
    }
    wait_for_work(streams);
}

void branch_trace_streams_plug(BranchTraceStreams *streams, CPUState *cpu)
{
    start_stream(streams, cpu);
    wait_for_work(streams);
}

void branch_trace_streams_unplug(BranchTraceStreams *streams, CPUState *cpu)
{
    BranchTraceStream *s;
    unsigned i;

    /* Not by its index, which it has lost already. */
    STREAM_FOREACH(streams, i, s) {
        if (branch_trace_stream_cpu(s) == cpu) {
            /* Its thread is gone; the tick must not use its cursor. */
            QEMU_LOCK_GUARD(&streams->lock);
            branch_trace_stream_unplug(s);
            break;
        }
    }
}

void branch_trace_streams_flush(BranchTraceStreams *streams)
{
    BranchTraceStream *s;
    unsigned i;

    STREAM_FOREACH(streams, i, s) {
        if (branch_trace_stream_state(s) != BTRAIL_VCPU_RUNNING) {
            continue;
        }
        if (!branch_trace_stream_cpu(s)) {
            /* It was unplugged, and nobody else publishes what it has left. */
            branch_trace_stream_flush(s);
        } else {
            queue_work(streams, i, WORK_FLUSH);
        }
    }
}

void branch_trace_streams_wake(BranchTraceStreams *streams)
{
    BranchTraceStream *s;
    unsigned i;

    STREAM_FOREACH(streams, i, s) {
        branch_trace_stream_read_tail(s);
        if (branch_trace_stream_can_refill(s)) {
            queue_work(streams, i, WORK_REFILL);
        }
    }
}

void branch_trace_streams_set_tasks(BranchTraceStreams *streams,
                                    const BranchTraceKernels *tasks,
                                    void (*done)(void *opaque), void *opaque)
{
    BranchTraceStream *s;
    unsigned i;

    streams->tasks = tasks;
    streams->tasks_done = done;
    streams->tasks_opaque = opaque;
    STREAM_FOREACH(streams, i, s) {
        if (!queue_work(streams, i, WORK_TASKS)) {
            branch_trace_stream_set_tasks(s, streams->tasks);
        }
    }
}
