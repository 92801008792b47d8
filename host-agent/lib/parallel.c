/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Decoding with several threads
 *
 * Chunks are independent of each other, so each thread takes the next one.  For
 * results in order, the other threads only decode the paths of chunks, which
 * take a sixth of the memory that records do.  The caller's thread makes
 * records of them, chunk after chunk; while the next one is not ready, it also
 * decodes.
 */

#include <errno.h>
#include <glib.h>

#include "lib/agent/trace-files.h"

/* In order: slots beyond those that the threads are filling */
#define MORE_SLOTS  1

/* A piece that is being decoded */
struct slot {
    struct btrail_piece piece;
    struct btrail_cursor *cursor;   /* of its stream */
    bool ready;                 /* in order: to be handed out */
};

struct decode_job {
    const struct btrail_trace *trace;
    GPtrArray *streams;         /* of struct btrail_trace_stream */
    unsigned flags;             /* of the cursors */
    bool check_only;            /* the caller does not want the records */
    bool ordered;
    btrail_parallel_fn *fn;
    void *opaque;
    struct slot *slots;         /* if the order does not matter, by worker */
    unsigned n_slots;

    GMutex lock;                /* of all below */
    GCond changed;
    size_t stream;              /* the next piece to take: of which stream */
    uint64_t number;
    bool stopped;
    int ret;                    /* why */
    int error;                  /* errno, if that was IO */
    uint64_t taken;             /* pieces */
    uint64_t done;
};

struct worker {
    struct decode_job *job;
    unsigned number;
};

unsigned btrail_parallel_threads(void)
{
    return CLAMP(g_get_num_processors(), 1, BTRAIL_MAX_THREADS);
}

static void stop(struct decode_job *job, int ret, int error)
{
    g_mutex_lock(&job->lock);
    if (!job->stopped) {
        job->ret = ret;
        job->error = error;
    }
    /* The threads check it now and then. */
    __atomic_store_n(&job->stopped, true, __ATOMIC_RELAXED);
    g_cond_broadcast(&job->changed);
    g_mutex_unlock(&job->lock);
}

static bool stopped(struct decode_job *job)
{
    return __atomic_load_n(&job->stopped, __ATOMIC_RELAXED);
}

/* Takes the next piece, with the lock held; false if there is none. */
static bool take(struct decode_job *job, struct btrail_piece *piece)
{
    const struct btrail_trace_stream *s = NULL;

    for (; job->stream < job->streams->len; job->stream++, job->number = 0) {
        s = g_ptr_array_index(job->streams, job->stream);
        if (job->number < s->chunks->len) {
            break;
        }
    }
    if (job->stream == job->streams->len || job->stopped) {
        return false;
    }
    *piece = (struct btrail_piece) {
        .vcpu = s->vcpu,
        .number = job->number++,
    };
    job->taken++;
    return true;
}

static void prepare(struct decode_job *job, struct slot *s,
                    const struct btrail_piece *piece)
{
    if (s->cursor && s->piece.vcpu != piece->vcpu) {
        btrail_cursor_close(s->cursor);
        s->cursor = NULL;
    }
    if (!s->cursor) {
        /* The flags were checked, and there is such a stream. */
        btrail_cursor_open(&s->cursor, job->trace, piece->vcpu, job->flags);
    }
    s->piece = *piece;
    btrail_cursor_take_chunk(s->cursor, piece->number, job->check_only);
}

/* Stops the job if the caller's function returns other than 0. */
static void call(struct decode_job *job, const struct btrail_piece *piece,
                 const struct btrail_batch *batch)
{
    int ret = job->fn(job->opaque, piece, batch);

    if (ret) {
        stop(job, ret, 0);
    }
}

static void hand_out(struct decode_job *job, struct slot *s)
{
    struct btrail_batch batch;
    int ret = 0;

    while (!ret && !stopped(job)) {
        ret = btrail_cursor_next(s->cursor, &batch);
        if (!ret && !stopped(job)) {
            call(job, &s->piece, &batch);
        }
    }
    if (stopped(job)) {
        return;
    }
    if (ret != -BTRAIL_ERR_END) {
        stop(job, ret, errno);
        return;
    }
    s->piece.bad = btrail_cursor_bad_chunks(s->cursor);
    call(job, &s->piece, NULL);
}

static gpointer work(gpointer data)
{
    const struct worker *w = data;
    struct decode_job *job = w->job;

    for (;;) {
        struct btrail_piece piece;
        bool more;

        g_mutex_lock(&job->lock);
        more = take(job, &piece);
        g_mutex_unlock(&job->lock);
        if (!more) {
            return NULL;
        }
        piece.worker = w->number;
        prepare(job, &job->slots[w->number], &piece);
        hand_out(job, &job->slots[w->number]);
    }
}

/* In order */

/* Called with the lock held, and releases it while it decodes. */
static bool fill_one(const struct worker *w)
{
    struct decode_job *job = w->job;
    struct slot *s = &job->slots[job->taken % job->n_slots];
    struct btrail_piece piece;
    bool at_once;

    if (job->taken - job->done == job->n_slots || !take(job, &piece)) {
        return false;
    }
    /* The caller's thread decodes it while it hands it out. */
    at_once = !w->number && job->taken - job->done == 1;
    g_mutex_unlock(&job->lock);
    prepare(job, s, &piece);
    if (!at_once) {
        btrail_cursor_decode_ahead(s->cursor);
    }
    g_mutex_lock(&job->lock);
    s->ready = true;
    g_cond_broadcast(&job->changed);
    return true;
}

static bool all_taken(const struct decode_job *job)
{
    return job->stream == job->streams->len;
}

static gpointer fill_slots(gpointer data)
{
    const struct worker *w = data;
    struct decode_job *job = w->job;

    g_mutex_lock(&job->lock);
    while (!job->stopped && !all_taken(job)) {
        if (!fill_one(w) && !job->stopped && !all_taken(job)) {
            g_cond_wait(&job->changed, &job->lock);
        }
    }
    g_mutex_unlock(&job->lock);
    return NULL;
}

static void hand_out_slots(const struct worker *w)
{
    struct decode_job *job = w->job;

    g_mutex_lock(&job->lock);
    while (!job->stopped && (job->done < job->taken || !all_taken(job))) {
        struct slot *s = &job->slots[job->done % job->n_slots];

        if (job->done < job->taken && s->ready) {
            g_mutex_unlock(&job->lock);
            hand_out(job, s);
            g_mutex_lock(&job->lock);
            s->ready = false;
            job->done++;
            g_cond_broadcast(&job->changed);
        } else if (!fill_one(w) && job->done < job->taken) {
            g_cond_wait(&job->changed, &job->lock);
        }
    }
    g_mutex_unlock(&job->lock);
}

/* Runs the job with @threads threads, including this one. */
static void run(struct decode_job *job, unsigned threads)
{
    g_autofree struct worker *workers = g_new0(struct worker, threads);
    g_autofree GThread **others = g_new0(GThread *, threads);
    unsigned i;

    for (i = 0; i < threads; i++) {
        workers[i] = (struct worker) { job, i };
    }
    for (i = 1; i < threads; i++) {
        /* Without this thread the job only needs longer. */
        others[i] = g_thread_try_new("backtrail", job->ordered ? fill_slots :
                                     work, &workers[i], NULL);
    }
    if (job->ordered) {
        hand_out_slots(&workers[0]);
    } else {
        work(&workers[0]);
    }
    for (i = 1; i < threads; i++) {
        if (others[i]) {
            g_thread_join(others[i]);
        }
    }
}

int btrail_parallel_decode(const struct btrail_trace *trace,
                           const unsigned *vcpus, size_t n, unsigned flags,
                           unsigned threads, btrail_parallel_fn *fn,
                           void *opaque)
{
    struct decode_job job = {
        .trace = trace,
        .flags = flags & ~(BTRAIL_PARALLEL_ORDERED |
                           BTRAIL_PARALLEL_CHECK_ONLY),
        .check_only = flags & BTRAIL_PARALLEL_CHECK_ONLY,
        .fn = fn,
        .opaque = opaque,
    };
    unsigned i;
    int ret;

    if (!trace || !fn || !threads || threads > BTRAIL_MAX_THREADS ||
        (job.flags & ~(BTRAIL_CURSOR_EVENTS_ONLY |
                       BTRAIL_CURSOR_COUNTS_ONLY))) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    ret = btrail_trace_pick_streams(trace, vcpus, n, &job.streams);
    if (ret) {
        return ret;
    }
    /* One thread by itself takes pieces in order. */
    job.ordered = flags & BTRAIL_PARALLEL_ORDERED && threads > 1;
    job.n_slots = job.ordered ? threads + MORE_SLOTS : threads;
    job.slots = g_new0(struct slot, job.n_slots);
    g_mutex_init(&job.lock);
    g_cond_init(&job.changed);

    run(&job, threads);

    g_mutex_clear(&job.lock);
    g_cond_clear(&job.changed);
    for (i = 0; i < job.n_slots; i++) {
        btrail_cursor_close(job.slots[i].cursor);
    }
    g_free(job.slots);
    g_ptr_array_free(job.streams, TRUE);
    if (job.ret == -BTRAIL_ERR_IO) {
        errno = job.error;
    }
    return job.ret;
}
