/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Streams merged by time
 *
 * Each stream is a lane with two cursors: one returns the batches, another runs
 * ahead of it to find clocks, so that the time of a record can be estimated
 * from the clocks before and after it.  A heap has the lanes in the order of
 * the time of their next batch.
 *
 * An estimate can be wrong by as much as clocks are apart, so a thread that has
 * moved could begin on a vCPU before it has left another one.  A lane that is
 * at such a beginning is out of the heap, and waits for the lane that the
 * thread has to leave.  That lane may still have to reach the thread: its stay
 * there was the earlier one if the one that begins here, by its clocks, lasts
 * until the thread had begun there.
 */

#include <glib.h>

#include "lib/agent/batch.h"
#include "lib/agent/event-clock.h"
#include "lib/agent/merged.h"
#include "lib/agent/meta.h"
#include "lib/agent/thread.h"
#include "lib/agent/trace-files.h"
#include "util/hash.h"

/* How many points of a lane are known ahead of it, beside its next clock */
#define AHEAD       128
/* For each point that is read, so many are looked at: no trace is slow. */
#define LOOKS       128

/* A place in a stream with a clock */
struct clock_point {
    uint64_t index;
    uint64_t host;
};

/* An event ahead that has a clock, or after which another thread can run */
struct ahead_point {
    uint64_t index;
    uint64_t host;              /* 0: it has no clock */
    bool runs;                  /* it says what runs, */
    uint64_t thread;            /* which is this one; 0: none, or unknown */
};

struct merged_lane {
    unsigned vcpu;
    struct btrail_cursor *cursor;
    struct btrail_batch batch;  /* the rest of it; without both: none */
    uint64_t time;              /* of its first record, or of the event */
    uint64_t estimate;          /* the same, if it has not waited */
    uint64_t busy;              /* the longest time that records share */

    struct btrail_cursor *ahead;
    GArray *points;             /* of struct ahead_point, after @last */
    unsigned next_point;        /* which of them is @next */
    uint64_t looks;             /* how many more can be looked at */
    bool have_next;
    struct clock_point last;    /* at the batch or before it */
    struct clock_point next;    /* the one after @last */

    uint64_t thread;            /* that runs; 0: none, or it is unknown */
    bool unnamed;               /* it has ended, unless it is named again */
    uint64_t unnamed_at;        /* at this index */
    bool left;                  /* another one does than when somebody looked */
    struct merged_lane *waiting;        /* that wait for this one */
    uint64_t patience;          /* the first of their next clocks */
    uint64_t until;             /* that it waits for is at least here */
    struct merged_lane *next_waiting;   /* that waits for the same one */
    bool waits;
};

struct btrail_merged {
    struct merged_lane *lanes;
    size_t n_lanes;
    uint64_t grain;

    struct merged_lane **heap;         /* those that have a batch */
    size_t in_heap;
    size_t to_fill;             /* lanes from this one on are not in yet */
    bool taken;                 /* the first one's batch has been returned */
    GHashTable *threads;        /* lanes by merged_lane.thread */
};

static int open_lane(struct merged_lane *l, const struct btrail_trace *trace,
                     unsigned vcpu, unsigned flags, uint64_t busy)
{
    int ret = btrail_cursor_open(&l->cursor, trace, vcpu, flags);

    l->vcpu = vcpu;
    l->busy = busy;
    l->points = g_array_new(false, false, sizeof(struct ahead_point));
    return ret ? ret : btrail_cursor_open(&l->ahead, trace, vcpu,
                                          BTRAIL_CURSOR_EVENTS_ONLY);
}

static uint64_t busy_time(const struct btrail_trace *trace)
{
    unsigned bad;
    g_autoptr(JsonObject) meta = btrail_meta_read(trace, &bad);

    return btrail_busy_time(btrail_meta_tick(meta));
}

int btrail_merged_open(struct btrail_merged **merged,
                       const struct btrail_trace *trace,
                       const unsigned *vcpus, size_t n, unsigned flags,
                       uint64_t grain)
{
    g_autoptr(GPtrArray) streams = NULL;
    struct btrail_merged *m;
    uint64_t busy;
    size_t i;
    int ret = merged && trace ?
              btrail_trace_pick_streams(trace, vcpus, n, &streams) :
              -BTRAIL_ERR_ARGUMENT;

    if (ret) {
        return ret;
    }
    m = g_new0(struct btrail_merged, 1);
    m->n_lanes = streams->len;
    m->lanes = g_new0(struct merged_lane, m->n_lanes);
    m->heap = g_new0(struct merged_lane *, m->n_lanes);
    m->grain = grain;
    m->threads = g_hash_table_new(btrail_int64_hash, g_int64_equal);
    busy = busy_time(trace);
    for (i = 0; !ret && i < m->n_lanes; i++) {
        const struct btrail_trace_stream *s = g_ptr_array_index(streams, i);

        ret = open_lane(&m->lanes[i], trace, s->vcpu, flags, busy);
    }
    if (ret) {
        btrail_merged_close(m);
        return ret;
    }
    *merged = m;
    return 0;
}

void btrail_merged_close(struct btrail_merged *m)
{
    size_t i;

    if (m) {
        for (i = 0; i < m->n_lanes; i++) {
            btrail_cursor_close(m->lanes[i].cursor);
            btrail_cursor_close(m->lanes[i].ahead);
            if (m->lanes[i].points) {
                g_array_unref(m->lanes[i].points);
            }
        }
        g_hash_table_unref(m->threads);
        g_free(m->lanes);
        g_free(m->heap);
        g_free(m);
    }
}

uint64_t btrail_merged_bad_chunks(const struct btrail_merged *m)
{
    uint64_t sum = 0;
    size_t i;

    for (i = 0; m && i < m->n_lanes; i++) {
        sum += btrail_cursor_bad_chunks(m->lanes[i].cursor);
    }
    return sum;
}

uint64_t btrail_merged_damage(const struct btrail_merged *m)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < m->n_lanes; i++) {
        sum += btrail_cursor_damage(m->lanes[i].cursor);
    }
    return sum;
}

/* Does an event say which thread runs after it?  Idle tasks are all No 0. */
static bool says_thread(const struct btrail_batch *b, uint64_t *thread)
{
    *thread = 0;
    switch (b->event->type) {
    case BTRAIL_EVENT_TASK:
        *thread = b->task.known && b->task.tid ? btrail_thread(&b->task) : 0;
        return true;
    case BTRAIL_EVENT_KERNEL:
    case BTRAIL_EVENT_GAP:
    case BTRAIL_EVENT_PAUSE:
    case BTRAIL_EVENT_END:
        /* It may have left where nothing is recorded. */
        return true;
    default:
        return false;
    }
}

static struct ahead_point *point(const struct merged_lane *l, unsigned i)
{
    return &g_array_index(l->points, struct ahead_point, i);
}

/* Reads one more point ahead. */
static int read_point(struct merged_lane *l)
{
    struct ahead_point *last = l->points->len ?
                               point(l, l->points->len - 1) : NULL;
    struct ahead_point p;
    struct btrail_batch b;
    int ret;

    do {
        ret = btrail_cursor_next(l->ahead, &b);
        if (ret) {
            return ret;
        }
        p = (struct ahead_point) {
            .index = b.index, .host = btrail_event_clock(b.event),
        };
        p.runs = says_thread(&b, &p.thread);
    } while (!p.host && !p.runs);
    l->looks += LOOKS;
    if (last && last->index == p.index && !last->host && !p.host) {
        /* No record is between them, as after a KERNEL event. */
        *last = p;
    } else {
        g_array_append_val(l->points, p);
    }
    return 0;
}

/* Goes from the last clock to the next one. */
static int next_clock(struct merged_lane *l)
{
    unsigned i;
    int ret = 0;

    if (l->have_next) {
        l->last = l->next;
        g_array_remove_range(l->points, 0, l->next_point + 1);
        l->have_next = false;
    }
    for (i = 0; !ret; i++) {
        if (i > AHEAD) {
            g_array_remove_index(l->points, 0);
            i--;
        }
        while (!ret && i >= l->points->len) {
            ret = read_point(l);
        }
        if (!ret && point(l, i)->host) {
            /* A clock that goes back stands still here. */
            l->next.index = point(l, i)->index;
            l->next.host = MAX(point(l, i)->host, l->last.host);
            l->next_point = i;
            l->have_next = true;
            return 0;
        }
    }
    return ret == -BTRAIL_ERR_END ? 0 : ret;
}

/* The time that the records between two clocks share: the first one on, as the
 * vCPU waits before the second clock. */
static uint64_t shared_time(const struct merged_lane *l)
{
    return MIN(l->next.host - l->last.host, l->busy);
}

/* Estimates the time of the batch. */
static int estimate(struct merged_lane *l)
{
    const struct btrail_batch *b = &l->batch;
    uint64_t host = b->event ? btrail_event_clock(b->event) : 0;
    bool met = false;           /* the next clock is this event */
    int ret = 0;

    /* The cursor that runs ahead may see what the other one cannot decode. */
    while (!ret && !met && l->have_next &&
           (l->next.index < b->index ||
            (l->next.index == b->index && (host || b->count)))) {
        met = host && l->next.index == b->index;
        ret = next_clock(l);
    }
    if (ret) {
        return ret;
    }
    if (b->time.host > l->last.host) {
        /* The clock is that of the chunk, or its event was skipped. */
        l->last.index = b->index;
        l->last.host = b->time.host;
        l->next.host = MAX(l->next.host, l->last.host);
    }
    if (!host) {
        host = l->last.host;
        if (host && l->have_next && l->next.index > l->last.index) {
            host += (unsigned __int128)(b->index - l->last.index) *
                    shared_time(l) / (l->next.index - l->last.index);
        }
    }
    l->time = MAX(l->time, host);
    l->estimate = host;
    return 0;
}

/*
 * How many records of the batch are earlier than @limit?  At least one, and
 * none after the next clock.
 */
static size_t records_before(const struct merged_lane *l, uint64_t limit)
{
    const struct btrail_batch *b = &l->batch;
    uint64_t n = b->count, elapsed;
    unsigned __int128 end;

    if (limit == UINT64_MAX || !l->have_next) {
        return n;
    }
    n = MIN(n, l->next.index - b->index);
    elapsed = shared_time(l);
    if (!l->last.host || !elapsed) {
        return n;
    }
    if (limit <= l->last.host) {
        return 1;
    }
    /* The first one that is not, counted from the last clock, rounded up */
    end = (unsigned __int128)(limit - l->last.host) *
          (l->next.index - l->last.index);
    end = (end + elapsed - 1) / elapsed;
    if (end <= b->index - l->last.index) {
        return 1;
    }
    return MIN(n, end - (b->index - l->last.index));
}

/* Gets a lane's next batch.  Errors: END, IO, MEMORY. */
static int fill(struct merged_lane *l)
{
    int ret;

    /* The first time, or after a seek */
    if (!l->time && !l->have_next) {
        ret = next_clock(l);
        if (ret) {
            return ret;
        }
    }
    if (!l->batch.event && !l->batch.count) {
        ret = btrail_cursor_next(l->cursor, &l->batch);
        if (ret) {
            memset(&l->batch, 0, sizeof(l->batch));
            return ret;
        }
    }
    return estimate(l);
}

/* The heap */

static bool before(const struct merged_lane *a, const struct merged_lane *b)
{
    if (a->time != b->time) {
        return a->time < b->time;
    }
    /* Of some that have waited for the same one */
    if (a->estimate != b->estimate) {
        return a->estimate < b->estimate;
    }
    return a->vcpu < b->vcpu;
}

static void sift_down(struct btrail_merged *m, size_t i)
{
    struct merged_lane *l = m->heap[i];

    for (;;) {
        size_t child = 2 * i + 1;

        if (child + 1 < m->in_heap &&
            before(m->heap[child + 1], m->heap[child])) {
            child++;
        }
        if (child >= m->in_heap || !before(m->heap[child], l)) {
            break;
        }
        m->heap[i] = m->heap[child];
        i = child;
    }
    m->heap[i] = l;
}

static void push(struct btrail_merged *m, struct merged_lane *l)
{
    size_t i = m->in_heap++;

    for (; i && before(l, m->heap[(i - 1) / 2]); i = (i - 1) / 2) {
        m->heap[i] = m->heap[(i - 1) / 2];
    }
    m->heap[i] = l;
}

/* The time of the lane that comes second */
static uint64_t second(const struct btrail_merged *m)
{
    uint64_t time = UINT64_MAX;

    if (m->in_heap > 1) {
        time = m->heap[1]->time;
    }
    if (m->in_heap > 2) {
        time = MIN(time, m->heap[2]->time);
    }
    return time;
}

/* Removes the lane that is first. */
static void pop(struct btrail_merged *m)
{
    m->heap[0] = m->heap[--m->in_heap];
    if (m->in_heap) {
        sift_down(m, 0);
    }
}

/* Threads */

/* A lane has reached a place where another thread runs, or nobody knows. */
static void run(struct btrail_merged *m, struct merged_lane *l,
                uint64_t thread)
{
    if (l->thread && g_hash_table_lookup(m->threads, &l->thread) == l) {
        g_hash_table_remove(m->threads, &l->thread);
    }
    l->thread = thread;
    l->unnamed = false;
    l->left = true;
    if (thread) {
        g_hash_table_replace(m->threads, &l->thread, l);
    }
}

/* An event is returned. */
static void pass(struct btrail_merged *m, struct merged_lane *l)
{
    uint64_t thread;

    if (l->batch.event->type == BTRAIL_EVENT_KERNEL) {
        /* Slabs begin with the kernel and the task that are in force. */
        l->unnamed = true;
        l->unnamed_at = l->batch.index;
    } else if (says_thread(&l->batch, &thread)) {
        run(m, l, thread);
    }
}

/* Can a lane be at a place that was before that of another one? */
static bool may_precede(const struct merged_lane *a,
                        const struct merged_lane *b)
{
    return b->have_next && a->last.host < b->next.host;
}

/* Is there this point ahead of @l?  One lane may look only so often. */
static bool look(struct merged_lane *who, struct merged_lane *l, unsigned i)
{
    if (!who->looks) {
        return false;
    }
    who->looks--;
    /* And the next one, which can replace it.  Errors come when it is used. */
    while (i + 1 >= l->points->len && l->points->len <= AHEAD &&
           !read_point(l)) {
    }
    return i < l->points->len;
}

/*
 * The last clock up to which a thread that begins where a lane is stays there;
 * 0 if it may have left before any
 */
static uint64_t stays_until(struct merged_lane *l, uint64_t thread)
{
    uint64_t until = 0;
    bool began = false;

    for (unsigned i = 0; look(l, l, i); i++) {
        const struct ahead_point *p = point(l, i);

        if (p->index < l->batch.index) {
            continue;
        }
        if (!began) {
            began = p->index == l->batch.index && p->runs &&
                    p->thread == thread;
            if (!began) {
                break;
            }
            continue;
        }
        until = MAX(until, p->host);
        if (p->runs && p->thread != thread) {
            break;
        }
    }
    return until;
}

/*
 * A thread begins where @l is, and stays until a clock.  If it will also be at
 * @from, and has left before: from which index on; else 0.
 */
static uint64_t leaves_at(struct merged_lane *from, struct merged_lane *l,
                          uint64_t thread, uint64_t stays)
{
    uint64_t host = from->last.host, left = 0;
    bool began = false, earlier = false;

    for (unsigned i = 0; look(l, from, i); i++) {
        const struct ahead_point *p = point(from, i);

        if (p->index < from->batch.index) {
            continue;
        }
        if (!left && host >= l->next.host) {
            break;
        }
        if (p->host && began && !earlier) {
            /* Not after it has been at @l, as it stays there for longer. */
            earlier = p->host <= stays;
            if (!earlier) {
                break;
            }
        }
        host = MAX(host, p->host);
        if (p->runs && !left) {
            left = began && p->thread != thread ? p->index : 0;
            began |= p->thread == thread;
        }
        if (left && earlier) {
            return left;
        }
    }
    return 0;
}

/*
 * The lane that a thread leaves, before it begins where a lane is; or NULL.
 * None waits for one that waits, so that two do not wait for each other.
 */
static struct merged_lane *left_first(const struct btrail_merged *m,
                                      struct merged_lane *l)
{
    const struct btrail_task *task = &l->batch.task;
    struct merged_lane *from;
    uint64_t thread, stays;

    if (l->waiting || !l->batch.event ||
        l->batch.event->type != BTRAIL_EVENT_TASK || !task->known ||
        !task->tid) {
        return NULL;
    }
    thread = btrail_thread(task);
    from = g_hash_table_lookup(m->threads, &thread);
    l->until = 0;
    if (from == l) {
        return NULL;
    }
    if (from && !from->waits && may_precede(from, l)) {
        return from;
    }
    stays = stays_until(l, thread);
    for (size_t i = 0; stays && i < m->n_lanes; i++) {
        from = &m->lanes[i];
        if (from != l && !from->waits) {
            l->until = leaves_at(from, l, thread, stays);
            if (l->until) {
                return from;
            }
        }
    }
    return NULL;
}

/* The first lane waits for another one. */
static void begin_to_wait(struct btrail_merged *m, struct merged_lane *from)
{
    struct merged_lane *l = m->heap[0];

    pop(m);
    l->waits = true;
    from->patience = from->waiting ? MIN(from->patience, l->next.host) :
                     l->next.host;
    l->next_waiting = from->waiting;
    from->waiting = l;
}

/* Does a lane still wait for another one? */
static bool still_waits(const struct merged_lane *l,
                        const struct merged_lane *from)
{
    return may_precede(from, l) &&
           (from->thread == btrail_thread(&l->batch.task) ||
            from->batch.index < l->until);
}

/*
 * Those that have waited for a lane long enough go on, after this time: what
 * was returned of that lane is at it, or before.
 */
static void end_waiting(struct btrail_merged *m, struct merged_lane *from,
                        uint64_t time)
{
    struct merged_lane **at = &from->waiting;

    /* There can be many of them, and much that lets none go on. */
    if (!from->left && from->last.host < from->patience) {
        return;
    }
    from->left = false;
    from->patience = UINT64_MAX;
    while (*at) {
        struct merged_lane *l = *at;

        if (still_waits(l, from)) {
            from->patience = MIN(from->patience, l->next.host);
            at = &l->next_waiting;
            continue;
        }
        *at = l->next_waiting;
        l->waits = false;
        l->time = MAX(l->time, time);
        push(m, l);
    }
}

/* Removes the lane that is first, and has ended. */
static void end(struct btrail_merged *m)
{
    struct merged_lane *l = m->heap[0];

    pop(m);
    run(m, l, 0);
    /* Nothing of it is before anything. */
    l->last.host = UINT64_MAX;
    end_waiting(m, l, l->time);
}

/* Puts the next batch of each lane into the heap. */
static int advance(struct btrail_merged *m)
{
    struct merged_lane *l;
    uint64_t time;
    int ret;

    for (; m->to_fill < m->n_lanes; m->to_fill++) {
        ret = fill(&m->lanes[m->to_fill]);
        if (!ret) {
            push(m, &m->lanes[m->to_fill]);
        } else if (ret != -BTRAIL_ERR_END) {
            return ret;
        }
    }
    if (m->taken) {
        l = m->heap[0];
        time = l->time;
        ret = fill(l);
        if (ret && ret != -BTRAIL_ERR_END) {
            return ret;
        }
        m->taken = false;
        if (ret) {
            end(m);
        } else {
            sift_down(m, 0);
            end_waiting(m, l, time);
        }
    }
    while (m->in_heap && (l = left_first(m, m->heap[0]))) {
        begin_to_wait(m, l);
    }
    return m->in_heap ? 0 : -BTRAIL_ERR_END;
}

int btrail_merged_next(struct btrail_merged *m, unsigned *vcpu,
                       uint64_t *time, struct btrail_batch *batch)
{
    struct merged_lane *l;
    uint64_t limit;
    int ret;

    if (!m || !vcpu || !batch) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    ret = advance(m);
    if (ret) {
        return ret;
    }
    l = m->heap[0];
    *vcpu = l->vcpu;
    if (time) {
        *time = l->time;
    }
    m->taken = true;
    if (l->unnamed && (l->batch.count || l->batch.index > l->unnamed_at)) {
        run(m, l, 0);
    }
    if (l->batch.event) {
        *batch = l->batch;
        pass(m, l);
        l->batch.event = NULL;
        return 0;
    }
    limit = second(m);
    limit = m->grain > UINT64_MAX - limit ? UINT64_MAX : limit + m->grain;
    *batch = btrail_batch_take(&l->batch, records_before(l, limit));
    return 0;
}

void btrail_merged_end_stream(struct btrail_merged *m)
{
    if (m->taken) {
        m->taken = false;
        end(m);
    }
}

static void seek(struct btrail_merged *m,
                 int (*go)(struct btrail_cursor *cursor, uint64_t to),
                 uint64_t to)
{
    size_t i;

    for (i = 0; i < m->n_lanes; i++) {
        struct merged_lane *l = &m->lanes[i];

        go(l->cursor, to);
        go(l->ahead, to);
        memset(&l->batch, 0, sizeof(l->batch));
        memset(&l->last, 0, sizeof(l->last));
        g_array_set_size(l->points, 0);
        l->looks = 0;
        l->time = 0;
        l->have_next = false;
        l->thread = 0;
        l->unnamed = false;
        l->waiting = NULL;
        l->waits = false;
    }
    g_hash_table_remove_all(m->threads);
    m->in_heap = 0;
    m->to_fill = 0;
    m->taken = false;
}

void btrail_merged_seek(struct btrail_merged *m, uint64_t index)
{
    seek(m, btrail_cursor_seek, index);
}

int btrail_merged_seek_time(struct btrail_merged *m, uint64_t host)
{
    if (!m) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    seek(m, btrail_cursor_seek_time, host);
    return 0;
}
