/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A set of records of a trace: see record-set.h
 */

#include <glib.h>
#include <stdlib.h>

#include "backtrail/trace.h"
#include "symbolize/record-set.h"
#include "util/parse.h"
#include "util/search.h"

/* Of struct range; those of a sealed set are in order and apart. */
struct record_set {
    GArray *vcpus[BTRAIL_MAX_VCPUS];
    size_t ranges;
};

struct record_set *record_set_new(void)
{
    return g_new0(struct record_set, 1);
}

void record_set_free(struct record_set *s)
{
    if (s) {
        for (unsigned i = 0; i < BTRAIL_MAX_VCPUS; i++) {
            g_clear_pointer(&s->vcpus[i], g_array_unref);
        }
        g_free(s);
    }
}

static struct range *last_range(GArray *ranges)
{
    return ranges->len ? &g_array_index(ranges, struct range,
                                        ranges->len - 1) : NULL;
}

/* Adds a range after the last one of a vCPU, or enlarges that. */
static void append(struct record_set *s, GArray *ranges,
                   const struct range *range)
{
    struct range *last = last_range(ranges);

    if (last && range->begin >= last->begin && range->begin <= last->end) {
        last->end = MAX(last->end, range->end);
    } else {
        g_array_append_vals(ranges, range, 1);
        s->ranges++;
    }
}

void record_set_add(struct record_set *s, unsigned vcpu, uint64_t begin,
                    uint64_t end)
{
    const struct range range = { begin, end };

    if (begin >= end) {
        return;
    }
    if (!s->vcpus[vcpu]) {
        s->vcpus[vcpu] = g_array_new(FALSE, FALSE, sizeof(range));
    }
    append(s, s->vcpus[vcpu], &range);
}

static gint by_begin(gconstpointer a, gconstpointer b)
{
    const struct range *x = a, *y = b;

    return BTRAIL_COMPARE(x->begin, y->begin);
}

static void seal(struct record_set *s, GArray *ranges)
{
    guint n = ranges->len;
    g_autofree struct range *all = g_memdup2(ranges->data,
                                             n * sizeof(*all));

    g_array_set_size(ranges, 0);
    qsort(all, n, sizeof(*all), by_begin);
    for (guint i = 0; i < n; i++) {
        append(s, ranges, &all[i]);
    }
}

void record_set_seal(struct record_set *s)
{
    s->ranges = 0;
    for (unsigned i = 0; i < BTRAIL_MAX_VCPUS; i++) {
        if (s->vcpus[i]) {
            seal(s, s->vcpus[i]);
        }
    }
}

bool record_set_has(const struct record_set *s, unsigned vcpu, uint64_t index,
                    uint64_t *until)
{
    const GArray *ranges = vcpu < BTRAIL_MAX_VCPUS ? s->vcpus[vcpu] : NULL;
    const struct range *all = ranges ? (const void *)ranges->data :
                                     NULL;
    size_t n = ranges ? ranges->len : 0;
    /* Those that begin at the index or before it */
    size_t i = BTRAIL_UP_TO(all, n, struct range, begin, index);
    bool has = i && index < all[i - 1].end;

    if (until) {
        *until = has ? all[i - 1].end : i < n ? all[i].begin : UINT64_MAX;
    }
    return has;
}

size_t record_set_ranges(const struct record_set *s)
{
    return s->ranges;
}
