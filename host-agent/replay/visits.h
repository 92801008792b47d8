/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where a function ran: the records of a trace that end at its first
 * instruction, of all vCPUs in the order of their instruction counts
 */

#ifndef BTRAIL_REPLAY_VISITS_H
#define BTRAIL_REPLAY_VISITS_H

#include "symbolize/symbolizer.h"
#include "util/agent-error.h"

struct visits;

/**
 * struct visit - a record behind which the function runs
 * @icount: of the record; if the trace has no count for each record, the last
 *          one that is known; or BTRAIL_NO_ICOUNT
 * @exact:  the trace has a count for each record
 */
struct visit {
    unsigned vcpu;
    uint64_t index;
    uint64_t icount;
    bool exact;
    struct btrail_time time;
    struct btrail_task task;
};

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
bool visits_next(struct visits *v, struct visit *visit, GError **error);

/* The count behind a record, as a visit has it */
void visit_count(struct visit *visit, const struct btrail_record *record,
                 const struct btrail_time *time);

/*
 * The addresses of a function of the kernel, as keys (uint64_t): an empty table
 * if it has no such function; NULL with an error
 */
GHashTable *visits_kernel_function(const struct btrail_trace *trace,
                                   const char *name, GError **error);

#endif /* BTRAIL_REPLAY_VISITS_H */
