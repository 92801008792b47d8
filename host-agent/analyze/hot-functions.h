/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The functions that took most of the time of some records
 *
 * The time of a record is that of the code before its branch.  Of very many
 * records, some are read, evenly.
 */

#ifndef BTRAIL_HOT_FUNCTIONS_H
#define BTRAIL_HOT_FUNCTIONS_H

#include "symbolize/symbolizer.h"

/* So many records are read. */
#define HOT_FUNCTIONS_RECORDS   (1u << 24)

/**
 * struct hot_range - records [@begin, @end) of a vCPU
 * @time:  host clock at the first one, or before
 * @group: its time is summed up with that of others of this number
 */
struct hot_range {
    unsigned vcpu;
    unsigned group;
    uint64_t begin;
    uint64_t end;
    uint64_t time;
};

struct hot_function {
    const struct function *function;
    uint64_t ns;
};

/**
 * hot_functions_read
 * @ranges: of struct hot_range, which do not overlap; they are sorted
 * @groups: how many
 * @tick:   of the session, in ns; 0 if it is not known
 * @most:   records that are read; 0: HOT_FUNCTIONS_RECORDS
 * @found:  gets a new array of struct hot_function for each group, the hottest
 *          one first
 * @sampled: gets whether not all records were read
 *
 * Errors: as btrail_cursor_open().
 */
int hot_functions_read(const struct btrail_trace *trace,
                       struct symbolizer *symbols, GArray *ranges,
                       unsigned groups, uint64_t tick, uint64_t most,
                       GArray **found, bool *sampled);

#endif /* BTRAIL_HOT_FUNCTIONS_H */
