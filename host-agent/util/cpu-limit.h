/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How much CPU time is used for guests: of each, and of all together
 *
 * A limit is an account of CPU time, which is filled as time goes by and may
 * have a debt, since what something takes is known once it is done.  It is for
 * those who ask to wait while there is one; nothing here does.
 *
 * What all may use is shared out to those who use what they are given; what
 * one does not use, the others get.  So a guest that uses little does not wait
 * for one that uses much.
 *
 * Any thread; now is CLOCK_MONOTONIC in ns.
 */

#ifndef BTRAIL_CPU_LIMIT_H
#define BTRAIL_CPU_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

/* What all guests have */
struct btrail_cpu_pool;

/* What one has */
struct btrail_cpu_limit;

/* CPU time that is saved up, at most */
#define BTRAIL_CPU_BURST_NS UINT64_C(100000000)

/* Without limits */
struct btrail_cpu_pool *btrail_cpu_pool_new(void);

/* Limits that were made of it may live on. */
void btrail_cpu_pool_free(struct btrail_cpu_pool *pool);

/**
 * btrail_cpu_pool_set - say what guests may use from now on
 * @each: of each guest, in percent of one CPU; 0 is no limit
 * @all:  of all together, likewise
 *
 * What has been saved, and debts, are forgotten where the limit is another one.
 */
void btrail_cpu_pool_set(struct btrail_cpu_pool *pool, uint64_t each,
                         uint64_t all, uint64_t now);

struct btrail_cpu_limit *btrail_cpu_limit_new(struct btrail_cpu_pool *pool);
void btrail_cpu_limit_free(struct btrail_cpu_limit *limit);

/* Is there any?  Cheap */
bool btrail_cpu_limit_holds(const struct btrail_cpu_limit *limit);

/* So much CPU time has been used for the guest. */
void btrail_cpu_limit_spend(struct btrail_cpu_limit *limit, uint64_t cpu_ns,
                            uint64_t now);

/*
 * The same, but it is paid off with half of what comes in: nobody waits for
 * twice as long because of it.
 */
void btrail_cpu_limit_spend_slowly(struct btrail_cpu_limit *limit,
                                   uint64_t cpu_ns, uint64_t now);

/*
 * How long there will be a debt, in ns, as things are: about, so one asks again
 * then; 0 if there is none.
 */
uint64_t btrail_cpu_limit_wait(struct btrail_cpu_limit *limit, uint64_t now);

/* How long it takes to be given so much; 0 without a limit */
uint64_t btrail_cpu_limit_pace(struct btrail_cpu_limit *limit, uint64_t cpu_ns,
                               uint64_t now);

#endif /* BTRAIL_CPU_LIMIT_H */
