/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fuzz target: a trace file
 *
 * Opens it, reads all streams in both ways and seeks around.  Checksums are
 * not looked at in this build, so that the fuzzer gets behind them.
 */

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backtrail/trace.h"
#include "fuzz.h"
#include "json.h"

/* Larger than any batch: records are read, all of them. */
static struct btrail_record copy[1 << 16];

/* A record that was read one after the other */
struct sample {
    bool taken;
    uint64_t index;
    struct btrail_record record;
    uint64_t cr3;
    uint64_t host;
    bool disorder;              /* a hole, a clock that goes back, a CR3 that
                                   no event has changed */
};

/* Indices never go back, and no hole is without its GAP event. */
static void read_all(struct btrail_cursor *cursor, bool events_only,
                     struct sample *sample)
{
    uint64_t index = 0, last = 0, limit = 1000, host = 0, cr3 = 0;
    bool disorder = false, started = false;
    struct btrail_batch b;
    int ret;

    while (!(ret = btrail_cursor_next(cursor, &b)) && limit--) {
        fuzz_require(events_only ? b.index >= index : b.index == index);
        fuzz_require(b.index >= last);
        index = last = b.index;
        disorder |= b.synthetic || b.time.host < host;
        host = b.time.host;
        disorder |= started && b.cr3 != cr3 &&
                    !(b.event && b.event->type == BTRAIL_EVENT_CR3);
        started = true;
        cr3 = b.cr3;
        if (b.event) {
            fuzz_require(!b.count);
            if (b.event->type == BTRAIL_EVENT_GAP &&
                b.event->data[0] != BTRAIL_LOST_UNKNOWN) {
                index += b.event->data[0];
                fuzz_require(index == b.event->index);
            }
        }
        fuzz_require(b.count <= sizeof(copy) / sizeof(*copy));
        if (b.count) {
            memcpy(copy, b.records, b.count * sizeof(*copy));
            *sample = (struct sample) {
                true, b.index + b.count / 2, copy[b.count / 2], b.cr3,
                host, disorder,
            };
        }
        index += b.count;
    }
    fuzz_require(!ret || ret == -BTRAIL_ERR_END || ret == -BTRAIL_ERR_MEMORY);
}

/* True if there is a record at or behind it, which then is @record. */
static bool seek_to(struct btrail_cursor *cursor, uint64_t index,
                    struct btrail_record *record)
{
    struct btrail_batch b;

    fuzz_require(!btrail_cursor_seek(cursor, index));
    do {
        if (btrail_cursor_next(cursor, &b)) {
            return false;
        }
    } while (!b.count);
    fuzz_require(b.index >= index);
    *record = b.records[0];
    return true;
}

/*
 * Going to the moment of a record finds the first item of that time, if all
 * clocks up to there go up and there is no hole.
 */
static void seek_time_exactly(struct btrail_cursor *cursor,
                              const struct sample *sample)
{
    struct btrail_batch want, got;

    if (!sample->taken || sample->disorder || !sample->host) {
        return;
    }
    fuzz_require(!btrail_cursor_seek(cursor, 0));
    do {
        fuzz_require(!btrail_cursor_next(cursor, &want));
    } while (want.time.host < sample->host);
    fuzz_require(!btrail_cursor_seek_time(cursor, sample->host));
    fuzz_require(!btrail_cursor_next(cursor, &got));
    fuzz_require(got.index == want.index && got.count == want.count &&
                 got.time.host == want.time.host);
}

/* There is a place where the address space of a record comes into force. */
static void seek_address_space(struct btrail_cursor *cursor,
                               const struct sample *sample)
{
    struct btrail_batch b;
    uint64_t index;
    int ret;

    if (!sample->taken) {
        return;
    }
    ret = btrail_cursor_seek_cr3(cursor, sample->cr3, sample->index + 1,
                                 BTRAIL_SEEK_PREVIOUS);
    if (ret) {
        /* It is in a chunk that could not be read. */
        fuzz_require(ret == -BTRAIL_ERR_END || ret == -BTRAIL_ERR_MEMORY);
        fuzz_require(ret == -BTRAIL_ERR_MEMORY || sample->disorder ||
                     btrail_cursor_bad_chunks(cursor));
        return;
    }
    fuzz_require(!btrail_cursor_next(cursor, &b));
    fuzz_require(b.synthetic || !((b.cr3 ^ sample->cr3) & BTRAIL_CR3_ROOT));
    index = b.index;
    fuzz_require(index <= sample->index);
    if (b.synthetic) {
        return;
    }
    /* From there on it is the first one. */
    fuzz_require(!btrail_cursor_seek_cr3(cursor, sample->cr3, index, 0));
    fuzz_require(!btrail_cursor_next(cursor, &b));
    fuzz_require(b.index == index);
}

static void seek_around(struct btrail_cursor *cursor,
                        const struct btrail_stream_info *info,
                        const struct sample *sample)
{
    const uint64_t indices[] = {
        0, info->first_index, info->first_index + 1, info->end_index - 1,
        info->end_index, UINT64_MAX,
    };
    const uint64_t times[] = {
        0, info->first_time, info->last_time, info->last_time + 1, UINT64_MAX,
    };
    struct btrail_record record;
    struct btrail_batch b;
    unsigned i;

    for (i = 0; i < sizeof(indices) / sizeof(*indices); i++) {
        seek_to(cursor, indices[i], &record);
    }
    for (i = 0; i < sizeof(times) / sizeof(*times); i++) {
        fuzz_require(!btrail_cursor_seek_time(cursor, times[i]));
        btrail_cursor_next(cursor, &b);
    }
    seek_time_exactly(cursor, sample);
    seek_address_space(cursor, sample);
    if (sample->taken) {
        fuzz_require(seek_to(cursor, sample->index, &record));
        fuzz_require(!memcmp(&record, &sample->record, sizeof(record)));
    }
}

static void read_stream(struct btrail_trace *trace, unsigned n)
{
    struct sample sample = { false };
    struct btrail_stream_info info;
    struct btrail_cursor *cursor;

    fuzz_require(!btrail_trace_stream(trace, n, &info));
    fuzz_require(!btrail_cursor_open(&cursor, trace, info.vcpu, 0));
    read_all(cursor, false, &sample);
    seek_around(cursor, &info, &sample);
    btrail_cursor_close(cursor);
    fuzz_require(!btrail_cursor_open(&cursor, trace, info.vcpu,
                                     BTRAIL_CURSOR_EVENTS_ONLY));
    read_all(cursor, true, NULL);
    btrail_cursor_close(cursor);
}

/* As the commands take it: text, perhaps JSON */
static void read_meta(struct btrail_trace *trace)
{
    const char *text;
    size_t len;
    unsigned i;

    for (i = 0; !btrail_trace_meta(trace, i, &text, &len); i++) {
        JsonNode *node;

        fuzz_require(strlen(text) == len);
        node = btrail_json_parse_object(text);
        if (node) {
            btrail_json_object(json_node_get_object(node), "start");
            json_node_unref(node);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd = memfd_create("trace", MFD_CLOEXEC);
    struct btrail_trace_status status;
    struct btrail_trace *trace;
    unsigned i;

    fuzz_require(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    if (btrail_trace_open_fd(&trace, fd)) {
        return 0;
    }
    fuzz_require(!btrail_trace_status(trace, &status));
    fuzz_require(status.file_size == size);
    if (btrail_trace_streams(trace)) {
        fuzz_accepted();
    }
    read_meta(trace);
    for (i = 0; i < btrail_trace_streams(trace) && i < 4; i++) {
        read_stream(trace, i);
    }
    btrail_trace_close(trace);
    return 0;
}
