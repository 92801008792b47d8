/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Runs of tasks: see runs.h
 *
 * Threads search pieces of the trace in any order.  The kind of a run can
 * depend on the piece before; the pieces are joined at the end.
 */

#include "lib/agent/batch.h"
#include "symbolize/runs.h"
#include "util/search.h"

#define MAX_RUNS    (1u << 22)
#define MAX_EVENTS  (1u << 20)

/* A quick test for the functions: most are aligned to 1 << ALIGNMENT bytes. */
#define ALIGNMENT   4
#define SLOTS       1024

/*
 * More kinds of parts: the sign of the piece before decides; or the run of the
 * piece before continues.
 */
enum {
    PART_BY_SIGN = RUN_IDLE + 1,
    PART_GOES_ON,
};

/* A run, or the part of it that is in one piece */
struct run_part {
    uint64_t first;
    uint64_t time;
    uint64_t cr3;
    uint64_t user;              /* index of its first record of user mode */
    uint8_t kind;
    bool idle;
};

/*
 * @sign: the kind of task that the kernel will switch to, by its last call in
 *        this piece: RUN_USER, RUN_KERNEL, RUN_UNKNOWN, or PART_BY_SIGN if the
 *        piece has no such call
 */
struct run_piece {
    GArray *parts;
    uint8_t sign;
};

struct runs {
    GArray *vcpus[BTRAIL_MAX_VCPUS];    /* of struct run */
    GArray *events;
    bool lost;
};

struct run_search {
    const struct runs_symbols *symbols;
    uint8_t wanted[SLOTS];
    struct run_piece *pieces[BTRAIL_MAX_VCPUS];
    gint left;                  /* parts, of all pieces */
    GMutex lock;                /* of all below */
    GArray *events;
    bool lost;
};

static void add_wanted(struct run_search *job, uint64_t address)
{
    job->wanted[address >> ALIGNMENT & (SLOTS - 1)] |= address != 0;
}

static struct run_part *last_part(struct run_piece *p)
{
    return &g_array_index(p->parts, struct run_part, p->parts->len - 1);
}

static void begin_run_part(struct run_search *job, struct run_piece *p,
                           uint64_t first, const struct btrail_batch *b,
                           uint8_t kind)
{
    struct run_part part = {
        first, b ? b->time.host : 0, b ? b->cr3 : 0, UINT64_MAX, kind, false,
    };

    g_array_append_val(p->parts, part);
    g_atomic_int_add(&job->left, -1);
}

static void add_run_event(struct run_search *job, unsigned vcpu,
                      const struct btrail_batch *b, size_t i, int kind)
{
    const struct run_event e = {
        kind, vcpu, b->index + i, b->time.host, b->cr3,
    };

    g_mutex_lock(&job->lock);
    if (job->events->len < MAX_EVENTS) {
        g_array_append_val(job->events, e);
    } else {
        job->lost = true;
    }
    g_mutex_unlock(&job->lock);
}

/* Handles a record that may be a call of one of the functions. */
static void check_call(struct run_search *job, struct run_piece *p,
                       unsigned vcpu, const struct btrail_batch *b, size_t i)
{
    const struct runs_symbols *s = job->symbols;
    uint64_t to = b->records[i].to;

    if (to < UINT64_C(1) << 63) {
        return;
    }
    if (to == s->switch_to) {
        begin_run_part(job, p, b->index + i + 1, b, p->sign);
        p->sign = RUN_UNKNOWN;
    } else if (to == s->start[0] || to == s->start[1]) {
        begin_run_part(job, p, b->index + i + 1, b, RUN_IDLE);
    } else if (to == s->lazy) {
        p->sign = RUN_KERNEL;
    } else if (to == s->switch_mm) {
        p->sign = RUN_USER;
    } else if (to == s->birth) {
        add_run_event(job, vcpu, b, i, RUN_BIRTH);
    } else if (to == s->clone) {
        add_run_event(job, vcpu, b, i, RUN_CLONE);
    } else if (to == s->exit) {
        add_run_event(job, vcpu, b, i, RUN_EXIT);
    }
}

static void search_records(struct run_search *job, struct run_piece *p,
                           unsigned vcpu, const struct btrail_batch *b)
{
    const struct runs_symbols *s = job->symbols;
    uint64_t size = s->idle[0].end - s->idle[0].start;
    uint64_t other_size = s->idle[1].end - s->idle[1].start;
    struct run_part *part = last_part(p);

    for (size_t i = 0; i < b->count; i++) {
        uint64_t from = b->records[i].from, to = b->records[i].to;

        if ((from & to) >> 63) {
            part->idle |= to - s->idle[0].start < size ||
                          to - s->idle[1].start < other_size;
        } else if (part->user == UINT64_MAX) {
            part->user = b->index + i;
        }
        if (G_UNLIKELY(job->wanted[to >> ALIGNMENT & (SLOTS - 1)])) {
            check_call(job, p, vcpu, b, i);
            part = last_part(p);
        }
    }
}

static int search_batch(void *opaque, const struct btrail_piece *at,
                const struct btrail_batch *b)
{
    struct run_search *job = opaque;
    struct run_piece *p = &job->pieces[at->vcpu][at->number];

    if (!p->parts) {
        p->parts = g_array_new(FALSE, FALSE, sizeof(struct run_part));
        p->sign = PART_BY_SIGN;
        begin_run_part(job, p, 0, NULL, PART_GOES_ON);
    }
    if (!b) {
        return 0;
    }
    if (b->ended) {
        /* The kernel that has these functions does not run. */
        if (!b->event && last_part(p)->kind != RUN_UNKNOWN) {
            begin_run_part(job, p, b->index, NULL, RUN_UNKNOWN);
        }
        p->sign = RUN_UNKNOWN;
    } else if (!b->event) {
        search_records(job, p, at->vcpu, b);
    } else if (b->event->type == BTRAIL_EVENT_GAP) {
        if (b->event->data[0]) {
            g_mutex_lock(&job->lock);
            job->lost = true;
            g_mutex_unlock(&job->lock);
        }
        begin_run_part(job, p, b->index, NULL, RUN_UNKNOWN);
        p->sign = RUN_UNKNOWN;
    }
    return g_atomic_int_get(&job->left) < 0;
}

static void append_run(GArray *runs, const struct run_part *part,
                       uint64_t first, enum run_kind kind)
{
    const struct run run = {
        .first = first, .time = part->time, .cr3 = part->cr3, .kind = kind,
    };

    g_array_append_val(runs, run);
}

/* Appends the runs of a piece to those before it. */
static void join_piece(GArray *runs, const struct run_piece *p, uint8_t *sign)
{
    for (guint i = 0; p->parts && i < p->parts->len; i++) {
        const struct run_part *part = &g_array_index(p->parts,
                                                     struct run_part, i);
        struct run *run;

        if (part->kind != PART_GOES_ON) {
            append_run(runs, part, part->first,
                       part->kind == PART_BY_SIGN ? *sign : part->kind);
        }
        run = &g_array_index(runs, struct run, runs->len - 1);
        if (part->idle && run->kind != RUN_USER) {
            run->kind = RUN_IDLE;
        }
        /* A thread of the kernel can start a program and become its own. */
        if (part->user != UINT64_MAX && run->kind != RUN_USER) {
            append_run(runs, &(struct run_part) { 0 }, part->user, RUN_USER);
        }
    }
    if (p->parts && p->sign != PART_BY_SIGN) {
        *sign = p->sign;
    }
}

static void keep_events(struct runs *r, const GArray *events)
{
    for (guint i = 0; i < events->len; i++) {
        const struct run_event *e = &g_array_index(events, struct run_event,
                                                   i);

        if (runs_find(r, e->vcpu, e->index).kind == RUN_USER) {
            g_array_append_val(r->events, *e);
        }
    }
}

/* Joins the pieces of a stream and frees them. */
static GArray *join_pieces(struct run_piece *pieces, uint64_t n)
{
    GArray *runs = g_array_new(FALSE, FALSE, sizeof(struct run));
    uint8_t sign = RUN_UNKNOWN;

    append_run(runs, &(struct run_part) { 0 }, 0, RUN_UNKNOWN);
    for (uint64_t k = 0; k < n; k++) {
        join_piece(runs, &pieces[k], &sign);
        g_clear_pointer(&pieces[k].parts, g_array_unref);
    }
    g_free(pieces);
    return runs;
}

/* Searches a stream up to an index; returns 0 or an error of the library. */
static int search_beginning(struct run_search *job,
                            const struct btrail_trace *trace, unsigned vcpu,
                            uint64_t until)
{
    const struct btrail_piece piece = { .vcpu = vcpu };
    struct btrail_cursor *cursor;
    struct btrail_batch b;
    int ret;

    ret = btrail_cursor_open(&cursor, trace, vcpu, 0);
    if (ret) {
        return ret;
    }
    while (!(ret = btrail_cursor_next(cursor, &b)) && b.index < until) {
        b = btrail_batch_part(&b, 0, MIN(b.count, until - b.index));
        ret = search_batch(job, &piece, &b);
        if (ret) {
            break;
        }
    }
    btrail_cursor_close(cursor);
    if (!ret || ret == -BTRAIL_ERR_END) {
        ret = search_batch(job, &piece, NULL);
    }
    if (!ret) {
        /* What is not named there is not known here, either. */
        begin_run_part(job, job->pieces[vcpu], until, NULL, RUN_UNKNOWN);
    }
    return ret;
}

/* Searches all streams as far as they do not name tasks. */
static int search_streams(struct run_search *job,
                          const struct btrail_trace *trace,
                          const uint64_t *until, unsigned threads)
{
    unsigned whole[BTRAIL_MAX_VCPUS], n = 0;
    struct btrail_stream_info info;
    int ret = 0;

    for (unsigned i = 0; !ret && !btrail_trace_stream(trace, i, &info); i++) {
        if (!until || until[info.vcpu] == UINT64_MAX) {
            whole[n++] = info.vcpu;
        } else if (info.chunks) {
            ret = search_beginning(job, trace, info.vcpu, until[info.vcpu]);
        }
    }
    return ret || !n ? ret :
           btrail_parallel_decode(trace, whole, n, 0, threads, search_batch,
                                  job);
}

struct runs *runs_new(const struct btrail_trace *trace, const uint64_t *until,
                      const struct runs_symbols *symbols, unsigned threads)
{
    struct run_search job = { .symbols = symbols, .left = MAX_RUNS };
    struct btrail_stream_info info;
    struct runs *r = NULL;
    unsigned i;
    int ret;

    add_wanted(&job, symbols->switch_to);
    add_wanted(&job, symbols->lazy);
    add_wanted(&job, symbols->switch_mm);
    add_wanted(&job, symbols->birth);
    add_wanted(&job, symbols->clone);
    add_wanted(&job, symbols->exit);
    add_wanted(&job, symbols->start[0]);
    add_wanted(&job, symbols->start[1]);
    g_mutex_init(&job.lock);
    job.events = g_array_new(FALSE, FALSE, sizeof(struct run_event));
    for (i = 0; !btrail_trace_stream(trace, i, &info); i++) {
        job.pieces[info.vcpu] = g_new0(struct run_piece, info.chunks);
    }
    ret = search_streams(&job, trace, until, threads);
    if (!ret) {
        r = g_new0(struct runs, 1);
        r->events = g_array_new(FALSE, FALSE, sizeof(struct run_event));
        r->lost = job.lost;
    }
    for (i = 0; !btrail_trace_stream(trace, i, &info); i++) {
        GArray *runs = join_pieces(job.pieces[info.vcpu], info.chunks);

        if (r) {
            r->vcpus[info.vcpu] = runs;
        } else {
            g_array_unref(runs);
        }
    }
    if (r) {
        keep_events(r, job.events);
    }
    g_array_unref(job.events);
    g_mutex_clear(&job.lock);
    return r;
}

void runs_free(struct runs *r)
{
    if (!r) {
        return;
    }
    for (unsigned i = 0; i < BTRAIL_MAX_VCPUS; i++) {
        g_clear_pointer(&r->vcpus[i], g_array_unref);
    }
    g_array_unref(r->events);
    g_free(r);
}

struct run runs_find(const struct runs *r, unsigned vcpu, uint64_t index)
{
    const GArray *runs = vcpu < BTRAIL_MAX_VCPUS ? r->vcpus[vcpu] : NULL;
    struct run run = { .end = UINT64_MAX };
    size_t n;

    if (runs) {
        /* The first run begins with index 0. */
        n = BTRAIL_UP_TO(runs->data, runs->len, struct run, first, index);
        run = g_array_index(runs, struct run, n - 1);
        run.end = n < runs->len ? g_array_index(runs, struct run, n).first :
                  UINT64_MAX;
    }
    return run;
}

bool runs_events(const struct runs *r, const struct run_event **events,
                 size_t *n)
{
    *events = (const struct run_event *)r->events->data;
    *n = r->events->len;
    return !r->lost;
}
