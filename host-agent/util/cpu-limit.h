/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Limits of the CPU time that is used for guests: for each, and for all
 * together
 *
 * A limit is an account of CPU time that is filled as time passes.  It may have
 * a debt, since the cost of work is known only when it is done.  Callers wait
 * while there is a debt; nothing here does.
 *
 * What all guests may use is shared among those that use it; the others get
 * what one guest does not use.  So a guest that uses little does not wait for
 * one that uses much.
 *
 * Any thread; now is CLOCK_MONOTONIC in ns.
 */

#ifndef BTRAIL_CPU_LIMIT_H
#define BTRAIL_CPU_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

/* The limits of all guests */
struct cpu_pool;

/* The limit of one guest */
struct cpu_limit;

/* How much CPU time can be saved up */
#define CPU_BURST_NS UINT64_C(100000000)

/* The pool has no limits at first. */
struct cpu_pool *cpu_pool_new(void);

/* Limits that were made from it stay valid. */
void cpu_pool_free(struct cpu_pool *pool);

/**
 * cpu_pool_set - set what guests may use from now on
 * @each: for each guest, in percent of one CPU; 0 for no limit
 * @all:  for all together, likewise
 *
 * A limit that changes loses its savings and debts.
 */
void cpu_pool_set(struct cpu_pool *pool, uint64_t each,
                  uint64_t all, uint64_t now);

struct cpu_limit *cpu_limit_new(struct cpu_pool *pool);
void cpu_limit_free(struct cpu_limit *limit);

/* Is there any limit?  Cheap */
bool cpu_limit_holds(const struct cpu_limit *limit);

/* Charges CPU time that was used for the guest. */
void cpu_limit_spend(struct cpu_limit *limit, uint64_t cpu_ns,
                     uint64_t now);

/*
 * The same, with only half of the income to pay for it: other work waits at
 * most twice as long because of it.
 */
void cpu_limit_spend_slowly(struct cpu_limit *limit,
                            uint64_t cpu_ns, uint64_t now);

/*
 * Returns about how long there will be a debt, in ns, after which the caller
 * asks again; 0 if there is none.
 */
uint64_t cpu_limit_wait(struct cpu_limit *limit, uint64_t now);

/* Returns how long it takes to be given @cpu_ns; 0 without a limit. */
uint64_t cpu_limit_pace(struct cpu_limit *limit, uint64_t cpu_ns,
                        uint64_t now);

#endif /* BTRAIL_CPU_LIMIT_H */
