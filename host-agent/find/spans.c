/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Spans from A to B: see spans.h
 */

#include <glib.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/pace.h"
#include "find/clock-order.h"
#include "find/record-reader.h"
#include "find/spans.h"
#include "lib/agent/pause.h"
#include "lib/agent/thread.h"
#include "util/cr3-pair.h"
#include "util/hash.h"
#include "util/search.h"

#define fail(error, ...) \
    agent_fail(error, AGENT_ERROR_COMMAND, __VA_ARGS__)

/* Memory for the records of spans: 64 MiB */
#define MAX_RANGES      (1u << 22)

/* What no vCPU, process or page table has */
#define KEY_IDLE        (UINT64_C(1) << 32)
#define KEY_NAMELESS    (UINT64_C(2) << 32)
#define KEY_VALUE       (UINT64_C(3) << 32)
#define KEY_ANY         (UINT64_C(4) << 32)

/* Begin with a number of 64 bits each, and are equal if both numbers are. */
struct span_key {
    uint64_t numbers[2];
};

/**
 * struct span_sums - of a thread, or of all
 * @records: that were counted, as long as there are spans
 * @ticks:   their time, in 1/PACE_TICKS ns
 * @paused:  how long vCPUs were paused while they ran it, but for the time in
 *           which the whole guest was
 */
struct span_sums {
    uint64_t records;
    uint64_t ticks;
    uint64_t paused;
};

/**
 * struct span_account
 * @spans: that it is in
 */
struct span_account {
    struct span_key key;
    struct span_sums sums;
    unsigned spans;
};

/**
 * struct span_part - a span on one vCPU: records [@begin, @end)
 * @accounts: of those whose records it has
 * @before:   the sums of these at its beginning
 */
struct span_part {
    struct span *span;
    uint64_t begin;
    uint64_t end;
    struct span_account *accounts[2];
    struct span_sums before[2];
};

/* Where a part begins or ends */
struct bound {
    uint64_t index;
    uint64_t number;            /* a part, by its number; its order */
    bool begin;
};

/**
 * struct spans
 * @orders:  of B and of A, since those of each kind come in order; NULL after
 *           spans_pair()
 * @points:  of struct span_point; in order after spans_pair()
 * @n:       of B and of A
 * @counted: all points have counts of instructions, which order them
 * @all:     of struct span
 */
struct spans {
    const struct btrail_trace *trace;
    uint64_t tick;
    enum spans_pair pair;
    struct clock_order *orders[2];
    GArray *points;
    unsigned n[2];
    bool counted;
    GArray *all;
    uint64_t unbegun;
    uint64_t unvalued;
};

struct spans *spans_new(const struct btrail_trace *trace, uint64_t tick,
                        enum spans_pair pair)
{
    struct spans *s = g_new0(struct spans, 1);

    s->trace = trace;
    s->tick = tick;
    s->pair = pair;
    s->counted = true;
    s->points = g_array_new(FALSE, FALSE, sizeof(struct span_point));
    s->all = g_array_new(FALSE, FALSE, sizeof(struct span));
    for (unsigned i = 0; i < 2; i++) {
        s->orders[i] = clock_order_new(trace, tick);
    }
    return s;
}

static void free_orders(struct spans *s)
{
    for (unsigned i = 0; i < 2; i++) {
        g_clear_pointer(&s->orders[i], clock_order_free);
    }
}

void spans_free(struct spans *s)
{
    if (s) {
        free_orders(s);
        g_array_unref(s->points);
        g_array_unref(s->all);
        g_free(s);
    }
}

bool spans_add(struct spans *s, bool begin, const struct moment *at,
               uint64_t cr3, const uint64_t *value)
{
    const struct span_point p = {
        .index = at->index, .time = clock_order_time(s->orders[begin], at),
        .begun = clock_order_begun(s->orders[begin], at),
        .host = at->time.host,
        .latest = clock_order_latest(s->orders[begin], at), .cr3 = cr3,
        .vcpu = at->vcpu, .begin = begin,
        .count = at->exact ? at->icount : BTRAIL_NO_ICOUNT,
        .known = value, .value = value ? *value : 0, .task = at->task,
        .kernel = at->kernel,
    };

    if (s->n[begin] == SPANS_MAX_POINTS) {
        return false;
    }
    s->n[begin]++;
    s->counted &= at->exact;
    g_array_append_val(s->points, p);
    return true;
}

/*
 * Which spans B can end
 */

/* The thread that makes records */
static struct span_key thread_of(unsigned vcpu, const struct btrail_task *task,
                                 uint64_t cr3)
{
    if (!task->known) {
        return (struct span_key) { { KEY_NAMELESS, cr3_pair(cr3) } };
    }
    return task->tid ? (struct span_key) { { task->pid,
    btrail_thread(task) } } :
           (struct span_key) { { KEY_IDLE, vcpu } };
}

/* The same, where it matters */
static struct span_key maker_of(const struct spans *s, unsigned vcpu,
                                const struct btrail_task *task, uint64_t cr3)
{
    return s->pair == SPANS_ANY ? (struct span_key) { { KEY_ANY, 0 } } :
           thread_of(vcpu, task, cr3);
}

static struct span_key maker_of_point(const struct spans *s,
                                      const struct span_point *p)
{
    return maker_of(s, p->vcpu, &p->task, p->cr3);
}

static struct span_key key_of(const struct spans *s, const struct span_point *p)
{
    return s->pair == SPANS_VALUE ?
           (struct span_key) { { KEY_VALUE, p->value } } : maker_of_point(s, p);
}

static uint64_t place_of(const struct spans *s, const struct span_point *p)
{
    return s->counted ? p->count : p->time;
}

/* Of one moment, the end of a span comes before the beginning of the next. */
static gint in_order(gconstpointer a, gconstpointer b, gpointer opaque)
{
    const struct span_point *x = a, *y = b;

    if (x->vcpu == y->vcpu) {
        return BTRAIL_COMPARE(x->index, y->index) ?:
               BTRAIL_COMPARE(x->begin, y->begin);
    }
    return BTRAIL_COMPARE(place_of(opaque, x), place_of(opaque, y)) ?:
           BTRAIL_COMPARE(x->vcpu, y->vcpu);
}

/**
 * struct waiting - with the same key
 * @spans: those that have begun and not ended, by number, the last one last
 * @end:   the last B that has ended none, or NULL
 */
struct waiting {
    GArray *spans;
    const struct span_point *end;
};

static void free_waiting(gpointer p)
{
    struct waiting *w = p;

    g_array_unref(w->spans);
    g_free(w);
}

static struct waiting *get_waiting(GHashTable *all, const struct span_key *key)
{
    struct waiting *w = g_hash_table_lookup(all, key);

    if (!w) {
        w = g_new0(struct waiting, 1);
        w->spans = g_array_new(FALSE, FALSE, sizeof(unsigned));
        g_hash_table_insert(all, g_memdup2(key, sizeof(*key)), w);
    }
    return w;
}

/*
 * Can B on one vCPU be after A on another, though its time is estimated to be
 * before A's?  B's can be as late as the clock after it, which is far where the
 * host took the CPU from the vCPU, and A's as early as the clock before it.
 */
static bool can_be_after(const struct spans *s, const struct span_point *end,
                          const struct span_point *begin)
{
    return !s->counted && end->vcpu != begin->vcpu && end->latest > begin->host;
}

static void begin_span(struct spans *s, struct waiting *w,
                       const struct span_point *p)
{
    struct span span = { .begin = p };
    unsigned number = s->all->len;

    /* Whoever has the same value has got it from A. */
    if (s->pair == SPANS_VALUE && w->end && can_be_after(s, w->end, p)) {
        span.end = w->end;
        w->end = NULL;
        s->unbegun--;
    } else {
        g_array_append_val(w->spans, number);
    }
    g_array_append_val(s->all, span);
}

static void end_span(struct spans *s, struct waiting *w,
                     const struct span_point *p)
{
    unsigned number;

    if (!w->spans->len) {
        w->end = p;
        s->unbegun++;
        return;
    }
    number = g_array_index(w->spans, unsigned, w->spans->len - 1);
    g_array_index(s->all, struct span, number).end = p;
    g_array_set_size(w->spans, w->spans->len - 1);
}

static void take_point(struct spans *s, GHashTable *waiting,
                       const struct span_point *p)
{
    const struct span_key key = key_of(s, p);

    if (s->pair == SPANS_VALUE && !p->known) {
        s->unvalued++;
    } else if (p->begin) {
        begin_span(s, get_waiting(waiting, &key), p);
    } else {
        end_span(s, get_waiting(waiting, &key), p);
    }
}

void spans_pair(struct spans *s)
{
    g_autoptr(GHashTable) waiting = g_hash_table_new_full(
        btrail_pair_hash, btrail_pair_equal, g_free, free_waiting);

    free_orders(s);
    g_array_sort_with_data(s->points, in_order, s);
    for (guint i = 0; i < s->points->len; i++) {
        take_point(s, waiting, &g_array_index(s->points, struct span_point, i));
    }
}

const struct span *spans_get(const struct spans *s, size_t i)
{
    return i < s->all->len ? &g_array_index(s->all, struct span, i) : NULL;
}

uint64_t spans_unbegun(const struct spans *s)
{
    return s->unbegun;
}

uint64_t spans_unvalued(const struct spans *s)
{
    return s->unvalued;
}

uint64_t span_duration(const struct span *span)
{
    return span->end->time - MIN(span->begin->time, span->end->time);
}

uint64_t span_unpaused(const struct span *span)
{
    return span_duration(span) - span->paused;
}

struct times_span span_time(const struct span *span)
{
    uint64_t begin = span->begin->begun, end = span->end->begun;

    return (struct times_span) {
        begin, MIN(end, begin + span_duration(span)) + 1,
    };
}

/*
 * Their records
 */

/**
 * struct count
 * @pauses:   or NULL
 * @order:    to find the records of a vCPU at moments of others
 * @accounts: by their keys
 * @parts, @bounds: of one vCPU, the latter in order
 * @next:     the first bound that was not passed
 * @paces:    of the vCPU
 * @watch:    its pauses
 * @last:     who has made its last record; NULL if nobody has whose records
 *            are in spans
 */
struct count {
    struct spans *s;
    struct record_set *set;
    const struct pauses *pauses;
    struct clock_order *order;
    GHashTable *accounts;
    unsigned vcpu;
    GArray *parts;
    GArray *bounds;
    guint next;
    struct paces *paces;
    struct btrail_pause_watch watch;
    struct span_account *last;
};

static struct span_account *get_account(struct count *c,
                                        const struct span_key *key)
{
    struct span_account *a = g_hash_table_lookup(c->accounts, key);

    if (!a) {
        a = g_new0(struct span_account, 1);
        a->key = *key;
        g_hash_table_add(c->accounts, a);
    }
    return a;
}

static void find_accounts(struct count *c, struct span_part *part)
{
    const struct span *span = part->span;
    struct span_key key = maker_of_point(c->s, span->begin);

    part->accounts[0] = get_account(c, &key);
    if (c->s->pair == SPANS_VALUE) {
        key = maker_of_point(c->s, span->end);
        part->accounts[1] = get_account(c, &key);
        if (part->accounts[1] == part->accounts[0]) {
            part->accounts[1] = NULL;
        }
    }
}

/* Where the vCPU is at the moments of all points, in their order */
static uint64_t *find_indices(struct count *c)
{
    const GArray *points = c->s->points;
    uint64_t *indices = g_new(uint64_t, points->len + 1), key = 0;

    for (guint i = 0; i < points->len; i++) {
        const struct span_point *p = &g_array_index(points, struct span_point,
                                                    i);

        /* A clock that goes back stands still here. */
        key = MAX(key, place_of(c->s, p));
        indices[i] = p->vcpu == c->vcpu ? p->index :
                     clock_order_index(c->order, c->vcpu, c->s->counted, key);
    }
    return indices;
}

static void add_bounds(struct count *c, guint number)
{
    const struct span_part *part = &g_array_index(c->parts, struct span_part,
                                                  number);
    const struct bound bounds[] = {
        { part->begin, number, true }, { part->end, number, false },
    };

    g_array_append_vals(c->bounds, bounds, 2);
}

static gint by_index(gconstpointer a, gconstpointer b)
{
    const struct bound *x = a, *y = b;

    return BTRAIL_COMPARE(x->index, y->index) ?:
           BTRAIL_COMPARE(x->number, y->number) ?:
           BTRAIL_COMPARE(y->begin, x->begin);
}

/* Which parts of spans the vCPU has */
static void find_parts(struct count *c)
{
    const struct span_point *points = (const void *)c->s->points->data;
    g_autofree uint64_t *indices = find_indices(c);

    g_array_set_size(c->parts, 0);
    g_array_set_size(c->bounds, 0);
    for (guint i = 0; i < c->s->all->len; i++) {
        struct span *span = &g_array_index(c->s->all, struct span, i);
        struct span_part part = { .span = span };

        if (!span->end) {
            continue;
        }
        part.begin = indices[span->begin - points];
        part.end = indices[span->end - points];
        if (part.begin < part.end) {
            find_accounts(c, &part);
            g_array_append_val(c->parts, part);
            add_bounds(c, c->parts->len - 1);
        }
    }
    g_array_sort(c->bounds, by_index);
    c->next = 0;
}

static const struct bound *next_bound(const struct count *c)
{
    return c->next < c->bounds->len ?
           &g_array_index(c->bounds, struct bound, c->next) : NULL;
}

/* What an account has of a part, which ends.  @on_cpu is in ticks up to the end
 * of all, and @paused has only what is of no other vCPU. */
static void end_part(struct span_part *part, unsigned i)
{
    const struct span_sums *now = &part->accounts[i]->sums;
    const struct span_sums *before = &part->before[i];

    part->span->records += now->records - before->records;
    part->span->on_cpu += now->ticks - before->ticks;
    part->span->paused += now->paused - before->paused;
}

static void pass_bound(struct count *c, const struct bound *bound)
{
    struct span_part *part = &g_array_index(c->parts, struct span_part,
                                            bound->number);

    for (unsigned i = 0; i < 2 && part->accounts[i]; i++) {
        struct span_account *a = part->accounts[i];

        if (bound->begin) {
            part->before[i] = a->sums;
            a->spans++;
        } else {
            end_part(part, i);
            a->spans--;
        }
    }
    c->next++;
}

/* The time of records, in 1/PACE_TICKS ns */
static uint64_t ticks_of(struct count *c, uint64_t begin, uint64_t end)
{
    uint64_t sum = 0;

    while (begin < end) {
        const struct pace *pace = paces_at(c->paces, begin);
        uint64_t until = MIN(end, pace->end);

        sum += (until - begin) * pace->ticks;
        begin = until;
    }
    return sum;
}

/* Counts records of a thread between two bounds. */
static void count_records(struct count *c, const struct btrail_batch *b,
                          uint64_t begin, uint64_t end)
{
    const struct span_key key = maker_of(c->s, c->vcpu, &b->task, b->cr3);
    struct span_account *a = g_hash_table_lookup(c->accounts, &key);

    c->last = a;
    if (a && a->spans) {
        a->sums.records += end - begin;
        a->sums.ticks += ticks_of(c, begin, end);
        if (c->set) {
            record_set_add(c->set, c->vcpu, begin, end);
        }
    }
}

/* Passes the bounds up to an index.  Returns the next one, or NULL. */
static const struct bound *pass_bounds(struct count *c, uint64_t index)
{
    const struct bound *bound;

    while ((bound = next_bound(c)) && bound->index <= index) {
        pass_bound(c, bound);
    }
    return bound;
}

/* A pause is of the thread that has made the last record before it. */
static void count_event(struct count *c, const struct btrail_event *e)
{
    struct btrail_pause pause;

    if (!btrail_pause_watch_event(&c->watch, e, &pause) || !c->pauses) {
        return;
    }
    /* The moment of a bound is after its record, which is not made yet. */
    if (e->index) {
        pass_bounds(c, e->index - 1);
    }
    if (c->last && c->last->spans) {
        c->last->sums.paused += pause.end - pause.begin - pauses_whole_guest(
            c->pauses, pause.begin, pause.end);
    }
}

static void count_batch(struct count *c, const struct btrail_batch *b)
{
    uint64_t index = b->index, end = b->index + b->count, until;
    const struct bound *bound;

    while (index < end) {
        bound = pass_bounds(c, index);
        until = bound ? MIN(bound->index, end) : end;
        count_records(c, b, index, until);
        index = until;
    }
}

/* Opens paces for records from @index on. */
static int open_paces(struct count *c, uint64_t index)
{
    struct visit visit;
    bool known = !record_read(c->s->trace, c->vcpu, index, &visit);

    return paces_open_near(&c->paces, c->s->trace, c->vcpu, c->s->tick,
                           known ? visit.at.time.host : 0, index);
}

/* Reads the vCPUs that have parts.  Returns an error of the library. */
static int read_parts(struct count *c)
{
    const struct bound *bound = next_bound(c);
    struct btrail_cursor *cursor;
    struct btrail_batch b;
    int ret = btrail_cursor_open(&cursor, c->s->trace, c->vcpu,
                                 BTRAIL_CURSOR_COUNTS_ONLY);

    if (!ret) {
        ret = open_paces(c, bound->index);
    }
    if (!ret) {
        /* The record before says who is paused there. */
        ret = btrail_cursor_seek(cursor, bound->index - (bound->index > 0));
    }
    memset(&c->watch, 0, sizeof(c->watch));
    c->last = NULL;
    while (!ret && next_bound(c) &&
           !(ret = btrail_cursor_next(cursor, &b))) {
        if (b.event) {
            count_event(c, b.event);
        } else {
            count_batch(c, &b);
        }
        if (c->set && record_set_ranges(c->set) > MAX_RANGES) {
            break;
        }
    }
    btrail_cursor_close(cursor);
    paces_close(c->paces);
    c->paces = NULL;
    /* Those at the end, or after it */
    while ((bound = next_bound(c))) {
        pass_bound(c, bound);
    }
    return ret == -BTRAIL_ERR_END ? 0 : ret;
}

static bool count_vcpu(struct count *c, GError **error)
{
    int ret;

    find_parts(c);
    ret = c->bounds->len ? read_parts(c) : 0;
    if (ret) {
        return fail(error, "the trace: %s", btrail_strerror(ret));
    }
    return !c->set || record_set_ranges(c->set) <= MAX_RANGES ||
           fail(error, "the spans are in more than %u pieces; choose a part of "
                "the trace", MAX_RANGES);
}

/* Times are estimated, so nothing in a span is longer than it. */
static void finish_span(const struct count *c, struct span *span)
{
    uint64_t begin = span->begin->time, all = span_duration(span);

    span->on_cpu /= PACE_TICKS;
    if (c->s->pair != SPANS_THREAD) {
        /* Those of several vCPUs can be at one time. */
        span->paused = 0;
    }
    if (c->pauses) {
        span->paused = MIN(all, span->paused + pauses_whole_guest(
            c->pauses, begin, begin + all));
        span->held = pauses_any(c->pauses, begin, begin + all);
        span->held -= MIN(span->held, span->paused);
    }
    if (c->s->pair == SPANS_THREAD) {
        span->on_cpu = MIN(span->on_cpu, all - span->paused);
    }
}

static void finish(const struct count *c)
{
    for (guint i = 0; i < c->s->all->len; i++) {
        struct span *span = &g_array_index(c->s->all, struct span, i);

        if (span->end) {
            finish_span(c, span);
        }
    }
}

bool spans_count(struct spans *s, struct record_set *set,
                 const struct pauses *pauses, GError **error)
{
    struct count c = {
        .s = s, .set = set, .pauses = pauses,
        .order = clock_order_new(s->trace, s->tick),
        .accounts = g_hash_table_new_full(btrail_pair_hash, btrail_pair_equal,
                                          g_free, NULL),
        .parts = g_array_new(FALSE, FALSE, sizeof(struct span_part)),
        .bounds = g_array_new(FALSE, FALSE, sizeof(struct bound)),
    };
    struct btrail_stream_info info;
    bool ok = true;

    for (unsigned i = 0; ok && !btrail_trace_stream(s->trace, i, &info); i++) {
        c.vcpu = info.vcpu;
        ok = count_vcpu(&c, error);
    }
    if (set) {
        record_set_seal(set);
    }
    finish(&c);
    clock_order_free(c.order);
    g_hash_table_unref(c.accounts);
    g_array_unref(c.parts);
    g_array_unref(c.bounds);
    return ok;
}
