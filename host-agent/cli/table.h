/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A table for people: columns as wide as what is in them
 */

#ifndef BTRAIL_CLI_TABLE_H
#define BTRAIL_CLI_TABLE_H

#include <glib.h>

/* A row is a NULL-terminated list of texts, which are copied. */
GPtrArray *cli_table_new(const char *first, ...) G_GNUC_NULL_TERMINATED;
void cli_table_add(GPtrArray *table, const char *first, ...)
    G_GNUC_NULL_TERMINATED;

/* Prints it, the first row as a header, and frees it. */
void cli_table_print(GPtrArray *table);

#endif /* BTRAIL_CLI_TABLE_H */
