/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Commands that a user gives with gdb's "monitor": tables, and searches apart
 */

#ifndef BTRAIL_GDB_MONITOR_H
#define BTRAIL_GDB_MONITOR_H

#include <stdbool.h>

#include "util/agent-error.h"
#include "util/apart.h"

/**
 * struct monitor_command
 * @usage:    for help
 * @run:      returns what to print, to be freed, or NULL with an error
 * @search:   the same of what takes as long as it takes: see apart.h
 * @searches: does it have to search?  NULL: if it has @search
 *
 * The list itself is the command that has neither.
 */
struct monitor_command {
    const char *name;
    const char *usage;
    char *(*run)(void *target, const char *argument, GError **error);
    char *(*search)(void *target, const char *argument, GError **error);
    bool (*searches)(const char *argument);
};

/* The name of a line's command, to be freed, and what follows it there */
char *monitor_split(const char *line, const char **argument);

/* The command in a table, which ends with a NULL name; or NULL */
const struct monitor_command *
monitor_find(const struct monitor_command *table, const char *name);

/* To be freed */
char *monitor_help(const struct monitor_command *table);

bool monitor_searches(const struct monitor_command *c, const char *argument);

/**
 * struct monitor_search - for apart_start()
 * @remains: appends what the search has left to do
 */
struct monitor_search {
    const struct monitor_command *command;
    void *target;
    const char *argument;
    void (*remains)(void *target, GByteArray *then);
};

void monitor_search(void *search, GByteArray *answer);

/* What has come of it: what to print, to be freed; NULL with an error.  @then
 * gets bytes in the answer. */
char *monitor_found(const GByteArray *answer, const void **then, size_t *n,
                    GError **error);

#endif /* BTRAIL_GDB_MONITOR_H */
