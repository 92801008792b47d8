/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The state of every thread at every moment: see thread-states.h
 */

#include <errno.h>
#include <string.h>

#include "analyze/thread-states.h"
#include "analyze/wake-order.h"
#include "lib/agent/merged.h"
#include "lib/agent/meta.h"
#include "lib/agent/trace-files.h"
#include "util/hash.h"
#include "util/search.h"

#define NOWHERE     UINT32_MAX
#define NO_PART     UINT32_MAX

/* From so long before the begin on events are read, to know who runs then */
#define MARGIN      UINT64_C(100000000)

/**
 * struct states_track - a thread while events are read
 * @key:     its kernel, process and number
 * @vcpu:    that runs it, or NOWHERE
 * @forgets: all that is known of it is since so many of struct states_walk's
 * @late:    its part that ended by an unseen wake-up; or NO_PART
 * @early:   the last wake-up that came where it did not wait
 */
struct states_track {
    struct states_thread thread;
    uint64_t key[2];
    uint32_t vcpu;
    unsigned forgets;
    uint32_t late;
    uint32_t early;
    struct wake_order order;
};

/* What a vCPU runs from a time on; NULL: nobody knows */
struct vcpu_run {
    const struct states_thread *thread;
    uint64_t begin;
};

/**
 * struct thread_states
 * @runs:  of each vCPU, of struct vcpu_run
 * @items: how many there are of all kinds
 */
struct thread_states {
    GPtrArray *threads;
    GHashTable *by_key;
    GArray *wakes;
    GArray *runs[BTRAIL_MAX_VCPUS];
    unsigned items;
    uint64_t end;
    uint64_t until;
    uint64_t damage;
};

/**
 * struct states_lane - a vCPU
 * @track:   that it runs; or NULL
 * @unknown: nobody knows what it runs
 * @nested:  a nested guest, as its hypervisor's thread
 * @unnamed: it is unknown from the index @unnamed_at on, since the time
 *           @unnamed_since, if no event names a task there
 * @index:   of a next record
 */
struct states_lane {
    struct states_track *track;
    bool unknown;
    bool nested;
    bool unnamed;
    uint64_t unnamed_at;
    uint64_t unnamed_since;
    uint64_t index;
};

/**
 * struct states_walk
 * @slack:    in ns
 * @unknowns: lanes that are
 * @known_since: if there are none; what did not run since then can be told
 * @strangers: wake-ups of nobody knows whom
 * @forgets:  of uint64_t, when it was lost which threads were away
 */
struct states_walk {
    const struct thread_states_options *options;
    struct thread_states *s;
    struct states_lane lanes[BTRAIL_MAX_VCPUS];
    uint64_t slack;
    unsigned unknowns;
    uint64_t known_since;
    uint64_t strangers;
    GArray *forgets;
    uint64_t begin;
    bool full;
};

static void free_track(gpointer p)
{
    struct states_track *f = p;

    g_array_unref(f->thread.parts);
    g_free(f);
}

/* One event takes few of them, so those that are too many are, too. */
static void take_item(struct states_walk *w)
{
    unsigned most = w->options->items ?: THREAD_STATES_ITEMS;

    w->full |= ++w->s->items >= most;
}

static struct thread_part *part_of(struct states_track *f, unsigned i)
{
    return &g_array_index(f->thread.parts, struct thread_part, i);
}

static struct thread_part *last_part(struct states_track *f)
{
    return part_of(f, f->thread.parts->len - 1);
}

/* Begins a part, which does not begin before the last one. */
static struct thread_part *add_part(struct states_walk *w,
                                    struct states_track *f,
                                    enum thread_state state, uint64_t time)
{
    GArray *parts = f->thread.parts;
    struct thread_part part = {
        .begin = parts->len ? MAX(time, last_part(f)->begin) : time,
        .state = state, .index = THREAD_NO_INDEX, .vcpu = NOWHERE,
        .wake = THREAD_NO_WAKE,
    };

    take_item(w);
    g_array_append_val(parts, part);
    return last_part(f);
}

/*
 * Idle tasks are many with one number.  Returns NULL if there are too many
 * threads.
 */
static struct states_track *get_track(struct states_walk *w,
                                      const struct btrail_kernel *kernel,
                                      const struct btrail_task *task,
                                      unsigned vcpu)
{
    struct states_track *f;
    uint64_t key[2];

    thread_key(key, kernel, task->pid, task->tid, UINT64_MAX - vcpu);
    f = g_hash_table_lookup(w->s->by_key, key);
    if (!f && w->s->threads->len < THREAD_STATES_THREADS) {
        f = g_new0(struct states_track, 1);
        memcpy(f->key, key, sizeof(key));
        f->thread.task = *task;
        f->thread.kernel = key[0];
        f->thread.parts = g_array_new(FALSE, FALSE, sizeof(struct thread_part));
        f->vcpu = NOWHERE;
        f->late = NO_PART;
        f->early = THREAD_NO_WAKE;
        f->forgets = w->forgets->len;
        g_hash_table_insert(w->s->by_key, f->key, f);
        g_ptr_array_add(w->s->threads, f);
        add_part(w, f, THREAD_UNKNOWN, w->begin);
    }
    w->full |= !f;
    return f;
}

/*
 * No wake-up was late: if all are seen, a thread that was not seen before could
 * have run since then.
 */
static void settle(struct states_walk *w, struct states_track *f)
{
    struct thread_part *p;

    if (f->late != NO_PART) {
        p = part_of(f, f->late);
        if (p->index == THREAD_NO_INDEX && w->s->wakes->len && !w->strangers) {
            p->state = THREAD_RUNNABLE;
        }
        f->late = NO_PART;
        f->order.owed = false;
    }
}

/* What was known of a thread that does not run may have ended meanwhile. */
static void sync_track(struct states_walk *w, struct states_track *f)
{
    if (f->vcpu == NOWHERE && f->forgets < w->forgets->len &&
        last_part(f)->state != THREAD_DEAD &&
        last_part(f)->state != THREAD_UNKNOWN) {
        add_part(w, f, THREAD_UNKNOWN, g_array_index(w->forgets, uint64_t,
                                                     f->forgets));
    }
    f->forgets = w->forgets->len;
}

static void forget(struct states_walk *w, uint64_t time)
{
    take_item(w);
    g_array_append_val(w->forgets, time);
}

static void add_run(struct states_walk *w, unsigned vcpu,
                    struct states_track *f, uint64_t time)
{
    GArray **runs = &w->s->runs[vcpu];
    const struct vcpu_run run = { f ? &f->thread : NULL, time };

    if (!*runs) {
        *runs = g_array_new(FALSE, FALSE, sizeof(run));
    }
    take_item(w);
    g_array_append_val(*runs, run);
}

static void set_unknown(struct states_walk *w, struct states_lane *l,
                        bool unknown, uint64_t time)
{
    if (unknown == l->unknown) {
        return;
    }
    l->unknown = unknown;
    w->unknowns += unknown ? 1 : -1;
    if (unknown) {
        forget(w, time);
    } else if (!w->unknowns) {
        w->known_since = time;
    }
}

/* Can nothing be told of threads that do not run? */
static bool is_blind(const struct states_walk *w)
{
    return w->unknowns || !w->options->whole;
}

static enum thread_state state_after(const struct states_walk *w,
                                     const struct btrail_left *left)
{
    enum thread_state state = thread_state_left(left);

    return is_blind(w) && state != THREAD_DEAD ? THREAD_UNKNOWN : state;
}

/* It had been woken before it was seen to leave. */
static void use_early(struct states_walk *w, struct states_track *f,
                      uint64_t time)
{
    uint32_t wake = f->early;
    struct thread_part left;

    last_part(f)->wake = wake;
    left = *last_part(f);
    add_part(w, f, THREAD_RUNNABLE, time);
    last_part(f)->index = left.index;
    last_part(f)->vcpu = left.vcpu;
    last_part(f)->wake = wake;
}

/* A vCPU has gone to another thread, before the record @index. */
static void leave(struct states_walk *w, unsigned vcpu, uint64_t time,
                  uint64_t index, const struct btrail_left *left)
{
    struct states_lane *l = &w->lanes[vcpu];
    struct states_track *f = l->track;
    struct thread_part *p;

    l->track = NULL;
    /* It can have been seen on another vCPU before. */
    if (!f || f->vcpu != vcpu) {
        return;
    }
    p = last_part(f);
    p->end_index = MAX(index, p->index);
    f->vcpu = NOWHERE;
    f->forgets = w->forgets->len;
    p = add_part(w, f, f->thread.task.tid ? state_after(w, left) :
                 THREAD_UNKNOWN, time);
    p->index = index ? index - 1 : THREAD_NO_INDEX;
    p->vcpu = vcpu;
    p->interruptible = left->interruptible;
    p->uninterruptible = left->uninterruptible;
    if (wake_order_leaves(&f->order, time, w->slack,
                          p->state == THREAD_BLOCKED)) {
        use_early(w, f, time);
    }
}

/*
 * A thread that was not seen to be woken runs.  If the whole of what vCPUs did
 * since it was first looked for is known, it could have run all that time; or a
 * wake-up follows that seems late.
 */
static void end_wait(struct states_walk *w, struct states_track *f,
                     uint64_t time)
{
    struct thread_part *p = last_part(f);

    if (p->state == THREAD_BLOCKED) {
        p->state = THREAD_UNKNOWN;
    } else if (p->state != THREAD_UNKNOWN || is_blind(w) ||
               p->begin < w->known_since || p->begin == time) {
        return;
    }
    f->late = f->thread.parts->len - 1;
}

static void come(struct states_walk *w, unsigned vcpu, struct states_track *f,
                 uint64_t time, uint64_t index)
{
    struct thread_part *p;

    settle(w, f);
    if (f->vcpu == NOWHERE) {
        sync_track(w, f);
        end_wait(w, f, time);
    } else {
        p = last_part(f);
        p->end_index = MAX(w->lanes[f->vcpu].index, p->index);
    }
    wake_order_comes(&f->order, time, f->late != NO_PART);
    p = add_part(w, f, THREAD_RUNNING, time);
    p->index = p->end_index = index;
    p->vcpu = vcpu;
    f->vcpu = vcpu;
    w->lanes[vcpu].track = f;
}

/* A vCPU runs a thread, or nobody knows which, from a record on. */
static void run(struct states_walk *w, unsigned vcpu, struct states_track *f,
                uint64_t time, uint64_t index, const struct btrail_left *left)
{
    struct states_lane *l = &w->lanes[vcpu];

    l->unnamed = false;
    if (f && f == l->track && f->vcpu == vcpu) {
        return;
    }
    if (!f && l->unknown) {
        return;
    }
    leave(w, vcpu, time, index, left);
    set_unknown(w, l, !f, time);
    if (f) {
        come(w, vcpu, f, time, index);
    }
    add_run(w, vcpu, f, time);
}

static void lose(struct states_walk *w, unsigned vcpu, uint64_t time,
                 uint64_t index)
{
    run(w, vcpu, NULL, time, index, &(struct btrail_left) { 0 });
}

static uint32_t add_wake(struct states_walk *w, unsigned vcpu, uint64_t time,
                         uint64_t index, bool is_new)
{
    struct states_track *by = w->lanes[vcpu].track;
    const struct thread_wake wake = {
        .by = by ? &by->thread : NULL, .index = index ? index - 1 : 0,
        .time = time, .vcpu = vcpu, .is_new = is_new,
    };

    take_item(w);
    g_array_append_val(w->s->wakes, wake);
    return w->s->wakes->len - 1;
}

static void become_runnable(struct states_walk *w, struct states_track *f,
                            uint64_t time, uint32_t wake)
{
    const struct thread_part before = *last_part(f);
    struct thread_part *p;

    if (before.state == THREAD_BLOCKED) {
        last_part(f)->wake = wake;
    }
    p = add_part(w, f, is_blind(w) ? THREAD_UNKNOWN : THREAD_RUNNABLE, time);
    p->index = before.index;
    p->vcpu = before.vcpu;
    p->wake = wake;
}

/* Whoever is woken could not run before, and had not run since it was last
 * known what all vCPUs do. */
static void was_blocked(struct states_walk *w, struct states_track *f)
{
    struct thread_part *p = last_part(f);
    uint64_t index = p->index;
    unsigned vcpu = p->vcpu;

    if (is_blind(w)) {
        return;
    }
    if (p->begin < w->known_since) {
        p = add_part(w, f, THREAD_BLOCKED, w->known_since);
        p->index = index;
        p->vcpu = vcpu;
    }
    p->state = THREAD_BLOCKED;
}

/* A wake-up was that of the wait that ended without one. */
static void end_late(struct states_track *f, uint32_t wake)
{
    struct thread_part *p;

    if (f->late != NO_PART) {
        p = part_of(f, f->late);
        p->state = THREAD_BLOCKED;
        p->wake = wake;
        f->late = NO_PART;
    }
}

/* The wake-up before was that of another wait, so it was blocked on. */
static void wake_instead(struct states_walk *w, struct states_track *f,
                         uint64_t time, uint32_t wake)
{
    const struct thread_part after = *last_part(f);
    guint n = f->thread.parts->len;

    if (after.state == THREAD_RUNNABLE && n > 1 &&
        part_of(f, n - 2)->state == THREAD_BLOCKED &&
        part_of(f, n - 2)->wake == after.wake) {
        end_late(f, after.wake);
        g_array_set_size(f->thread.parts, n - 1);
        become_runnable(w, f, time, wake);
    }
}

static void wake_track(struct states_walk *w, struct states_track *f,
                       uint64_t time, uint32_t wake)
{
    enum thread_state state;

    sync_track(w, f);
    state = last_part(f)->state;
    if (thread_states_wake(w->s, wake)->is_new) {
        if (f->vcpu == NOWHERE) {
            become_runnable(w, f, time, wake);
        }
        return;
    }
    /* Whether a thread that had not been seen before has waited is not sure,
     * so a wait of now comes first. */
    if (f->late != NO_PART && state != THREAD_RUNNING &&
        part_of(f, f->late)->index == THREAD_NO_INDEX) {
        f->order.owed = false;
    }
    switch (wake_order_wakes(&f->order, time, w->slack,
                             state == THREAD_BLOCKED ||
                             state == THREAD_UNKNOWN)) {
    case WAKE_OF_PAST:
        end_late(f, wake);
        break;
    case WAKE_INSTEAD:
        wake_instead(w, f, time, wake);
        break;
    case WAKE_OF_PRESENT:
        if (state == THREAD_UNKNOWN) {
            was_blocked(w, f);
        }
        become_runnable(w, f, time, wake);
        break;
    case WAKE_OF_NEXT:
        f->early = wake;
        break;
    }
}

static void add_wake_event(struct states_walk *w, unsigned vcpu, uint64_t time,
                           const struct btrail_batch *b)
{
    struct btrail_wake woken;
    struct btrail_task task = { .known = true };
    struct states_track *f;
    uint32_t wake;

    btrail_event_wake(b->event, &woken);
    wake = add_wake(w, vcpu, time, b->index, woken.is_new);
    if (!woken.known) {
        w->strangers++;
        return;
    }
    task.tid = woken.tid;
    task.pid = woken.pid;
    task.kernel = woken.kernel;
    f = woken.tid ? get_track(w, &b->kernel, &task, vcpu) : NULL;
    if (f) {
        wake_track(w, f, time, wake);
    }
}

static void add_task(struct states_walk *w, unsigned vcpu, uint64_t time,
                     const struct btrail_batch *b)
{
    struct btrail_left left;
    struct states_track *f = NULL;

    btrail_event_left(b->event, &left);
    if (b->task.known) {
        f = get_track(w, &b->kernel, &b->task, vcpu);
        if (f) {
            f->thread.task = b->task;
        }
    }
    run(w, vcpu, f, time, b->index, &left);
}

static void add_kernel(struct states_walk *w, unsigned vcpu, uint64_t time,
                       const struct btrail_batch *b)
{
    struct states_lane *l = &w->lanes[vcpu];

    l->nested = b->kernel.nested;
    if (!l->nested) {
        l->unnamed = true;
        l->unnamed_at = b->index;
        l->unnamed_since = time;
    }
}

static void add_event(struct states_walk *w, unsigned vcpu, uint64_t time,
                      const struct btrail_batch *b)
{
    struct states_lane *l = &w->lanes[vcpu];

    w->s->damage += b->synthetic;
    if (l->unnamed && b->index > l->unnamed_at) {
        lose(w, vcpu, l->unnamed_since, l->unnamed_at);
    }
    l->index = MAX(l->index, b->index);
    switch (b->event->type) {
    case BTRAIL_EVENT_KERNEL:
        add_kernel(w, vcpu, time, b);
        break;
    case BTRAIL_EVENT_TASK:
        if (!l->nested) {
            add_task(w, vcpu, time, b);
        }
        break;
    case BTRAIL_EVENT_WAKE:
        if (!l->nested) {
            add_wake_event(w, vcpu, time, b);
        }
        break;
    case BTRAIL_EVENT_GAP:
        /* A reset loses nothing. */
        if (b->event->data[0]) {
            lose(w, vcpu, time, b->index);
        }
        break;
    case BTRAIL_EVENT_END:
        lose(w, vcpu, time, b->index);
        break;
    }
}

static uint64_t read_from(const struct states_walk *w)
{
    return w->options->begin - MIN(w->options->begin, MARGIN);
}

static void note_lost(const struct btrail_event *e, bool *lost)
{
    if (e->type == BTRAIL_EVENT_TASK) {
        *lost = false;
    } else if (e->type == BTRAIL_EVENT_GAP && e->data[0]) {
        *lost = true;
    }
}

/*
 * Are records missing in a chunk since its last TASK event?  Then the one in
 * force says of which task the last records before them are.  Only what is
 * before @index counts, and before the time from which on events are read.
 */
static bool is_lost(const struct states_walk *w,
                    const struct btrail_trace *trace, unsigned vcpu, size_t i,
                    uint64_t index)
{
    struct btrail_cursor *cursor;
    struct btrail_batch b;
    bool lost = false;

    if (btrail_cursor_open(&cursor, trace, vcpu, BTRAIL_CURSOR_EVENTS_ONLY)) {
        return true;
    }
    btrail_cursor_take_chunk(cursor, i, false);
    while (!btrail_cursor_next(cursor, &b) && b.time.host < read_from(w) &&
           b.index <= index) {
        note_lost(b.event, &lost);
    }
    btrail_cursor_close(cursor);
    return lost;
}

/*
 * What is in force before the time from which on events are read, if the next
 * event begins a chunk, which says only after it what is in force: that is what
 * the last record before has, and events after that.  @b is the next event, and
 * gets the last thing before it, or stays as it is.
 */
static void look_back(const struct states_walk *w,
                      const struct btrail_trace *trace, unsigned vcpu,
                      struct btrail_batch *b)
{
    const GArray *chunks = btrail_trace_find_stream(trace, vcpu)->chunks;
    struct btrail_cursor *cursor;
    struct btrail_batch before;
    bool lost;
    size_t i;

    if (!b->index || btrail_cursor_open(&cursor, trace, vcpu, 0)) {
        return;
    }
    i = BTRAIL_UP_TO(chunks->data, chunks->len, struct btrail_index_entry,
                     end_index, b->index - 1);
    lost = i < chunks->len && is_lost(w, trace, vcpu, i, b->index - 1);
    if (!btrail_cursor_seek(cursor, b->index - 1)) {
        while (!btrail_cursor_next(cursor, &before) &&
               before.time.host < read_from(w) && before.index <= b->index) {
            if (before.event) {
                note_lost(before.event, &lost);
            }
            b->task = before.task;
            b->task.known &= !lost;
            b->kernel = before.kernel;
        }
    }
    btrail_cursor_close(cursor);
}

/*
 * What a vCPU runs at the begin: what it runs at its next event, if that does
 * not change it.  One that has made no record yet runs nothing.
 */
static int begin_lane(struct states_walk *w, const struct btrail_trace *trace,
                      const struct btrail_stream_info *info)
{
    struct btrail_left nothing = { 0 };
    struct btrail_cursor *cursor;
    struct btrail_batch b;
    struct states_track *f = NULL;
    int ret = btrail_cursor_open(&cursor, trace, info->vcpu,
                                 BTRAIL_CURSOR_EVENTS_ONLY);

    if (ret) {
        return ret;
    }
    ret = btrail_cursor_seek_time(cursor, read_from(w)) ?:
          btrail_cursor_next(cursor, &b);
    if (!ret && !b.task.known && b.event->type == BTRAIL_EVENT_TIME) {
        look_back(w, trace, info->vcpu, &b);
    } else if (!ret && b.task.known) {
        const GArray *chunks = btrail_trace_find_stream(trace,
                                                        info->vcpu)->chunks;

        /* As btrail_cursor_seek_time() finds it */
        b.task.known = !is_lost(
            w, trace, info->vcpu,
            read_from(w) ? BTRAIL_UP_TO(chunks->data, chunks->len,
                                        struct btrail_index_entry, time_max,
                                        read_from(w) - 1) : 0, b.index);
    }
    if (!ret && b.task.known && b.event->type != BTRAIL_EVENT_TASK &&
        !b.task.nested) {
        f = get_track(w, &b.kernel, &b.task, info->vcpu);
        if (f) {
            run(w, info->vcpu, f, w->begin, b.index, &nothing);
        }
    }
    if (!f && (ret || b.index || !info->first_time ||
               info->first_time <= w->begin)) {
        lose(w, info->vcpu, w->begin, ret ? 0 : b.index);
    }
    btrail_cursor_close(cursor);
    return ret == -BTRAIL_ERR_END ? 0 : ret;
}

static uint64_t first_time(const struct btrail_trace *trace)
{
    struct btrail_stream_info info;
    uint64_t first = UINT64_MAX;

    for (unsigned i = 0; !btrail_trace_stream(trace, i, &info); i++) {
        first = info.first_time ? MIN(first, info.first_time) : first;
    }
    return first == UINT64_MAX ? 0 : first;
}

static int begin_lanes(struct states_walk *w, const struct btrail_trace *trace)
{
    struct btrail_stream_info info;
    int ret = 0;

    w->begin = MAX(read_from(w), first_time(trace));
    w->known_since = w->begin;
    for (unsigned i = 0; !ret && !btrail_trace_stream(trace, i, &info); i++) {
        ret = begin_lane(w, trace, &info);
    }
    return ret;
}

static int read_events(struct states_walk *w, struct btrail_merged *merged)
{
    uint64_t end = w->options->end > UINT64_MAX - w->slack ? UINT64_MAX :
                   w->options->end + w->slack;
    struct btrail_batch b;
    uint64_t time;
    unsigned vcpu;
    int ret = 0;

    if (read_from(w)) {
        ret = btrail_merged_seek_time(merged, read_from(w));
    }
    while (!ret && !w->full &&
           !(ret = btrail_merged_next(merged, &vcpu, &time, &b))) {
        time = MAX(time, w->begin);
        if (time > end) {
            btrail_merged_end_stream(merged);
        } else {
            add_event(w, vcpu, time, &b);
            w->s->end = MAX(w->s->end, time);
        }
    }
    return ret == -BTRAIL_ERR_END ? 0 : ret;
}

/* Threads up to the end, and what came by no wake-up although all are seen */
static void finish(struct states_walk *w)
{
    struct thread_states *s = w->s;

    for (guint i = 0; i < s->threads->len; i++) {
        struct states_track *f = s->threads->pdata[i];

        settle(w, f);
        if (f->vcpu == NOWHERE) {
            sync_track(w, f);
        } else {
            struct thread_part *p = last_part(f);

            p->end_index = MAX(w->lanes[f->vcpu].index, p->index);
        }
    }
    s->until = w->full ? s->end : UINT64_MAX;
    if (!w->full && w->options->end != UINT64_MAX) {
        s->end = w->options->end;
    }
}

int thread_states_read(struct thread_states **states,
                       const struct btrail_trace *trace,
                       const struct thread_states_options *options)
{
    struct states_walk *w = g_new0(struct states_walk, 1);
    struct thread_states *s = g_new0(struct thread_states, 1);
    struct btrail_merged *merged = NULL;
    int ret, error;

    s->threads = g_ptr_array_new_with_free_func(free_track);
    s->by_key = g_hash_table_new(btrail_pair_hash, btrail_pair_equal);
    s->wakes = g_array_new(FALSE, FALSE, sizeof(struct thread_wake));
    w->options = options;
    w->s = s;
    w->slack = wake_order_slack(options->tick);
    w->forgets = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    ret = btrail_merged_open(&merged, trace, NULL, 0,
                             BTRAIL_CURSOR_EVENTS_ONLY, BTRAIL_MERGED_GRAIN) ?:
          begin_lanes(w, trace) ?: read_events(w, merged);
    error = errno;
    if (!ret) {
        finish(w);
        s->damage += btrail_merged_bad_chunks(merged);
        *states = s;
    } else {
        thread_states_free(s);
    }
    btrail_merged_close(merged);
    g_array_unref(w->forgets);
    g_free(w);
    errno = error;
    return ret;
}

void thread_states_free(struct thread_states *s)
{
    if (s) {
        for (unsigned i = 0; i < BTRAIL_MAX_VCPUS; i++) {
            g_clear_pointer(&s->runs[i], g_array_unref);
        }
        g_array_unref(s->wakes);
        g_hash_table_unref(s->by_key);
        g_ptr_array_unref(s->threads);
        g_free(s);
    }
}

const GPtrArray *thread_states_all(const struct thread_states *s)
{
    return s->threads;
}

const struct states_thread *thread_states_find(const struct thread_states *s,
                                        const struct btrail_task *task,
                                        const struct btrail_kernel *kernel,
                                        unsigned vcpu)
{
    const struct states_track *f;
    uint64_t key[2];

    thread_key(key, kernel, task->pid, task->tid, UINT64_MAX - vcpu);
    f = task->known ? g_hash_table_lookup(s->by_key, key) : NULL;
    /* Nobody says of which kernel it is: of the last one that had it. */
    for (guint i = s->threads->len; !f && task->known && !kernel->known &&
         i-- > 0;) {
        const struct states_track *other = s->threads->pdata[i];

        f = other->key[1] == key[1] ? other : NULL;
    }
    return f ? &f->thread : NULL;
}

const struct thread_wake *thread_states_wake(const struct thread_states *s,
                                             uint32_t wake)
{
    return wake < s->wakes->len ?
           &g_array_index(s->wakes, struct thread_wake, wake) : NULL;
}

unsigned thread_part_before(const struct states_thread *t, uint64_t time)
{
    size_t i = time ? BTRAIL_UP_TO(t->parts->data, t->parts->len,
                                   struct thread_part, begin, time - 1) : 0;

    return i ? i - 1 : 0;
}

uint64_t thread_part_end(const struct thread_states *s,
                         const struct states_thread *t, unsigned i)
{
    return i + 1 < t->parts->len ? thread_part(t, i + 1)->begin :
           MAX(s->end, thread_part(t, i)->begin);
}

void thread_states_vcpu(const struct thread_states *s, unsigned vcpu,
                        uint64_t begin, uint64_t end, thread_states_fn *fn,
                        void *opaque)
{
    const GArray *runs = vcpu < BTRAIL_MAX_VCPUS ? s->runs[vcpu] : NULL;
    size_t i;

    if (!runs || !runs->len || begin >= end) {
        return;
    }
    i = BTRAIL_UP_TO(runs->data, runs->len, struct vcpu_run, begin, begin);
    for (i -= i > 0; i < runs->len; i++) {
        const struct vcpu_run *r = &g_array_index(runs, struct vcpu_run, i);
        uint64_t from = MAX(r->begin, begin);
        uint64_t to = MIN(end, i + 1 < runs->len ? g_array_index(
                          runs, struct vcpu_run, i + 1).begin : s->end);

        if (r->begin >= end) {
            break;
        }
        if (from < to) {
            fn(opaque, r->thread, from, to);
        }
    }
}

uint64_t thread_states_until(const struct thread_states *s)
{
    return s->until;
}

bool thread_states_has_wakes(const struct thread_states *s)
{
    return s->wakes->len;
}

uint64_t thread_states_damage(const struct thread_states *s)
{
    return s->damage;
}
