/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How often programs have left marks, and their values: see mark-sums.h
 */

#include <string.h>

#include "find/mark-sums.h"
#include "util/hash.h"
#include "util/search.h"
#include "util/sort.h"

/**
 * struct sums_row
 * @values: of uint64_t; NULL if there are none, or were too many
 */
struct sums_row {
    struct mark_sum sum;
    GArray *values;
};

/**
 * struct sums_part - what one thread has added
 * @rows:   of struct sums_row
 * @names:  of marks and processes
 * @others: marks beyond the limit of rows
 */
struct sums_part {
    GHashTable *rows;
    GStringChunk *names;
    size_t max_rows;
    size_t values_left;
    uint64_t marks;
    uint64_t others;
    bool full;
};

/**
 * struct mark_sums
 * @sorted: the rows of the first part, which has all, after the end
 */
struct mark_sums {
    struct sums_part *parts;
    unsigned n;
    GPtrArray *sorted;
};

static guint hash_row(gconstpointer p)
{
    const struct mark_sum *s = p;

    return btrail_hash3(btrail_str_hash(s->name), btrail_str_hash(s->comm),
                        s->pid) >> 32;
}

static gboolean equal_rows(gconstpointer a, gconstpointer b)
{
    const struct mark_sum *x = a, *y = b;

    return x->pid == y->pid && !strcmp(x->name, y->name) &&
           !strcmp(x->comm, y->comm);
}

static void free_row(gpointer p)
{
    struct sums_row *row = p;

    g_clear_pointer(&row->values, g_array_unref);
    g_free(row);
}

struct mark_sums *mark_sums_new(unsigned threads, size_t rows, size_t values)
{
    struct mark_sums *s = g_new0(struct mark_sums, 1);

    s->n = threads;
    s->parts = g_new0(struct sums_part, threads);
    for (unsigned i = 0; i < threads; i++) {
        s->parts[i] = (struct sums_part) {
            .rows = g_hash_table_new_full(hash_row, equal_rows, NULL,
                                          free_row),
            .names = g_string_chunk_new(1024),
            .max_rows = rows, .values_left = values / threads,
        };
    }
    return s;
}

void mark_sums_free(struct mark_sums *s)
{
    if (s) {
        for (unsigned i = 0; i < s->n; i++) {
            g_hash_table_unref(s->parts[i].rows);
            g_string_chunk_free(s->parts[i].names);
        }
        g_clear_pointer(&s->sorted, g_ptr_array_unref);
        g_free(s->parts);
        g_free(s);
    }
}

/* The row of a name and a process; NULL if there are too many. */
static struct sums_row *get_row(struct sums_part *p, const char *name,
                                const char *comm,
                                int64_t pid)
{
    const struct mark_sum key = { .name = name, .comm = comm, .pid = pid };
    struct sums_row *row = g_hash_table_lookup(p->rows, &key);

    if (!row && g_hash_table_size(p->rows) < p->max_rows) {
        row = g_new0(struct sums_row, 1);
        row->sum = key;
        row->sum.name = g_string_chunk_insert_const(p->names, name);
        row->sum.comm = g_string_chunk_insert_const(p->names, comm);
        row->sum.exact = true;
        g_hash_table_add(p->rows, row);
    }
    return row;
}

/* Forgets the values of a row, of which not all have room. */
static void drop_values(struct sums_part *p, struct sums_row *row)
{
    p->full = true;
    p->values_left += row->values ? row->values->len : 0;
    row->sum.exact = false;
    g_clear_pointer(&row->values, g_array_unref);
}

static void add_values(struct sums_part *p, struct sums_row *row,
                       const uint64_t *values, size_t n)
{
    if (!row->sum.exact) {
        return;
    }
    if (n > p->values_left) {
        drop_values(p, row);
        return;
    }
    if (!row->values) {
        row->values = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    }
    g_array_append_vals(row->values, values, n);
    p->values_left -= n;
}

/* Adds a sum to a row, all but its values. */
static void add_sum(struct mark_sum *to, const struct mark_sum *from)
{
    if (!to->count || moment_compare(&from->first, &to->first) < 0) {
        to->first = from->first;
    }
    if (!to->count || moment_compare(&from->last, &to->last) > 0) {
        to->last = from->last;
    }
    if (from->known) {
        to->smallest = to->known ? MIN(to->smallest, from->smallest) :
                       from->smallest;
        to->largest = MAX(to->largest, from->largest);
    }
    to->count += from->count;
    to->valued += from->valued;
    to->known += from->known;
}

void mark_sums_add(struct mark_sums *s, unsigned worker,
                   const struct marks_found *mark, const char *comm,
                   int64_t pid, const struct moment *at)
{
    const struct mark_sum one = {
        .count = 1, .valued = mark->mark.has_value, .known = mark->known,
        .smallest = mark->value, .largest = mark->value,
        .first = *at, .last = *at,
    };
    struct sums_part *p = &s->parts[worker];
    struct sums_row *row = get_row(p, mark->mark.name, comm, pid);

    p->marks++;
    if (!row) {
        p->others++;
        p->full = true;
        return;
    }
    add_sum(&row->sum, &one);
    if (mark->known) {
        add_values(p, row, &mark->value, 1);
    }
}

/* Adds what another thread has added, whose values are counted there. */
static void add_part(struct sums_part *to, struct sums_part *from)
{
    GHashTableIter iter;
    gpointer key;

    to->values_left += from->values_left;
    g_hash_table_iter_init(&iter, from->rows);
    while (g_hash_table_iter_next(&iter, &key, NULL)) {
        struct sums_row *row = key;
        struct sums_row *sum = get_row(to, row->sum.name, row->sum.comm,
                                       row->sum.pid);

        if (!sum) {
            to->others += row->sum.count;
            to->full = true;
            continue;
        }
        add_sum(&sum->sum, &row->sum);
        if (!row->sum.exact) {
            drop_values(to, sum);
        } else if (row->values) {
            to->values_left += row->values->len;
            add_values(to, sum, (const uint64_t *)row->values->data,
                       row->values->len);
        }
    }
    to->marks += from->marks;
    to->others += from->others;
    to->full |= from->full;
    g_hash_table_remove_all(from->rows);
}

static gint by_count(gconstpointer a, gconstpointer b)
{
    const struct mark_sum *x = *(const struct mark_sum *const *)a;
    const struct mark_sum *y = *(const struct mark_sum *const *)b;

    return BTRAIL_COMPARE(y->count, x->count) ?: strcmp(x->name, y->name) ?:
           strcmp(x->comm, y->comm) ?: BTRAIL_COMPARE(x->pid, y->pid);
}

static void find_median(struct sums_row *row)
{
    if (row->values) {
        btrail_order_u64(row->values);
        row->sum.median = g_array_index(row->values, uint64_t,
                                        (row->sum.known - 1) / 2);
    }
}

bool mark_sums_finish(struct mark_sums *s)
{
    struct sums_part *all = &s->parts[0];
    GHashTableIter iter;
    gpointer row;

    for (unsigned i = 1; i < s->n; i++) {
        add_part(all, &s->parts[i]);
    }
    s->sorted = g_ptr_array_new();
    g_hash_table_iter_init(&iter, all->rows);
    while (g_hash_table_iter_next(&iter, &row, NULL)) {
        find_median(row);
        g_ptr_array_add(s->sorted, row);
    }
    g_ptr_array_sort(s->sorted, by_count);
    return s->n == 1 || !all->full;
}

const struct mark_sum *mark_sums_get(const struct mark_sums *s, size_t i)
{
    return i < s->sorted->len ? &((const struct sums_row *)
                                  s->sorted->pdata[i])->sum : NULL;
}

uint64_t mark_sums_marks(const struct mark_sums *s)
{
    return s->parts[0].marks;
}

uint64_t mark_sums_others(const struct mark_sums *s)
{
    return s->parts[0].others;
}
