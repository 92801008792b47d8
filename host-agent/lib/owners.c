/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The owners of the spans of a trace
 *
 * A snapshot says which process has page tables at a moment.  A span says that
 * they stayed with that process: the CPU used them all the time, so they cannot
 * have been freed and used again.  What the guest has said about itself is kept
 * apart, so that nothing that memory says depends on it.
 */

#include <glib.h>

#include "backtrail/transport.h"

#include "lib/agent/names-private.h"
#include "lib/agent/trace-files.h"
#include "util/search.h"

#define MAX_SPANS   (1u << 22)

/* What a life is known by */
enum source { MEMORY, WORDS, SOURCES };

/* Spans with the same page tables on one vCPU, in succession */
struct use {
    uint64_t first_index;
    uint64_t root;
    uint64_t from;              /* it had certainly begun by then */
    uint64_t to;                /* and not ended yet */
    struct btrail_life *life;   /* NULL if it is not known */
    uint16_t vcpu;
};

/* From an index on */
struct owned_span {
    uint64_t first_index;
    const struct btrail_life *life;
};

/*
 * Records that may have been made later than a tick after the TIME event in
 * force.  The tick is late when its thread gets no CPU.  They were made before
 * the next TIME event.
 */
struct late {
    uint64_t index;
    uint64_t end;
    uint64_t until;             /* UINT64_MAX if it is not known */
};

struct btrail_owners {
    const struct btrail_names *names;
    /* of struct owned_span */
    GArray *vcpus[SOURCES][BTRAIL_MAX_VCPUS];
    GArray *late[BTRAIL_MAX_VCPUS];     /* of struct late */
};

uint64_t btrail_owners_until(const struct btrail_owners *o, unsigned vcpu,
                             uint64_t index, uint64_t time)
{
    const GArray *all = vcpu < BTRAIL_MAX_VCPUS ? o->late[vcpu] : NULL;
    uint64_t tick = btrail_names_tick(o->names);
    /* The record right after the TIME event was made at its time. */
    size_t n = all && index ? BTRAIL_UP_TO(all->data, all->len, struct late,
                                           index, index - 1) : 0;

    if (n && index < g_array_index(all, struct late, n - 1).end) {
        return g_array_index(all, struct late, n - 1).until;
    }
    return time > UINT64_MAX - tick ? UINT64_MAX : time + tick;
}

/* The search of a stream for late ticks */
struct late_search {
    uint64_t tick;
    GArray *all;                /* of struct late */
    size_t most;
    struct late late;           /* since the last TIME event */
    uint64_t time;              /* of that; 0 if there is none */
};

static void search_late(struct late_search *s, const struct btrail_batch *b)
{
    bool end = b->event && b->event->type == BTRAIL_EVENT_END;
    uint64_t now = end ? b->event->data[0] : b->time.host;

    if (s->all->len >= s->most) {
        return;
    }
    if (s->time && now > s->time && now - s->time > s->tick) {
        struct late here = { s->late.index, b->index, now };

        g_array_append_val(s->all, here);
    }
    if (end || now != s->time) {
        s->time = end ? 0 : now;
        s->late.index = b->index;
    }
}

/* Continues a use, or begins one. */
static void add_span(const struct btrail_names *names, enum source source,
                     GArray *uses, const struct btrail_span *span)
{
    uint64_t root = btrail_names_root(names, source == WORDS, span->cr3);
    struct use *last = uses->len ? &g_array_index(uses, struct use,
                                                  uses->len - 1) : NULL;
    /* In a hole anything can have happened, and times mean nothing. */
    bool whole = !span->lost && span->first.host && uses->len < MAX_SPANS;
    struct use use = {
        .first_index = span->first_index, .root = root, .vcpu = span->vcpu,
        .from = UINT64_MAX,
    };

    if (whole) {
        use.from = span->first.host;
        use.to = span->last.host;
    }
    last = last && last->vcpu == use.vcpu ? last : NULL;
    /*
     * With a filter, what others did in between may be missing; otherwise the
     * same page tables were loaded again.
     */
    if (last && whole && last->root == root && last->to &&
        btrail_names_unfiltered(names)) {
        last->to = use.to;
    } else if (!last || whole || last->to) {
        g_array_append_val(uses, use);
    }
}

/* The moments from which on uses of a vCPU are certain, from the @i-th on */
static void settle_begins(const struct btrail_owners *o, GArray *uses, guint i)
{
    for (; i < uses->len; i++) {
        struct use *use = &g_array_index(uses, struct use, i);

        if (use->to) {
            use->from = btrail_owners_until(o, use->vcpu, use->first_index,
                                            use->from);
        }
    }
}

static int read_stream(struct btrail_owners *o,
                       const struct btrail_trace *trace, unsigned vcpu,
                       size_t most, GArray *uses[SOURCES])
{
    struct late_search late = {
        .tick = btrail_names_tick(o->names), .most = most,
        .late = { .end = UINT64_MAX, .until = UINT64_MAX },
    };
    const guint n[SOURCES] = { uses[MEMORY]->len, uses[WORDS]->len };
    struct btrail_spans *spans;
    struct btrail_span span;
    struct btrail_batch b;
    bool done;
    int ret = btrail_spans_open(&spans, trace, vcpu, 0, 0);

    if (ret) {
        return ret;
    }
    late.all = o->late[vcpu] = g_array_new(FALSE, FALSE, sizeof(late.late));
    do {
        ret = btrail_spans_step(spans, &b, &span, &done);
        if (!ret) {
            search_late(&late, &b);
        }
        for (enum source i = 0; done && i < SOURCES; i++) {
            add_span(o->names, i, uses[i], &span);
        }
    } while (!ret);
    btrail_spans_close(spans);
    /*
     * The time of the last records is unknown if the stream was cut off, and
     * that of those where the search ended before.
     */
    if (late.time || late.all->len >= most) {
        g_array_append_val(late.all, late.late);
    }
    for (enum source i = 0; i < SOURCES; i++) {
        settle_begins(o, uses[i], n[i]);
    }
    return ret == -BTRAIL_ERR_END ? 0 : ret;
}

static int read_uses(struct btrail_owners *o, const struct btrail_trace *trace,
                     GArray *uses[SOURCES])
{
    size_t left = MAX_SPANS;
    struct btrail_stream_info info;
    unsigned i;
    int ret = 0;

    for (i = 0; !ret && !btrail_trace_stream(trace, i, &info); i++) {
        ret = read_stream(o, trace, info.vcpu, left, uses);
        if (!ret) {
            left -= MIN(left, o->late[info.vcpu]->len);
        }
    }
    return ret;
}

static gint by_root(gconstpointer p, gconstpointer q)
{
    const struct use *a = *(struct use *const *)p;
    const struct use *b = *(struct use *const *)q;

    return BTRAIL_COMPARE(a->root, b->root) ?: BTRAIL_COMPARE(a->from, b->from);
}

/* Uses each of which overlaps one before it are of one life. */
static void settle_group(struct use **uses, guint n)
{
    struct btrail_life *life = NULL;
    guint i;

    for (i = 0; i < n; i++) {
        if (uses[i]->life && life && uses[i]->life != life) {
            /* This cannot be: a snapshot or the trace is wrong. */
            return;
        }
        life = uses[i]->life ? uses[i]->life : life;
    }
    for (i = 0; i < n; i++) {
        uses[i]->life = life;
    }
}

static void settle(const struct btrail_names *names, enum source source,
                   GArray *uses)
{
    g_autofree struct use **order = g_new(struct use *, uses->len + 1);
    guint i, n = 0, begin = 0;
    uint64_t to = 0;

    for (i = 0; i < uses->len; i++) {
        struct use *use = &g_array_index(uses, struct use, i);

        /* Too short, or not whole: there is no moment that is certain. */
        if (use->from <= use->to) {
            use->life = btrail_names_life(names, source == WORDS, use->root,
                                          use->from, use->to);
            order[n++] = use;
        }
    }
    qsort(order, n, sizeof(*order), by_root);
    for (i = 0; i < n; i++) {
        if (i && (order[i]->root != order[begin]->root ||
                  order[i]->from > to)) {
            settle_group(order + begin, i - begin);
            begin = i;
            to = 0;
        }
        to = MAX(to, order[i]->to);
    }
    settle_group(order + begin, n - begin);
}

/* Keep the owners alone. */
static void keep(struct btrail_owners *o, enum source source,
                 const GArray *uses)
{
    guint i;

    for (i = 0; i < uses->len; i++) {
        const struct use *use = &g_array_index(uses, struct use, i);
        struct owned_span owned = { use->first_index, use->life };
        GArray **vcpu = &o->vcpus[source][use->vcpu];

        if (!*vcpu) {
            *vcpu = g_array_new(FALSE, FALSE, sizeof(owned));
        }
        g_array_append_val(*vcpu, owned);
    }
}

int btrail_owners_open(struct btrail_owners **owners,
                       const struct btrail_trace *trace,
                       const struct btrail_names *names)
{
    GArray *uses[SOURCES];
    struct btrail_owners *o;
    int ret;

    if (!owners || !trace || !names) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    for (enum source i = 0; i < SOURCES; i++) {
        uses[i] = g_array_new(FALSE, FALSE, sizeof(struct use));
    }
    o = g_new0(struct btrail_owners, 1);
    o->names = names;
    ret = read_uses(o, trace, uses);
    for (enum source i = 0; i < SOURCES; i++) {
        if (!ret) {
            settle(names, i, uses[i]);
            keep(o, i, uses[i]);
        }
        g_array_free(uses[i], TRUE);
    }
    if (ret) {
        btrail_owners_close(o);
        return ret;
    }
    *owners = o;
    return 0;
}

void btrail_owners_close(struct btrail_owners *o)
{
    unsigned i;

    if (!o) {
        return;
    }
    for (i = 0; i < BTRAIL_MAX_VCPUS; i++) {
        g_clear_pointer(&o->vcpus[MEMORY][i], g_array_unref);
        g_clear_pointer(&o->vcpus[WORDS][i], g_array_unref);
        g_clear_pointer(&o->late[i], g_array_unref);
    }
    g_free(o);
}

/* The life that has a record's page tables by a source, or NULL */
static const struct btrail_life *find(const struct btrail_owners *o,
                                      enum source source, unsigned vcpu,
                                      uint64_t index)
{
    const GArray *owned = vcpu < BTRAIL_MAX_VCPUS ? o->vcpus[source][vcpu] :
                          NULL;
    size_t n = owned ? BTRAIL_UP_TO(owned->data, owned->len, struct owned_span,
                                    first_index, index) : 0;

    return n ? g_array_index(owned, struct owned_span, n - 1).life : NULL;
}

enum btrail_certainty
btrail_owners_process(const struct btrail_owners *o, unsigned vcpu,
                      uint64_t index, uint64_t time, uint64_t cr3,
                      const struct btrail_process **process)
{
    const struct btrail_life *life;
    enum btrail_certainty certainty;

    if (!process) {
        return BTRAIL_UNKNOWN;
    }
    *process = NULL;
    if (!o) {
        return BTRAIL_UNKNOWN;
    }
    life = find(o, MEMORY, vcpu, index);
    if (life) {
        *process = btrail_life_process(life, time);
        return BTRAIL_SURE;
    }
    certainty = btrail_names_process_until(
        o->names, time, btrail_owners_until(o, vcpu, index, time), cr3,
        process);
    life = certainty == BTRAIL_UNKNOWN ? find(o, WORDS, vcpu, index) : NULL;
    if (life) {
        *process = btrail_life_process(life, time);
        return BTRAIL_LIKELY;
    }
    return certainty;
}
