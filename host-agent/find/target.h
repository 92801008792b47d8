/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is searched in the records of a trace: code at some addresses
 */

#ifndef BTRAIL_FIND_TARGET_H
#define BTRAIL_FIND_TARGET_H

#include "find/candidates.h"
#include "find/marks.h"
#include "symbolize/symbolizer.h"
#include "util/agent-error.h"
#include "util/closest.h"

/**
 * struct find_target
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
 * @missing:   that no function of the name is known, and which may be meant; or
 *             NULL.  There can be one all the same, where not all is known
 * @names:     say which kernel runs where events do not; or NULL
 * @marks:     if it is not NULL, a record counts only if it is @mark
 */
struct find_target {
    GArray *addresses;
    GArray *starts;
    bool blocks;
    char *process;
    char *function;
    char *missing;
    GArray *others[BTRAIL_MAX_VCPUS];
    const struct btrail_names *names;
    struct btrail_names *own_names;
    struct marks *marks;
    struct mark_wanted mark;
};

/**
 * find_target_function - where a function begins
 * @symbols: of @trace, for functions of user programs and other kernels; or
 *           NULL
 * @process: NULL for one of the kernel
 *
 * Errors: NAMES: the kernel has no such function, or all tasks have names,
 * and none that of the process.
 */
struct find_target *find_target_function(const struct btrail_trace *trace,
                                         struct symbolizer *symbols,
                                         const char *process,
                                         const char *function, GError **error);

/*
 * Can a function of this name be known anywhere in the trace of @symbols?  If
 * not, no record is in one, and @closest is offered all that are known, but for
 * names that are changed for people.
 */
bool find_target_is_known(struct symbolizer *symbols, const char *function,
                          struct closest *closest);

/**
 * find_target_mark - marks of programs
 * @symbols: of @trace; or NULL
 * @mark:    is copied
 *
 * Errors: NAMES: the trace has no such mark; COMMAND.
 */
struct find_target *find_target_mark(const struct btrail_trace *trace,
                                     struct symbolizer *symbols,
                                     const struct mark_wanted *mark,
                                     GError **error);

/* Instructions at an address */
struct find_target *find_target_instruction(uint64_t address);

/* What is at some addresses (uint64_t), in any order.  Takes the array. */
struct find_target *find_target_addresses(GArray *addresses);

/* What is at some addresses at some times (struct kernel_start).  Takes the
 * array, and names, which can be NULL. */
struct find_target *find_target_starts(GArray *starts,
                                       struct btrail_names *names);

/* Is an address one of those that are wanted at this time? */
bool find_target_at(const struct find_target *s, uint64_t address,
                    uint32_t kernel,
                    uint64_t time);

void find_target_free(struct find_target *s);

#endif /* BTRAIL_FIND_TARGET_H */
