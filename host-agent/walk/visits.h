/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where a function ran: the records of a trace that end at its first
 * instruction, of all vCPUs in the order of their moments
 */

#ifndef BTRAIL_VISITS_H
#define BTRAIL_VISITS_H

#include "symbolize/symbolizer.h"
#include "util/agent-error.h"
#include "walk/moment.h"

struct visits;

/**
 * visits_new - search a function
 * @trace:    outlives the result
 * @symbols:  of @trace, for functions of user programs; outlives the result; or
 *            NULL
 * @process:  name of the process that runs it; NULL if any may, and then the
 *            function is one of the kernel
 *
 * Errors: NAMES: the kernel has no such function.
 */
struct visits *visits_new(const struct btrail_trace *trace,
                          struct symbolizer *symbols, const char *process,
                          const char *function, GError **error);
void visits_free(struct visits *v);

/* The next one.  False at the end, or with an error. */
bool visits_next(struct visits *v, struct moment *visit, GError **error);

/*
 * The addresses of a function of the kernel, as keys (uint64_t): an empty table
 * if it has no such function; NULL with an error
 */
GHashTable *visits_kernel_function(const struct btrail_trace *trace,
                                   const char *name, GError **error);

#endif /* BTRAIL_VISITS_H */
