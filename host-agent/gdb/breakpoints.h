/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Breakpoints and watchpoints: "TYPE,ADDRESS,KIND" as in gdb's requests ->
 * their conditions, from the ";" on, or ""
 */

#ifndef BTRAIL_GDB_BREAKPOINTS_H
#define BTRAIL_GDB_BREAKPOINTS_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* The most that a gdb can have */
#define BREAKPOINTS_MAX 4096

GHashTable *breakpoints_new(void);

/* To be freed */
char *breakpoints_key(uint64_t type, uint64_t address, uint64_t kind);

/* Adds one, or removes it: @conditions is NULL. */
void breakpoints_set(GHashTable *breakpoints, const char *key,
                     const char *conditions);

/* Is it a breakpoint at an address, and no watchpoint? */
bool breakpoints_is_at(const char *key, uint64_t address);

/* The addresses of breakpoints, to be unreffed; NULL if one of them is a
 * watchpoint */
GArray *breakpoints_addresses(GHashTable *breakpoints);

#endif /* BTRAIL_GDB_BREAKPOINTS_H */
