/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How often each edge was taken, by process
 */

#ifndef BTRAIL_PROFILE_H
#define BTRAIL_PROFILE_H

#include "analyze/fold.h"
#include "analyze/window.h"
#include "symbolize/filter.h"

/**
 * struct profile_options
 * @filter:  NULL for all records
 * @by_vcpu: count each vCPU by itself
 * @blocks:  count blocks instead of edges: what was executed between two
 *           records, with the `to` of the first one as `from`, and the `from`
 *           of the second one as `to`
 * @window:  the part of the trace to read
 * @threads: number of threads that decode
 * @edges:   how many different edges are kept at a time, at least 1; if there
 *           are more, some are reported more than once, with a part of their
 *           count each time
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
 * profile_fn - takes an edge that the filter has chosen, and how often it was
 *              taken; called by one thread at a time
 * @record: all but @index and @time; @where is the place of one of those that
 *          are counted, or of another one with the same names.  Of a block, the
 *          code there is the one that was executed
 */
typedef void profile_fn(void *opaque, const struct named_record *record,
                        uint64_t count);

/**
 * profile_trace - count a whole trace
 * @sums: gets the number of records that were chosen; @others is 0
 *
 * Returns 0, or a negative enum btrail_error.
 */
int profile_trace(struct fold_sums *sums, const struct btrail_trace *trace,
                  const struct profile_options *options, profile_fn *fn,
                  void *opaque);

#endif /* BTRAIL_PROFILE_H */
