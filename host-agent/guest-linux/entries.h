/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How the guest's kernel is entered: by a system call, a page fault, ...
 *
 * The kernel's symbols say so: each kind has an entry of its own.  While they
 * are not known, the instruction is used, which is less sure: an interrupt may
 * come before any instruction.
 */

#ifndef BTRAIL_ENTRIES_H
#define BTRAIL_ENTRIES_H

#include <stddef.h>
#include <stdint.h>

#include "backtrail/trace.h"

struct entries;

struct entries *entries_new(void);
void entries_free(struct entries *e);

/* Replaces the symbols, unless all are of modules; @text has the form of
 * /proc/kallsyms.  Any thread */
void entries_symbols(struct entries *e, const char *text,
                     size_t size);

/* Adds an item of code; @page if it is of BTRAIL_CODE_BYTES. */
void entries_code(struct entries *e,
                  const struct btrail_code_item *item,
                  const uint8_t *page);

/*
 * A entry_fn: returns the pseudo-address for a branch from user mode to
 * @to.  For the thread that adds code
 */
uint64_t entries_find(void *e, unsigned vcpu, uint64_t cr3,
                      uint64_t from, uint64_t to);

#endif /* BTRAIL_ENTRIES_H */
