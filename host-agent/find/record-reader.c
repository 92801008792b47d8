/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Records by their indices: see record-reader.h
 */

#include <glib.h>

#include "find/record-reader.h"

/* A vCPU */
struct record_lane {
    struct btrail_cursor *cursor;
    struct btrail_batch batch;  /* the last one, if it has records */
};

struct record_reader {
    const struct btrail_trace *trace;
    struct record_lane *lanes[BTRAIL_MAX_VCPUS];
};

struct record_reader *record_reader_new(const struct btrail_trace *trace)
{
    struct record_reader *r = g_new0(struct record_reader, 1);

    r->trace = trace;
    return r;
}

void record_reader_free(struct record_reader *r)
{
    if (r) {
        for (unsigned i = 0; i < BTRAIL_MAX_VCPUS; i++) {
            if (r->lanes[i]) {
                btrail_cursor_close(r->lanes[i]->cursor);
                g_free(r->lanes[i]);
            }
        }
        g_free(r);
    }
}

static int open_lane(struct record_reader *r, unsigned vcpu)
{
    struct btrail_cursor *cursor;
    int ret = vcpu < BTRAIL_MAX_VCPUS ?
              btrail_cursor_open(&cursor, r->trace, vcpu, 0) :
              -BTRAIL_ERR_STREAM;

    if (!ret) {
        r->lanes[vcpu] = g_new0(struct record_lane, 1);
        r->lanes[vcpu]->cursor = cursor;
    }
    return ret;
}

static bool has(const struct record_lane *l, uint64_t index)
{
    return index >= l->batch.index && index - l->batch.index < l->batch.count;
}

/* Reads the batch that has a record, or comes after where it would be. */
static int read_batch(struct record_lane *l, uint64_t index)
{
    /* A seek to where the cursor is would load the chunk again. */
    bool next = l->batch.count && index == l->batch.index + l->batch.count;
    int ret = next ? 0 : btrail_cursor_seek(l->cursor, index);

    l->batch.count = 0;
    while (!ret && !l->batch.count) {
        ret = btrail_cursor_next(l->cursor, &l->batch);
    }
    if (ret) {
        l->batch.count = 0;
    }
    return ret;
}

int record_reader_at(struct record_reader *r, unsigned vcpu, uint64_t index,
                     struct visit *visit)
{
    struct record_lane *l;
    int ret;

    if (vcpu >= BTRAIL_MAX_VCPUS || !r->lanes[vcpu]) {
        ret = open_lane(r, vcpu);
        if (ret) {
            return ret;
        }
    }
    l = r->lanes[vcpu];
    if (!has(l, index)) {
        ret = read_batch(l, index);
        if (ret || !has(l, index)) {
            return ret ? ret : -BTRAIL_ERR_END;
        }
    }
    *visit = (struct visit) {
        moment_after(vcpu, &l->batch, index - l->batch.index),
        l->batch.records[index - l->batch.index], l->batch.cr3,
    };
    return 0;
}

int record_read(const struct btrail_trace *trace, unsigned vcpu,
                uint64_t index, struct visit *visit)
{
    struct record_reader *r = record_reader_new(trace);
    int ret = record_reader_at(r, vcpu, index, visit);

    record_reader_free(r);
    return ret;
}
