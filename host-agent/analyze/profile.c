/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How often each edge was taken: see profile.h
 *
 * Names are looked up at the end, once for each edge; and before, when there
 * are too many edges.
 */

#include <errno.h>

#include "analyze/profile.h"
#include "util/hash.h"

/* How many blocks are made at a time */
#define STEP            4096

/* Records of one task that are the same for the filter */
struct profile_group {
    struct fold_group group;
    struct task task;
    uint64_t class;
    unsigned vcpu;
};

/* The end of the last record, where the next block begins */
struct block_begin {
    bool known;
    unsigned vcpu;
    uint64_t to;
    const struct process *process;
};

struct profiling {
    struct fold fold;           /* its lock also protects the names */
    const struct profile_options *options;
    profile_fn *fn;
    void *opaque;
    uint64_t chosen;            /* records */
    struct block_begin begin;   /* for blocks, which one thread makes */
    struct btrail_record blocks[STEP];
};

static guint hash_group(gconstpointer p)
{
    const struct profile_group *g = p;

    return btrail_hash3((uintptr_t)g->task.process, g->class,
                        (uint64_t)g->task.era << 32 | g->vcpu) >> 32;
}

static gboolean equal_groups(gconstpointer a, gconstpointer b)
{
    const struct profile_group *x = a, *y = b;

    return x->task.process == y->task.process &&
           x->task.user == y->task.user && x->task.kernel == y->task.kernel &&
           x->task.era == y->task.era &&
           x->class == y->class && x->vcpu == y->vcpu;
}

static void count(struct profiling *p, struct fold_part *part,
                  const struct profile_group *key,
                  const struct btrail_record *records, size_t n)
{
    struct fold_group *group;
    size_t done;

    for (; n; records += done, n -= done) {
        done = fold_count(&p->fold, part, &key->group, records, n, &group);
    }
}

/* Makes blocks of records; returns their number. */
static size_t make_blocks(struct profiling *p, unsigned vcpu,
                          const struct process *process,
                          const struct btrail_record *records, size_t n)
{
    struct block_begin *begin = &p->begin;
    size_t i, made = 0;

    for (i = 0; i < n; i++) {
        if (begin->known && begin->vcpu == vcpu &&
            (begin->process == process || begin->to >= ADDRESS_SHARED)) {
            p->blocks[made++] = (struct btrail_record) {
                begin->to, records[i].from, 0,
            };
        }
        *begin = (struct block_begin) { true, vcpu, records[i].to, process };
    }
    return made;
}

static void count_blocks(struct profiling *p, struct fold_part *part,
                         const struct profile_group *key, unsigned vcpu,
                         const struct btrail_batch *b)
{
    size_t done, step, made;

    for (done = 0; done < b->count; done += step) {
        step = MIN(b->count - done, STEP);
        made = make_blocks(p, vcpu, key->task.process, b->records + done,
                           step);
        count(p, part, key, p->blocks, made);
    }
}

/*
 * Counts records of a filter that depends on their index; of a block, that of
 * the record at its end.
 */
static void count_by_index(struct profiling *p, struct fold_part *part,
                           struct profile_group *key, struct named_record *r,
                           const struct btrail_batch *b)
{
    const struct filter *filter = p->options->filter;
    struct btrail_batch some = *b;
    size_t i, k;

    for (i = 0; i < b->count; i = k) {
        r->index = b->index + i;
        key->class = filter_class(filter, r);
        k = MIN(b->count, filter_until(filter, r) - b->index);
        some.records = b->records + i;
        some.count = k - i;
        if (!filter_may_choose(filter, key->class)) {
            p->begin = (struct block_begin) {
                true, r->vcpu, b->records[k - 1].to, r->process,
            };
        } else if (p->options->blocks) {
            count_blocks(p, part, key, r->vcpu, &some);
        } else {
            count(p, part, key, some.records, some.count);
        }
    }
}

/* Counts records of one task. */
static void count_task(struct profiling *p, struct fold_part *part,
                       unsigned vcpu, const struct task *task,
                       const struct btrail_batch *b)
{
    const struct profile_options *o = p->options;
    struct named_record r = { .vcpu = vcpu, .process = task->process };
    struct profile_group key = {
        .task = *task, .vcpu = o->by_vcpu ? vcpu : 0,
    };

    if (o->filter) {
        r.time = window_time(&o->window, b->time.host);
        if (filter_uses_index(o->filter)) {
            count_by_index(p, part, &key, &r, b);
            return;
        }
        key.class = filter_class(o->filter, &r);
        if (!filter_may_choose(o->filter, key.class)) {
            p->begin.known &= !o->blocks;
            return;
        }
    }
    if (o->blocks) {
        count_blocks(p, part, &key, vcpu, b);
    } else {
        count(p, part, &key, b->records, b->count);
    }
}

static int profile_batch(void *opaque, const struct btrail_piece *piece,
                         const struct btrail_batch *b)
{
    struct profiling *p = opaque;
    const struct profile_options *o = p->options;
    struct fold_part *part = fold_take(&p->fold, piece, b);
    struct btrail_batch some = { .count = 0 };
    bool gap = b && b->event && b->event->type == BTRAIL_EVENT_GAP;
    struct task task;
    bool more;

    if (!part || !window_has(&o->window, b->time.host)) {
        if (o->blocks && (part || gap)) {
            p->begin.known = false;
        }
        return 0;
    }
    do {
        g_mutex_lock(&p->fold.lock);
        more = symbolizer_part(o->names, piece->vcpu, b, &some, &task);
        g_mutex_unlock(&p->fold.lock);
        if (more) {
            count_task(p, part, piece->vcpu, &task, &some);
        }
    } while (more);
    return 0;
}

/* Reports the edges that the filter chooses. */
static void report_edges(struct fold *f)
{
    struct profiling *p = (struct profiling *)f;
    const struct profile_options *o = p->options;
    GHashTableIter iter;
    gpointer key;

    g_hash_table_iter_init(&iter, f->sum.groups);
    while (g_hash_table_iter_next(&iter, &key, NULL)) {
        const struct profile_group *g = key;
        const struct edge *e = NULL;

        while ((e = edges_next(g->group.edges, e))) {
            struct place from, to;
            const struct named_record r = {
                .vcpu = g->vcpu, .time = -1, .from = e->from, .to = e->to,
                .process = g->task.process,
                .certainty = e->from >= ADDRESS_SHARED ? g->task.kernel :
                             g->task.user,
                .from_place = &from, .to_place = &to, .lines = o->names,
                .where = &g->task.where,
            };

            symbolizer_place(o->names, r.process, &g->task.where, e->from,
                             &from);
            symbolizer_target(o->names, r.process, &g->task.where, e->to,
                              &to);
            if (!o->filter || filter_chooses(o->filter, g->class, &r)) {
                p->chosen += e->count;
                p->fn(p->opaque, &r, e->count);
            }
        }
    }
}

static const struct fold_kind groups = {
    .size = sizeof(struct profile_group), .key = sizeof(struct profile_group),
    .hash = hash_group, .equal = equal_groups, .flush = report_edges,
};

int profile_trace(struct fold_sums *sums, const struct btrail_trace *trace,
                  const struct profile_options *options, profile_fn *fn,
                  void *opaque)
{
    const struct fold_limits limits = { SIZE_MAX, options->edges };
    struct profiling *p = g_new0(struct profiling, 1);
    int ret, error;

    p->options = options;
    p->fn = fn;
    p->opaque = opaque;
    fold_init(&p->fold, &groups, &limits);
    ret = fold_trace(&p->fold, trace, options->threads, options->blocks,
                     profile_batch, p);
    error = errno;
    if (!ret) {
        report_edges(&p->fold);
        *sums = p->fold.sum.sums;
        sums->records = p->chosen;
    }
    fold_clear(&p->fold);
    g_free(p);
    errno = error;
    return ret;
}
