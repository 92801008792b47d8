/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What names.c tells others in the library
 */

#ifndef BTRAIL_LIB_NAMES_H
#define BTRAIL_LIB_NAMES_H

#include "backtrail/names.h"

/* A process with one address space, as long as it was seen */
struct btrail_life;

/* CR3 without flags, and that of kernel mode where user mode has another */
uint64_t btrail_names_root(const struct btrail_names *names, uint64_t cr3);

/*
 * Whose page tables at @root were at some moment of those from @from to @to;
 * NULL if they were nobody's as far as is known, or more than one's.
 */
struct btrail_life *btrail_names_life(const struct btrail_names *names,
                                      uint64_t root, uint64_t from,
                                      uint64_t to);

/* What it was like at a time */
const struct btrail_process *
btrail_life_process(const struct btrail_life *life, uint64_t time);

/* How much later than its TIME event a record can have been made */
uint64_t btrail_names_tick(const struct btrail_names *names);

/* Is nothing that a vCPU did left out of the trace on purpose? */
bool btrail_names_unfiltered(const struct btrail_names *names);

/* Nor any vCPU? */
bool btrail_names_all_vcpus(const struct btrail_names *names);

#endif /* BTRAIL_LIB_NAMES_H */
