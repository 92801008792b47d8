/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where code ran: the records of a trace after which it does, of all vCPUs in
 * the order of their moments, forwards or backwards
 *
 * Only chunks whose footprints have the code are decoded, so this is quick for
 * what ran seldom.
 */

#ifndef BTRAIL_VISITS_H
#define BTRAIL_VISITS_H

#include "find/moment.h"
#include "find/target.h"

/**
 * struct visit
 * @at:      the moment: after @record
 * @record:  goes to the code, or to the block with it
 * @cr3:     in force for @record
 * @address: of the code
 */
struct visit {
    struct moment at;
    struct btrail_record record;
    uint64_t cr3;
    uint64_t address;
};

/* The record as a batch of its own, which points into @visit */
struct btrail_batch visit_batch(const struct visit *visit);

struct visits;

/**
 * visits_new - search code
 * @trace:    outlives the result, as do the next two
 * @symbols:  of @trace, for functions of user programs; or NULL
 * @wanted:   what
 *
 * An instruction that an interrupt or a fault has prevented did not run there;
 * where the code is not known, that of a block's end has run.
 *
 * Errors: COMMAND: the trace cannot be read.
 */
struct visits *visits_new(const struct btrail_trace *trace,
                          struct symbolizer *symbols,
                          const struct find_target *wanted, GError **error);
void visits_free(struct visits *v);

/* Of a vCPU, only records [@begin, @end) count.  Before the first one is
 * read. */
void visits_limit(struct visits *v, unsigned vcpu, uint64_t begin,
                  uint64_t end);

/* The next one.  False at the end, or with an error. */
bool visits_next(struct visits *v, struct visit *visit, GError **error);

/* The last one of all, and then those before it.  Not after visits_next(). */
bool visits_previous(struct visits *v, struct visit *visit, GError **error);

/**
 * visits_fn - receives a visit
 * @worker: from 0 to the number of threads - 1; calls with the same one do not
 *          overlap
 */
typedef void visits_fn(void *opaque, unsigned worker,
                       const struct visit *visit);

/* All of them, in any order, with several threads.  Instead of the others. */
bool visits_each(struct visits *v, unsigned threads, visits_fn *fn,
                 void *opaque, GError **error);

/* For visits_fn: to use the symbolizer, which the search uses, too */
void visits_lock(struct visits *v);
void visits_unlock(struct visits *v);

/* Places that were passed up to now and cannot be read, or are missing */
uint64_t visits_damage(const struct visits *v);

#endif /* BTRAIL_VISITS_H */
