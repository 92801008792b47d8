/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * In which parts of a trace an instruction may have run: see block-index.h
 */

#include <glib.h>
#include <string.h>
#include <sys/resource.h>

#include "gdb/block-index.h"
#include "util/hash.h"

#define NICE        10

#define LINE_SHIFT  6
/* A block of more lines is no block of a program. */
#define MAX_LINES   1024
/* A part of a kernel's boot touches some thousand lines. */
#define FILTER_BITS 16
#define FILTER_SIZE (1u << (FILTER_BITS - 3))
#define MIN_PART    (UINT64_C(1) << 18)
/* 64 MiB of filters */
#define MAX_PARTS   8192

struct block_index {
    const struct btrail_trace *trace;
    unsigned vcpu;
    uint64_t part;
    uint64_t parts;
    uint8_t *filters;
    GThread *thread;
    gint end;                   /* it is to end */
    gint done;                  /* parts that are read, from the first one on */
};

/* Two bits of a filter */
static void bits_of(uint64_t line, unsigned bits[2])
{
    uint64_t hash = btrail_hash(line);

    bits[0] = hash >> (64 - FILTER_BITS);
    bits[1] = hash >> (64 - 2 * FILTER_BITS) & ((1u << FILTER_BITS) - 1);
}

static void add_line(uint8_t *filter, uint64_t line)
{
    unsigned bits[2];

    bits_of(line, bits);
    for (unsigned i = 0; i < 2; i++) {
        filter[bits[i] >> 3] |= 1u << (bits[i] & 7);
    }
}

static bool has_line(const uint8_t *filter, uint64_t line)
{
    unsigned bits[2];

    bits_of(line, bits);
    return filter[bits[0] >> 3] & 1u << (bits[0] & 7) &&
           filter[bits[1] >> 3] & 1u << (bits[1] & 7);
}

/* A part that may have any block */
static void add_all(uint8_t *filter)
{
    memset(filter, 0xff, FILTER_SIZE);
}

/* The block that begins at @to; what ends before it begins is none. */
static void add_block(uint8_t *filter, uint64_t to, uint64_t from)
{
    uint64_t first = to >> LINE_SHIFT, last = from >> LINE_SHIFT;

    if (from < to) {
        return;
    }
    if (last - first >= MAX_LINES) {
        add_all(filter);
        return;
    }
    for (uint64_t line = first; line <= last; line++) {
        add_line(filter, line);
    }
}

/**
 * struct reader - what the thread knows
 * @part:  that it reads
 * @last:  the record before
 * @valid: there is one, and nothing is missing behind it
 */
struct reader {
    struct block_index *x;
    uint64_t part;
    struct btrail_record last;
    bool valid;
};

static uint8_t *filter_of(struct block_index *x, uint64_t part)
{
    return x->filters + part * FILTER_SIZE;
}

/* Goes on to the part of a record; those before it are read. */
static bool enter(struct reader *r, uint64_t index)
{
    uint64_t part = index / r->x->part;

    if (part >= r->x->parts || part < r->part) {
        return false;
    }
    /* What is missing may have run anything. */
    while (!r->valid && r->part < part) {
        add_all(filter_of(r->x, r->part++));
    }
    if (!r->valid && index) {
        add_all(filter_of(r->x, part));
    }
    r->part = part;
    g_atomic_int_set(&r->x->done, part);
    return true;
}

static bool add_records(struct reader *r, const struct btrail_batch *b)
{
    uint8_t *filter;

    for (size_t i = 0; i < b->count; i++) {
        const struct btrail_record *record = &b->records[i];

        if ((!r->valid || (b->index + i) % r->x->part == 0) &&
            !enter(r, b->index + i)) {
            return false;
        }
        filter = filter_of(r->x, r->part);
        if (btrail_record_icount(record, &b->time) == BTRAIL_NO_ICOUNT) {
            add_all(filter);
        } else if (r->valid) {
            add_block(filter, r->last.to, record->from);
        }
        r->last = *record;
        r->valid = true;
    }
    return true;
}

static gpointer read_trace(gpointer opaque)
{
    struct block_index *x = opaque;
    struct reader r = { .x = x };
    struct btrail_cursor *cursor;
    struct btrail_batch b;
    bool ok = true;
    int ret = btrail_cursor_open(&cursor, x->trace, x->vcpu, 0);

    /* Of this thread only, as Linux has it: what the user waits for is first. */
    setpriority(PRIO_PROCESS, 0, NICE);
    if (ret) {
        return NULL;
    }
    while (ok && !g_atomic_int_get(&x->end) &&
           !(ret = btrail_cursor_next(cursor, &b))) {
        if (!b.event) {
            ok = add_records(&r, &b);
        } else if (b.event->type == BTRAIL_EVENT_GAP) {
            r.valid = false;
        }
    }
    btrail_cursor_close(cursor);
    /* A part at the end that is not read stays one that may have any. */
    if (ret == -BTRAIL_ERR_END && r.valid) {
        g_atomic_int_set(&x->done, x->parts);
    }
    return NULL;
}

struct block_index *block_index_new(const struct btrail_trace *trace,
                                    unsigned vcpu, uint64_t records,
                                    uint64_t part)
{
    struct block_index *x = g_new0(struct block_index, 1);

    x->trace = trace;
    x->vcpu = vcpu;
    x->part = part ? part : MAX(MIN_PART, records / MAX_PARTS + 1);
    x->parts = records / x->part + 1;
    x->filters = g_try_malloc0_n(x->parts, FILTER_SIZE);
    if (x->filters) {
        x->thread = g_thread_new("block-index", read_trace, x);
    }
    return x;
}

void block_index_wait(struct block_index *x)
{
    if (x->thread) {
        g_thread_join(x->thread);
        x->thread = NULL;
    }
}

void block_index_free(struct block_index *x)
{
    if (x) {
        g_atomic_int_set(&x->end, true);
        block_index_wait(x);
        g_free(x->filters);
        g_free(x);
    }
}

static bool may_have(const struct block_index *x, const uint64_t *addresses,
                     unsigned n, uint64_t part)
{
    for (unsigned i = 0; i < n; i++) {
        if (has_line(x->filters + part * FILTER_SIZE,
                     addresses[i] >> LINE_SHIFT)) {
            return true;
        }
    }
    return false;
}

bool block_index_last(const struct block_index *x, const uint64_t *addresses,
                      unsigned n, uint64_t before, uint64_t *begin,
                      uint64_t *end)
{
    uint64_t done = g_atomic_int_get(&x->done);

    for (*end = before; *end; *end = *begin) {
        uint64_t part = (*end - 1) / x->part;

        *begin = part * x->part;
        if (part >= done || may_have(x, addresses, n, part)) {
            return true;
        }
    }
    return false;
}
