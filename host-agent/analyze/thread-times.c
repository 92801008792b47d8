/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How long each thread of the guest ran: see thread-times.h
 */

#include <errno.h>
#include <string.h>

#include "analyze/lane-clock.h"
#include "analyze/off-cpu.h"
#include "analyze/thread-state.h"
#include "analyze/thread-times.h"
#include "analyze/wake-order.h"
#include "lib/agent/batch.h"
#include "lib/agent/merged.h"
#include "util/hash.h"

#define NOWHERE     UINT32_MAX

/**
 * struct follow - a thread
 * @key:    its kernel, process and number
 * @number: for struct off_cpu, from 1 on
 * @ticks:  of its time, in 1/PACE_TICKS ns
 * @vcpu:   that runs it, or NOWHERE
 * @early:  it was seen on another vCPU before it was seen to leave this one, at
 *          the time @came; or NOWHERE
 * @lost:   up to this number of gaps it is known where it was
 * @state:  in which it has left, or leaves, as far as an event says
 * @awake:  it was woken since then, at @woken
 * @woken:  0: nobody knows when
 */
struct follow {
    struct thread_time time;
    uint64_t key[2];
    int64_t number;
    uint64_t ticks;
    uint32_t vcpu;
    uint32_t early;
    uint64_t came;
    uint64_t lost;
    enum thread_state state;
    bool awake;
    uint64_t woken;
    struct wake_order order;
};

/**
 * struct thread_lane - a vCPU
 * @last:   the thread of the last record, which counts if @counts; or NULL
 * @seen:   the thread of the last batch, or NULL
 * @runs:   that which it runs, as far as that is followed; or NULL
 * @leaves: a time after its last record counts, which was over at @until
 */
struct thread_lane {
    struct follow *last;
    bool counts;
    struct follow *seen;
    struct follow *runs;
    bool leaves;
    uint64_t until;
};

/* @slack: see wake-order.h; @forgets: how often all that are away were
 * forgotten */
struct thread_walk {
    const struct thread_times_options *options;
    struct thread_times *out;
    const struct times *times;
    const struct times *waits;
    uint64_t slack;
    struct thread_lane lanes[BTRAIL_MAX_VCPUS];
    struct lane_clock clocks[BTRAIL_MAX_VCPUS];
    GHashTable *threads;        /* key -> struct follow */
    uint64_t wakes;             /* that were seen */
    uint64_t strangers;         /* of these, of tasks that are not known */
    struct follow *others;
    struct off_cpu *off;
    uint64_t forgets;
    uint64_t end;               /* the last clock that was read */
};

static void free_follow(gpointer p)
{
    struct follow *f = p;

    histogram_free(f->time.off);
    g_free(f);
}

static struct follow *new_follow(struct thread_walk *w)
{
    struct follow *f = g_new0(struct follow, 1);

    f->vcpu = f->early = NOWHERE;
    f->time.off = histogram_new_within(&w->out->budget);
    return f;
}

/* Unknown tasks, and the idle ones, are one each. */
static void get_key(uint64_t key[2], bool known, unsigned nested,
                    const struct btrail_kernel *kernel, uint32_t pid,
                    uint32_t tid)
{
    thread_key(key, kernel, pid, tid, 0);
    key[0] |= UINT64_C(1) << 63 | (uint64_t)nested << 32;
    if (!known) {
        key[0] = key[1] = 0;
    }
}

/* The thread that made the records of a batch.  Beyond the limit, one stands
 * for all. */
static struct follow *thread_of(struct thread_walk *w, unsigned vcpu,
                                const struct btrail_batch *b)
{
    struct thread_lane *l = &w->lanes[vcpu];
    const struct btrail_task *task = &b->task;
    unsigned limit = w->options->rows ?: THREAD_TIMES_ROWS;
    struct follow *f;
    uint64_t key[2];

    get_key(key, task->known, task->nested, &b->kernel, task->pid, task->tid);
    f = l->seen && btrail_pair_equal(l->seen->key, key) ? l->seen :
        g_hash_table_lookup(w->threads, key);
    if (!f && w->out->threads->len < limit) {
        f = new_follow(w);
        memcpy(f->key, key, sizeof(key));
        f->time.kernel = (uint16_t)key[0];
        f->time.followed = task->known && task->tid && !task->nested;
        f->lost = w->forgets;
        g_ptr_array_add(w->out->threads, f);
        f->number = w->out->threads->len;
        g_hash_table_insert(w->threads, f->key, f);
    }
    if (!f) {
        return w->others;
    }
    f->time.task = *task;
    l->seen = f;
    return f;
}

static struct task off_task(const struct follow *f)
{
    return (struct task) { .tid = f->number };
}

/* Is this what options choose? */
static bool chooses(const struct thread_walk *w, unsigned vcpu,
                    const struct btrail_task *task)
{
    const struct thread_times_options *o = w->options;

    return (!o->vcpus || o->vcpus[vcpu]) &&
           (!o->comms || (task->known && g_strv_contains(
                (const char *const *)o->comms, task->name)));
}

/* For how much of a time that it was away a thread could have run */
static void add_wait(const struct thread_walk *w, struct follow *f,
                     uint64_t since, uint64_t until)
{
    bool blocked = f->state == THREAD_BLOCKED || f->state == THREAD_DEAD;
    uint64_t ns;

    /* It is back, so somebody has woken it, which seems to be later. */
    if (blocked && !f->awake && w->wakes && !w->strangers) {
        f->woken = until;
        f->awake = true;
    }
    if (blocked && f->awake && f->woken) {
        since = MAX(since, f->woken);
    } else if (f->state != THREAD_RUNNABLE) {
        f->time.waits_unknown++;
        return;
    }
    ns = times_between(w->times, since, until) / PACE_TICKS;
    f->time.waited += ns;
    f->time.waited_max = MAX(f->time.waited_max, ns);
}

/* A thread was away for some time. */
static void add_off(const struct thread_walk *w, struct follow *f,
                    const struct off_cpu_wait *wait, uint64_t until)
{
    uint64_t ns;

    if (!wait->counts) {
        return;
    }
    if (!wait->since || !until) {
        f->time.unknown++;
        return;
    }
    until = MAX(until, wait->since);
    ns = times_between(w->times, wait->since, until) / PACE_TICKS;
    if (ns || until == wait->since) {
        histogram_add(f->time.off, ns);
        f->time.off_sum += ns;
        add_wait(w, f, wait->since, until);
    }
}

/* Nobody knows which threads run. */
static void forget(struct thread_walk *w)
{
    off_cpu_forget(w->off);
    w->forgets++;
}

/* A vCPU has gone to another thread. */
static void leave(struct thread_walk *w, unsigned vcpu)
{
    struct thread_lane *l = &w->lanes[vcpu];
    struct follow *f = l->runs;
    const struct off_cpu_wait wait = { NULL, l->until, l->leaves };
    struct task task;

    l->runs = NULL;
    if (!f) {
        return;
    }
    f->time.switches += l->leaves;
    if (f->early == vcpu) {
        f->early = NOWHERE;
        add_off(w, f, &wait, f->came);
    } else if (f->vcpu == vcpu) {
        task = off_task(f);
        off_cpu_leaves(w->off, &task, &wait);
        f->vcpu = NOWHERE;
        f->lost = w->forgets;
    }
}

/* Does it wait for somebody to wake it? */
static bool is_asleep(const struct follow *f)
{
    return f->state == THREAD_BLOCKED && !f->awake;
}

/* It runs, and leaves as an event will say. */
static void set_running(struct follow *f, uint64_t time, bool owed)
{
    wake_order_comes(&f->order, time, owed);
    f->state = THREAD_UNKNOWN;
    f->awake = false;
}

/* A thread runs on a vCPU, from a moment on. */
static void come(struct thread_walk *w, unsigned vcpu, struct follow *f,
                 uint64_t time)
{
    struct off_cpu_wait wait;
    struct task task = off_task(f);

    bool owed = is_asleep(f);
    bool elsewhere = f->vcpu != NOWHERE && f->vcpu != vcpu;

    if (elsewhere && w->lanes[f->vcpu].runs == f) {
        f->early = f->vcpu;
        f->came = time;
    } else if (off_cpu_returns(w->off, &task, time, &wait)) {
        add_off(w, f, &wait, time);
    } else if (elsewhere || (f->vcpu == NOWHERE && f->lost != w->forgets)) {
        f->time.unknown++;
    }
    f->lost = w->forgets;
    f->vcpu = vcpu;
    set_running(f, time, owed);
    w->lanes[vcpu].runs = f;
}

/* Follows a thread to where records are, before these are added. */
static void follow(struct thread_walk *w, unsigned vcpu, struct follow *f,
                   uint64_t time)
{
    struct thread_lane *l = &w->lanes[vcpu];

    if (l->runs != f) {
        leave(w, vcpu);
        if (f->time.followed) {
            come(w, vcpu, f, time);
        }
    } else {
        /* It was away without a record of another thread. */
        set_running(f, time, is_asleep(f));
    }
}

/* The time that a vCPU has waited is that of the thread before it. */
static void add_wait_of(struct thread_lane *l, uint64_t wait)
{
    if (l->last && l->counts) {
        l->last->ticks += wait;
    }
}

/* Records of a thread count, which took time from @begin to @end, in host time
 * and 1/PACE_TICKS ns after that */
static void add_ran(const struct thread_walk *w, struct follow *f,
                    uint64_t host, uint64_t begin, uint64_t end)
{
    const struct window *window = &w->options->window;
    uint64_t from = window->start + window->begin;
    uint64_t ticks = times_count(w->times, host, begin, end);

    f->ticks += ticks;
    if (ticks) {
        /* What is in the window of them, up to a part of a nanosecond */
        begin = MAX(host + begin / PACE_TICKS, from);
        end = host + end / PACE_TICKS;
        if (window->end < UINT64_MAX - window->start) {
            end = MIN(end, window->start + window->end);
        }
        f->time.first = f->time.first ? MIN(f->time.first, begin) : begin;
        f->time.last = MAX(f->time.last, end);
    }
}

/* Adds records of one pace, all or none of which count. */
static void add_part(struct thread_walk *w, unsigned vcpu, struct follow *f,
                     const struct btrail_batch *b, uint64_t n, bool chosen,
                     bool in_set)
{
    struct thread_lane *l = &w->lanes[vcpu];
    struct lane_clock *c = &w->clocks[vcpu];
    uint64_t begin = lane_clock_ticks(c, c->n);
    uint64_t end = lane_clock_ticks(c, c->n + n);
    uint64_t host = c->pace->time;

    l->counts = chosen && (in_set || w->options->whole);
    if (chosen && in_set && window_has(&w->options->window, b->time.host)) {
        w->out->records += n;
    }
    if (l->counts && host) {
        add_ran(w, f, host, begin, end);
    }
    l->last = f;
    c->n += n;
    /* To a hypervisor's thread, its guest is a part of what it runs. */
    if (!b->task.nested) {
        l->until = host ? host + end / PACE_TICKS : 0;
        l->leaves = l->counts;
    }
}

/* The same from @index to before @end, of which some can be in the set */
static void add_parts(struct thread_walk *w, unsigned vcpu, struct follow *f,
                      const struct btrail_batch *b, uint64_t index,
                      uint64_t end)
{
    const struct record_set *set = w->options->set;
    bool chosen = chooses(w, vcpu, &b->task), in_set = true;
    uint64_t until = UINT64_MAX;

    while (index < end) {
        if (set) {
            in_set = record_set_has(set, vcpu, index, &until);
        }
        until = MIN(until, end);
        add_part(w, vcpu, f, b, until - index, chosen, in_set);
        index = until;
    }
}

static void add_batch(struct thread_walk *w, unsigned vcpu,
                      const struct btrail_batch *b)
{
    struct thread_lane *l = &w->lanes[vcpu];
    struct lane_clock *c = &w->clocks[vcpu];
    struct follow *f = thread_of(w, vcpu, b);
    uint64_t index = b->index, end = b->index + b->count, until;

    for (; index < end; index = until) {
        add_wait_of(l, lane_clock_record(c, index, w->waits));
        if (!b->task.known) {
            /* It can be any of those that are away. */
            forget(w);
            l->runs = NULL;
        } else if (!b->task.nested) {
            w->out->named = true;
            if (!w->options->ran) {
                follow(w, vcpu, f, lane_clock_now(c));
            }
        }
        until = MIN(end, c->pace->end);
        add_parts(w, vcpu, f, b, index, until);
    }
}

/* The thread whose records were last leaves, for the one that is named now. */
static void note_state(const struct thread_walk *w, struct thread_lane *l,
                       const struct btrail_event *e)
{
    struct follow *f = l->runs;
    struct btrail_left left;

    btrail_event_left(e, &left);
    if (left.known && f) {
        f->state = thread_state_left(&left);
        f->awake = wake_order_leaves(&f->order, l->until, w->slack,
                                     f->state == THREAD_BLOCKED);
        f->woken = f->order.woken;
    }
}

static void reach_event(struct thread_walk *w, unsigned vcpu,
                        const struct btrail_batch *b)
{
    add_wait_of(&w->lanes[vcpu],
                lane_clock_event(&w->clocks[vcpu], b, w->waits));
}

static void wake(struct thread_walk *w, unsigned vcpu,
                 const struct btrail_batch *b)
{
    struct btrail_wake woken;
    struct follow *f;
    uint64_t key[2], now;
    bool waits;

    btrail_event_wake(b->event, &woken);
    get_key(key, true, 0, &b->kernel, woken.pid, woken.tid);
    f = woken.known && !b->kernel.nested ?
        g_hash_table_lookup(w->threads, key) : NULL;
    w->wakes++;
    w->strangers += !woken.known;
    if (!f) {
        return;
    }
    reach_event(w, vcpu, b);
    now = lane_clock_now(&w->clocks[vcpu]);
    waits = !f->awake && (f->state == THREAD_BLOCKED ||
                          f->state == THREAD_DEAD);
    switch (wake_order_wakes(&f->order, now, w->slack, waits)) {
    case WAKE_OF_PRESENT:
    case WAKE_INSTEAD:
        f->awake = true;
        f->woken = now;
        break;
    default:
        break;
    }
}

static void add_event(struct thread_walk *w, unsigned vcpu,
                      const struct btrail_batch *b)
{
    struct thread_lane *l = &w->lanes[vcpu];

    if (b->event->type == BTRAIL_EVENT_END) {
        w->end = MAX(w->end, b->event->data[0]);
    }
    if (b->event->type == BTRAIL_EVENT_GAP) {
        /* A reset loses nothing. */
        w->out->gaps += b->event->data[0] &&
                        window_has(&w->options->window, b->time.host);
        reach_event(w, vcpu, b);
        l->runs = NULL;
        l->last = NULL;
        forget(w);
    }
    if (b->event->type == BTRAIL_EVENT_TASK) {
        note_state(w, l, b->event);
    } else if (b->event->type == BTRAIL_EVENT_WAKE && !w->options->ran) {
        wake(w, vcpu, b);
    }
}

/* Adds what is next of a vCPU.  False after the window. */
static bool add(struct thread_walk *w, unsigned vcpu,
                const struct btrail_batch *b)
{
    w->end = MAX(w->end, b->time.host);
    if (window_past(&w->options->window, b->time.host)) {
        return false;
    }
    if (b->event) {
        add_event(w, vcpu, b);
    } else {
        add_batch(w, vcpu, b);
    }
    return true;
}

static int read_all(struct thread_walk *w, const struct btrail_trace *trace)
{
    struct btrail_merged *merged;
    struct btrail_batch b;
    unsigned vcpu;
    int ret = btrail_merged_open(&merged, trace, NULL, 0,
                                 BTRAIL_CURSOR_COUNTS_ONLY,
                                 BTRAIL_MERGED_GRAIN);

    if (ret) {
        return ret;
    }
    while (!(ret = btrail_merged_next(merged, &vcpu, NULL, &b))) {
        if (!add(w, vcpu, &b)) {
            btrail_merged_end_stream(merged);
        }
    }
    w->out->damage += btrail_merged_damage(merged);
    btrail_merged_close(merged);
    return ret == -BTRAIL_ERR_END ? 0 : ret;
}

/* One vCPU after another: where threads were meanwhile is not asked for. */
static int read_each(struct thread_walk *w, const struct btrail_trace *trace)
{
    struct btrail_stream_info info;
    int ret = 0;

    for (unsigned i = 0; !ret && !btrail_trace_stream(trace, i, &info); i++) {
        struct btrail_cursor *cursor;
        struct btrail_batch b;

        ret = btrail_cursor_open(&cursor, trace, info.vcpu,
                                 BTRAIL_CURSOR_COUNTS_ONLY);
        if (ret) {
            return ret;
        }
        while (!(ret = btrail_cursor_next(cursor, &b)) &&
               add(w, info.vcpu, &b)) {
            continue;
        }
        ret = ret == -BTRAIL_ERR_END ? 0 : ret;
        w->out->damage += btrail_cursor_damage(cursor);
        btrail_cursor_close(cursor);
    }
    return ret;
}

/* What vCPUs have waited at the end */
static void add_last_waits(struct thread_walk *w)
{
    for (unsigned i = 0; i < BTRAIL_MAX_VCPUS; i++) {
        add_wait_of(&w->lanes[i], lane_clock_end(&w->clocks[i], w->waits));
    }
}

/* Threads that are away at the end */
static void add_away(struct thread_walk *w)
{
    for (guint i = 0; i < w->out->threads->len; i++) {
        struct follow *f = w->out->threads->pdata[i];
        struct task task = off_task(f);
        struct off_cpu_wait wait;

        f->time.ran = f->ticks / PACE_TICKS;
        if (off_cpu_returns(w->off, &task, 0, &wait) && wait.counts &&
            wait.since) {
            f->time.away = true;
            f->time.away_ns = times_between(w->times, wait.since, w->end) /
                              PACE_TICKS;
        }
    }
}

int thread_times_read(struct thread_times *t, const struct btrail_trace *trace,
                      const struct thread_times_options *options)
{
    struct thread_walk *w = g_new0(struct thread_walk, 1);
    struct times *own = options->times ? NULL :
                        times_new(&options->window, NULL);
    int ret, error;

    *t = (struct thread_times) {
        .threads = g_ptr_array_new_with_free_func(free_follow),
        .budget.left = HISTOGRAM_BUDGET,
    };
    w->options = options;
    w->out = t;
    w->times = options->times ?: own;
    w->waits = options->waits ?: w->times;
    w->threads = g_hash_table_new(btrail_pair_hash, btrail_pair_equal);
    w->others = new_follow(w);
    w->slack = wake_order_slack(options->tick);
    w->off = off_cpu_new(w->slack);
    ret = lane_clocks_open(w->clocks, trace, options->tick, 0) ?:
          (options->ran ? read_each : read_all)(w, trace);
    error = errno;
    if (!ret) {
        add_last_waits(w);
        add_away(w);
        t->others = w->others->ticks / PACE_TICKS;
    }
    lane_clocks_close(w->clocks);
    off_cpu_free(w->off);
    free_follow(w->others);
    g_hash_table_unref(w->threads);
    g_free(w);
    times_free(own);
    if (ret) {
        thread_times_clear(t);
    }
    errno = error;
    return ret;
}

void thread_times_clear(struct thread_times *t)
{
    g_clear_pointer(&t->threads, g_ptr_array_unref);
}
