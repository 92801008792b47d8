/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Rows of a report: see rows.h
 */

#include <string.h>

#include "analyze/rows.h"
#include "lib/agent/strings.h"

struct rows {
    unsigned columns;
    GHashTable *by_names;       /* kept places of kept names -> row */
    GPtrArray *rows;
    struct btrail_strings *strings;
};

struct rows *rows_new(unsigned columns)
{
    struct rows *r = g_new0(struct rows, 1);

    r->columns = columns;
    r->by_names = g_hash_table_new(NULL, NULL);
    r->rows = g_ptr_array_new_with_free_func(g_free);
    r->strings = btrail_strings_new();
    return r;
}

void rows_free(struct rows *r)
{
    if (r) {
        g_hash_table_unref(r->by_names);
        g_ptr_array_unref(r->rows);
        btrail_strings_free(r->strings);
        g_free(r);
    }
}

void rows_add(struct rows *r, const char *const *names,
              const uint64_t *values)
{
    const char *kept[ROWS_MAX_COLUMNS];
    size_t size = r->columns * sizeof(*kept);
    const char *key;
    struct row *row;

    /* Names have any bytes, so no text that joins them is theirs alone. */
    for (unsigned i = 0; i < r->columns; i++) {
        kept[i] = btrail_strings_keep(r->strings, names[i], strlen(names[i]));
    }
    key = btrail_strings_keep(r->strings, kept, size);
    row = g_hash_table_lookup(r->by_names, key);
    if (!row) {
        row = g_malloc0(sizeof(*row) + size);
        memcpy(row->names, kept, size);
        g_ptr_array_add(r->rows, row);
        g_hash_table_insert(r->by_names, (char *)key, row);
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
