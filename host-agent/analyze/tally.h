/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Adding up a trace: the records and edges of each address space
 */

#ifndef BTRAIL_TALLY_H
#define BTRAIL_TALLY_H

#include "analyze/fold.h"
#include "analyze/space-tasks.h"

/* A record, with the time of the TIME event in force */
struct tally_moment {
    uint64_t time;
    unsigned vcpu;
    uint64_t index;
};

/**
 * struct space - an address space
 * @cr3:   as btrail_cr3_root() has it
 * @spans: spans that have records
 * @first: its first record, in the order of time and then of index
 * @last:  its last record
 * @vcpus: vCPUs that it ran on
 */
struct space {
    struct fold_group group;
    uint64_t cr3;
    uint64_t records;
    uint64_t spans;
    struct tally_moment first;
    struct tally_moment last;
    bool vcpus[BTRAIL_MAX_VCPUS];
};

/**
 * struct tally
 * @spaces: of struct space *, those with most records first
 * @sums:   of the trace; @sums.others in address spaces beyond the limit
 */
struct tally {
    GPtrArray *spaces;
    struct fold_sums sums;
    GHashTable *groups;         /* owns them */
};

/**
 * tally_trace - add up a whole trace
 * @tasks:   gets the tasks of the address spaces; can be NULL
 * @threads: number of threads; the result does not depend on it
 *
 * Returns 0 and a tally, which tally_clear() frees; or a negative enum
 * btrail_error.
 */
int tally_trace(struct tally *t, const struct btrail_trace *trace,
                struct space_tasks *tasks, unsigned threads,
                const struct fold_limits *limits);

void tally_clear(struct tally *t);

#endif /* BTRAIL_TALLY_H */
