/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How long calls took: see latencies.h
 */

#include <stdlib.h>
#include <string.h>

#include "analyze/latencies.h"
#include "lib/agent/strings.h"
#include "util/hash.h"
#include "util/search.h"

/* @by_names: names of a row, which are kept -> it */
struct latencies {
    unsigned limit;
    struct histogram_budget budget;
    uint64_t others;
    GHashTable *by_names;
    GPtrArray *rows;
    struct btrail_strings *strings;
};

static guint names_hash(gconstpointer key)
{
    const char *const *names = key;
    guint hash = 0;

    for (unsigned i = 0; i < LATENCIES_NAMES; i++) {
        hash = hash * 31 + btrail_str_hash(names[i]);
    }
    return hash;
}

static gboolean names_equal(gconstpointer a, gconstpointer b)
{
    const char *const *x = a, *const *y = b;
    bool equal = true;

    for (unsigned i = 0; equal && i < LATENCIES_NAMES; i++) {
        equal = !strcmp(x[i], y[i]);
    }
    return equal;
}

static void free_row(gpointer p)
{
    struct latency *row = p;

    histogram_free(row->times);
    g_free(row);
}

struct latencies *latencies_new(unsigned rows)
{
    struct latencies *l = g_new0(struct latencies, 1);

    l->limit = rows ?: LATENCIES_ROWS;
    l->budget.left = HISTOGRAM_BUDGET;
    l->by_names = g_hash_table_new(names_hash, names_equal);
    l->rows = g_ptr_array_new_with_free_func(free_row);
    l->strings = btrail_strings_new();
    return l;
}

void latencies_free(struct latencies *l)
{
    if (l) {
        g_hash_table_unref(l->by_names);
        g_ptr_array_unref(l->rows);
        btrail_strings_free(l->strings);
        g_free(l);
    }
}

static struct latency *add_row(struct latencies *l,
                               const char *const names[LATENCIES_NAMES])
{
    struct latency *row = g_new0(struct latency, 1);

    for (unsigned i = 0; i < LATENCIES_NAMES; i++) {
        row->names[i] = btrail_strings_keep(l->strings, names[i],
                                            strlen(names[i]));
    }
    row->times = histogram_new_within(&l->budget);
    g_ptr_array_add(l->rows, row);
    g_hash_table_insert(l->by_names, row->names, row);
    return row;
}

void latencies_add(struct latencies *l,
                   const char *const names[LATENCIES_NAMES], uint64_t ns,
                   bool whole)
{
    struct latency *row = g_hash_table_lookup(l->by_names, names);

    if (!row && l->rows->len < l->limit) {
        row = add_row(l, names);
    }
    if (!row) {
        l->others++;
        return;
    }
    row->total += MIN(ns, UINT64_MAX - row->total);
    if (whole) {
        histogram_add(row->times, ns);
    } else {
        row->partial++;
        row->longest = MAX(row->longest, ns);
    }
}

const struct latency *
latencies_find(const struct latencies *l,
               const char *const names[LATENCIES_NAMES])
{
    return g_hash_table_lookup(l->by_names, names);
}

uint64_t latencies_others(const struct latencies *l)
{
    return l->others;
}

unsigned latencies_forgotten(const struct latencies *l)
{
    return l->budget.forgotten;
}

const char *latency_key_name(unsigned key)
{
    static const char *const names[] = {
        [LATENCY_COUNT] = "count", [LATENCY_TOTAL] = "total",
        [LATENCY_MEAN] = "mean", [LATENCY_P50] = "p50", [LATENCY_P95] = "p95",
        [LATENCY_P99] = "p99", [LATENCY_MAX] = "max",
    };

    return key < LATENCY_KEYS ? names[key] : NULL;
}

uint64_t latency_value(const struct latency *l, enum latency_key key)
{
    switch (key) {
    case LATENCY_COUNT:
        return histogram_count(l->times) + l->partial;
    case LATENCY_TOTAL:
        return l->total;
    case LATENCY_MEAN:
        return histogram_mean(l->times);
    case LATENCY_P50:
        return histogram_percentile(l->times, 50);
    case LATENCY_P95:
        return histogram_percentile(l->times, 95);
    case LATENCY_P99:
        return histogram_percentile(l->times, 99);
    default:
        return MAX(histogram_max(l->times), l->longest);
    }
}

/* A row and its value, which takes long to find */
struct ranked {
    struct latency *row;
    uint64_t value;
};

static int by_value(gconstpointer a, gconstpointer b)
{
    const struct ranked *x = a, *y = b;
    int order = BTRAIL_COMPARE(y->value, x->value) ?:
                BTRAIL_COMPARE(y->row->total, x->row->total);

    for (unsigned i = LATENCIES_NAMES; !order && i; i--) {
        order = strcmp(x->row->names[i - 1], y->row->names[i - 1]);
    }
    return order;
}

const GPtrArray *latencies_sorted(struct latencies *l, enum latency_key key)
{
    g_autofree struct ranked *all = g_new(struct ranked, l->rows->len + 1);

    for (guint i = 0; i < l->rows->len; i++) {
        all[i].row = l->rows->pdata[i];
        all[i].value = latency_value(all[i].row, key);
    }
    qsort(all, l->rows->len, sizeof(*all), by_value);
    for (guint i = 0; i < l->rows->len; i++) {
        l->rows->pdata[i] = all[i].row;
    }
    return l->rows;
}
