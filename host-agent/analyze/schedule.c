/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which task each vCPU runs: see schedule.h
 *
 * Whether a state lasts is known only when its task is back.  So a first
 * reading notes that of each state, in the order in which states begin, and a
 * second one reports them.
 */

#include <errno.h>
#include <string.h>

#include "analyze/lane-clock.h"
#include "analyze/schedule.h"
#include "analyze/thread-state.h"
#include "analyze/wake-order.h"
#include "lib/agent/merged.h"
#include "util/hash.h"

#define NOWHERE     UINT32_MAX
#define NO_STATE    UINT64_MAX

/**
 * struct schedule_task - a task
 * @key:    its kernel, process and number
 * @vcpu:   that runs it, or NOWHERE
 * @last:   when something was reported of it
 * @number: of the state that it is in, or NO_STATE
 * @state:  that; UNKNOWN of a task that is woken and was not seen to leave
 * @left:   it was seen to leave
 * @woken:  it was woken since then
 * @sure:   in the second reading: that state, and whether it is woken from it,
 *          is known
 * @forgets, @strangers, @told: those of struct schedule_walk when the state
 *          began
 * @order:  of its wake-ups; @early_wake: the last one where it did not wait
 * @there:  a vCPU that is read later has not left it yet, although it runs on
 *          @vcpu; or NOWHERE.  @order_there, @wake_there: the same of that
 * @came:   when it came to @vcpu
 * @past_since: since when it was away before, in a state that is known if
 *          @past_sure
 */
struct schedule_task {
    struct btrail_task task;
    uint64_t key[2];
    uint32_t vcpu;
    uint64_t last;
    uint64_t number;
    enum schedule_state state;
    bool left;
    bool woken;
    bool sure;
    uint64_t forgets;
    uint64_t strangers;
    bool told;
    struct wake_order order;
    struct schedule_wake early_wake;
    uint32_t there;
    struct wake_order order_there;
    struct schedule_wake wake_there;
    uint64_t came;
    uint64_t past_since;
    bool past_sure;
};

/**
 * struct schedule_lane - a vCPU
 * @begun: it has run something: @runs, or if that is NULL nobody knows what
 * @shown: that was reported
 * @state: in which @runs leaves, as far as the next event says
 * @last:  the time of its last report
 * @bound: its reports come at the latest then, up to where it leaves @runs,
 *         which runs elsewhere after that
 * @kernel: the number of the last one
 * @end:   when its stream has ended, or 0
 */
struct schedule_lane {
    bool begun;
    bool shown;
    struct schedule_task *runs;
    enum schedule_state state;
    uint64_t last;
    uint64_t bound;
    unsigned kernel;
    uint64_t end;
};

/**
 * struct schedule_walk
 * @ops:       NULL in the first reading
 * @unsure:    a bit for each state
 * @states:    up to now
 * @forgets:   how often nobody knew which tasks run
 * @strangers: how often somebody was woken, and it is not known who
 * @told:      somebody was woken
 * @slack:     see wake-order.h
 * @begin:     of what is reported
 * @until:     the last clock that was read
 */
struct schedule_walk {
    const struct schedule_options *options;
    const struct schedule_ops *ops;
    void *opaque;
    struct schedule_sums *sums;
    struct btrail_merged *merged;
    struct schedule_lane lanes[BTRAIL_MAX_VCPUS];
    struct lane_clock clocks[BTRAIL_MAX_VCPUS];
    GHashTable *tasks;          /* key -> struct schedule_task */
    GByteArray *unsure;
    uint64_t states;
    uint64_t forgets;
    uint64_t strangers;
    bool told;
    uint64_t slack;
    uint64_t begin;
    uint64_t until;
};

static void set_unsure(struct schedule_walk *w, uint64_t number)
{
    if (number / 8 >= w->unsure->len) {
        guint old = w->unsure->len;

        g_byte_array_set_size(w->unsure, MAX(2 * old, number / 8 + 4096));
        memset(w->unsure->data + old, 0, w->unsure->len - old);
    }
    w->unsure->data[number / 8] |= 1u << number % 8;
}

static bool is_unsure(const struct schedule_walk *w, uint64_t number)
{
    return number / 8 < w->unsure->len &&
           w->unsure->data[number / 8] >> number % 8 & 1;
}

/* A task begins to be in a state in which it does not run. */
static void begin_state(struct schedule_walk *w, struct schedule_task *t,
                        enum schedule_state state, bool left)
{
    t->number = w->states++;
    t->state = state;
    t->left = left;
    t->woken = false;
    t->forgets = w->forgets;
    t->strangers = w->strangers;
    t->told = w->told;
    t->sure = w->ops && !is_unsure(w, t->number);
}

/* The state of a task ends, because it runs, or because all does. */
static void end_state(struct schedule_walk *w, struct schedule_task *t)
{
    bool waits = t->left && t->state != SCHEDULE_RUNNABLE && !t->woken;

    if (t->number != NO_STATE && !w->ops && t->state != SCHEDULE_DEAD &&
        (t->forgets != w->forgets || w->options->some ||
         (waits && (!t->told || t->strangers != w->strangers)))) {
        set_unsure(w, t->number);
    }
    t->number = NO_STATE;
}

static struct schedule_task *new_task(struct schedule_walk *w,
                                      const uint64_t key[2])
{
    unsigned most = w->options->most ?: SCHEDULE_MOST;
    struct schedule_task *t;

    if (g_hash_table_size(w->tasks) >= most) {
        return NULL;
    }
    t = g_new0(struct schedule_task, 1);
    memcpy(t->key, key, sizeof(t->key));
    t->vcpu = t->there = NOWHERE;
    t->number = NO_STATE;
    t->forgets = w->forgets;
    g_hash_table_insert(w->tasks, t->key, t);
    return t;
}

/* The task that made the records of a batch; NULL if there are too many. */
static struct schedule_task *task_of(struct schedule_walk *w,
                                     const struct btrail_batch *b)
{
    struct schedule_task *t;
    uint64_t key[2];

    thread_key(key, &b->kernel, b->task.pid, b->task.tid, 0);
    t = g_hash_table_lookup(w->tasks, key) ?: new_task(w, key);
    if (t) {
        t->task = b->task;
    }
    return t;
}

static bool is_idle(const struct schedule_task *t)
{
    return t && !t->key[1];
}

/* Are moments reported? */
static bool reports(const struct schedule_walk *w, uint64_t time)
{
    return w->ops && time && time >= w->begin;
}

static void put_run(struct schedule_walk *w, unsigned vcpu, uint64_t time,
                    const struct schedule_task *t, enum schedule_state state,
                    bool unknown)
{
    struct schedule_lane *l = &w->lanes[vcpu];
    const struct schedule_run run = {
        .vcpu = vcpu, .time = time, .task = t ? t->task :
        (struct btrail_task) { .known = false }, .state = state,
        .first = !l->shown,
    };

    if (!reports(w, time)) {
        return;
    }
    w->sums->runs++;
    w->sums->unknown += unknown && l->shown;
    w->ops->run(w->opaque, &run);
    l->shown = true;
}

static void put_wake(struct schedule_walk *w, struct schedule_task *t,
                     const struct schedule_wake *wake)
{
    /* Who could run already is not woken, nor is who has ended. */
    if (reports(w, wake->time) && t->sure &&
        !(t->left && (t->state == SCHEDULE_RUNNABLE ||
                      (t->state == SCHEDULE_DEAD && !wake->task.is_new)))) {
        w->sums->wakes++;
        w->ops->wake(w->opaque, wake);
    }
}

/* A vCPU leaves a task, which is in a state since then, for another one. */
static void put_leave(struct schedule_walk *w, unsigned vcpu,
                      const struct schedule_task *t,
                      const struct schedule_task *left)
{
    enum schedule_state state = left->sure ? left->state : SCHEDULE_UNKNOWN;

    put_run(w, vcpu, left->last, t, state, state == SCHEDULE_UNKNOWN);
}

/* Does a task that has left like this wait for somebody to wake it? */
static bool waits_in(enum schedule_state state)
{
    return state != SCHEDULE_RUNNABLE && state != SCHEDULE_DEAD;
}

/* A task has left; it can have been woken before that was seen. */
static void put_early(struct schedule_walk *w, struct schedule_task *t,
                      struct wake_order *order, struct schedule_wake *wake)
{
    if (wake_order_leaves(order, t->last, w->slack, waits_in(t->state))) {
        wake->time = MAX(wake->time, t->last + 1);
        t->last = wake->time;
        t->woken = true;
        put_wake(w, t, wake);
    }
}

/* Nobody knows which tasks run. */
static void forget(struct schedule_walk *w)
{
    w->forgets++;
}

/* A vCPU goes to another task, or to NULL, at a moment. */
static void change(struct schedule_walk *w, unsigned vcpu, uint64_t time,
                   struct schedule_task *t)
{
    struct schedule_lane *l = &w->lanes[vcpu];
    struct schedule_task *before = l->runs;

    l->runs = t;
    l->begun = true;
    l->last = time;
    l->bound = UINT64_MAX;
    if (is_idle(before) || (before && before->vcpu != vcpu &&
                            before->there != vcpu)) {
        before = NULL;
    }
    if (!before) {
        put_run(w, vcpu, time, t, SCHEDULE_UNKNOWN, false);
    } else if (before->there == vcpu) {
        struct schedule_task past = *before;

        /* It is back already, elsewhere. */
        before->there = NOWHERE;
        past.last = time;
        begin_state(w, &past, l->state, true);
        put_leave(w, vcpu, t, &past);
        put_early(w, &past, &past.order_there, &past.wake_there);
        end_state(w, &past);
    } else {
        before->vcpu = NOWHERE;
        before->last = time;
        begin_state(w, before, l->state, true);
        put_leave(w, vcpu, t, before);
        put_early(w, before, &before->order, &before->early_wake);
    }
    l->state = SCHEDULE_UNKNOWN;
}

/* A task runs here, although the vCPU where it was has not left it: that is
 * read later, and it does so before. */
static uint64_t come_early(struct schedule_walk *w, struct schedule_task *t,
                           uint64_t time)
{
    struct schedule_lane *other = &w->lanes[t->vcpu];

    if (t->there != NOWHERE) {
        w->lanes[t->there].state = SCHEDULE_UNKNOWN;
        change(w, t->there, w->lanes[t->there].bound, NULL);
    }
    time = MAX(time, other->last + 3);
    other->bound = time - 2;
    t->there = t->vcpu;
    t->order_there = t->order;
    t->wake_there = t->early_wake;
    t->order.early = false;
    return time;
}

/* Reports what a vCPU has run since before the window. */
static void show(struct schedule_walk *w, unsigned vcpu,
                 const struct schedule_task *t)
{
    struct schedule_lane *l = &w->lanes[vcpu];

    if (!l->shown && l->begun) {
        l->last = MAX(l->last, w->begin);
        put_run(w, vcpu, l->last, t, SCHEDULE_UNKNOWN, false);
    }
}

/* A task begins to run on a vCPU. */
static void come(struct schedule_walk *w, unsigned vcpu, uint64_t time,
                 struct schedule_task *t)
{
    struct schedule_lane *l = &w->lanes[vcpu];
    bool owed = false;

    if (time >= w->begin) {
        show(w, vcpu, l->runs);
    }
    time = MAX(time, l->last);
    if (t && !is_idle(t)) {
        if (t->vcpu != NOWHERE && t->vcpu != vcpu) {
            time = come_early(w, t, time);
        } else {
            owed = t->number != NO_STATE && !t->woken && t->left &&
                   waits_in(t->state);
            t->past_since = t->last;
            t->past_sure = t->sure;
        }
        if (time && t->last >= time) {
            time = t->last + 1;
        }
        end_state(w, t);
        t->woken = false;
    }
    if (time > l->bound) {
        change(w, vcpu, l->bound, NULL);
    }
    change(w, vcpu, time, t);
    if (t && !is_idle(t)) {
        t->vcpu = vcpu;
        t->last = t->came = time;
        wake_order_comes(&t->order, time, owed);
    }
}

/* Moves on to an event.  Returns the time, or 0 if nobody knows it. */
static uint64_t reach_event(struct schedule_walk *w, unsigned vcpu,
                            const struct btrail_batch *b)
{
    struct lane_clock *c = &w->clocks[vcpu];

    lane_clock_begin(c, b);
    lane_clock_event(c, b, NULL);
    return lane_clock_now(c);
}

static void follow(struct schedule_walk *w, unsigned vcpu,
                   const struct btrail_batch *b)
{
    struct schedule_lane *l = &w->lanes[vcpu];
    struct schedule_task *t = b->task.known ? task_of(w, b) : NULL;
    uint64_t time = lane_clock_now(&w->clocks[vcpu]);

    if (b->kernel.known && b->kernel.number) {
        if (l->kernel && l->kernel != b->kernel.number) {
            forget(w);
        }
        l->kernel = b->kernel.number;
    }
    if (!t) {
        /* It can be any of those that do not run. */
        forget(w);
    }
    w->sums->named |= t != NULL;
    if (!l->begun || l->runs != t) {
        come(w, vcpu, time, t);
    } else {
        if (time >= w->begin) {
            show(w, vcpu, t);
        }
        /* It was away without a record of another task. */
        l->state = SCHEDULE_UNKNOWN;
    }
}

static void add_batch(struct schedule_walk *w, unsigned vcpu,
                      const struct btrail_batch *b)
{
    struct lane_clock *c = &w->clocks[vcpu];
    uint64_t index = b->index, end = b->index + b->count;

    lane_clock_record(c, index, NULL);
    if (!b->task.nested && !b->kernel.nested) {
        follow(w, vcpu, b);
    }
    while (index < end) {
        uint64_t n;

        lane_clock_record(c, index, NULL);
        n = MIN(end, c->pace->end) - index;
        c->n += n;
        index += n;
    }
}

/* The task of a vCPU leaves, for one that is named now. */
static void note_state(struct schedule_lane *l, const struct btrail_event *e)
{
    struct btrail_left left;

    btrail_event_left(e, &left);
    if (left.known && l->runs) {
        l->state = left.runnable ? SCHEDULE_RUNNABLE :
                   left.dead ? SCHEDULE_DEAD :
                   left.interruptible ? SCHEDULE_INTERRUPTIBLE :
                   left.uninterruptible ? SCHEDULE_UNINTERRUPTIBLE :
                   SCHEDULE_UNKNOWN;
    }
}

/* The wait was over before the task that is woken was seen to be back. */
static void put_past(struct schedule_walk *w, struct schedule_task *t,
                     struct schedule_wake *wake)
{
    wake->late = true;
    if (t->came > t->past_since + 1) {
        wake->time = CLAMP(wake->time, t->past_since + 1, t->came - 1);
        if (reports(w, wake->time) && t->past_sure) {
            w->sums->wakes++;
            w->ops->wake(w->opaque, wake);
        }
    }
}

static void add_wake(struct schedule_walk *w, unsigned vcpu,
                     const struct btrail_batch *b)
{
    struct schedule_lane *l = &w->lanes[vcpu];
    struct schedule_wake wake = { .vcpu = vcpu };
    struct schedule_task *t;
    uint64_t key[2], now = reach_event(w, vcpu, b);

    btrail_event_wake(b->event, &wake.task);
    w->told = w->sums->woken = true;
    if (!wake.task.known || !now) {
        w->strangers++;
        return;
    }
    if (b->kernel.nested || !wake.task.tid) {
        return;
    }
    if (b->task.known && !b->task.nested) {
        /* It has no record yet. */
        follow(w, vcpu, b);
    }
    thread_key(key, &b->kernel, wake.task.pid, wake.task.tid, 0);
    t = g_hash_table_lookup(w->tasks, key) ?: new_task(w, key);
    if (!t || t == l->runs) {
        return;
    }
    if (!t->task.known) {
        t->task.tid = wake.task.tid;
        t->task.pid = wake.task.pid;
    }
    wake.time = MAX(now, l->last);
    if (l->runs) {
        wake.waker = l->runs->task;
    }
    switch (wake_order_wakes(&t->order, wake.time, w->slack,
                             t->vcpu == NOWHERE && !t->woken)) {
    case WAKE_OF_PAST:
        put_past(w, t, &wake);
        return;
    case WAKE_INSTEAD:
        /* The other one was reported. */
        return;
    case WAKE_OF_NEXT:
        wake.late = true;
        t->early_wake = wake;
        return;
    default:
        break;
    }
    if (t->number == NO_STATE) {
        begin_state(w, t, SCHEDULE_UNKNOWN, false);
    }
    t->woken = true;
    if (t->last >= wake.time) {
        wake.time = t->last + 1;
    }
    t->last = wake.time;
    wake.late = wake.time > l->bound;
    if (!wake.late) {
        if (wake.time >= w->begin) {
            show(w, vcpu, l->runs);
        }
        l->last = wake.time;
    }
    put_wake(w, t, &wake);
}

static void add_event(struct schedule_walk *w, unsigned vcpu,
                      const struct btrail_batch *b)
{
    struct schedule_lane *l = &w->lanes[vcpu];
    uint64_t now;

    switch (b->event->type) {
    case BTRAIL_EVENT_GAP:
        now = reach_event(w, vcpu, b);
        forget(w);
        if (l->begun && l->runs) {
            l->state = SCHEDULE_UNKNOWN;
            come(w, vcpu, now, NULL);
        }
        break;
    case BTRAIL_EVENT_TASK:
        note_state(l, b->event);
        break;
    case BTRAIL_EVENT_WAKE:
        add_wake(w, vcpu, b);
        break;
    case BTRAIL_EVENT_END:
        l->end = b->event->data[0];
        w->until = MAX(w->until, l->end);
        break;
    default:
        break;
    }
}

static int read_all(struct schedule_walk *w)
{
    const struct window *window = &w->options->window;
    struct btrail_batch b;
    unsigned vcpu;
    int ret;

    while (!(ret = btrail_merged_next(w->merged, &vcpu, NULL, &b))) {
        w->until = MAX(w->until, b.time.host);
        if (window_past(window, b.time.host)) {
            btrail_merged_end_stream(w->merged);
        } else if (b.event) {
            add_event(w, vcpu, &b);
        } else {
            add_batch(w, vcpu, &b);
        }
    }
    return ret == -BTRAIL_ERR_END ? 0 : ret;
}

/* A vCPU whose stream ended before the others does not run its last task. */
static void end_lanes(struct schedule_walk *w)
{
    for (unsigned i = 0; i < BTRAIL_MAX_VCPUS; i++) {
        struct schedule_lane *l = &w->lanes[i];

        if (l->end && l->runs && w->until - l->end > 2 * w->options->tick &&
            w->options->tick) {
            forget(w);
            l->state = SCHEDULE_UNKNOWN;
            come(w, i, l->end, NULL);
        }
    }
}

static void end_tasks(struct schedule_walk *w)
{
    GHashTableIter iter;
    gpointer task;

    g_hash_table_iter_init(&iter, w->tasks);
    while (g_hash_table_iter_next(&iter, NULL, &task)) {
        end_state(w, task);
    }
}

static int read_once(struct schedule_walk *w, const struct btrail_trace *trace)
{
    int ret = btrail_merged_open(&w->merged, trace, NULL, 0,
                                 BTRAIL_CURSOR_COUNTS_ONLY,
                                 BTRAIL_MERGED_GRAIN) ?:
              lane_clocks_open(w->clocks, trace, w->options->tick, 0), error;

    w->tasks = g_hash_table_new_full(btrail_pair_hash, btrail_pair_equal,
                                     NULL, g_free);
    for (unsigned i = 0; i < BTRAIL_MAX_VCPUS; i++) {
        w->lanes[i].bound = UINT64_MAX;
    }
    ret = ret ?: read_all(w);
    error = errno;
    if (!ret) {
        end_lanes(w);
        end_tasks(w);
    }
    lane_clocks_close(w->clocks);
    btrail_merged_close(w->merged);
    g_hash_table_unref(w->tasks);
    errno = error;
    return ret;
}

int schedule_read(const struct btrail_trace *trace,
                  const struct schedule_options *options,
                  const struct schedule_ops *ops, void *opaque,
                  struct schedule_sums *sums)
{
    g_autoptr(GByteArray) unsure = g_byte_array_new();
    const struct window *window = &options->window;
    int ret = 0;

    *sums = (struct schedule_sums) { 0 };
    for (unsigned i = 0; !ret && i < 2; i++) {
        g_autofree struct schedule_walk *w = g_new0(struct schedule_walk, 1);

        w->options = options;
        w->ops = i ? ops : NULL;
        w->opaque = opaque;
        w->sums = sums;
        w->unsure = unsure;
        w->slack = wake_order_slack(options->tick);
        w->begin = !window->begin ? 0 : window->start +
                   MIN(window->begin, UINT64_MAX - window->start);
        ret = read_once(w, trace);
    }
    return ret;
}
