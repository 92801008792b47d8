/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reading a trace from beginning to end, for targets that write one
 */

#ifndef BTRAIL_FUZZ_READ_H
#define BTRAIL_FUZZ_READ_H

#include "backtrail/trace.h"

/**
 * struct fuzz_sum - what all streams of a trace have
 * @records:   records
 * @synthetic: GAP events that the reader made up
 * @bad:       chunks that it has passed over
 * @end:       a sum of the indices that the streams come to
 * @sideband:  a sum of its pieces
 * @all:       nothing was left out of this
 */
struct fuzz_sum {
    uint64_t records;
    uint64_t synthetic;
    uint64_t bad;
    uint64_t end;
    uint64_t sideband;
    bool all;
};

struct fuzz_sum fuzz_read(const struct btrail_trace *trace);

/* A file in memory with these bytes, and its name, for those that want one */
struct fuzz_file {
    int fd;
    char path[64];
};

struct fuzz_file fuzz_file(const uint8_t *data, size_t size);

#endif /* BTRAIL_FUZZ_READ_H */
