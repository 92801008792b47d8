/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fuzz target: a trace file
 *
 * Opens it, reads all streams in both ways and seeks around.  Checksums are
 * not looked at in this build, so that the fuzzer gets behind them.
 */

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backtrail/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition) {
        abort();
    }
}

/* Larger than any batch: records are read, all of them. */
static struct btrail_record copy[1 << 16];

/* Indices never go back, and no hole is without its GAP event. */
static void read_all(struct btrail_cursor *cursor, bool events_only)
{
    uint64_t index = 0, limit = 1000;
    struct btrail_batch b;
    int ret;

    while (!(ret = btrail_cursor_next(cursor, &b)) && limit--) {
        require(events_only ? b.index >= index : b.index == index);
        index = b.index;
        if (b.event) {
            require(!b.count);
            if (b.event->type == BTRAIL_EVENT_GAP &&
                b.event->data[0] != BTRAIL_LOST_UNKNOWN) {
                index += b.event->data[0];
                require(index == b.event->index);
            }
        }
        require(b.count <= sizeof(copy) / sizeof(*copy));
        if (b.count) {
            memcpy(copy, b.records, b.count * sizeof(*copy));
        }
        index += b.count;
    }
    require(!ret || ret == -BTRAIL_ERR_END || ret == -BTRAIL_ERR_MEMORY);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd = memfd_create("trace", MFD_CLOEXEC);
    struct btrail_trace_status status;
    struct btrail_trace *trace;
    unsigned i;

    require(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    if (btrail_trace_open_fd(&trace, fd)) {
        return 0;
    }
    require(!btrail_trace_status(trace, &status));
    require(status.file_size == size);
    for (i = 0; i < btrail_trace_streams(trace) && i < 4; i++) {
        struct btrail_stream_info info;
        struct btrail_cursor *cursor;
        struct btrail_batch b;

        require(!btrail_trace_stream(trace, i, &info));
        require(!btrail_cursor_open(&cursor, trace, info.vcpu, 0));
        read_all(cursor, false);
        btrail_cursor_seek(cursor, info.end_index / 2);
        if (!btrail_cursor_next(cursor, &b) && b.count) {
            require(b.index >= info.end_index / 2);
        }
        btrail_cursor_seek_time(cursor, info.last_time);
        btrail_cursor_next(cursor, &b);
        btrail_cursor_close(cursor);
        require(!btrail_cursor_open(&cursor, trace, info.vcpu,
                                    BTRAIL_CURSOR_EVENTS_ONLY));
        read_all(cursor, true);
        btrail_cursor_close(cursor);
    }
    btrail_trace_close(trace);
    return 0;
}
