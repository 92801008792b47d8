/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the formats of backtrail export share
 */

#ifndef BTRAIL_EXPORT_H
#define BTRAIL_EXPORT_H

#include <stdio.h>

#include "analyze/call-tree.h"

/**
 * struct export
 * @by_time: folded stacks have microseconds, not branches
 * @shortest: in nanoseconds: shorter calls are not on a timeline
 * @damage:  gets what call_tree_read() or cursors have found
 */
struct export {
    const struct cli_trace *trace;
    struct symbolizer *names;
    const struct filter *filter;
    struct btrail_range time;
    bool by_time;
    uint64_t shortest;
    uint64_t damage;
    FILE *out;
};

/* They return 0 or a negative enum btrail_error. */
int export_folded(struct export *e);
int export_perf(struct export *e);
int export_perfetto(struct export *e);
int export_lcov(struct export *e);

#endif /* BTRAIL_EXPORT_H */
