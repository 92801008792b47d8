/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What call stacks are made of: records that one task has made
 */

#ifndef BTRAIL_STACK_PART_H
#define BTRAIL_STACK_PART_H

#include "symbolize/stack-edge.h"

/**
 * struct stack_part - consecutive records of one vCPU that one task has made
 * @first:  number of records of the batch before them
 * @n:      number of records
 * @edges:  of each record
 * @runs:   those that stay in a function
 * @counts: which records count, as records, time and calls; NULL for all
 * @ticks:  time that each record took, in 1/STACK_TICKS ns
 */
struct stack_part {
    unsigned vcpu;
    struct task task;
    size_t first;
    size_t n;
    const struct stack_edge *const *edges;
    const struct stack_run *runs;
    const bool *counts;
    uint64_t ticks;
};

#endif /* BTRAIL_STACK_PART_H */
