/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fuzz target: slabs
 *
 * The input is a sequence of slabs: struct btrail_slab_desc, its events, its
 * records.  What a stream accepts must be read back bit by bit, in order, and
 * GAP events must explain all holes.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backtrail/trace.h"
#include "fuzz.h"

/* A sum that depends on the order */
static uint64_t mix(uint64_t sum, const void *bytes, size_t len)
{
    const uint8_t *p = bytes;

    while (len--) {
        sum = (sum ^ *p++) * 0x100000001b3ull;
    }
    return sum;
}

static void check(int fd, uint64_t records, uint64_t sum)
{
    struct btrail_trace *trace;
    struct btrail_trace_status status;
    struct btrail_cursor *cursor;
    struct btrail_batch b;
    uint64_t index = 0, got = 0, got_sum = 0;
    int ret;

    fuzz_require(!btrail_trace_open_fd(&trace, fd));
    btrail_trace_status(trace, &status);
    fuzz_require(status.complete && status.indexed && !status.bad_chunks);
    ret = btrail_cursor_open(&cursor, trace, 5, 0);
    if (ret) {
        fuzz_require(!records);
        btrail_trace_close(trace);
        return;
    }
    while (!(ret = btrail_cursor_next(cursor, &b))) {
        fuzz_require(!b.synthetic && b.index == index);
        if (b.event) {
            if (b.event->type == BTRAIL_EVENT_GAP &&
                b.event->data[0] != BTRAIL_LOST_UNKNOWN) {
                index += b.event->data[0];
                fuzz_require(index == b.event->index);
            }
        }
        got += b.count;
        index += b.count;
        got_sum = mix(got_sum, b.records, b.count * sizeof(*b.records));
    }
    fuzz_require(ret == -BTRAIL_ERR_END && !btrail_cursor_bad_chunks(cursor));
    fuzz_require(got == records && got_sum == sum);
    btrail_cursor_close(cursor);
    btrail_trace_close(trace);
}

int fuzz_input(const uint8_t *data, size_t size)
{
    int fd = memfd_create("trace", MFD_CLOEXEC);
    uint64_t records = 0, sum = 0;
    struct btrail_writer *w;
    bool taken = false;
    char path[64];

    fuzz_require(fd >= 0);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    fuzz_require(!btrail_writer_open(&w, path, BTRAIL_WRITER_REPLACE));
    while (size >= sizeof(struct btrail_slab_desc)) {
        struct btrail_slab_desc desc;
        struct btrail_event *events;
        struct btrail_record *r;
        struct btrail_slab slab;

        memcpy(&desc, data, sizeof(desc));
        data += sizeof(desc);
        size -= sizeof(desc);
        slab.first_index = desc.first_index;
        slab.cr3 = desc.cr3;
        slab.n_events = desc.events % 8;
        slab.n_records = desc.records % 64;
        if (size < slab.n_events * sizeof(*events) +
            slab.n_records * sizeof(*r)) {
            break;
        }
        events = malloc(slab.n_events * sizeof(*events) + 1);
        memcpy(events, data, slab.n_events * sizeof(*events));
        data += slab.n_events * sizeof(*events);
        size -= slab.n_events * sizeof(*events);
        r = malloc(slab.n_records * sizeof(*r) + 1);
        memcpy(r, data, slab.n_records * sizeof(*r));
        data += slab.n_records * sizeof(*r);
        size -= slab.n_records * sizeof(*r);
        slab.events = events;
        slab.records = r;
        if (!btrail_writer_append(w, 5, &slab)) {
            taken = true;
            records += slab.n_records;
            sum = mix(sum, r, slab.n_records * sizeof(*r));
        }
        if (desc.reserved[0] & 1) {
            fuzz_require(!btrail_writer_flush(w));
        }
        free(events);
        free(r);
    }
    fuzz_require(!btrail_writer_close(w));
    check(fd, records, sum);
    if (taken) {
        fuzz_accepted();
    }
    return 0;
}
