/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Raw traces: what a producer made, in no format of ours
 *
 * A folder with two files for each vCPU, vcpuN.records.zst and
 * vcpuN.events.zst: arrays of struct btrail_record and struct btrail_event,
 * compressed with zstd.  They stay the same whatever the trace format does, so
 * that two versions of it can be compared on the same input.
 */

#ifndef BENCH_RAW_H
#define BENCH_RAW_H

#include <glib.h>

#include "backtrail/trace.h"

/**
 * struct raw_stream - one vCPU
 * @records: number i has the index i
 * @events:  in order; the index says before which record
 */
struct raw_stream {
    unsigned vcpu;
    struct btrail_record *records;
    size_t n_records;
    struct btrail_event *events;
    size_t n_events;
};

/*
 * Write the first @max records of each stream of a trace, and the events
 * before them, to a folder.  The trace must have no holes.  False after having
 * said what is wrong.
 */
bool raw_extract(const char *path, const char *folder, size_t max);

/* Array of struct raw_stream, or NULL after having said what is wrong */
GArray *raw_load(const char *folder);

#endif /* BENCH_RAW_H */
