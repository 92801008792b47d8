/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Rows of a report: see rows.h
 */

#include <string.h>

#include "analyze/rows.h"
#include "lib/internal/strings.h"
#include "util/hash.h"

struct rows {
    unsigned columns;
    GHashTable *by_names;       /* text with \1 between names -> row */
    GPtrArray *rows;
    struct btrail_strings *strings;
    GString *key;
};

struct rows *rows_new(unsigned columns)
{
    struct rows *r = g_new0(struct rows, 1);

    r->columns = columns;
    r->by_names = g_hash_table_new_full(btrail_str_hash, g_str_equal, g_free,
                                        NULL);
    r->rows = g_ptr_array_new_with_free_func(g_free);
    r->strings = btrail_strings_new();
    r->key = g_string_new(NULL);
    return r;
}

void rows_free(struct rows *r)
{
    if (r) {
        g_hash_table_unref(r->by_names);
        g_ptr_array_unref(r->rows);
        btrail_strings_free(r->strings);
        g_string_free(r->key, TRUE);
        g_free(r);
    }
}

void rows_add(struct rows *r, const char *const *names,
              const uint64_t *values)
{
    struct row *row;

    g_string_truncate(r->key, 0);
    for (unsigned i = 0; i < r->columns; i++) {
        g_string_append(r->key, names[i]);
        g_string_append_c(r->key, '\1');
    }
    row = g_hash_table_lookup(r->by_names, r->key->str);
    if (!row) {
        row = g_malloc0(sizeof(*row) + r->columns * sizeof(*row->names));
        for (unsigned i = 0; i < r->columns; i++) {
            row->names[i] = btrail_strings_keep(r->strings, names[i],
                                                strlen(names[i]));
        }
        g_ptr_array_add(r->rows, row);
        g_hash_table_insert(r->by_names, g_strdup(r->key->str), row);
    }
    for (unsigned i = 0; i < ROWS_MAX_VALUES; i++) {
        row->values[i] += values[i];
    }
}

struct row_order {
    unsigned value;
    unsigned columns;
};

static gint compare_rows(gconstpointer a, gconstpointer b, gpointer data)
{
    const struct row *x = *(const struct row *const *)a;
    const struct row *y = *(const struct row *const *)b;
    const struct row_order *o = data;
    int order = 0;

    if (x->values[o->value] != y->values[o->value]) {
        return x->values[o->value] < y->values[o->value] ? 1 : -1;
    }
    for (unsigned i = 0; !order && i < o->columns; i++) {
        order = strcmp(x->names[i], y->names[i]);
    }
    return order;
}

struct row **rows_sorted(struct rows *r, unsigned value, size_t *n)
{
    struct row_order order = { value, r->columns };

    g_ptr_array_sort_with_data(r->rows, compare_rows, &order);
    *n = r->rows->len;
    return (struct row **)r->rows->pdata;
}
