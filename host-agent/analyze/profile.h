/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How often each edge was taken, by each process
 */

#ifndef BTRAIL_PROFILE_H
#define BTRAIL_PROFILE_H

#include "analyze/edges.h"
#include "analyze/window.h"
#include "symbolize/filter.h"

/**
 * struct profile_options
 * @names:   whose processes they are
 * @filter:  NULL for all records
 * @by_vcpu: tell the vCPUs apart
 * @blocks:  count not edges but what was executed between two records: `from`
 *           is where the first one went to, `to` where the second comes from
 * @window:  the part of the trace to read
 * @threads: that decode
 * @edges:   so many different ones may be told apart, at least 1
 */
struct profile_options {
    struct symbolizer *names;
    const struct filter *filter;
    bool by_vcpu;
    bool blocks;
    struct window window;
    unsigned threads;
    size_t edges;
};

/**
 * profile_fn - takes an edge of those that were chosen
 * @record: all that is known of it, but for @index and @time
 */
typedef void profile_fn(void *opaque, const struct filter_record *record,
                        uint64_t count);

/**
 * struct profile - sums
 * @records: that were chosen
 * @others:  more of them may have been: their edges are not told apart
 * @lost, @lost_unknown, @damage: as in struct tally
 */
struct profile {
    uint64_t records;
    uint64_t others;
    uint64_t lost;
    bool lost_unknown;
    uint64_t damage;
};

/**
 * profile_trace - count a whole trace
 *
 * Returns 0, or a negative enum btrail_error.
 */
int profile_trace(struct profile *p, const struct btrail_trace *trace,
                  const struct profile_options *options, profile_fn *fn,
                  void *opaque);

#endif /* BTRAIL_PROFILE_H */
