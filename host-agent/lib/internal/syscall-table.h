/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * System calls of the kernel, as often as its tables were read
 */

#ifndef BTRAIL_SYSCALL_TABLE_H
#define BTRAIL_SYSCALL_TABLE_H

#include <glib.h>

#include "backtrail/names.h"

/* An array of tables, which the functions below fill and search */
GPtrArray *btrail_syscall_tables_new(void);

/*
 * Adds what was read at @time, the text of a SYSCALLS piece of a kernel.
 * Returns how much memory it takes.
 */
uint64_t btrail_syscall_tables_add(GPtrArray *tables, uint32_t kernel,
                                   uint64_t time, const char *data,
                                   size_t size);

/* Must follow the last table. */
void btrail_syscall_tables_complete(GPtrArray *tables);

/* As btrail_names_syscall(), of this kernel alone */
int btrail_syscall_tables_find(const GPtrArray *tables, uint32_t kernel,
                               uint64_t time, uint64_t address,
                               struct btrail_syscall *syscall);

#endif /* BTRAIL_SYSCALL_TABLE_H */
