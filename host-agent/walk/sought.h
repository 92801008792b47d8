/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is searched in the records of a trace: code at some addresses
 */

#ifndef BTRAIL_SOUGHT_H
#define BTRAIL_SOUGHT_H

#include "symbolize/symbolizer.h"
#include "util/agent-error.h"
#include "walk/marks.h"
#include "walk/pieces.h"

/**
 * struct sought
 * @addresses: of uint64_t, in order
 * @starts:    of struct kernel_start, in the order of addresses: what is at one
 *             of these addresses counts only at such times; or NULL
 * @blocks:    instructions, which can be anywhere in a block; otherwise what
 *             records go to
 * @process:   name of the process that runs them; NULL if any may
 * @function:  if @process is not NULL: an address of user mode counts only if
 *             it is where this function begins in the process
 * @others:    by vCPU, of struct piece: here a process runs that no snapshot
 *             has found, and the function can be at any address; or NULL
 * @names:     say which kernel runs where events do not; or NULL
 * @marks:     if it is not NULL, a record counts only if it is @mark
 */
struct sought {
    GArray *addresses;
    GArray *starts;
    bool blocks;
    char *process;
    char *function;
    GArray *others[BTRAIL_MAX_VCPUS];
    const struct btrail_names *names;
    struct btrail_names *own_names;
    struct marks *marks;
    struct mark_wanted mark;
};

/**
 * sought_function - where a function begins
 * @symbols: of @trace, for functions of user programs and other kernels; or
 *           NULL
 * @process: NULL for one of the kernel
 *
 * Errors: NAMES: the kernel has no such function.
 */
struct sought *sought_function(const struct btrail_trace *trace,
                               struct symbolizer *symbols, const char *process,
                               const char *function, GError **error);

/**
 * sought_mark - marks of programs
 * @symbols: of @trace; or NULL
 * @mark:    is copied
 *
 * Errors: NAMES: the trace has no such mark; COMMAND.
 */
struct sought *sought_mark(const struct btrail_trace *trace,
                           struct symbolizer *symbols,
                           const struct mark_wanted *mark, GError **error);

/* Instructions at an address */
struct sought *sought_instruction(uint64_t address);

/* What is at some addresses (uint64_t), in any order.  Takes the array. */
struct sought *sought_addresses(GArray *addresses);

/* What is at some addresses at some times (struct kernel_start).  Takes the
 * array, and names, which can be NULL. */
struct sought *sought_starts(GArray *starts, struct btrail_names *names);

/* Is an address one of those that are sought at this time? */
bool sought_at(const struct sought *s, uint64_t address, uint32_t kernel,
               uint64_t time);

void sought_free(struct sought *s);

#endif /* BTRAIL_SOUGHT_H */
