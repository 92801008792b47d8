/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How often each edge was taken: see profile.h
 *
 * Each thread counts into a part of its own.  A part that has become too large
 * is added to the sum.  Names are looked up at the end, once for each edge.
 */

#include <errno.h>
#include <string.h>

#include "analyze/profile.h"
#include "util/hash.h"

#define MIN_PART_EDGES  (1u << 18)
#define STEP            4096

/* What records have in common */
struct key {
    struct task task;
    uint64_t class;
    unsigned vcpu;
};

struct group {
    struct key key;
    struct edges *edges;
};

struct part {
    GHashTable *groups;         /* of struct group */
    struct group *last;
    size_t left;                /* edges that it may still tell apart */
    size_t limit;
    struct profile sums;
};

/* Where the last record went, if what comes next follows it */
struct link {
    bool known;
    unsigned vcpu;
    uint64_t to;
    const struct process *process;
};

struct job {
    const struct profile_options *options;
    struct link link;           /* with blocks alone: one thread takes them */
    struct btrail_record *blocks;
    GMutex lock;                /* of the sum and of the names */
    struct part sum;
    struct part *parts;
};

static guint hash(gconstpointer p)
{
    const struct key *k = p;

    return btrail_hash3((uintptr_t)k->task.process, k->class, k->vcpu) >> 32;
}

static gboolean equal(gconstpointer a, gconstpointer b)
{
    const struct key *x = a, *y = b;

    return x->task.process == y->task.process &&
           x->task.user == y->task.user && x->task.kernel == y->task.kernel &&
           x->class == y->class && x->vcpu == y->vcpu;
}

static void free_group(gpointer p)
{
    struct group *g = p;

    edges_free(g->edges);
    g_free(g);
}

static void part_init(struct part *p, size_t limit)
{
    memset(p, 0, sizeof(*p));
    p->groups = g_hash_table_new_full(hash, equal, NULL, free_group);
    p->left = p->limit = limit;
}

static struct group *get_group(struct part *p, const struct key *key)
{
    if (!p->last || !equal(&p->last->key, key)) {
        p->last = g_hash_table_lookup(p->groups, key);
        if (!p->last) {
            p->last = g_new0(struct group, 1);
            p->last->key = *key;
            p->last->edges = edges_new(&p->left);
            g_hash_table_insert(p->groups, &p->last->key, p->last);
        }
    }
    return p->last;
}

/* With the lock held: add a part to the sum, and empty it. */
static void add_part(struct part *sum, struct part *p)
{
    struct profile sums = p->sums;
    size_t limit = p->limit;
    GHashTableIter iter;
    gpointer value;

    g_hash_table_iter_init(&iter, p->groups);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const struct group *g = value;

        edges_add(get_group(sum, &g->key)->edges, g->edges);
    }
    g_hash_table_unref(p->groups);
    part_init(p, limit);
    sum->sums.records += sums.records;
    sum->sums.lost += sums.lost;
    sum->sums.lost_unknown |= sums.lost_unknown;
    sum->sums.damage += sums.damage;
}

static void add_event(struct part *p, const struct btrail_batch *b)
{
    const struct btrail_event *e = b->event;

    p->sums.damage += b->synthetic;
    if (e->type == BTRAIL_EVENT_GAP) {
        if (e->data[0] == BTRAIL_LOST_UNKNOWN) {
            p->sums.lost_unknown = true;
        } else if (e->reason != BTRAIL_GAP_ELSEWHERE) {
            p->sums.lost += e->data[0];
        }
    }
}

static void count(struct job *job, struct part *p, const struct key *key,
                  const struct btrail_record *records, size_t n)
{
    size_t done, step;

    for (done = 0; done < n; done += step) {
        step = MIN(n - done, STEP);
        if (p->left < step) {
            g_mutex_lock(&job->lock);
            add_part(&job->sum, p);
            g_mutex_unlock(&job->lock);
        }
        edges_count(get_group(p, key)->edges, records + done, step);
        p->sums.records += step;
    }
}

static void count_by_index(struct job *job, struct part *p, struct key *key,
                           struct filter_record *r,
                           const struct btrail_batch *b)
{
    const struct filter *filter = job->options->filter;
    size_t i, k;

    for (i = 0; i < b->count; i = k) {
        r->index = b->index + i;
        key->class = filter_class(filter, r);
        for (k = i + 1; k < b->count; k++) {
            r->index = b->index + k;
            if (filter_class(filter, r) != key->class) {
                break;
            }
        }
        if (filter_may_choose(filter, key->class)) {
            count(job, p, key, b->records + i, k - i);
        }
    }
}

/* Make blocks of records; returns how many there are. */
static size_t make_blocks(struct job *job, unsigned vcpu,
                          const struct process *process,
                          const struct btrail_record *records, size_t n)
{
    struct link *link = &job->link;
    size_t i, made = 0;

    for (i = 0; i < n; i++) {
        if (link->known && link->vcpu == vcpu &&
            (link->process == process || link->to >= ADDRESS_SHARED)) {
            job->blocks[made++] = (struct btrail_record) {
                link->to, records[i].from, 0,
            };
        }
        *link = (struct link) { true, vcpu, records[i].to, process };
    }
    return made;
}

static void count_blocks(struct job *job, struct part *p,
                         const struct key *key, unsigned vcpu,
                         const struct btrail_batch *b)
{
    size_t done, step, made;

    for (done = 0; done < b->count; done += step) {
        step = MIN(b->count - done, STEP);
        made = make_blocks(job, vcpu, key->task.process, b->records + done,
                           step);
        count(job, p, key, job->blocks, made);
    }
}

/* Records of one task */
static void take_part(struct job *job, struct part *p, unsigned vcpu,
                      const struct task *task, const struct btrail_batch *b)
{
    const struct profile_options *o = job->options;
    struct filter_record r = { .vcpu = vcpu, .process = task->process };
    struct key key = { .task = *task, .vcpu = o->by_vcpu ? vcpu : 0 };

    if (o->filter) {
        r.time = window_time(&o->window, b->time.host);
        if (filter_uses_index(o->filter) && !o->blocks) {
            count_by_index(job, p, &key, &r, b);
            return;
        }
        key.class = filter_class(o->filter, &r);
        if (!filter_may_choose(o->filter, key.class)) {
            if (o->blocks) {
                job->link.known = false;
            }
            return;
        }
    }
    if (o->blocks) {
        count_blocks(job, p, &key, vcpu, b);
    } else {
        count(job, p, &key, b->records, b->count);
    }
}

static int take(void *opaque, const struct btrail_piece *piece,
                const struct btrail_batch *b)
{
    struct job *job = opaque;
    const struct profile_options *o = job->options;
    struct part *p = &job->parts[piece->worker];
    struct btrail_batch part = { .count = 0 };
    struct task task;
    bool more;

    if (!b) {
        p->sums.damage += piece->bad;
        return 0;
    }
    if (b->event) {
        if (o->blocks && b->event->type == BTRAIL_EVENT_GAP) {
            job->link.known = false;
        }
        add_event(p, b);
        return 0;
    }
    if (!window_has(&o->window, b->time.host)) {
        if (o->blocks) {
            job->link.known = false;
        }
        return 0;
    }
    do {
        g_mutex_lock(&job->lock);
        more = symbolizer_part(o->names, piece->vcpu, b, &part, &task);
        g_mutex_unlock(&job->lock);
        if (more) {
            take_part(job, p, piece->vcpu, &task, &part);
        }
    } while (more);
    return 0;
}

/* Say what was counted. */
static void report(struct job *job, struct profile *sums, profile_fn *fn,
                   void *opaque)
{
    const struct profile_options *o = job->options;
    GHashTableIter iter;
    gpointer value;

    sums->records = 0;
    g_hash_table_iter_init(&iter, job->sum.groups);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const struct group *g = value;
        const struct edge *e = NULL;

        sums->others += edges_others(g->edges);
        while ((e = edges_next(g->edges, e))) {
            struct place from, to;
            const struct filter_record r = {
                .vcpu = g->key.vcpu, .time = -1, .from = e->from,
                .to = e->to, .process = g->key.task.process,
                .certainty = e->from >= ADDRESS_SHARED ?
                             g->key.task.kernel : g->key.task.user,
                .from_place = &from, .to_place = &to, .lines = o->names,
            };

            symbolizer_place(o->names, r.process, e->from, &from);
            symbolizer_place(o->names, r.process, e->to, &to);
            if (!o->filter || filter_chooses(o->filter, g->key.class, &r)) {
                sums->records += e->count;
                fn(opaque, &r, e->count);
            }
        }
    }
}

int profile_trace(struct profile *p, const struct btrail_trace *trace,
                  const struct profile_options *options, profile_fn *fn,
                  void *opaque)
{
    struct job job = { .options = options };
    unsigned i, threads = options->threads;
    size_t edges = MAX(options->edges / threads, MIN_PART_EDGES);
    int ret, error;

    g_mutex_init(&job.lock);
    part_init(&job.sum, options->edges);
    job.parts = g_new0(struct part, threads);
    for (i = 0; i < threads; i++) {
        part_init(&job.parts[i], MAX(MIN(edges, options->edges), STEP));
    }
    if (options->blocks) {
        job.blocks = g_new(struct btrail_record, STEP);
    }
    ret = btrail_parallel_decode(trace, NULL, 0, options->blocks ?
                                 BTRAIL_PARALLEL_ORDERED : 0, threads, take,
                                 &job);
    error = errno;
    for (i = 0; i < threads; i++) {
        add_part(&job.sum, &job.parts[i]);
        g_hash_table_unref(job.parts[i].groups);
    }
    *p = job.sum.sums;
    if (!ret) {
        report(&job, p, fn, opaque);
    }
    g_hash_table_unref(job.sum.groups);
    g_free(job.parts);
    g_free(job.blocks);
    g_mutex_clear(&job.lock);
    errno = error;
    return ret;
}
