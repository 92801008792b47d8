/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where the CPU enters Linux
 */

#ifndef BTRAIL_ENTRY_PLACE_H
#define BTRAIL_ENTRY_PLACE_H

#include "symbolize/places.h"

/**
 * entry_place_kind - for what the CPU goes to a place of the kernel
 *
 * Returns BTRAIL_PSEUDO_SYSCALL, _PAGE_FAULT, _EXCEPTION or _INTERRUPT; 0 if
 * none of them begins here.  No branch goes to such a place, from user mode or
 * from the kernel; functions that a handler has called return to places after
 * it.
 */
uint64_t entry_place_kind(const struct place *to);

/*
 * The same without system calls: what the CPU goes to without an instruction
 * that asks for it
 */
uint64_t entry_place_handler(const struct place *to);

#endif /* BTRAIL_ENTRY_PLACE_H */
