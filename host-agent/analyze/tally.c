/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Adding up a trace: see tally.h
 *
 * Each thread counts pieces of streams into a part of its own.  When that has
 * become too large, and at the end, it is added to the sum.
 *
 * What is left out where a limit is reached depends on the order.  So once the
 * sum reaches one, all is counted again, in the order of the streams and by
 * one thread, while the others still decode.
 */

#include <errno.h>
#include <string.h>

#include "analyze/tally.h"

/*
 * So many parts, and of this size at least, to be added to the sum not too
 * often: all of them together are about as large as what a sum may be.
 */
#define MAX_PARTS           32
#define MIN_PART_SPACES     256
#define MIN_PART_EDGES      (1u << 18)

/* So many records are counted before a part's size is looked at. */
#define STEP                4096

/* What a callback returns to end decoding; errors are negative. */
#define LIMIT_REACHED       1

struct part {
    struct tally_limits limits;
    GHashTable *by_cr3;
    struct tally tally;
    size_t edges_left;
    struct space *space;        /* where the last records were counted */
};

/* Address spaces at the ends of a piece of a stream, where spans may go on */
struct seam {
    bool any;                   /* it has records */
    uint64_t first;
    uint64_t last;
};

struct job {
    GMutex lock;                /* of the sum, when there are parts */
    struct part sum;
    struct part *parts;         /* NULL: count into the sum */
    struct seam *seams[BTRAIL_MAX_VCPUS];
};

static void free_space(gpointer p)
{
    struct space *s = p;

    edges_free(s->edges);
    g_free(s);
}

static void part_init(struct part *p, size_t spaces, size_t edges)
{
    memset(p, 0, sizeof(*p));
    p->limits = (struct tally_limits) { spaces, edges };
    p->edges_left = edges;
    p->by_cr3 = g_hash_table_new(g_int64_hash, g_int64_equal);
    p->tally.spaces = g_ptr_array_new_with_free_func(free_space);
}

static void part_clear(struct part *p)
{
    g_hash_table_unref(p->by_cr3);
    tally_clear(&p->tally);
}

void tally_clear(struct tally *t)
{
    if (t->spaces) {
        g_ptr_array_unref(t->spaces);
    }
    memset(t, 0, sizeof(*t));
}

/* NULL if there are too many. */
static struct space *find_space(struct part *p, uint64_t root)
{
    gint64 key = root;
    struct space *s = g_hash_table_lookup(p->by_cr3, &key);

    if (!s && p->tally.spaces->len < p->limits.spaces) {
        s = g_new0(struct space, 1);
        s->cr3 = root;
        s->edges = edges_new(&p->edges_left);
        g_ptr_array_add(p->tally.spaces, s);
        g_hash_table_insert(p->by_cr3, &s->cr3, s);
    }
    return s;
}

static bool earlier(const struct moment *a, const struct moment *b)
{
    if (a->time != b->time) {
        return a->time < b->time;
    }
    if (a->index != b->index) {
        return a->index < b->index;
    }
    return a->vcpu < b->vcpu;
}

static void add_moments(struct space *s, const struct moment *first,
                        const struct moment *last)
{
    if (!s->records || earlier(first, &s->first)) {
        s->first = *first;
    }
    if (!s->records || earlier(&s->last, last)) {
        s->last = *last;
    }
}

/* Add a part to the sum, and empty it; false if a limit is reached. */
static bool add_part(struct part *sum, struct part *p)
{
    struct tally_limits limits = p->limits;
    bool fits = true;
    unsigned i, k;

    for (i = 0; fits && i < p->tally.spaces->len; i++) {
        struct space *from = p->tally.spaces->pdata[i];
        struct space *to = find_space(sum, from->cr3);

        if (!to) {
            fits = false;
            break;
        }
        add_moments(to, &from->first, &from->last);
        to->records += from->records;
        to->spans += from->spans;
        for (k = 0; k < BTRAIL_MAX_VCPUS; k++) {
            to->vcpus[k] |= from->vcpus[k];
        }
        fits = edges_merge(to->edges, from->edges);
    }
    sum->tally.records += p->tally.records;
    sum->tally.lost += p->tally.lost;
    sum->tally.lost_unknown |= p->tally.lost_unknown;
    sum->tally.damage += p->tally.damage;
    part_clear(p);
    part_init(p, limits.spaces, limits.edges);
    return fits;
}

static bool spill(struct job *job, struct part *p)
{
    bool fits;

    g_mutex_lock(&job->lock);
    fits = add_part(&job->sum, p);
    g_mutex_unlock(&job->lock);
    return fits;
}

static void add_event(struct part *p, const struct btrail_batch *b)
{
    const struct btrail_event *e = b->event;

    p->tally.damage += b->synthetic;
    if (e->type == BTRAIL_EVENT_GAP) {
        if (e->data[0] == BTRAIL_LOST_UNKNOWN) {
            p->tally.lost_unknown = true;
        } else if (e->reason != BTRAIL_GAP_ELSEWHERE) {
            p->tally.lost += e->data[0];
        }
    }
}

/*
 * Have in @p->space where records are to be counted; NULL if nowhere.  False if
 * the sum reaches a limit.
 */
static bool choose_space(struct job *job, struct part *p, uint64_t root,
                         size_t edges)
{
    bool fits = true;

    if (job->parts && p->edges_left < edges) {
        fits = spill(job, p);
    }
    if (!p->space || p->space->cr3 != root) {
        p->space = find_space(p, root);
    }
    if (!p->space && job->parts) {
        fits &= spill(job, p);
        p->space = find_space(p, root);
        fits &= p->space != NULL;
    }
    return fits;
}

static bool add_records(struct job *job, struct part *p, unsigned vcpu,
                        const struct btrail_batch *b, bool new_span)
{
    uint64_t root = b->cr3 & BTRAIL_CR3_ROOT;
    size_t done = 0, n;

    for (; done < b->count; done += n) {
        struct moment first = { b->time.host, vcpu, b->index + done };
        struct moment last = first;

        n = MIN(b->count - done, MIN(STEP, p->limits.edges));
        last.index += n - 1;
        if (!choose_space(job, p, root, n)) {
            return false;
        }
        p->tally.records += n;
        if (!p->space) {
            p->tally.others += n;
            continue;
        }
        add_moments(p->space, &first, &last);
        p->space->records += n;
        p->space->spans += new_span && !done;
        p->space->vcpus[vcpu] = true;
        edges_count(p->space->edges, b->records + done, n);
    }
    return true;
}

static int take(void *opaque, const struct btrail_piece *piece,
                const struct btrail_batch *b)
{
    struct job *job = opaque;
    struct part *p = job->parts ? &job->parts[piece->worker] : &job->sum;
    struct seam *seam = &job->seams[piece->vcpu][piece->number];
    uint64_t root;
    bool new_span;

    if (!b) {
        p->tally.damage += piece->bad;
        return 0;
    }
    if (b->event) {
        add_event(p, b);
        return 0;
    }
    root = b->cr3 & BTRAIL_CR3_ROOT;
    new_span = !seam->any || seam->last != root;
    if (!seam->any) {
        seam->first = root;
    }
    seam->any = true;
    seam->last = root;
    return add_records(job, p, piece->vcpu, b, new_span) ? 0 : LIMIT_REACHED;
}

/* A span that goes on in the next piece was counted twice. */
static void join_spans(struct job *job, const struct btrail_stream_info *info)
{
    const struct seam *last = NULL;
    uint64_t i;

    for (i = 0; i < info->chunks; i++) {
        const struct seam *seam = &job->seams[info->vcpu][i];

        if (!seam->any) {
            continue;
        }
        if (last && last->last == seam->first) {
            gint64 key = seam->first;
            struct space *s = g_hash_table_lookup(job->sum.by_cr3, &key);

            if (s) {
                s->spans--;
            }
        }
        last = seam;
    }
}

static int count(struct job *job, const struct btrail_trace *trace,
                 unsigned threads, bool in_parts,
                 const struct tally_limits *limits)
{
    size_t spaces, edges;
    unsigned i;
    int ret, error;

    if (in_parts) {
        threads = MIN(threads, MAX_PARTS);
        spaces = MAX(limits->spaces / threads, MIN_PART_SPACES);
        edges = MAX(limits->edges / threads, MIN_PART_EDGES);
        job->parts = g_new0(struct part, threads);
        for (i = 0; i < threads; i++) {
            part_init(&job->parts[i], MIN(spaces, limits->spaces),
                      MIN(edges, limits->edges));
        }
    }
    ret = btrail_parallel_decode(trace, NULL, 0,
                                 in_parts ? 0 : BTRAIL_PARALLEL_ORDERED,
                                 threads, take, job);
    error = errno;
    if (in_parts) {
        for (i = 0; i < threads; i++) {
            if (!ret && !add_part(&job->sum, &job->parts[i])) {
                ret = LIMIT_REACHED;
            }
            part_clear(&job->parts[i]);
        }
        g_clear_pointer(&job->parts, g_free);
    }
    errno = error;
    return ret;
}

static gint by_records(gconstpointer a, gconstpointer b)
{
    const struct space *x = *(const struct space *const *)a;
    const struct space *y = *(const struct space *const *)b;

    if (x->records != y->records) {
        return x->records < y->records ? 1 : -1;
    }
    return x->cr3 < y->cr3 ? -1 : x->cr3 > y->cr3;
}

int tally_trace(struct tally *t, const struct btrail_trace *trace,
                unsigned threads, const struct tally_limits *limits)
{
    unsigned i, n = btrail_trace_streams(trace);
    struct btrail_stream_info info;
    struct job job = { .parts = NULL };
    int ret, error;

    g_mutex_init(&job.lock);
    part_init(&job.sum, limits->spaces, limits->edges);
    for (i = 0; i < n; i++) {
        btrail_trace_stream(trace, i, &info);
        job.seams[info.vcpu] = g_new0(struct seam, info.chunks);
    }
    ret = count(&job, trace, threads, threads > 1, limits);
    if (ret == LIMIT_REACHED) {
        part_clear(&job.sum);
        part_init(&job.sum, limits->spaces, limits->edges);
        for (i = 0; i < n; i++) {
            btrail_trace_stream(trace, i, &info);
            memset(job.seams[info.vcpu], 0, info.chunks * sizeof(struct seam));
        }
        ret = count(&job, trace, threads, false, limits);
    }
    error = errno;
    for (i = 0; i < n; i++) {
        btrail_trace_stream(trace, i, &info);
        join_spans(&job, &info);
        g_free(job.seams[info.vcpu]);
    }
    g_ptr_array_sort(job.sum.tally.spaces, by_records);
    *t = job.sum.tally;
    job.sum.tally.spaces = NULL;
    part_clear(&job.sum);
    g_mutex_clear(&job.lock);
    if (ret) {
        tally_clear(t);
    }
    errno = error;
    return ret;
}
