/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The names of a guest that stands still: what the scanner finds once in its
 * memory, as sideband
 */

#ifndef BTRAIL_FROZEN_NAMES_H
#define BTRAIL_FROZEN_NAMES_H

#include "drain/output.h"
#include "guest-linux/guest-memory.h"
#include "guest-linux/scanner.h"

/**
 * frozen_names_write - find names, and write them
 * @files:  where the guest's memory is
 * @result: what was found, or why nothing was; to be cleared with
 *          scanner_result_clear()
 *
 * Returns how many pieces had no room; the disk is too slow then.
 */
uint64_t frozen_names_write(struct output *output,
                            const struct guest_memory_files *files,
                            struct scanner_result *result);

/* The same of a guest that runs, from now until it is ended */
struct frozen_names;

struct frozen_names *frozen_names_begin(struct output *output,
                                        const struct guest_memory_files *files);

/* A vCPU has run with this CR3, as the trace has it.  For one thread */
void frozen_names_see(struct frozen_names *n, uint64_t cr3);

/* Returns as frozen_names_write(). */
uint64_t frozen_names_end(struct frozen_names *n,
                          struct scanner_result *result);

#endif /* BTRAIL_FROZEN_NAMES_H */
