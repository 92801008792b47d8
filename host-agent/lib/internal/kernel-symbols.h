/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Symbols of the kernel and its modules, as often as they were read
 */

#ifndef BTRAIL_KERNEL_SYMBOLS_H
#define BTRAIL_KERNEL_SYMBOLS_H

#include <glib.h>

#include "backtrail/names.h"

/* An array of tables, which the functions below fill and search */
GPtrArray *btrail_kernel_symbols_new(void);

/*
 * Adds what was read at @time, text as in /proc/kallsyms.  Tables are added in
 * the order of time.  Returns how much memory it takes.
 */
uint64_t btrail_kernel_symbols_add(GPtrArray *symbols, uint64_t time,
                                   const char *data, size_t size);

/* As btrail_names_kernel_symbol() and btrail_names_symbol() */
int btrail_kernel_symbols_find(const GPtrArray *symbols, uint64_t time,
                               uint64_t address, struct btrail_symbol *symbol);
int btrail_kernel_symbols_get(const GPtrArray *symbols, size_t i,
                              struct btrail_symbol *symbol);

#endif /* BTRAIL_KERNEL_SYMBOLS_H */
