/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reading a trace from beginning to end: see read.h
 */

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "lib/agent/trace-files.h"
#include "read.h"

/* A short input can speak of many records. */
#define MAX_BATCHES 2000

/* Footprints: what may have run an address, from the end to the beginning */
static void search(const struct btrail_trace *trace,
                   const struct btrail_stream_info *info)
{
    const uint64_t addresses[] = { 0x1000, UINT64_C(0xffffffff81000000) };
    uint64_t before = info->end_index, begin, end;
    unsigned left = MAX_BATCHES;

    while (left-- && btrail_trace_last_ran(trace, info->vcpu, addresses, 2,
                                           before, &begin, &end)) {
        fuzz_require(begin < end && end <= before);
        before = begin;
    }
    left = MAX_BATCHES;
    before = info->first_index;
    while (left-- && btrail_trace_next_ran(trace, info->vcpu, addresses, 2,
                                           before, &begin, &end)) {
        fuzz_require(before <= begin && begin < end);
        before = end;
    }
}

struct fuzz_sum fuzz_read(const struct btrail_trace *trace)
{
    struct fuzz_sum sum = { .all = true };
    struct btrail_stream_info info;
    unsigned i;

    for (i = 0;; i++) {
        struct btrail_sideband_info piece;
        uint8_t *data = NULL;
        int ret = btrail_trace_sideband(trace, i, &piece, (void **)&data);

        if (ret == -BTRAIL_ERR_END) {
            break;
        }
        fuzz_require(!ret || ret == -BTRAIL_ERR_CORRUPT ||
                     ret == -BTRAIL_ERR_MEMORY);
        sum.bad += ret == -BTRAIL_ERR_CORRUPT;
        if (!ret) {
            sum.sideband = (sum.sideband + piece.kind + piece.time) * 31 +
                           piece.size;
            if (piece.size) {
                sum.sideband += data[0] + data[piece.size - 1];
            }
        }
        free(data);
    }
    for (i = 0; !btrail_trace_stream(trace, i, &info); i++) {
        struct btrail_cursor *cursor;
        struct btrail_batch b;
        uint64_t index = 0;
        unsigned left = MAX_BATCHES;
        int ret = 0;

        fuzz_require(!btrail_cursor_open(&cursor, trace, info.vcpu, 0));
        while (left-- && !(ret = btrail_cursor_next(cursor, &b))) {
            fuzz_require(b.index == index);
            index += b.count;
            sum.records += b.count;
            sum.synthetic += b.synthetic;
            if (b.event && b.event->type == BTRAIL_EVENT_GAP &&
                b.event->data[0] != BTRAIL_LOST_UNKNOWN) {
                index += b.event->data[0];
            }
        }
        sum.all &= ret == -BTRAIL_ERR_END;
        sum.bad += btrail_cursor_bad_chunks(cursor);
        sum.end = sum.end * 31 + index;
        btrail_cursor_close(cursor);
        search(trace, &info);
    }
    return sum;
}

struct fuzz_file fuzz_file(const uint8_t *data, size_t size)
{
    struct fuzz_file f = { memfd_create("trace", MFD_CLOEXEC), "" };

    fuzz_require(f.fd >= 0 && write(f.fd, data, size) == (ssize_t)size);
    snprintf(f.path, sizeof(f.path), "/proc/self/fd/%d", f.fd);
    return f;
}
