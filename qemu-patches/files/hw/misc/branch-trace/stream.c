/*
 * Branch trace: the stream of one vCPU
 *
 * Fills slabs of the shared buffer, hands them to the agent, and follows the
 * overflow policy when no slab is free.
 *
 * A stream belongs to the thread of its vCPU.  Other threads use it only while
 * that one does not run and with the BQL held, or through the functions that
 * any thread may call.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/atomic.h"
#include "qemu/bitops.h"
#include "qemu/main-loop.h"
#include "qemu/memalign.h"
#include "qemu/timer.h"
#include "system/cpus.h"
#include "stream.h"

/*
 * Room for the events that end a slab: code that adds events checks the limit
 * once before it adds them.
 */
#define SLAB_EVENT_RESERVE  6
#define SINK_EVENT_RESERVE  (2 * SLAB_EVENT_RESERVE)

/* One slab is always kept for the end of the stream. */
#define RESERVE             1

/*
 * A switch of tasks, a wake-up and a halt have a TIME event of their own.  Where
 * the last one is not older than FRESH_NS, there is none: one follows after so
 * many records, so that the time of those in between is known, too.
 */
#define FRESH_NS            80000
#define FRESH_RECORDS       2048

/* Over longer times, the host may have slept, or moved to another machine. */
#define CALIBRATION_MAX_NS  (100 * SCALE_MS)

#define CACHE_LINE          64

/* Other threads read @cpu, @cpu_index and, atomically, @state. */
struct BranchTraceStream {
    /*
     * What a switch of tasks needs, between which much else is executed: in
     * few cache lines, which branch_trace_stream_fetch() asks for.
     */
    BranchTraceCursor *cursor;
    uint64_t *places;           /* see BranchTraceShared */
    int cpu_index;

    /* The slab in progress: a shared one, or the sink */
    bool in_sink;
    bool has_task;              /* one of the events is a TASK event: */
    bool switched;              /* which says that the task is another one */
    unsigned last_task;         /* the last of these */
    unsigned n_events;
    unsigned max_events;
    struct btrail_record *records;
    struct btrail_event *events;
    uint64_t first_index;
    uint64_t task_index;        /* of the last TASK event */

    struct btrail_event task;   /* the last one; type 0: there was none */

    /* The last TIME event.  To read the host's ticks costs less than a clock. */
    uint64_t time_ticks;
    uint64_t fresh_ticks;       /* FRESH_NS; 0: that is not known yet */
    uint64_t time_host;
    bool owes_time;             /* something has none of its own */

    bool has_kernel;            /* one of the events is a KERNEL event */
    uintptr_t threshold;        /* of the cursor: the slab is full */
    struct btrail_event kernel; /* the last one; type 0: there was none */

    uint64_t first_cr3;         /* of the slab in progress */
    CPUState *cpu;              /* NULL while unplugged, and after the end */
    const BranchTraceProducerOps *ops;
    BranchTraceCursor unplugged_cursor;
    BranchTraceBuffer *buf;
    const BranchTraceFilter *filter;
    const BranchTracePolicy *policy;

    /* In shared memory, written only */
    struct btrail_shm_vcpu *shm;
    struct btrail_slab_desc *desc;
    uint8_t *slabs;

    /*
     * The sink is a slab of the device's own.  Records go there when no slab
     * is free.  When one becomes free, the content moves there; what does not
     * fit into the sink is lost.
     */
    struct btrail_record *sink_records;
    struct btrail_event *sink_events;
    uint64_t sink_gap;          /* lost just before the sink's first record */
    uint16_t sink_gap_reason;

    /* The TIME event of a halt: how many events there were with it, or 0; and
       what the last one was before it */
    bool halted;
    unsigned halt_event;
    uint64_t halt_host;
    uint64_t halt_ticks;

    uint64_t cr3;
    const BranchTraceKernels *tasks;    /* NULL if they are not noticed */
    bool kernels;               /* the agent knows KERNEL events */
    struct btrail_event left;   /* the task that it has ended, but for that of a
                                   nested guest */
    BranchTraceQueue queue;     /* of slabs */
    uint64_t lost;              /* written by the vCPU, read by all */
    uint64_t published;         /* index after the last published slab */
    uint64_t since;             /* index of the first record under @filter */
    uint64_t *slab_end;         /* see stream_slab_end() */

    BranchTraceCodeRing *code;  /* NULL if code is not reported */
    BranchTraceQueue code_queue;    /* of its items */

    enum btrail_vcpu_state state;
    uint64_t paused_ns;
    uint64_t wait_start;

    /* As of the last call of has_progressed() and has_lost() */
    uint64_t old_tail;
    uint64_t old_code_tail;
    uint64_t old_lost;
};

static unsigned stream_records(BranchTraceStream *s)
{
    return (qatomic_read(&s->cursor->next) - (uintptr_t)s->records) /
           sizeof(struct btrail_record);
}

CPUState *branch_trace_stream_cpu(const BranchTraceStream *s)
{
    return s->cpu;
}

enum btrail_vcpu_state branch_trace_stream_state(const BranchTraceStream *s)
{
    return qatomic_read(&s->state);
}

uint64_t branch_trace_stream_get_cr3(const BranchTraceStream *s)
{
    return s->cr3;
}

uint64_t branch_trace_stream_index(BranchTraceStream *s)
{
    return s->first_index + stream_records(s);
}

static unsigned stream_slot(BranchTraceStream *s)
{
    return s->queue.head % s->buf->slabs;
}

/*
 * Index after the last record of slab @n.  Kept for one more slab than there
 * are, so that the last one that was drained is among them.
 */
static uint64_t *stream_slab_end(BranchTraceStream *s, uint64_t n)
{
    return &s->slab_end[n % (s->buf->slabs + 1)];
}

bool branch_trace_stream_slab(BranchTraceStream *s, unsigned n,
                              BranchTraceSlab *slab)
{
    const struct btrail_slab_desc *desc;
    const uint8_t *memory;
    unsigned slot;

    if (!n) {
        *slab = (BranchTraceSlab) {
            .first_index = s->first_index,
            .cr3 = s->first_cr3,
            .records = s->records,
            .events = s->events,
            .n_records = stream_records(s),
            .n_events = s->n_events,
        };
        return true;
    }
    if (n > s->queue.head || n >= s->buf->slabs) {
        return false;
    }
    slot = (s->queue.head - n) % s->buf->slabs;
    desc = &s->desc[slot];
    memory = s->slabs + (uint64_t)slot * s->buf->slab_size;
    *slab = (BranchTraceSlab) {
        .first_index = desc->first_index,
        .cr3 = desc->cr3,
        .records = (const struct btrail_record *)memory,
        .events = (const struct btrail_event *)(memory +
                                                s->buf->event_offset),
        .n_records = desc->records,
        .n_events = desc->events,
    };
    return true;
}

/* Makes the producer report what it still holds. */
static void stream_sync(BranchTraceStream *s)
{
    if (s->cpu && s->ops->sync) {
        s->ops->sync(s->cpu);
    }
}

static void stream_set_state(BranchTraceStream *s,
                             enum btrail_vcpu_state state)
{
    qatomic_set(&s->state, state);
    qatomic_set(&s->shm->state, state);
}

static void stream_put_event(BranchTraceStream *s, uint64_t index,
                             uint16_t type, uint16_t reason,
                             uint64_t data0, uint64_t data1, uint64_t data2)
{
    assert(s->n_events < s->max_events);
    s->events[s->n_events++] = (struct btrail_event) {
        .index = index,
        .type = type,
        .reason = reason,
        .data = { data0, data1, data2 },
    };
}

/* Copied here only: what is read of events waits for the agent's cache. */
static void stream_put_task_event(BranchTraceStream *s,
                                  const struct btrail_event *e)
{
    assert(s->n_events < s->max_events);
    s->has_task = true;
    s->last_task = s->n_events;
    s->task_index = e->index;
    s->events[s->n_events++] = *e;
}

/* The task in force, from @index on */
static void stream_put_task(BranchTraceStream *s, uint64_t index)
{
    struct btrail_event e = s->task;

    e.index = index;
    s->switched = false;
    stream_put_task_event(s, &e);
}

/* The kernel in force, which ends the task in force, from @index on */
static void stream_put_kernel(BranchTraceStream *s, uint64_t index)
{
    s->has_kernel = true;
    s->has_task = false;
    stream_put_event(s, index, s->kernel.type, s->kernel.reason,
                     s->kernel.data[0], s->kernel.data[1], 0);
}

static void stream_open(BranchTraceStream *s, uint64_t index,
                        struct btrail_record *records,
                        struct btrail_event *events)
{
    s->records = records;
    s->events = events;
    s->n_events = 0;
    s->has_task = false;
    s->has_kernel = false;
    s->first_index = index;
    s->first_cr3 = s->cr3;
    s->threshold = (uintptr_t)(records + s->buf->records_per_slab);
    qatomic_set(&s->cursor->next, (uintptr_t)records);
    /* The first record must have a TIME event. */
    qatomic_set(&s->cursor->limit, 0);
}

static void stream_open_slab(BranchTraceStream *s, uint64_t index)
{
    uint8_t *slab = s->slabs + (uint64_t)stream_slot(s) * s->buf->slab_size;

    s->in_sink = false;
    stream_open(s, index, (struct btrail_record *)slab,
                (struct btrail_event *)(slab + s->buf->event_offset));
}

static void stream_open_sink(BranchTraceStream *s, uint64_t index)
{
    s->in_sink = true;
    stream_open(s, index, s->sink_records, s->sink_events);
}

bool branch_trace_stream_read_tail(BranchTraceStream *s)
{
    return branch_trace_queue_read_tail(&s->queue) &&
           (!s->code || branch_trace_queue_read_tail(&s->code_queue));
}

void branch_trace_stream_hand_over(BranchTraceStream *s, uint32_t slot)
{
    branch_trace_queue_hand_over(&s->queue, slot);
    if (s->code) {
        branch_trace_queue_hand_over(&s->code_queue, slot);
    }
}

/* Is slab @head free, with @reserve more after it? */
static bool stream_has_room(BranchTraceStream *s, unsigned reserve)
{
    if (qatomic_read(&s->policy->overflow) == BTRAIL_OVERFLOW_OVERWRITE) {
        return true;
    }
    branch_trace_stream_read_tail(s);
    return branch_trace_queue_used(&s->queue) + reserve < s->buf->slabs;
}

static void stream_publish(BranchTraceStream *s)
{
    uint64_t end = branch_trace_stream_index(s);

    s->desc[stream_slot(s)] = (struct btrail_slab_desc) {
        .first_index = s->first_index,
        .cr3 = s->first_cr3,
        .records = stream_records(s),
        .events = s->n_events,
    };
    qatomic_set(stream_slab_end(s, s->queue.head), end);
    qatomic_set(&s->published, end);
    qatomic_set(&s->shm->records, end);
    qatomic_set(&s->shm->lost, s->lost);
    branch_trace_queue_advance(&s->queue);
    branch_trace_buffer_signal(s->buf);
}

/* Policy overwrite: the slab that is about to be reused has not been read. */
static void stream_overwrite(BranchTraceStream *s)
{
    uint64_t head = s->queue.head;

    if (head >= s->buf->slabs) {
        qatomic_set(&s->lost, *stream_slab_end(s, head - s->buf->slabs));
    }
}

static void stream_hold(BranchTraceStream *s)
{
    s->wait_start = get_clock();
    stream_put_event(s, s->first_index, BTRAIL_EVENT_PAUSE,
                     BTRAIL_PAUSE_OVERFLOW, s->wait_start, 0, 0);
    stream_set_state(s, BTRAIL_VCPU_WAITING);
    /*
     * The vCPU must not wait here, inside of translated code: other threads
     * could not stop it any more.  It may still take an interrupt on its way
     * out.
     */
    cpu_hold(s->cpu);
}

static void stream_release(BranchTraceStream *s)
{
    uint64_t now = get_clock();

    stream_put_event(s, branch_trace_stream_index(s), BTRAIL_EVENT_RESUME,
                     BTRAIL_PAUSE_OVERFLOW, now, 0, 0);
    qatomic_set(&s->paused_ns, s->paused_ns + (now - s->wait_start));
    qatomic_set(&s->shm->paused_ns, s->paused_ns);
    cpu_release(s->cpu);
}

/* Moves the sink's content to a slab; false if none is free. */
static bool stream_leave_sink(BranchTraceStream *s, unsigned reserve)
{
    struct btrail_record *records = s->records;
    struct btrail_event *events = s->events;
    unsigned n_records = stream_records(s);
    unsigned n_events = s->n_events;
    bool has_task = s->has_task;
    bool has_kernel = s->has_kernel;
    uint64_t cr3 = s->first_cr3;

    if (!stream_has_room(s, reserve)) {
        return false;
    }
    /* With policy pause the vCPU waits for room in the ring of code, too. */
    if (!branch_trace_code_settle(s->code) && reserve &&
        qatomic_read(&s->policy->overflow) == BTRAIL_OVERFLOW_PAUSE) {
        return false;
    }

    stream_open_slab(s, s->first_index);
    s->first_cr3 = cr3;
    if (s->sink_gap) {
        stream_put_event(s, s->first_index, BTRAIL_EVENT_GAP,
                         s->sink_gap_reason, s->sink_gap, 0, 0);
        s->sink_gap = 0;
    }
    memcpy(s->records, records, n_records * sizeof(*records));
    memcpy(s->events + s->n_events, events, n_events * sizeof(*events));
    s->has_task = has_task;
    s->has_kernel = has_kernel;
    s->last_task += s->n_events;
    s->n_events += n_events;
    qatomic_set(&s->cursor->next, (uintptr_t)(s->records + n_records));

    if (s->state == BTRAIL_VCPU_WAITING) {
        stream_release(s);
    }
    stream_set_state(s, BTRAIL_VCPU_RUNNING);
    if (n_records) {
        qatomic_set(&s->cursor->limit, s->threshold);
    }
    return true;
}

/* Drops the content of the sink, which is full. */
static void stream_empty_sink(BranchTraceStream *s)
{
    unsigned n = stream_records(s);

    if (!s->sink_gap) {
        s->sink_gap_reason = qatomic_read(&s->policy->gap_reason);
    }
    s->sink_gap += n;
    qatomic_set(&s->lost, s->lost + n);
    qatomic_set(&s->shm->lost, s->lost);
    qatomic_set(&s->published, branch_trace_stream_index(s));
    stream_open_sink(s, branch_trace_stream_index(s));
}

/* Continues in the sink for lack of a slab, and follows the policy. */
static void stream_do_without(BranchTraceStream *s, uint64_t index)
{
    s->sink_gap = 0;
    stream_open_sink(s, index);
    if (qatomic_read(&s->policy->overflow) == BTRAIL_OVERFLOW_PAUSE) {
        stream_hold(s);
    } else {
        stream_set_state(s, BTRAIL_VCPU_LOSING);
    }
    /*
     * The agent signals a free slab if it sees that state after it has
     * advanced its tail, so the tail is read again after the state is set.
     */
    smp_mb();
    stream_leave_sink(s, RESERVE);
}

/* Publishes the slab in progress and continues with another. */
static void stream_switch(BranchTraceStream *s)
{
    uint64_t index = branch_trace_stream_index(s);

    stream_publish(s);
    if (stream_has_room(s, RESERVE)) {
        if (qatomic_read(&s->policy->overflow) == BTRAIL_OVERFLOW_OVERWRITE) {
            stream_overwrite(s);
        }
        stream_open_slab(s, index);
    } else {
        stream_do_without(s, index);
    }
}

/* With policy pause, holds the vCPU while items of code wait for room. */
static void stream_wait_for_code(BranchTraceStream *s)
{
    if (branch_trace_code_waits(s->code) && !s->in_sink &&
        qatomic_read(&s->policy->overflow) == BTRAIL_OVERFLOW_PAUSE) {
        uint64_t index = branch_trace_stream_index(s);

        stream_publish(s);
        stream_do_without(s, index);
    }
}

bool branch_trace_stream_code_known(BranchTraceStream *s, uint64_t linear,
                                    uint64_t ram)
{
    return !s->code || branch_trace_code_known(s->code, s->cr3, linear, ram);
}

void branch_trace_stream_code_executed(BranchTraceStream *s, uint64_t linear,
                                       uint64_t physical, uint64_t ram,
                                       const void *bytes)
{
    struct btrail_code_item item = {
        .type = BTRAIL_CODE_PAGE,
        .index = branch_trace_stream_index(s),
        .cr3 = s->cr3,
        .linear = linear,
        .physical = physical,
    };

    if (s->code) {
        branch_trace_code_executed(s->code, &item, ram, bytes);
        stream_wait_for_code(s);
    }
}

bool branch_trace_stream_code_translated(BranchTraceStream *s, uint64_t ram,
                                         const void *bytes, unsigned offset,
                                         unsigned size)
{
    bool changed = s->code && branch_trace_code_translated(
        s->code, branch_trace_stream_index(s), ram, bytes, offset, size);

    stream_wait_for_code(s);
    return changed;
}

static bool stream_events_full(BranchTraceStream *s)
{
    unsigned reserve = s->in_sink ? SINK_EVENT_RESERVE : SLAB_EVENT_RESERVE;

    return s->n_events + reserve >= s->max_events;
}

static void stream_make_room(BranchTraceStream *s)
{
    if (stream_events_full(s)) {
        if (!s->in_sink) {
            stream_switch(s);
        } else if (!stream_leave_sink(s, RESERVE)) {
            stream_empty_sink(s);
        }
    }
}

static void stream_add_event(BranchTraceStream *s, uint16_t type,
                             uint16_t reason, uint64_t data0)
{
    stream_put_event(s, branch_trace_stream_index(s), type, reason, data0, 0,
                     0);
    stream_make_room(s);
}

static void stream_time(BranchTraceStream *s, uint64_t index)
{
    uint64_t host, tsc, icount, ticks, since;

    s->ops->clocks(s->cpu, &host, &tsc, &icount);
    ticks = cpu_get_host_ticks();
    since = host - s->time_host;
    if (since >= FRESH_NS && since <= CALIBRATION_MAX_NS) {
        s->fresh_ticks = (ticks - s->time_ticks) * FRESH_NS / since;
    }
    s->time_host = host;
    s->time_ticks = ticks;
    s->owes_time = false;
    stream_put_event(s, index, BTRAIL_EVENT_TIME, 0, host, tsc, icount);
}

static bool stream_time_is_fresh(BranchTraceStream *s)
{
    return cpu_get_host_ticks() - s->time_ticks < s->fresh_ticks;
}

static bool stream_ends_with_time(BranchTraceStream *s, unsigned n,
                                  uint64_t index)
{
    return s->n_events >= n && s->events[s->n_events - n].index == index &&
           s->events[s->n_events - n].type == BTRAIL_EVENT_TIME;
}

/*
 * The time of what is about to be added.  Without a record in between, the first
 * one and the last one are enough: there could be any number.
 */
static void stream_time_here(BranchTraceStream *s)
{
    uint64_t index = branch_trace_stream_index(s);

    while (stream_ends_with_time(s, 1, index) &&
           stream_ends_with_time(s, 2, index)) {
        s->n_events--;
    }
    stream_time(s, index);
}

/* It has no time of its own. */
static void stream_owe_time(BranchTraceStream *s)
{
    uintptr_t limit = qatomic_read(&s->cursor->next) +
                      FRESH_RECORDS * sizeof(struct btrail_record);

    s->owes_time = true;
    /* The tick may set it meanwhile. */
    if (limit < s->threshold &&
        qatomic_read(&s->cursor->limit) == s->threshold) {
        qatomic_cmpxchg(&s->cursor->limit, s->threshold, limit);
    }
}

/* Is a time to be added before what is about to be added? */
static bool stream_needs_time(BranchTraceStream *s)
{
    if (!stream_time_is_fresh(s)) {
        return true;
    }
    stream_owe_time(s);
    return false;
}

void branch_trace_stream_limit(BranchTraceStream *s)
{
    uint64_t index = branch_trace_stream_index(s);
    uintptr_t limit;

    if (index == s->first_index) {
        /* No record since the slab was opened. */
        return;
    }

    /*
     * A tick, or the first record of a slab; or a time is owed, if there was
     * none meanwhile; or else the slab is full.
     */
    limit = qatomic_xchg(&s->cursor->limit, s->threshold);
    if (!limit || (limit != s->threshold && s->owes_time)) {
        /* Before anything else can happen at this index. */
        stream_time(s, index - 1);
        /* Slabs that are lost may have named these. */
        if (s->kernel.type && !s->has_kernel) {
            stream_put_kernel(s, index - 1);
        }
        if (s->task.type && !s->has_task) {
            stream_put_task(s, index - 1);
        }
    }

    if (s->in_sink) {
        stream_leave_sink(s, RESERVE);
    }
    if (qatomic_read(&s->cursor->next) >= s->threshold ||
        stream_events_full(s)) {
        if (s->in_sink) {
            stream_empty_sink(s);
        } else {
            stream_switch(s);
        }
    }
}

void branch_trace_stream_record(BranchTraceStream *s, uint64_t from,
                                uint64_t to, uint64_t flags)
{
    struct btrail_record *r;
    uintptr_t next = qatomic_read(&s->cursor->next);

    r = (struct btrail_record *)next;
    r->from = from;
    r->to = to;
    r->flags = flags;
    next += sizeof(*r);
    qatomic_set(&s->cursor->next, next);
    if (next >= qatomic_read(&s->cursor->limit)) {
        branch_trace_stream_limit(s);
    }
}

void branch_trace_stream_cr3(BranchTraceStream *s, uint64_t cr3)
{
    if (cr3 != s->cr3) {
        s->cr3 = cr3;
        stream_add_event(s, BTRAIL_EVENT_CR3, 0, cr3);
    }
}

void branch_trace_stream_gap(BranchTraceStream *s, uint16_t reason)
{
    stream_add_event(s, BTRAIL_EVENT_GAP, reason, BTRAIL_LOST_UNKNOWN);
}

void branch_trace_stream_discontinuity(BranchTraceStream *s, uint16_t reason)
{
    stream_add_event(s, BTRAIL_EVENT_GAP, reason, 0);
    if (reason != BTRAIL_GAP_DEBUGGER) {
        branch_trace_stream_task(s, NULL, 0);
    }
}

const BranchTraceKernels *branch_trace_stream_tasks(BranchTraceStream *s)
{
    return s->tasks;
}

void branch_trace_stream_set_tasks(BranchTraceStream *s,
                                   const BranchTraceKernels *tasks)
{
    s->tasks = tasks;
    /* After it was unplugged, no task is known until it runs again. */
    if (s->cpu && s->ops->tasks && s->state != BTRAIL_VCPU_ABSENT) {
        s->ops->tasks(s->cpu);
        if (!tasks) {
            branch_trace_stream_task(s, NULL, 0);
        }
    }
}

void branch_trace_stream_fetch(const BranchTraceStream *s)
{
    const char *event;

    __builtin_prefetch(&s->time_ticks);
    __builtin_prefetch(&s->threshold);
    /* The agent has the lines of events; one can be in two. */
    event = (const char *)&s->events[s->n_events];
    __builtin_prefetch(event, 1);
    __builtin_prefetch(event + sizeof(*s->events), 1);
}

/*
 * Can the thread have run on another vCPU since it ran here?  To read the clock
 * takes as long as half of the rest of a switch.  Threads of nested guests have
 * the same numbers again.
 */
static bool stream_has_moved(BranchTraceStream *s, uint32_t tid)
{
    uint64_t *place = &s->places[tid % BRANCH_TRACE_PLACES];
    uint64_t here = (uint64_t)tid << 32 | s->cpu_index;

    if (s->kernel.reason & BTRAIL_KERNEL_NESTED) {
        return true;
    }
    if (qatomic_read(place) == here) {
        return false;
    }
    qatomic_set(place, here);
    return true;
}

static void stream_remove_event(BranchTraceStream *s, unsigned i)
{
    s->n_events--;
    memmove(s->events + i, s->events + i + 1,
            (s->n_events - i) * sizeof(*s->events));
}

void branch_trace_stream_task(BranchTraceStream *s,
                              const BranchTraceTask *task, uint16_t left)
{
    struct btrail_event e = { .type = BTRAIL_EVENT_TASK };
    uint64_t index = branch_trace_stream_index(s);
    bool again, timed;

    if (task) {
        __builtin_prefetch(&s->places[task->tid % BRANCH_TRACE_PLACES]);
        e.reason = task->kernel ? BTRAIL_TASK_KERNEL : 0;
        e.data[0] = (uint64_t)task->pid << 32 | task->tid;
        e.data[1] = ldq_le_p(task->name);
        e.data[2] = ldq_le_p(task->name + 8);
    } else if (s->task.type) {
        e.reason = BTRAIL_TASK_UNKNOWN;
    } else {
        return;
    }
    if (e.data[0] == s->task.data[0] && e.data[1] == s->task.data[1] &&
        e.data[2] == s->task.data[2] && e.reason == s->task.reason &&
        e.type == s->task.type) {
        return;
    }
    s->task = e;
    /* It may be other events that were removed. */
    again = s->has_task && s->last_task < s->n_events &&
            s->task_index == index;
    if (again && s->switched) {
        /* The task before has made no record; why it has left does not count. */
        left = s->events[s->last_task].reason & BTRAIL_TASK_LEFT_ALL;
    }
    timed = task && stream_needs_time(s);
    if (timed) {
        if (again) {
            stream_remove_event(s, s->last_task);
            again = false;
        }
        stream_time_here(s);
    }
    e.index = index;
    e.reason |= task ? left : 0;
    if (task && stream_has_moved(s, task->tid)) {
        e.clock = (uint32_t)((timed ? s->time_host : get_clock()) /
                             BTRAIL_CLOCK_NS) ?: 1;
    }
    s->switched = true;
    if (again) {
        s->events[s->last_task] = e;
    } else {
        stream_put_task_event(s, &e);
        stream_make_room(s);
    }
}

void branch_trace_stream_wake(BranchTraceStream *s,
                              const BranchTraceTask *task, uint16_t flags)
{
    if (stream_needs_time(s)) {
        stream_time_here(s);
    }
    if (task) {
        flags |= task->kernel ? BTRAIL_WAKE_KERNEL : 0;
        stream_add_event(s, BTRAIL_EVENT_WAKE, flags,
                         (uint64_t)task->pid << 32 | task->tid);
    } else {
        stream_add_event(s, BTRAIL_EVENT_WAKE, flags | BTRAIL_WAKE_UNKNOWN, 0);
    }
}

/* What was executed before a halt was executed then, however long that lasts. */
void branch_trace_stream_halt(BranchTraceStream *s)
{
    unsigned n_events = s->n_events;

    s->halted = true;
    s->halt_host = s->time_host;
    s->halt_ticks = s->time_ticks;
    stream_time_here(s);
    s->halt_event = s->n_events > n_events ? s->n_events : 0;
    stream_make_room(s);
}

void branch_trace_stream_halted(BranchTraceStream *s)
{
    bool is_last = s->halt_event && s->n_events == s->halt_event &&
                   s->events[s->n_events - 1].type == BTRAIL_EVENT_TIME;

    if (!s->halted) {
        return;
    }
    s->halted = false;
    if (!stream_time_is_fresh(s)) {
        qatomic_set(&s->cursor->limit, 0);
    } else if (is_last) {
        /* It was short: many of them would make many events. */
        s->n_events--;
        s->time_host = s->halt_host;
        s->time_ticks = s->halt_ticks;
        stream_owe_time(s);
    }
}

void branch_trace_stream_kernel(BranchTraceStream *s, uint16_t flags,
                                uint32_t number, uint64_t nested_root)
{
    const struct btrail_event e = {
        .type = BTRAIL_EVENT_KERNEL,
        .reason = flags,
        .data = { number, nested_root },
    };

    if (!s->kernels || (e.type == s->kernel.type &&
                        e.reason == s->kernel.reason &&
                        !memcmp(e.data, s->kernel.data, sizeof(e.data)))) {
        return;
    }
    if (s->task.type && !(s->kernel.reason & BTRAIL_KERNEL_NESTED)) {
        s->left = s->task;
    }
    s->task.type = 0;
    s->kernel = e;
    stream_put_kernel(s, branch_trace_stream_index(s));
    stream_make_room(s);
}

bool branch_trace_stream_knows_kernel(BranchTraceStream *s)
{
    return s->kernel.type;
}

void branch_trace_stream_return_to_task(BranchTraceStream *s)
{
    if (s->left.type && !s->task.type) {
        s->task = s->left;
        stream_put_task(s, branch_trace_stream_index(s));
        stream_make_room(s);
    }
}

void branch_trace_stream_vm_state(BranchTraceStream *s, bool running)
{
    struct btrail_event *last;

    stream_sync(s);
    last = s->n_events ? &s->events[s->n_events - 1] : NULL;

    /*
     * A vCPU that is held does not run when the guest is resumed.  Events for
     * each such stop would fill its sink.
     */
    if (!running && s->state == BTRAIL_VCPU_WAITING && last &&
        last->type == BTRAIL_EVENT_RESUME &&
        last->reason == BTRAIL_PAUSE_VM_STOP &&
        last->index == branch_trace_stream_index(s)) {
        s->n_events--;
        return;
    }
    stream_add_event(s, running ? BTRAIL_EVENT_RESUME : BTRAIL_EVENT_PAUSE,
                     BTRAIL_PAUSE_VM_STOP, get_clock());
}

const BranchTraceFilter *branch_trace_stream_filter(BranchTraceStream *s)
{
    return s->filter;
}

static void stream_replug(BranchTraceStream *s, CPUState *cpu)
{
    s->cpu = cpu;
    s->cursor = s->ops->cursor(cpu);
    qatomic_set(&s->cursor->next, s->unplugged_cursor.next);
    qatomic_set(&s->cursor->limit, 0);
    branch_trace_stream_discontinuity(s, BTRAIL_GAP_RESET);
    branch_trace_stream_cr3(s, s->ops->cr3(cpu));
}

void branch_trace_stream_plug(BranchTraceStream *s, CPUState *cpu)
{
    if (s->state == BTRAIL_VCPU_ENDED) {
        return;
    }
    if (s->state == BTRAIL_VCPU_ABSENT) {
        s->cr3 = s->ops->cr3(cpu);
        stream_open_slab(s, 0);
        stream_set_state(s, BTRAIL_VCPU_RUNNING);
    } else {
        stream_replug(s, cpu);
    }
    s->ops->attach(cpu, s);
    branch_trace_code_join(s->code, cpu);
}

/*
 * The cursor goes away with the vCPU.  The stream stays, because its indices
 * must never restart, should the vCPU come back.
 */
void branch_trace_stream_unplug(BranchTraceStream *s)
{
    s->ops->attach(s->cpu, NULL);
    branch_trace_code_leave(s->code);
    if (s->state == BTRAIL_VCPU_WAITING) {
        stream_release(s);
        stream_set_state(s, BTRAIL_VCPU_LOSING);
    }
    s->unplugged_cursor.next = qatomic_read(&s->cursor->next);
    s->cursor = &s->unplugged_cursor;
    s->cpu = NULL;
}

void branch_trace_stream_change(BranchTraceStream *s,
                                const BranchTraceFilter *filter)
{
    stream_sync(s);
    s->filter = filter;
    if (s->state != BTRAIL_VCPU_ABSENT) {
        qatomic_set(&s->since, branch_trace_stream_index(s));
        if (s->cpu) {
            s->ops->filter(s->cpu);
        }
    }
}

void branch_trace_stream_flush(BranchTraceStream *s)
{
    uint64_t now = get_clock();

    if (s->state == BTRAIL_VCPU_RUNNING) {
        stream_sync(s);
    }
    if (s->in_sink || s->state != BTRAIL_VCPU_RUNNING ||
        qatomic_read(&s->policy->overflow) == BTRAIL_OVERFLOW_OVERWRITE) {
        return;
    }
    if (stream_records(s) || s->n_events) {
        /* Only if the vCPU would not have to wait for it. */
        if (!stream_has_room(s, RESERVE + 1)) {
            return;
        }
        stream_switch(s);
    }
    qatomic_store_release(&s->shm->flushed, now);
}

void branch_trace_stream_refill(BranchTraceStream *s)
{
    if (!s->in_sink || s->state == BTRAIL_VCPU_ENDED) {
        return;
    }
    if (stream_leave_sink(s, RESERVE)) {
        if (qatomic_read(&s->cursor->next) >= s->threshold ||
            stream_events_full(s)) {
            stream_switch(s);
        }
    } else if (s->state == BTRAIL_VCPU_WAITING &&
               qatomic_read(&s->policy->overflow) != BTRAIL_OVERFLOW_PAUSE) {
        /* The agent is lost; the guest must continue. */
        stream_release(s);
        stream_set_state(s, BTRAIL_VCPU_LOSING);
    }
}

void branch_trace_stream_end(BranchTraceStream *s, uint16_t reason)
{
    if (s->state == BTRAIL_VCPU_ENDED) {
        return;
    }
    if (s->state == BTRAIL_VCPU_ABSENT) {
        /* Before it has begun */
        stream_set_state(s, BTRAIL_VCPU_ENDED);
        s->cpu = NULL;
        return;
    }

    if (s->cpu) {
        s->ops->attach(s->cpu, NULL);
        branch_trace_code_leave(s->code);
    }
    if (s->in_sink && !stream_leave_sink(s, 0)) {
        /*
         * This happens only if the agent has moved its tail backwards: it does
         * not get the rest.
         */
        if (s->state == BTRAIL_VCPU_WAITING) {
            stream_release(s);
        }
        stream_empty_sink(s);
    } else {
        stream_put_event(s, branch_trace_stream_index(s), BTRAIL_EVENT_END,
                         reason, get_clock(), 0, 0);
        stream_publish(s);
    }
    stream_set_state(s, BTRAIL_VCPU_ENDED);
    s->cpu = NULL;
}

void branch_trace_stream_tick(BranchTraceStream *s)
{
    CPUState *cpu = qatomic_read(&s->cpu);

    qatomic_set(&s->cursor->limit, 0);
    if (cpu && s->ops->tick) {
        s->ops->tick(cpu);
    }
}

bool branch_trace_stream_can_refill(BranchTraceStream *s)
{
    uint64_t used = branch_trace_queue_used(&s->queue);
    uint64_t items = branch_trace_queue_used(&s->code_queue);

    switch (qatomic_read(&s->state)) {
    case BTRAIL_VCPU_WAITING:
        /* To wake up for each slab would cost more than to wait for a few. */
        return qatomic_read(&s->policy->overflow) != BTRAIL_OVERFLOW_PAUSE ||
               (used <= s->buf->slabs / 2 &&
                items <= s->buf->code_items / 2);
    case BTRAIL_VCPU_LOSING:
        return used + RESERVE < s->buf->slabs;
    default:
        return false;
    }
}

bool branch_trace_stream_has_progressed(BranchTraceStream *s)
{
    uint64_t tail = branch_trace_queue_tail(&s->queue);
    uint64_t code_tail = branch_trace_queue_tail(&s->code_queue);
    bool progress = tail != s->old_tail || code_tail != s->old_code_tail;

    s->old_tail = tail;
    s->old_code_tail = code_tail;
    return progress;
}

bool branch_trace_stream_has_lost(BranchTraceStream *s, uint64_t *lost)
{
    bool more;

    *lost = qatomic_read(&s->lost);
    more = *lost != s->old_lost;
    s->old_lost = *lost;
    return more;
}

static BranchTraceVcpuState stream_qapi_state(const BranchTraceStream *s)
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
        return BRANCH_TRACE_VCPU_STATE_RUNNING;
    }
}

BranchTraceVcpu *branch_trace_stream_info(BranchTraceStream *s)
{
    BranchTraceVcpu *vcpu = g_new0(BranchTraceVcpu, 1);
    uint64_t tail;

    branch_trace_stream_read_tail(s);
    tail = branch_trace_queue_tail(&s->queue);
    vcpu->cpu_index = s->cpu_index;
    vcpu->state = stream_qapi_state(s);
    vcpu->records = qatomic_read(&s->published);
    vcpu->since = qatomic_read(&s->since);
    vcpu->drained = tail ? qatomic_read(stream_slab_end(s, tail - 1)) : 0;
    vcpu->lost = qatomic_read(&s->lost);
    vcpu->paused_ns = qatomic_read(&s->paused_ns);
    return vcpu;
}

BranchTraceStream *branch_trace_stream_new(CPUState *cpu,
                                           BranchTraceShared *shared,
                                           const BranchTraceFilter *filter,
                                           const BranchTraceKernels *tasks)
{
    BranchTraceBuffer *buf = &shared->buf;
    BranchTraceStream *s = qemu_memalign(CACHE_LINE, sizeof(*s));
    uint8_t *area = branch_trace_buffer_area(buf, cpu->cpu_index);

    memset(s, 0, sizeof(*s));
    s->cpu = cpu;
    s->cpu_index = cpu->cpu_index;
    s->ops = branch_trace_producer();
    s->cursor = s->ops->cursor(cpu);
    s->buf = buf;
    s->max_events = buf->events_per_slab;
    s->filter = filter;
    s->policy = &shared->policy;
    s->places = shared->places;
    s->tasks = tasks;
    s->kernels = shared->kernels;
    s->shm = (struct btrail_shm_vcpu *)area;
    s->desc = (struct btrail_slab_desc *)(area + buf->desc_offset);
    s->slabs = area + buf->slab_offset;
    branch_trace_queue_init(&s->queue, &s->shm->head, s->shm->tail, buf->slot);
    s->code = branch_trace_code_ring_new(shared->code, buf, &s->code_queue,
                                         s->cpu_index);
    s->slab_end = g_new0(uint64_t, buf->slabs + 1);
    s->sink_records = g_new0(struct btrail_record, buf->records_per_slab);
    s->sink_events = g_new0(struct btrail_event, buf->events_per_slab);
    /*
     * The slabs are zero, and not touched here: that would take a second for
     * each GiB.
     */
    return s;
}

void branch_trace_stream_free(BranchTraceStream *s)
{
    branch_trace_code_ring_free(s->code);
    g_free(s->slab_end);
    g_free(s->sink_records);
    g_free(s->sink_events);
    qemu_vfree(s);
}
