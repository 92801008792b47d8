/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How often each edge was taken: see profile.h
 *
 * Names are looked up at the end, once for each edge; and before, when there
 * are too many edges.
 */

#include <errno.h>

#include "analyze/profile.h"
#include "symbolize/instruction.h"
#include "util/hash.h"

/* How many blocks are made at a time */
#define STEP            4096

/* Each has a table of edges, however few these are. */
#define MAX_GROUPS      (1u << 18)

#define PAGE            BTRAIL_CODE_PAGE_SIZE

/* A block that is larger is no code. */
#define MAX_BLOCK       (16 * PAGE)

/* Pages of code whose changes were looked up last */
#define PAGES_BITS      12

/*
 * Records of one task that are the same for the filter; of blocks, those of one
 * address space whose code changes next at one record
 */
struct profile_group {
    struct fold_group group;
    struct task task;
    uint64_t class;
    unsigned vcpu;
    bool enters;
    uint64_t space;
    uint64_t until;
};

/* Up to where a page of code is what it is from a record on */
struct code_page {
    unsigned vcpu;
    uint64_t space;
    uint64_t page;
    uint64_t from;
    uint64_t until;
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
    struct code_page pages[1u << PAGES_BITS];
    struct code_page *page;     /* the last one of them */
};

static guint hash_group(gconstpointer p)
{
    const struct profile_group *g = p;

    return (btrail_hash3((uintptr_t)g->task.process, g->class,
                         (uint64_t)g->task.era << 32 | g->vcpu) ^
            btrail_hash3(g->space, g->until, g->enters)) >> 32;
}

static gboolean equal_groups(gconstpointer a, gconstpointer b)
{
    const struct profile_group *x = a, *y = b;

    return x->task.process == y->task.process &&
           x->task.user == y->task.user && x->task.kernel == y->task.kernel &&
           x->task.era == y->task.era &&
           x->class == y->class && x->vcpu == y->vcpu &&
           x->space == y->space && x->until == y->until &&
           x->enters == y->enters;
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

static bool is_page(const struct code_page *c,
                    const struct symbolizer_where *where, uint64_t page,
                    uint64_t space)
{
    return c->page == page && c->space == space && c->vcpu == where->vcpu &&
           where->index >= c->from && where->index < c->until;
}

/* The first record after @where at which the code of a page is another one */
static uint64_t page_until(struct profiling *p,
                           const struct symbolizer_where *where, uint64_t page)
{
    uint64_t space = btrail_cr3_root(where->cr3);
    struct code_page *c = p->page;

    /* Mostly it is the same page again. */
    if (G_LIKELY(is_page(c, where, page, space))) {
        return c->until;
    }
    p->page = c = &p->pages[btrail_hash3(page, space, where->vcpu) >>
                            (64 - PAGES_BITS)];
    if (!is_page(c, where, page, space)) {
        *c = (struct code_page) {
            where->vcpu, space, page, where->index,
            symbolizer_code_until(p->options->names, where, page, PAGE),
        };
    }
    return c->until;
}

/* The same of a block */
static uint64_t block_until(struct profiling *p,
                            const struct symbolizer_where *where,
                            uint64_t begin, uint64_t last)
{
    uint64_t page = begin & -(uint64_t)PAGE, until = UINT64_MAX;
    uint64_t size = last - page + INSTRUCTION_MAX;

    if (last < begin || last - begin >= MAX_BLOCK) {
        return until;
    }
    for (uint64_t i = 0; i < size; i += PAGE) {
        until = MIN(until, page_until(p, where, page + i));
    }
    return until;
}

static void count_blocks(struct profiling *p, struct fold_part *part,
                         const struct profile_group *group,
                         const struct btrail_batch *b)
{
    const struct process *process = group->task.process;
    struct symbolizer_where where = group->task.where;
    struct profile_group key = *group;
    struct block_begin *begin = &p->begin;
    size_t made = 0;

    key.space = btrail_cr3_root(b->cr3);
    for (size_t i = 0; i < b->count; i++) {
        const struct btrail_record *r = &b->records[i];

        if (begin->known && begin->vcpu == where.vcpu &&
            (begin->process == process || begin->to >= ADDRESS_SHARED)) {
            bool enters = (r->to & ~r->from) >= ADDRESS_SHARED;
            uint64_t until;

            where.index = b->index + i;
            until = block_until(p, &where, begin->to, r->from);
            if (made == STEP || until != key.until || enters != key.enters) {
                count(p, part, &key, p->blocks, made);
                made = 0;
                key.until = until;
                key.enters = enters;
            }
            p->blocks[made++] = (struct btrail_record) {
                begin->to, r->from, 0,
            };
        }
        *begin = (struct block_begin) { true, where.vcpu, r->to, process };
    }
    count(p, part, &key, p->blocks, made);
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
        some.index = b->index + i;
        if (!filter_may_choose(filter, key->class)) {
            p->begin = (struct block_begin) {
                true, r->vcpu, b->records[k - 1].to, r->process,
            };
        } else if (p->options->blocks) {
            count_blocks(p, part, key, &some);
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
        count_blocks(p, part, &key, b);
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
        struct symbolizer_where where = g->task.where;
        const struct edge *e = NULL;

        if (o->blocks) {
            where.index = g->until - 1;
        }
        while ((e = edges_next(g->group.edges, e))) {
            struct place from, to;
            const struct named_record r = {
                .vcpu = g->vcpu, .time = -1, .from = e->from, .to = e->to,
                .process = g->task.process,
                .certainty = e->from >= ADDRESS_SHARED ? g->task.kernel :
                             g->task.user,
                .from_place = &from, .to_place = &to, .lines = o->names,
                .where = &where, .enters = g->enters,
            };

            symbolizer_place(o->names, r.process, &where, e->from, &from);
            symbolizer_target(o->names, r.process, &where, e->to, &to);
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
    const struct fold_limits limits = {
        options->blocks ? MAX_GROUPS : SIZE_MAX, options->edges,
    };
    struct profiling *p = g_new0(struct profiling, 1);
    int ret, error;

    p->options = options;
    p->fn = fn;
    p->opaque = opaque;
    p->page = p->pages;
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
