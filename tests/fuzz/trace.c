/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fuzz target: a trace file
 *
 * Opens it, reads all streams in all ways and seeks around.  Checksums are
 * not checked in this build, so that the fuzzer gets past them.
 */

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backtrail/code.h"
#include "backtrail/names.h"
#include "fuzz.h"
#include "lib/agent/meta.h"
#include "lib/agent/names-private.h"

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

/* True if there is a record at or after it, which then is @record. */
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
    fuzz_require(b.synthetic ||
                 btrail_cr3_root(b.cr3) == btrail_cr3_root(sample->cr3));
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

/*
 * Spans, and what is merged or decoded by several threads, are the streams
 */

/* What of a stream there is without decoding records */
struct outline {
    unsigned vcpu;
    bool whole;                 /* nothing of the file is missing in it */
    uint64_t items;             /* events and records */
    uint64_t records;
    uint64_t lost;
    uint64_t index;             /* after the last item */
};

static uint64_t lost_before(const struct btrail_event *e)
{
    return e->type == BTRAIL_EVENT_GAP && e->data[0] != BTRAIL_LOST_UNKNOWN ?
           e->data[0] : 0;
}

/* @events_only: then there may be holes between the batches. */
static void add_batch(struct outline *o, const struct btrail_batch *b,
                      bool events_only)
{
    fuzz_require(events_only ? b->index >= o->index : b->index == o->index);
    fuzz_require(!b->event == !!b->count);
    o->index = b->index + b->count;
    o->records += b->count;
    o->items += b->event ? 1 : b->count;
    if (b->event) {
        o->whole &= !b->synthetic;
        o->lost += lost_before(b->event);
        o->index += lost_before(b->event);
    }
}

static struct outline read_outline(const struct btrail_trace *trace,
                                   unsigned vcpu, unsigned flags)
{
    struct outline o = { .vcpu = vcpu, .whole = true };
    struct btrail_cursor *cursor;
    struct btrail_batch b;
    int ret;

    fuzz_require(!btrail_cursor_open(&cursor, trace, vcpu, flags));
    while (!(ret = btrail_cursor_next(cursor, &b))) {
        add_batch(&o, &b, flags & BTRAIL_CURSOR_EVENTS_ONLY);
    }
    fuzz_require(ret == -BTRAIL_ERR_END || ret == -BTRAIL_ERR_MEMORY);
    o.whole &= ret == -BTRAIL_ERR_END && !btrail_cursor_bad_chunks(cursor);
    btrail_cursor_close(cursor);
    return o;
}

static bool same(const struct outline *a, const struct outline *b)
{
    return a->vcpu == b->vcpu && a->items == b->items &&
           a->records == b->records && a->lost == b->lost &&
           a->index == b->index;
}

struct span_sums {
    uint64_t spans;
    uint64_t records;
    uint64_t of_root;           /* of these, in one address space */
};

/* Spans follow each other; of one address space, others are in between. */
static struct span_sums read_spans(const struct btrail_trace *trace,
                                   unsigned vcpu, uint64_t root,
                                   unsigned flags, const struct outline *o)
{
    struct span_sums sums = { 0 };
    struct btrail_spans *spans;
    struct btrail_span s;
    uint64_t index = 0, lost = 0;
    bool whole;
    int ret;

    fuzz_require(!btrail_spans_open(&spans, trace, vcpu, root, flags));
    while (!(ret = btrail_spans_next(spans, &s))) {
        fuzz_require(s.vcpu == vcpu);
        fuzz_require(!flags || btrail_cr3_root(s.cr3) == root);
        fuzz_require(flags ? s.first_index >= index : s.first_index == index);
        fuzz_require(s.records + s.lost == s.end_index - s.first_index);
        fuzz_require(s.records + s.lost > 0);
        index = s.end_index;
        sums.spans++;
        sums.records += s.records;
        lost += s.lost;
        if (btrail_cr3_root(s.cr3) == root) {
            sums.of_root += s.records;
        }
    }
    fuzz_require(ret == -BTRAIL_ERR_END || ret == -BTRAIL_ERR_MEMORY);
    whole = ret == -BTRAIL_ERR_END && !btrail_spans_bad_chunks(spans);
    fuzz_require(flags || !whole || (sums.records == o->records &&
                                     lost == o->lost && index == o->index));
    btrail_spans_close(spans);
    return sums;
}

static void check_spans(const struct btrail_trace *trace,
                        const struct outline *o, uint64_t root)
{
    struct span_sums all = read_spans(trace, o->vcpu, root, 0, o);
    struct span_sums some = read_spans(trace, o->vcpu, root,
                                       BTRAIL_SPANS_OF_SPACE, o);

    fuzz_require(!o->whole || some.records == all.of_root);
    fuzz_require(some.spans <= all.spans || !o->whole);
}

#define MAX_STREAMS     4
#define MAX_BATCHES     20000

/* The streams that are read, by what a reader returns */
struct outlines {
    struct outline of[MAX_STREAMS];
    unsigned n;
    unsigned flags;
    bool in_pieces;
    uint64_t piece;
    unsigned calls;
    unsigned stop_after;        /* calls; 0: never */
};

static struct outline *outline_of(struct outlines *o, unsigned vcpu)
{
    unsigned i;

    for (i = 0; i < o->n && o->of[i].vcpu != vcpu; i++) {
        /* until it is found */
    }
    fuzz_require(i < o->n);
    return &o->of[i];
}

static void read_merged(const struct btrail_trace *trace,
                        const struct outlines *want, unsigned flags,
                        uint64_t grain, uint64_t from)
{
    struct outlines got = { .n = want->n };
    unsigned vcpus[MAX_STREAMS], i, batches = 0, vcpu;
    uint64_t time, times[MAX_STREAMS] = { 0 };
    struct btrail_merged *merged;
    struct btrail_batch b;
    int ret;

    for (i = 0; i < want->n; i++) {
        vcpus[i] = want->of[i].vcpu;
        got.of[i] = (struct outline) { .vcpu = vcpus[i], .whole = true };
    }
    fuzz_require(!btrail_merged_open(&merged, trace, vcpus, want->n, flags,
                                     grain));
    if (from) {
        fuzz_require(!btrail_merged_seek_time(merged, from));
    }
    while (!(ret = btrail_merged_next(merged, &vcpu, &time, &b)) &&
           batches++ < MAX_BATCHES) {
        struct outline *o = outline_of(&got, vcpu);

        fuzz_require(time >= times[o - got.of]);
        times[o - got.of] = time;
        if (from && !o->items) {
            o->index = b.index;
        }
        add_batch(o, &b, flags & BTRAIL_CURSOR_EVENTS_ONLY);
        if (b.records) {
            memcpy(copy, b.records, b.count * sizeof(*copy));
        }
    }
    fuzz_require(!ret || ret == -BTRAIL_ERR_END || ret == -BTRAIL_ERR_MEMORY);
    for (i = 0; i < want->n && ret == -BTRAIL_ERR_END && !from; i++) {
        fuzz_require(same(&got.of[i], &want->of[i]));
    }
    btrail_merged_close(merged);
}

/* For what comes in order */
static int take_piece(void *opaque, const struct btrail_piece *piece,
                      const struct btrail_batch *b)
{
    struct outlines *got = opaque;
    struct outline *o = outline_of(got, piece->vcpu);

    fuzz_require(!got->in_pieces || piece->number == got->piece ||
                 !piece->number);
    got->piece = piece->number + !b;
    got->in_pieces = true;
    if (b) {
        add_batch(o, b, got->flags & BTRAIL_CURSOR_EVENTS_ONLY);
        if (b->records) {
            size_t n = b->count < sizeof(copy) / sizeof(*copy) ? b->count :
                       sizeof(copy) / sizeof(*copy);

            memcpy(copy, b->records, n * sizeof(*copy));
        }
    } else {
        o->whole &= !piece->bad;
    }
    return got->stop_after && ++got->calls >= got->stop_after;
}

/* For what comes in any order: only what adds up */
static int take_any(void *opaque, const struct btrail_piece *piece,
                    const struct btrail_batch *b)
{
    struct outlines *got = opaque;
    struct outline *o = outline_of(got, piece->vcpu);

    if (b) {
        __atomic_add_fetch(&o->records, b->count, __ATOMIC_RELAXED);
        __atomic_add_fetch(&o->lost, b->event ? lost_before(b->event) : 0,
                           __ATOMIC_RELAXED);
    }
    return 0;
}

static void decode_parallel(const struct btrail_trace *trace,
                            const struct outlines *want, unsigned flags,
                            unsigned threads, unsigned stop_after)
{
    struct outlines got = {
        .n = want->n, .flags = flags, .stop_after = stop_after,
    };
    bool ordered = flags & BTRAIL_PARALLEL_ORDERED;
    unsigned vcpus[MAX_STREAMS], i;
    int ret;

    for (i = 0; i < want->n; i++) {
        vcpus[i] = want->of[i].vcpu;
        got.of[i] = (struct outline) { .vcpu = vcpus[i], .whole = true };
    }
    ret = btrail_parallel_decode(trace, vcpus, want->n, flags, threads,
                                 ordered ? take_piece : take_any, &got);
    fuzz_require(!ret || ret == -BTRAIL_ERR_MEMORY || stop_after);
    for (i = 0; i < want->n && !ret; i++) {
        /* Holes that are next to each other have GAP events of their own. */
        fuzz_require(got.of[i].records == want->of[i].records);
        fuzz_require(got.of[i].lost == want->of[i].lost);
        fuzz_require(!ordered || got.of[i].index == want->of[i].index);
    }
}

/* Each input is read in one of three ways: handles take long to make here. */
static void read_together(const struct btrail_trace *trace, unsigned streams,
                          unsigned way)
{
    static const unsigned ways[] = {
        0, BTRAIL_CURSOR_COUNTS_ONLY, BTRAIL_CURSOR_EVENTS_ONLY,
    };
    unsigned flags = ways[way], i;
    struct outlines want = { .n = streams };
    uint64_t time = 0;

    for (i = 0; i < streams; i++) {
        struct btrail_stream_info info;

        fuzz_require(!btrail_trace_stream(trace, i, &info));
        want.of[i] = read_outline(trace, info.vcpu, flags);
        time = info.last_time / 2 + info.first_time / 2;
    }
    read_merged(trace, &want, flags, way ? 0 : 10000, 0);
    read_merged(trace, &want, flags, UINT64_MAX, 0);
    read_merged(trace, &want, flags, 1, time);
    if (flags == BTRAIL_CURSOR_EVENTS_ONLY) {
        return;
    }
    decode_parallel(trace, &want, flags, 2, 0);
    decode_parallel(trace, &want, flags | BTRAIL_PARALLEL_ORDERED, 2, 0);
    if (!flags) {
        decode_parallel(trace, &want, BTRAIL_PARALLEL_ORDERED |
                        BTRAIL_PARALLEL_CHECK_ONLY, 1, 0);
        decode_parallel(trace, &want, BTRAIL_PARALLEL_ORDERED, 3, 2);
    }
}

static void read_stream(struct btrail_trace *trace, unsigned n)
{
    struct outline outline;
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
    outline = read_outline(trace, info.vcpu, BTRAIL_CURSOR_COUNTS_ONLY);
    check_spans(trace, &outline, btrail_cr3_root(sample.cr3));
}

/* The description: text that may be JSON */
static void read_meta(struct btrail_trace *trace)
{
    JsonObject *meta;
    const char *text;
    size_t len;
    unsigned i, bad;

    for (i = 0; !btrail_trace_meta(trace, i, &text, &len); i++) {
        fuzz_require(strlen(text) == len);
    }
    meta = btrail_meta_read(trace, &bad);
    fuzz_require(meta && bad <= i);
    btrail_json_object(meta, "start");
    json_object_unref(meta);
}

/* Whatever is asked of names, their answer can be read. */
static void ask(const struct btrail_names *names, uint64_t time, uint64_t cr3,
                uint64_t address)
{
    const struct btrail_process *p;
    const struct btrail_mapping *m;
    struct btrail_symbol s;
    struct btrail_syscall call;
    enum btrail_certainty c = btrail_names_process(names, time, cr3, &p);

    fuzz_require((c == BTRAIL_UNKNOWN) == !p);
    if (p) {
        fuzz_require(strlen(p->comm) + strlen(p->exe) < 1u << 24);
        c = btrail_names_mapping(names, p, time, address, &m);
        fuzz_require((c == BTRAIL_UNKNOWN) >= !m);
        fuzz_require(!m || (address >= m->start && address < m->end &&
                            strlen(m->path) < 1u << 24));
    }
    if (!btrail_names_kernel_symbol(names, time, address, &s)) {
        fuzz_require(s.address <= address && address < s.end &&
                     strlen(s.name) < 1u << 24);
    }
    if (!btrail_names_syscall(names, 0, time, address, &call)) {
        fuzz_require((call.bits == 32 || call.bits == 64) && call.numbers);
    }
}

/* Each symbol is found where it begins, or one of the same address is. */
static void read_symbols(const struct btrail_names *names)
{
    struct btrail_symbol_era era;
    struct btrail_symbol s, found;

    for (size_t i = 0; !btrail_names_symbol_era(names, i, &s, &era); i++) {
        fuzz_require(era.from <= era.last && s.end >= s.address &&
                     strlen(s.name) < 1u << 24);
        btrail_names_era(names, era.kernel, era.from, &era);
        if (!era.number) {
            /* A kernel without a number had ended. */
            fuzz_require(!era.kernel);
            continue;
        }
        if (s.address != UINT64_MAX &&
            !btrail_names_era_symbol(names, era.number, s.address, &found)) {
            fuzz_require(found.address == s.address);
        }
    }
}

static void read_names(struct btrail_trace *trace)
{
    struct btrail_names *names;
    struct btrail_owners *owners;
    struct btrail_sideband_info info;
    unsigned i;
    int ret = btrail_names_open(&names, trace);

    if (ret) {
        fuzz_require(ret == -BTRAIL_ERR_MEMORY || ret == -BTRAIL_ERR_IO);
        return;
    }
    read_symbols(names);
    for (i = 0; !btrail_trace_sideband(trace, i, &info, NULL); i++) {
        struct btrail_snapshot *snapshot;
        void *data;
        uint32_t k;

        if (info.kind != BTRAIL_SIDEBAND_PROCESSES ||
            btrail_trace_sideband(trace, i, &info, &data)) {
            continue;
        }
        if (!btrail_snapshot_decode(&snapshot, data, info.size)) {
            for (k = 0; k < snapshot->n && k < 16; k++) {
                const struct btrail_process *p = &snapshot->processes[k];
                uint64_t address = p->n_mappings ? p->mappings[0].start : 0;

                ask(names, p->first, p->pgd, address);
                ask(names, p->last, p->user_pgd, address);
                ask(names, snapshot->end + 1, p->pgd, address);
            }
            btrail_snapshot_free(snapshot);
        }
        free(data);
    }
    ask(names, 0, 0, UINT64_C(0xffffffff81000010));
    ask(names, UINT64_MAX, UINT64_MAX, UINT64_MAX);
    if (!btrail_owners_open(&owners, trace, names)) {
        for (i = 0; i < 40; i++) {
            const struct btrail_process *p;

            if (btrail_owners_process(owners, i % 4, i * 5, i * 100,
                                      0x1000 * (i % 5), &p)) {
                fuzz_require(p && p->comm);
            }
        }
        btrail_owners_close(owners);
    }
    btrail_names_close(names);
}

/* True if there is some */
static bool read_sideband(struct btrail_trace *trace)
{
    struct btrail_sideband_info info, again;
    bool some = false;
    unsigned i;

    for (i = 0; !btrail_trace_sideband(trace, i, &info, NULL); i++) {
        uint8_t *data;
        int ret = btrail_trace_sideband(trace, i, &again, (void **)&data);

        if (ret) {
            fuzz_require(ret == -BTRAIL_ERR_CORRUPT ||
                         ret == -BTRAIL_ERR_MEMORY);
            continue;
        }
        some = true;
        fuzz_require(again.kind == info.kind && again.size == info.size &&
                     again.time == info.time &&
                     info.size <= BTRAIL_SIDEBAND_MAX_SIZE);
        if (info.size) {
            fuzz_require(data[0] + data[info.size - 1] <= 510);
        }
        free(data);
    }
    return some;
}

static void read_code(struct btrail_trace *trace)
{
    struct btrail_code *code;
    uint8_t bytes[5000];
    unsigned i;

    if (btrail_code_open(&code, trace)) {
        return;
    }
    for (i = 0; i < 20; i++) {
        int ret = btrail_code_read(code, i % 2, i * 7, 0x1000 * (i % 3),
                                   i % 5 ? 0x400000 + i : ~0ull - i * 400,
                                   bytes, sizeof(bytes));

        fuzz_require(ret <= (int)sizeof(bytes));
    }
    btrail_code_bad_pieces(code);
    btrail_code_close(code);
}

int fuzz_input(const uint8_t *data, size_t size)
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
    read_meta(trace);
    if (read_sideband(trace) || btrail_trace_streams(trace)) {
        fuzz_accepted();
    }
    read_names(trace);
    read_code(trace);
    for (i = 0; i < btrail_trace_streams(trace) && i < MAX_STREAMS; i++) {
        read_stream(trace, i);
    }
    if (i) {
        read_together(trace, i, size % 3);
    }
    btrail_trace_close(trace);
    return 0;
}
