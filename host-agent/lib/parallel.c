/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Decoding with several threads
 *
 * Chunks are independent of each other, so each thread takes the next one.  For
 * results in order, threads decode into slots, from which the caller's thread
 * takes chunk after chunk; while the next one is not ready, it decodes, too.
 */

#include <errno.h>
#include <glib.h>

#include "lib/internal/trace-files.h"

/* Slots beyond those that the threads are filling */
#define MORE_SLOTS  2

/* A batch in a slot; its pointers are set when it is handed out. */
struct kept {
    struct btrail_batch batch;
    struct btrail_event event;
    size_t first_record;
};

struct slot {
    bool ready;
    struct btrail_piece piece;
    GArray *batches;            /* of struct kept */
    struct btrail_record *records;
    size_t n_records;
    size_t cap;
    bool bad;
    int ret;                    /* what it ended with */
    int error;                  /* errno, if that was IO */
};

struct decode_job {
    const struct btrail_trace *trace;
    GPtrArray *streams;         /* of struct btrail_trace_stream */
    unsigned flags;             /* of the cursors; 0: they decode records */
    bool check_only;            /* the caller does not want the records */
    btrail_parallel_fn *fn;
    void *opaque;

    GMutex lock;                /* of all below */
    GCond changed;
    size_t stream;              /* the next piece to take: of which stream */
    uint64_t number;
    bool stopped;
    int ret;                    /* why */
    int error;

    struct slot *slots;         /* NULL if the order does not matter */
    unsigned n_slots;
    uint64_t taken;             /* pieces */
    uint64_t done;
};

struct worker {
    struct decode_job *job;
    unsigned number;
    struct btrail_cursor *cursor;   /* of stream @vcpu */
    unsigned vcpu;
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

/*
 * Takes the next piece, with the lock held; false if there is none.  If the
 * order matters, @slot gets the slot to decode it into.
 */
static bool take(struct decode_job *job, struct btrail_piece *piece,
                 struct slot **slot)
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
    if (slot) {
        if (job->taken - job->done == job->n_slots) {
            return false;
        }
        *slot = &job->slots[job->taken % job->n_slots];
    }
    *piece = (struct btrail_piece) {
        .vcpu = s->vcpu,
        .number = job->number,
    };
    job->number++;
    job->taken++;
    return true;
}

/* Prepares a cursor for a piece. */
static int prepare(struct worker *w, const struct btrail_piece *piece)
{
    int ret = 0;

    if (w->cursor && w->vcpu != piece->vcpu) {
        btrail_cursor_close(w->cursor);
        w->cursor = NULL;
    }
    if (!w->cursor) {
        w->vcpu = piece->vcpu;
        ret = btrail_cursor_open(&w->cursor, w->job->trace, piece->vcpu,
                                 w->job->flags);
    }
    if (!ret) {
        btrail_cursor_take_chunk(w->cursor, piece->number);
    }
    return ret;
}

static int next(struct worker *w, struct btrail_batch *batch)
{
    int ret = btrail_cursor_next(w->cursor, batch);

    if (w->job->check_only) {
        batch->records = NULL;
    }
    return ret;
}

/* Returns what the caller's function does; if that is not 0, stops the job. */
static int call(struct decode_job *job, const struct btrail_piece *piece,
                const struct btrail_batch *batch)
{
    int ret = job->fn(job->opaque, piece, batch);

    if (ret) {
        stop(job, ret, 0);
    }
    return ret;
}

/* In any order */

static int pass_on(struct worker *w, struct btrail_piece *piece)
{
    struct decode_job *job = w->job;
    struct btrail_batch batch;
    int ret = prepare(w, piece);

    while (!ret) {
        ret = next(w, &batch);
        if (!ret && !stopped(job)) {
            call(job, piece, &batch);
        }
        if (stopped(job)) {
            return 0;
        }
    }
    if (ret != -BTRAIL_ERR_END) {
        return ret;
    }
    piece->bad = btrail_cursor_bad_chunks(w->cursor);
    call(job, piece, NULL);
    return 0;
}

static gpointer work(gpointer data)
{
    struct worker *w = data;
    struct decode_job *job = w->job;

    for (;;) {
        struct btrail_piece piece;
        bool more;
        int ret;

        g_mutex_lock(&job->lock);
        more = take(job, &piece, NULL);
        g_mutex_unlock(&job->lock);
        if (!more) {
            return NULL;
        }
        piece.worker = w->number;
        ret = pass_on(w, &piece);
        if (ret) {
            stop(job, ret, errno);
        }
    }
}

/* In order */

/* Reserves room for all records of a chunk, according to the index. */
static int reserve(struct slot *s, size_t n)
{
    if (n > s->cap) {
        g_free(s->records);
        s->cap = 0;
        s->records = g_try_new(struct btrail_record, n);
        if (!s->records) {
            return -BTRAIL_ERR_MEMORY;
        }
        s->cap = n;
    }
    return 0;
}

/* Does a batch just continue the one before it? */
static bool goes_on(const struct btrail_batch *before,
                    const struct btrail_batch *batch)
{
    return !batch->event && !before->event &&
           before->index + before->count == batch->index &&
           before->cr3 == batch->cr3 &&
           before->time.host == batch->time.host &&
           before->time.tsc == batch->time.tsc &&
           before->time.icount == batch->time.icount;
}

static void keep(struct slot *s, const struct btrail_batch *batch)
{
    struct kept *last = s->batches->len ?
        &g_array_index(s->batches, struct kept, s->batches->len - 1) : NULL;
    struct kept kept = { .batch = *batch, .first_record = s->n_records };

    if (batch->event) {
        kept.event = *batch->event;
    }
    if (batch->records) {
        /* There is room: a chunk that is not as the index says is damaged. */
        memcpy(s->records + s->n_records, batch->records,
               batch->count * sizeof(*batch->records));
        s->n_records += batch->count;
    }
    if (last && goes_on(&last->batch, batch)) {
        last->batch.count += batch->count;
    } else {
        g_array_append_val(s->batches, kept);
    }
}

static void fill(struct worker *w, struct slot *s,
                 const struct btrail_piece *piece)
{
    const struct btrail_trace_stream *stream =
        btrail_trace_find_stream(w->job->trace, piece->vcpu);
    struct btrail_batch batch;
    int ret = prepare(w, piece);

    s->piece = *piece;
    s->n_records = 0;
    g_array_set_size(s->batches, 0);
    if (!ret && !w->job->flags && !w->job->check_only) {
        ret = reserve(s, btrail_entry(stream->chunks, piece->number)->records);
    }
    while (!ret && !stopped(w->job)) {
        ret = next(w, &batch);
        if (!ret) {
            keep(s, &batch);
        }
    }
    s->error = errno;
    s->ret = ret == -BTRAIL_ERR_END ? 0 : ret;
    s->bad = w->cursor && btrail_cursor_bad_chunks(w->cursor);
}

/* Called with the lock held, and releases it while it decodes. */
static bool fill_one(struct worker *w)
{
    struct decode_job *job = w->job;
    struct btrail_piece piece;
    struct slot *s;

    if (!take(job, &piece, &s)) {
        return false;
    }
    g_mutex_unlock(&job->lock);
    fill(w, s, &piece);
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
    struct worker *w = data;
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

static void hand_out(struct decode_job *job, struct slot *s)
{
    int ret = 0;
    guint i;

    for (i = 0; !ret && i < s->batches->len; i++) {
        struct kept *kept = &g_array_index(s->batches, struct kept, i);

        if (kept->batch.event) {
            kept->batch.event = &kept->event;
        }
        if (kept->batch.records) {
            kept->batch.records = s->records + kept->first_record;
        }
        ret = call(job, &s->piece, &kept->batch);
    }
    if (!ret && s->ret) {
        stop(job, s->ret, s->error);
    } else if (!ret) {
        s->piece.bad = s->bad;
        call(job, &s->piece, NULL);
    }
}

static void hand_out_slots(struct worker *w)
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
        workers[i].job = job;
        workers[i].number = i;
    }
    for (i = 1; i < threads; i++) {
        /* Without this thread the job only needs longer. */
        others[i] = g_thread_try_new("backtrail", job->slots ? fill_slots :
                                     work, &workers[i], NULL);
    }
    if (job->slots) {
        hand_out_slots(&workers[0]);
    } else {
        work(&workers[0]);
    }
    for (i = 0; i < threads; i++) {
        if (others[i]) {
            g_thread_join(others[i]);
        }
        btrail_cursor_close(workers[i].cursor);
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
    if (flags & BTRAIL_PARALLEL_ORDERED && threads > 1) {
        /* One thread by itself takes pieces in order. */
        job.n_slots = threads + MORE_SLOTS;
        job.slots = g_new0(struct slot, job.n_slots);
        for (i = 0; i < job.n_slots; i++) {
            job.slots[i].batches = g_array_new(FALSE, FALSE,
                                               sizeof(struct kept));
        }
    }
    g_mutex_init(&job.lock);
    g_cond_init(&job.changed);

    run(&job, threads);

    g_mutex_clear(&job.lock);
    g_cond_clear(&job.changed);
    for (i = 0; i < job.n_slots; i++) {
        g_array_free(job.slots[i].batches, TRUE);
        g_free(job.slots[i].records);
    }
    g_free(job.slots);
    g_ptr_array_free(job.streams, TRUE);
    if (job.ret == -BTRAIL_ERR_IO) {
        errno = job.error;
    }
    return job.ret;
}
