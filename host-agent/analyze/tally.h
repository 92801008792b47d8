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

/* Addresses at which records of an address space leave its kernel */
#define SPACE_GATES 4

/**
 * struct space - an address space
 * @spans: spans that have records
 * @first: its first record, in the order of time and then of index
 * @last:  its last record
 * @gates: those that VMRUN is at, and those that #VMEXIT goes to
 * @n_gates: SPACE_GATES + 1 if there are more
 * @vcpus: vCPUs that it ran on
 */
struct space {
    struct fold_group group;
    struct space_key key;
    uint64_t records;
    uint64_t spans;
    struct tally_moment first;
    struct tally_moment last;
    uint64_t gates[SPACE_GATES];
    unsigned n_gates;
    bool vcpus[BTRAIL_MAX_VCPUS];
};

/* May an edge of an address space leave its kernel? */
bool space_leaves(const struct space *s, uint64_t from, uint64_t to);

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
