/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Adding up a trace: see tally.h
 *
 * Which records are beyond a limit depends on the order.  So if the sum of all
 * threads reaches one, the trace is counted again by one thread, in the order
 * of the streams, while the others decode.
 */

#include <errno.h>
#include <string.h>

#include "analyze/tally.h"
#include "lib/agent/batch.h"
#include "util/hash.h"
#include "util/search.h"

/*
 * Spans at the ends of a piece of a stream, where they continue: their address
 * spaces, and whether they have records that count
 */
struct seam {
    uint64_t spans;             /* in the piece */
    struct space_key first;
    struct space_key last;
    bool first_counted;
    bool last_counted;
};

struct tallying {
    struct fold fold;
    struct space_tasks *tasks;  /* or NULL */
    struct seam *seams[BTRAIL_MAX_VCPUS];
};

static guint hash_space(gconstpointer p)
{
    return btrail_pair_hash(&((const struct space *)p)->key);
}

static gboolean equal_spaces(gconstpointer a, gconstpointer b)
{
    return btrail_pair_equal(&((const struct space *)a)->key,
                             &((const struct space *)b)->key);
}

static bool earlier(const struct tally_moment *a, const struct tally_moment *b)
{
    if (a->time != b->time) {
        return a->time < b->time;
    }
    if (a->index != b->index) {
        return a->index < b->index;
    }
    return a->vcpu < b->vcpu;
}

static void add_moments(struct space *s, const struct tally_moment *first,
                        const struct tally_moment *last)
{
    if (!s->records || earlier(first, &s->first)) {
        s->first = *first;
    }
    if (!s->records || earlier(&s->last, last)) {
        s->last = *last;
    }
}

static void add_gate(struct space *s, uint64_t address)
{
    for (unsigned i = 0; i < MIN(s->n_gates, SPACE_GATES); i++) {
        if (s->gates[i] == address) {
            return;
        }
    }
    if (s->n_gates < SPACE_GATES) {
        s->gates[s->n_gates] = address;
    }
    s->n_gates = MIN(s->n_gates + 1, SPACE_GATES + 1);
}

bool space_leaves(const struct space *s, uint64_t from, uint64_t to)
{
    for (unsigned i = 0; i < MIN(s->n_gates, SPACE_GATES); i++) {
        if (s->gates[i] == from || s->gates[i] == to) {
            return true;
        }
    }
    return s->n_gates > SPACE_GATES;
}

static void merge_spaces(struct fold_group *group,
                         const struct fold_group *other)
{
    struct space *to = (struct space *)group;
    const struct space *from = (const struct space *)other;

    add_moments(to, &from->first, &from->last);
    to->records += from->records;
    to->spans += from->spans;
    for (unsigned i = 0; i < MIN(from->n_gates, SPACE_GATES); i++) {
        add_gate(to, from->gates[i]);
    }
    if (from->n_gates > SPACE_GATES) {
        to->n_gates = from->n_gates;
    }
    for (unsigned i = 0; i < BTRAIL_MAX_VCPUS; i++) {
        to->vcpus[i] |= from->vcpus[i];
    }
}

static const struct fold_kind spaces = {
    .size = sizeof(struct space), .key = offsetof(struct space, records),
    .hash = hash_space, .equal = equal_spaces, .merge = merge_spaces,
    .exact = true,
};

/* Counts the records of a batch, which are all of one address space. */
static int add_batch(struct fold *f, struct fold_part *p, unsigned vcpu,
                     const struct btrail_batch *b, const struct space *key,
                     bool new_span)
{
    size_t done, n;

    for (done = 0; done < b->count; done += n) {
        struct tally_moment first = { b->time.host, vcpu, b->index + done };
        struct tally_moment last = first;
        struct fold_group *group;

        n = fold_count(f, p, &key->group, b->records + done, b->count - done,
                       &group);
        if (p->full) {
            return FOLD_FULL;
        }
        if (group) {
            struct space *s = (struct space *)group;

            last.index += n - 1;
            add_moments(s, &first, &last);
            s->records += n;
            s->spans += new_span && !done;
            s->vcpus[vcpu] = true;
            if (btrail_batch_leaves(b, done + n - 1)) {
                const struct btrail_record *r = &b->records[b->count - 1];

                add_gate(s, b->kernel.nested ? r->to : r->from);
            }
        }
    }
    return 0;
}

static int tally_batch(void *opaque, const struct btrail_piece *piece,
                       const struct btrail_batch *b)
{
    struct tallying *t = opaque;
    struct fold_part *p = fold_take(&t->fold, piece, b);
    struct seam *seam = &t->seams[piece->vcpu][piece->number];
    g_autofree bool *counts = NULL;
    struct btrail_batch run;
    struct space s;
    size_t i, end;
    int ret = 0;

    if (!p) {
        return 0;
    }
    if (t->tasks) {
        counts = space_tasks_add(t->tasks, piece->vcpu, b);
    }
    s.key = space_key_of(b);
    if (!seam->spans || !btrail_pair_equal(&seam->last, &s.key)) {
        seam->first = seam->spans ? seam->first : s.key;
        seam->spans++;
        seam->last = s.key;
        seam->last_counted = false;
    }
    for (i = 0; !ret && i < b->count; i = end) {
        for (end = i; end < b->count && (!counts || counts[end]); end++) {
        }
        run = btrail_batch_part(b, i, end - i);
        if (run.count) {
            ret = add_batch(&t->fold, p, piece->vcpu, &run, &s,
                            !seam->last_counted);
            seam->last_counted = true;
        }
        for (; end < b->count && !counts[end]; end++) {
        }
    }
    seam->first_counted |= seam->spans == 1 && seam->last_counted;
    return ret;
}

/* Corrects spans that continue in the next piece, which were counted twice. */
static void join_spans(struct tallying *t,
                       const struct btrail_stream_info *info)
{
    const struct seam *last = NULL;
    uint64_t i;

    for (i = 0; i < info->chunks; i++) {
        struct seam *seam = &t->seams[info->vcpu][i];

        if (!seam->spans) {
            continue;
        }
        if (last && last->last_counted &&
            btrail_pair_equal(&last->last, &seam->first)) {
            struct space key, *s;

            key.key = seam->first;
            s = g_hash_table_lookup(t->fold.sum.groups, &key);
            if (s && seam->first_counted) {
                s->spans--;
            }
            seam->last_counted |= seam->spans == 1;
        }
        last = seam;
    }
}

static gint by_records(gconstpointer a, gconstpointer b)
{
    const struct space *x = *(const struct space *const *)a;
    const struct space *y = *(const struct space *const *)b;

    return BTRAIL_COMPARE(y->records, x->records) ?:
           BTRAIL_COMPARE(x->key.cr3, y->key.cr3) ?:
           BTRAIL_COMPARE(x->key.kernel, y->key.kernel);
}

int tally_trace(struct tally *tally, const struct btrail_trace *trace,
                struct space_tasks *tasks, unsigned threads,
                const struct fold_limits *limits)
{
    unsigned i, n = btrail_trace_streams(trace);
    struct tallying *t = g_new0(struct tallying, 1);
    struct btrail_stream_info info;
    GHashTableIter iter;
    gpointer space;
    int ret, error;

    memset(tally, 0, sizeof(*tally));
    t->tasks = tasks;
    fold_init(&t->fold, &spaces, limits);
    for (i = 0; i < n; i++) {
        btrail_trace_stream(trace, i, &info);
        t->seams[info.vcpu] = g_new0(struct seam, info.chunks);
    }
    ret = fold_trace(&t->fold, trace, threads, false, tally_batch, t);
    if (ret == FOLD_FULL) {
        fold_reset(&t->fold);
        if (tasks) {
            space_tasks_reset(tasks);
        }
        for (i = 0; i < n; i++) {
            btrail_trace_stream(trace, i, &info);
            memset(t->seams[info.vcpu], 0, info.chunks * sizeof(struct seam));
        }
        ret = fold_trace(&t->fold, trace, threads, true, tally_batch, t);
    }
    error = errno;
    for (i = 0; i < n; i++) {
        btrail_trace_stream(trace, i, &info);
        join_spans(t, &info);
        g_free(t->seams[info.vcpu]);
    }
    if (!ret) {
        tally->sums = t->fold.sum.sums;
        tally->groups = g_hash_table_ref(t->fold.sum.groups);
        tally->spaces = g_ptr_array_new();
        g_hash_table_iter_init(&iter, tally->groups);
        while (g_hash_table_iter_next(&iter, &space, NULL)) {
            g_ptr_array_add(tally->spaces, space);
        }
        g_ptr_array_sort(tally->spaces, by_records);
    }
    fold_clear(&t->fold);
    g_free(t);
    errno = error;
    return ret;
}

void tally_clear(struct tally *t)
{
    g_clear_pointer(&t->spaces, g_ptr_array_unref);
    g_clear_pointer(&t->groups, g_hash_table_unref);
}
