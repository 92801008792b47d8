/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fuzz target: a stream of Intel PT, and the code that it is of
 *
 *     0   u8   options: FUZZ_*
 *     1   u8   bytes of the pieces in which the stream comes, less 1
 *     2   u16  bytes of code
 *     4   code
 *         stream
 *
 * The code is at 0x401000 in each address space but one, and in the kernel.
 * Whatever the pieces, and however often blocks are dropped, the same comes of
 * it, each byte is counted once, and what was given out is what is counted.
 */

#include <glib.h>
#include <string.h>

#include "fuzz.h"
#include "pt/flow.h"

#define FUZZ_RETURNS    1
#define FUZZ_KEEP       2
#define FUZZ_TRUST      4
#define FUZZ_LINEAR     8
#define FUZZ_CLOCK      16

#define USER            UINT64_C(0x401000)
#define KERNEL          UINT64_C(0xffffffff81000000)

struct world {
    const uint8_t *code;
    size_t size;
    uint64_t hash, records, gaps[PT_GAPS];
};

static enum pt_code_result read_code(void *opaque, uint64_t cr3,
                                     uint64_t address,
                                     const struct pt_moment *moment,
                                     struct pt_code *code)
{
    struct world *w = opaque;
    uint64_t offset = address - (address >> 63 ? KERNEL : USER);

    fuzz_require(moment->since_records <= moment->records);
    if (cr3 == 0x8000) {
        return PT_CODE_CHANGED;
    }
    if (offset >= w->size) {
        return PT_CODE_UNREADABLE;
    }
    *code = (struct pt_code){
        .bytes = w->code + offset, .size = w->size - offset,
        .tsc = UINT64_MAX, .records = UINT64_MAX,
    };
    return PT_CODE_READ;
}

static void add(struct world *w, uint64_t number)
{
    w->hash = (w->hash ^ number) * UINT64_C(0x9e3779b97f4a7c15);
    w->hash ^= w->hash >> 29;
}

static void give(void *opaque, const struct btrail_record *records, size_t n,
                 const struct pt_flow_event *events, size_t n_events)
{
    struct world *w = opaque;
    size_t e = 0;

    for (size_t i = 0; i <= n; i++) {
        for (; e < n_events && events[e].at == i; e++) {
            add(w, events[e].type);
            add(w, events[e].value);
            if (events[e].type == PT_FLOW_GAP) {
                fuzz_require(events[e].gap && events[e].gap < PT_GAPS);
                w->gaps[events[e].gap]++;
            }
        }
        if (i < n) {
            add(w, records[i].from);
            add(w, records[i].to);
            fuzz_require(!records[i].flags);
        }
    }
    fuzz_require(e == n_events);
    w->records += n;
}

static uint64_t decode(const uint8_t *data, size_t size, size_t step,
                       size_t memory)
{
    size_t code = MIN(data[2] | data[3] << 8, size - 4);
    struct world w = { .code = data + 4, .size = code };
    const uint8_t *p = data + 4 + code;
    size_t n = size - 4 - code;
    struct pt_flow_options o = {
        .returns = *data & FUZZ_RETURNS,
        .keep_returns = *data & FUZZ_KEEP,
        .trust_overflow = *data & FUZZ_TRUST,
        .linear = *data & FUZZ_LINEAR,
        .memory = memory,
    };
    struct pt_flow *f;
    const struct pt_flow_count *c;
    uint64_t hash;

    if (*data & FUZZ_CLOCK) {
        o.tsc_per_ctc[0] = 125;
        o.tsc_per_ctc[1] = 2;
        o.mtc_shift = 3;
        o.bus_ratio = 30;
        o.time_step = 1;
    }
    f = pt_flow_new(&o, read_code, &w, give, &w);
    c = pt_flow_counted(f);
    for (size_t i = 0; i < n; i += step) {
        size_t part = MIN(step, n - i);
        uint8_t *copy = g_memdup2(p + i, part);

        pt_flow_feed(f, copy, part);
        g_free(copy);
    }
    pt_flow_finish(f);
    fuzz_require(c->decoded + c->skipped + c->host == n);
    fuzz_require(c->records == w.records);
    for (unsigned i = 0; i < PT_GAPS; i++) {
        fuzz_require(c->gaps[i] == w.gaps[i]);
    }
    if (w.records) {
        fuzz_accepted();
    }
    hash = w.hash;
    pt_flow_free(f);
    return hash;
}

int fuzz_input(const uint8_t *data, size_t size)
{
    uint64_t whole;

    if (size < 4) {
        return 0;
    }
    whole = decode(data, size, MAX(size, 1), 1 << 20);
    fuzz_require(decode(data, size, 1 + data[1], 1 << 20) == whole);
    fuzz_require(decode(data, size, 1, 1) == whole);
    return 0;
}
