/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A trace, prepared for call stacks: see call-reader.h
 */

#include <errno.h>
#include <string.h>

#include "analyze/call-reader.h"
#include "analyze/chooser.h"
#include "analyze/lane-clock.h"
#include "lib/agent/batch.h"
#include "lib/agent/merged.h"

/* How many records are filtered at a time */
#define STEP        4096

/*
 * All blocks fit into a cache.  To wake a thread takes long, so one that waits
 * is woken when there is work for a while.
 */
#define BLOCKS          8
#define BLOCK_RECORDS   8192
#define ENOUGH          (BLOCKS / 2)
/* How many steps after one are searched for what its task does next */
#define NEXT_STEPS      256

struct call_block {
    GArray *steps;              /* of struct call_step */
    size_t n;                   /* records */
    const struct stack_edge *edges[BLOCK_RECORDS];
    struct stack_run runs[BLOCK_RECORDS];
    bool counts[BLOCK_RECORDS];
};

/**
 * struct call_lane - a vCPU
 * @record: the last one, of @task; @last is a batch of it alone
 */
struct call_lane {
    struct btrail_record record;
    struct btrail_batch last;
    struct task task;
};

struct call_reader {
    const struct call_reader_options *options;
    struct btrail_merged *merged;
    struct stack_edges *edges;
    struct call_lane lanes[BTRAIL_MAX_VCPUS];
    struct lane_clock clocks[BTRAIL_MAX_VCPUS];
    struct chooser *chooser;    /* if there is a filter */
    const struct times *times;
    const struct times *waits;
    struct times *own_times;    /* or NULL */
    unsigned vcpu;              /* the batch that is read */
    struct btrail_batch batch;  /* the rest of it */
    bool before;                /* it is before the window */
    struct call_reader_sums sums;
    int error;                  /* errno */

    GThread *thread;            /* NULL: the caller's thread does all */
    struct call_block *blocks[BLOCKS];
    GMutex lock;                /* of all below */
    GCond changed;
    unsigned made;
    unsigned done;              /* blocks that the caller has finished with */
    bool handed;                /* the caller has one more */
    bool stopped;
    bool resets;                /* the edges, when all blocks are done */
    int ret;                    /* why no more blocks are made; or 0 */
};

/* Keeps the last record of a part. */
static void keep_last(struct call_lane *l, const struct btrail_batch *part,
                      const struct task *task)
{
    l->last = btrail_batch_part(part, part->count - 1, 1);
    l->record = *l->last.records;
    l->last.records = &l->record;
    l->task = *task;
}

/* Does time after the last record of a vCPU count? */
static bool last_counts(const struct call_reader *r, unsigned vcpu)
{
    const struct call_lane *l = &r->lanes[vcpu];

    return !r->chooser || chooser_has(r->chooser, vcpu, &l->task, &l->last,
                                      r->options->whole);
}

/* Adds a batch to a block that has room for it.  @ticks: of each record */
static void add_records(struct call_reader *r, struct call_block *k,
                        const struct btrail_batch *b, const struct pace *pace,
                        uint64_t ticks)
{
    struct btrail_batch part = { .count = 0 };
    struct call_step step = {
        .kind = CALL_STEP_RECORDS, .vcpu = r->vcpu, .index = b->index,
        .counts = r->chooser || r->before ? k->counts + k->n : NULL,
        .pace = *pace, .before = r->before,
        .part = { .vcpu = r->vcpu, .ticks = ticks },
    };

    while (symbolizer_part(r->options->names, r->vcpu, b, &part,
                           &step.part.task)) {
        step.part.first = part.index - b->index;
        step.part.n = part.count;
        step.part.edges = k->edges + k->n;
        step.part.runs = k->runs + k->n;
        if (r->before) {
            step.part.counts = k->counts + k->n;
            memset(k->counts + k->n, 0, part.count * sizeof(*k->counts));
        } else if (r->chooser) {
            step.part.counts = k->counts + k->n;
            r->sums.chosen += chooser_choose(r->chooser, r->vcpu,
                                             &step.part.task, &part,
                                             k->counts + k->n);
        } else {
            r->sums.chosen += part.count;
        }
        step.last = step.part.first + part.count == b->count;
        stack_edges_get_all(r->edges, step.part.task.process,
                            &step.part.task.where,
                            part.records, part.count, k->edges + k->n,
                            k->runs + k->n);
        keep_last(&r->lanes[r->vcpu], &part, &step.part.task);
        step.leaves = r->options->leaves && last_counts(r, r->vcpu);
        k->n += part.count;
        g_array_append_val(k->steps, step);
    }
    r->sums.records += r->before ? 0 : b->count;
}

/* Adds time that a vCPU waited after its last record, if that counts. */
static void add_wait(struct call_reader *r, struct call_block *k, unsigned vcpu,
                     uint64_t wait)
{
    const struct call_step step = {
        .kind = CALL_STEP_WAIT, .vcpu = vcpu, .wait = wait,
    };

    if (wait && last_counts(r, vcpu)) {
        g_array_append_val(k->steps, step);
    }
}

/* Adds the time that vCPUs waited after the last records of all. */
static void add_last_waits(struct call_reader *r, struct call_block *k)
{
    for (unsigned i = 0; i < BTRAIL_MAX_VCPUS; i++) {
        add_wait(r, k, i, lane_clock_end(&r->clocks[i], r->waits));
    }
}

/*
 * How much time counts of each of the next records of a lane.  @n: their
 * number, and then that of those with the same time, the first ones
 */
static uint64_t counted_ticks(const struct call_reader *r,
                              const struct lane_clock *c, size_t *n)
{
    const struct pace *pace = c->pace;
    uint64_t begin, same;

    if (r->before || !pace->ticks) {
        return pace->ticks;
    }
    begin = MIN(c->n, UINT64_MAX / 2 / pace->ticks) * pace->ticks;
    same = times_same(r->times, pace->time, begin);
    *n = MIN(*n, MAX(same / pace->ticks, 1));
    return times_count(r->times, pace->time, begin, begin + pace->ticks);
}

/* Adds the next records of the batch; false if there is no room for them. */
static bool add_batch(struct call_reader *r, struct call_block *k)
{
    struct lane_clock *c = &r->clocks[r->vcpu];
    struct btrail_batch *b = &r->batch, part;
    uint64_t ticks;
    size_t n;

    add_wait(r, k, r->vcpu, lane_clock_record(c, b->index, r->waits));
    n = MIN(b->count, c->pace->end - b->index);
    n = MIN(n, r->chooser ? STEP : BLOCK_RECORDS);
    ticks = counted_ticks(r, c, &n);
    if (n > BLOCK_RECORDS - k->n) {
        return false;
    }
    part = btrail_batch_take(b, n);
    add_records(r, k, &part, c->pace, ticks);
    c->n += n;
    return true;
}

/* Adds the time that a vCPU has waited before the event of the batch.  Up to
 * the clock after it, nobody knows what it did. */
static void add_wait_before(struct call_reader *r, struct call_block *k)
{
    add_wait(r, k, r->vcpu, lane_clock_event(&r->clocks[r->vcpu], &r->batch,
                                             r->waits));
}

/* Adds who is woken, and when: after the records before the event. */
static void add_wake(struct call_reader *r, struct call_block *k)
{
    struct lane_clock *c = &r->clocks[r->vcpu];
    struct call_step step = {
        .kind = CALL_STEP_WAKE, .vcpu = r->vcpu, .index = r->batch.index,
        .kernel = symbolizer_kernel(&r->batch.kernel),
    };

    btrail_event_wake(r->batch.event, &step.wake);
    lane_clock_begin(c, &r->batch);
    add_wait_before(r, k);
    step.time = lane_clock_now(c);
    if (!r->batch.kernel.nested) {
        g_array_append_val(k->steps, step);
    }
}

static void add_left(struct call_reader *r, struct call_block *k)
{
    struct call_step step = { .kind = CALL_STEP_LEFT, .vcpu = r->vcpu };

    btrail_event_left(r->batch.event, &step.left);
    if (step.left.known) {
        g_array_append_val(k->steps, step);
    }
}

static void add_event(struct call_reader *r, struct call_block *k)
{
    const struct call_step step = {
        .kind = CALL_STEP_GAP, .vcpu = r->vcpu, .index = r->batch.index,
    };

    if (r->batch.event->type == BTRAIL_EVENT_GAP) {
        /* A reset loses nothing. */
        r->sums.gaps += !r->before && r->batch.event->data[0];
        add_wait_before(r, k);
        g_array_append_val(k->steps, step);
    } else if (r->batch.event->type == BTRAIL_EVENT_WAKE &&
               r->options->leaves) {
        add_wake(r, k);
    } else if (r->batch.event->type == BTRAIL_EVENT_TASK &&
               r->options->leaves) {
        add_left(r, k);
    }
}

static void note_clock(struct call_reader *r)
{
    const struct btrail_batch *b = &r->batch;

    r->sums.until = MAX(r->sums.until, b->time.host);
    if (b->event && b->event->type == BTRAIL_EVENT_END) {
        r->sums.until = MAX(r->sums.until, b->event->data[0]);
    }
}

/* Fills a block.  Returns END or another error if it is the last one. */
static int fill(struct call_reader *r, struct call_block *k)
{
    const struct window *window = &r->options->window;
    int ret;

    g_array_set_size(k->steps, 0);
    k->n = 0;
    while (k->steps->len < BLOCK_RECORDS) {
        if (r->batch.count) {
            if (!add_batch(r, k)) {
                break;
            }
            continue;
        }
        ret = btrail_merged_next(r->merged, &r->vcpu, NULL, &r->batch);
        if (ret) {
            r->error = errno;
            return ret;
        }
        note_clock(r);
        r->before = window->begin && !window_has(window, r->batch.time.host);
        if (window_past(window, r->batch.time.host)) {
            btrail_merged_end_stream(r->merged);
            r->batch.count = 0;
        } else if (r->batch.event) {
            add_event(r, k);
        }
    }
    return 0;
}

/* Makes the next block, with the lock held, which it releases meanwhile. */
static void make_block(struct call_reader *r)
{
    struct call_block *k = r->blocks[r->made % BLOCKS];
    int ret;

    if (stack_edges_many(r->edges)) {
        /* The other thread may wait for more than what is made. */
        r->resets = true;
        g_cond_broadcast(&r->changed);
        while (r->made != r->done && !r->stopped) {
            g_cond_wait(&r->changed, &r->lock);
        }
        r->resets = false;
        stack_edges_reset(r->edges);
    }
    g_mutex_unlock(&r->lock);
    ret = fill(r, k);
    if (ret == -BTRAIL_ERR_END) {
        add_last_waits(r, k);
    }
    g_mutex_lock(&r->lock);
    r->made++;
    r->ret = ret;
    if (r->made - r->done == ENOUGH || ret) {
        g_cond_broadcast(&r->changed);
    }
}

static gpointer read_ahead(gpointer data)
{
    struct call_reader *r = data;

    g_mutex_lock(&r->lock);
    while (!r->ret && !r->stopped) {
        make_block(r);
        while (r->made - r->done == BLOCKS && !r->stopped) {
            g_cond_wait(&r->changed, &r->lock);
        }
    }
    g_mutex_unlock(&r->lock);
    return NULL;
}

const struct call_step *call_reader_next(struct call_reader *r, size_t *n)
{
    const GArray *steps = NULL;

    g_mutex_lock(&r->lock);
    if (r->handed) {
        r->done++;
        if (r->made - r->done == BLOCKS - ENOUGH || r->made == r->done) {
            g_cond_broadcast(&r->changed);
        }
    }
    while (r->made == r->done && !r->ret) {
        if (r->thread) {
            g_cond_wait(&r->changed, &r->lock);
        } else {
            make_block(r);
        }
    }
    r->handed = r->made != r->done;
    if (r->handed) {
        steps = r->blocks[r->done % BLOCKS]->steps;
        *n = steps->len;
    }
    g_mutex_unlock(&r->lock);
    return steps ? (const struct call_step *)steps->data : NULL;
}

/* Is there a block, or will there be one while the caller has this one? */
static bool has_block(struct call_reader *r, unsigned n)
{
    bool has;

    g_mutex_lock(&r->lock);
    while (r->made - r->done <= n && !r->ret && !r->resets) {
        if (r->thread) {
            g_cond_wait(&r->changed, &r->lock);
        } else if (!stack_edges_many(r->edges)) {
            make_block(r);
        } else {
            break;
        }
    }
    has = r->made - r->done > n;
    g_mutex_unlock(&r->lock);
    return has;
}

/* Of a task that is unknown, only the process tells which one it is. */
static bool continues(const struct task *a, const struct task *b)
{
    return task_is_same(a, b) && a->process == b->process;
}

const struct stack_part *call_reader_next_part(struct call_reader *r,
                                               const struct call_step *step,
                                               unsigned n)
{
    const struct call_step *from = step + 1;
    unsigned left = NEXT_STEPS;

    /* One block more is far enough. */
    for (unsigned k = 0; k < 2 && left && has_block(r, k); k++) {
        const GArray *steps = r->blocks[(r->done + k) % BLOCKS]->steps;
        const struct call_step *all = (const void *)steps->data;

        from = k ? all : from;
        for (; left && from < all + steps->len; from++, left--) {
            if (from->kind == CALL_STEP_GAP && from->vcpu == step->vcpu) {
                return NULL;
            }
            if (from->kind == CALL_STEP_RECORDS &&
                continues(&from->part.task, &step->part.task) && !n--) {
                return &from->part;
            }
        }
    }
    return NULL;
}

int call_reader_open(struct call_reader **reader,
                     const struct btrail_trace *trace,
                     const struct call_reader_options *options)
{
    struct call_reader *r = g_new0(struct call_reader, 1);
    int ret;

    r->options = options;
    g_mutex_init(&r->lock);
    g_cond_init(&r->changed);
    for (unsigned i = 0; i < BLOCKS; i++) {
        r->blocks[i] = g_new(struct call_block, 1);
        r->blocks[i]->steps = g_array_new(FALSE, FALSE,
                                          sizeof(struct call_step));
    }
    r->edges = stack_edges_new(options->names, options->many_edges);
    r->chooser = options->filter ?
                 chooser_new(options->names, options->filter,
                             &options->window) : NULL;
    r->own_times = options->times ? NULL : times_new(&options->window, NULL);
    r->times = options->times ?: r->own_times;
    r->waits = options->waits ?: r->times;
    ret = btrail_merged_open(&r->merged, trace, NULL, 0, 0,
                             BTRAIL_MERGED_GRAIN) ?:
          lane_clocks_open(r->clocks, trace, options->tick, options->from);
    if (!ret && options->from) {
        ret = btrail_merged_seek_time(r->merged, options->from);
    }
    if (ret) {
        int error = errno;

        call_reader_close(r, NULL);
        errno = error;
        return ret;
    }
    if (btrail_parallel_threads() > 1) {
        r->thread = g_thread_try_new("backtrail", read_ahead, r, NULL);
    }
    *reader = r;
    return 0;
}

int call_reader_close(struct call_reader *r, struct call_reader_sums *sums)
{
    int ret, error;

    g_mutex_lock(&r->lock);
    r->stopped = true;
    g_cond_broadcast(&r->changed);
    g_mutex_unlock(&r->lock);
    if (r->thread) {
        g_thread_join(r->thread);
    }
    if (sums) {
        *sums = r->sums;
        sums->damage += btrail_merged_damage(r->merged);
    }
    ret = r->ret == -BTRAIL_ERR_END ? 0 : r->ret;
    error = r->error;
    btrail_merged_close(r->merged);
    lane_clocks_close(r->clocks);
    for (unsigned i = 0; i < BLOCKS; i++) {
        g_array_unref(r->blocks[i]->steps);
        g_free(r->blocks[i]);
    }
    stack_edges_free(r->edges);
    chooser_free(r->chooser);
    times_free(r->own_times);
    g_mutex_clear(&r->lock);
    g_cond_clear(&r->changed);
    g_free(r);
    errno = error;
    return ret;
}
