/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A table for people: see table.h
 */

#include <stdarg.h>
#include <stdio.h>

#include "cli/print.h"
#include "cli/table.h"

static void add(GPtrArray *table, const char *first, va_list args)
{
    g_autoptr(GPtrArray) row = g_ptr_array_new();

    for (const char *text = first; text; text = va_arg(args, const char *)) {
        g_ptr_array_add(row, g_strdup(text));
    }
    g_ptr_array_add(row, NULL);
    g_ptr_array_add(table, g_ptr_array_steal(row, NULL));
}

GPtrArray *cli_table_new(const char *first, ...)
{
    GPtrArray *table =
        g_ptr_array_new_with_free_func((GDestroyNotify)g_strfreev);
    va_list args;

    va_start(args, first);
    add(table, first, args);
    va_end(args);
    return table;
}

void cli_table_add(GPtrArray *table, const char *first, ...)
{
    va_list args;

    va_start(args, first);
    add(table, first, args);
    va_end(args);
}

static int width_of(const GPtrArray *table, unsigned column)
{
    int width = 0;

    for (unsigned i = 0; i < table->len; i++) {
        char **row = table->pdata[i];

        width = MAX(width, cli_width(row[column]));
    }
    return width;
}

void cli_table_print(GPtrArray *table)
{
    unsigned n = g_strv_length(table->pdata[0]);
    g_autofree int *widths = g_new(int, n);

    for (unsigned i = 0; i < n; i++) {
        widths[i] = width_of(table, i);
    }
    /* The header alone is nothing. */
    for (unsigned i = 0; table->len > 1 && i < table->len; i++) {
        char **row = table->pdata[i];

        for (unsigned k = 0; k < n - 1; k++) {
            cli_printf("%-*s  ", widths[k], row[k]);
        }
        cli_printf("%s\n", row[n - 1]);
    }
    g_ptr_array_unref(table);
}
