/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names of the functions that the CPU enters Linux by
 */

#ifndef BTRAIL_ENTRY_NAMES_H
#define BTRAIL_ENTRY_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * entry_kind - by what a function of the kernel is entered
 * @name: need not end with a 0
 *
 * Returns BTRAIL_PSEUDO_SYSCALL, _PAGE_FAULT, _EXCEPTION or _INTERRUPT; 0 if
 * the CPU enters none of this name.  Linux 4.9 and later.
 */
uint64_t entry_kind(const char *name, size_t size);

/*
 * Has an entry of this name one of its own for each vector, one after the
 * other?
 */
bool entry_is_table(const char *name, size_t size);

#endif /* BTRAIL_ENTRY_NAMES_H */
