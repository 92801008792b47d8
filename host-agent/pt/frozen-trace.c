/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A trace of frozen rings: see frozen-trace.h
 */

#include <string.h>

#include "backtrail/words.h"
#include "pt/frozen-pages.h"
#include "pt/frozen-trace.h"
#include "util/clock.h"
#include "util/json.h"

/* Bytes that are decoded until it is asked whether to end */
#define PIECE           (256u << 10)
#define PROGRESS_US     250000

/* What threads share */
struct frozen_work {
    struct output *output;
    const struct frozen_options *o;
    const struct frozen_stream *streams;
    unsigned n;
    struct frozen_pages *pages;

    unsigned next;              /* atomic: the stream that nobody has yet */
    int stop;                   /* atomic */
    uint64_t bytes, records;    /* atomic */

    GMutex lock;                /* of what follows */
    GCond changed;
    unsigned left;              /* threads that have not ended */
    struct frozen_count count;
    struct frozen_spaces *spaces;
    int error;
};

/* A stream, and where it is */
struct frozen_vcpu {
    struct frozen_work *work;
    const struct frozen_stream *in;
    struct pt_flow *flow;
    struct btrail_stream *out;
    struct frozen_spaces *spaces;
    struct frozen_pages_vcpu *pages;
    GArray *events;             /* of struct btrail_event */
    uint64_t cr3;               /* as PIP says it */
    uint64_t label;             /* as the trace has it */
    uint64_t to;                /* of the record before, if there is one */
    bool has_to;
    uint64_t first_ns;
    uint64_t last_ns;
    uint64_t times;             /* that were left out */
    int error;
};

unsigned frozen_trace_blocks(unsigned streams)
{
    /* One that each stream fills, and some that are written */
    return streams + g_get_num_processors() + 4;
}

static struct btrail_event gap_event(const struct frozen_vcpu *v,
                                     const struct pt_flow_event *e)
{
    static const uint16_t reasons[] = {
        [PT_GAP_OVERFLOW] = BTRAIL_GAP_PT_OVERFLOW,
        [PT_GAP_RING] = BTRAIL_GAP_PT_RING,
        [PT_GAP_UNREADABLE] = BTRAIL_GAP_CODE_UNREADABLE,
        [PT_GAP_CHANGED] = BTRAIL_GAP_CODE_CHANGED,
        [PT_GAP_LOST] = BTRAIL_GAP_PT_LOST,
        [PT_GAP_OFF] = BTRAIL_GAP_NOT_TRACED,
        [PT_GAP_MODE] = BTRAIL_GAP_MODE,
    };
    struct btrail_event gap = {
        .type = BTRAIL_EVENT_GAP, .data = { BTRAIL_LOST_UNKNOWN },
    };

    if (e->gap == PT_GAP_BEGIN) {
        gap.reason = v->in->wrapped ? BTRAIL_GAP_OVERWRITTEN :
                     BTRAIL_GAP_NOT_TRACED;
    } else {
        gap.reason = reasons[e->gap];
    }
    /* The others have no such number. */
    if (gap.reason >= BTRAIL_GAP_PT_OVERFLOW) {
        gap.data[1] = e->value;
    }
    return gap;
}

/*
 * The host's clock at a TSC of the guest; 0 if it cannot be: a guest can write
 * to its TSC.
 */
static uint64_t host_time(const struct frozen_vcpu *v, uint64_t tsc)
{
    __extension__ typedef unsigned __int128 wide;
    const struct frozen_clock *c = &v->work->o->clock;
    uint64_t end = c->tsc + v->in->tsc_ahead;
    wide before;

    if (!c->hz || tsc > end) {
        return 0;
    }
    before = (wide)(end - tsc) * 1000000000 / c->hz;
    return before < c->ns && c->ns - (uint64_t)before >= c->begin ?
           c->ns - (uint64_t)before : 0;
}

static void add_event(struct frozen_vcpu *v, struct btrail_event e)
{
    g_array_append_val(v->events, e);
}

static void add_time(struct frozen_vcpu *v, uint64_t index, uint64_t ns,
                     uint64_t tsc)
{
    v->first_ns = v->first_ns ?: ns;
    v->last_ns = ns;
    add_event(v, (struct btrail_event){
        .index = index, .type = BTRAIL_EVENT_TIME,
        .data = { ns, tsc, BTRAIL_NO_ICOUNT },
    });
}

static void take_time(struct frozen_vcpu *v, uint64_t index, uint64_t tsc)
{
    uint64_t ns = host_time(v, tsc);

    /* Readers find moments by times that never go back. */
    if (ns && ns >= v->last_ns) {
        add_time(v, index, ns, tsc);
    } else {
        v->times += v->work->o->clock.hz != 0;
    }
}

static void take_event(struct frozen_vcpu *v, uint64_t index,
                       const struct pt_flow_event *e)
{
    struct btrail_event gap;

    switch (e->type) {
    case PT_FLOW_CR3:
        v->cr3 = e->value;
        v->label = e->value | (v->work->o->pae ? BTRAIL_CR3_PAE : 0);
        frozen_spaces_see(v->spaces, e->value);
        add_event(v, (struct btrail_event){
            .index = index, .type = BTRAIL_EVENT_CR3, .data = { v->label },
        });
        break;
    case PT_FLOW_TIME:
        take_time(v, index, e->value);
        break;
    case PT_FLOW_GAP:
        v->has_to = false;
        gap = gap_event(v, e);
        gap.index = index;
        add_event(v, gap);
        break;
    }
}

/* Records up to the next event: which pages, and whose they are */
static void take_records(struct frozen_vcpu *v, uint64_t index,
                         const struct btrail_record *records, size_t n)
{
    bool lower = false;

    if (n && !v->last_ns) {
        /* No record is without a time.  Not before this one, it is true. */
        add_time(v, index, MAX(v->work->o->clock.begin, 1), 0);
    }
    for (size_t i = 0; i < n; i++) {
        const struct btrail_record *r = &records[i];

        frozen_pages_execute(v->pages, v->label, v->cr3, index + i,
                             v->has_to ? v->to : r->from, r->from);
        v->to = r->to;
        v->has_to = true;
        lower |= !(r->from >> 63);
    }
    if (lower) {
        frozen_spaces_decode(v->spaces, v->cr3);
    }
}

static void give(void *opaque, const struct btrail_record *records, size_t n,
                 const struct pt_flow_event *events, size_t n_events)
{
    struct frozen_vcpu *v = opaque;
    uint64_t index = btrail_stream_index(v->out);
    struct btrail_slab slab = {
        .first_index = index, .cr3 = v->label,
        .records = records, .n_records = n,
    };
    size_t at = 0;

    g_array_set_size(v->events, 0);
    for (size_t i = 0; i < n_events; i++) {
        take_records(v, index + at, records + at, events[i].at - at);
        at = events[i].at;
        take_event(v, index + at, &events[i]);
    }
    take_records(v, index + at, records + at, n - at);
    slab.events = (const struct btrail_event *)v->events->data;
    slab.n_events = v->events->len;
    if (!v->error) {
        v->error = btrail_stream_append(v->out, &slab, BTRAIL_GAP_CORRUPT);
    }
    __atomic_fetch_add(&v->work->records, n, __ATOMIC_RELAXED);
}

static enum pt_code_result read_code(void *opaque, uint64_t cr3,
                                     uint64_t address,
                                     const struct pt_moment *moment,
                                     struct pt_code *code)
{
    struct frozen_vcpu *v = opaque;
    enum pt_code_result result = v->in->code(v->in->code_opaque, cr3, address,
                                             moment, code);

    if (result == PT_CODE_READ) {
        frozen_pages_read(v->pages, cr3, address);
        if (!(address >> 63)) {
            frozen_spaces_read(v->spaces, cr3);
        }
    } else if (!(address >> 63)) {
        frozen_spaces_fail(v->spaces, cr3);
    }
    return result;
}

static bool is_stopped(struct frozen_work *w)
{
    return __atomic_load_n(&w->stop, __ATOMIC_RELAXED);
}

static void stop(struct frozen_work *w)
{
    __atomic_store_n(&w->stop, 1, __ATOMIC_RELAXED);
}

/* Returns how many bytes were not read. */
static uint64_t feed(struct frozen_vcpu *v)
{
    uint64_t left = v->in->size[0] + v->in->size[1];

    for (unsigned i = 0; i < 2; i++) {
        size_t size = v->in->size[i];

        for (size_t at = 0; at < size; at += PIECE) {
            size_t n = MIN(size - at, PIECE);

            if (v->error || is_stopped(v->work)) {
                return left;
            }
            pt_flow_feed(v->flow, v->in->bytes[i] + at, n);
            left -= n;
            __atomic_fetch_add(&v->work->bytes, n, __ATOMIC_RELAXED);
        }
    }
    return left;
}

static void end(struct frozen_vcpu *v, uint64_t left)
{
    const struct frozen_clock *c = &v->work->o->clock;
    const struct btrail_event gap = {
        .index = btrail_stream_index(v->out), .type = BTRAIL_EVENT_GAP,
        .reason = BTRAIL_GAP_PT_RING, .data = { BTRAIL_LOST_UNKNOWN, left },
    };
    const struct btrail_slab slab = {
        .first_index = gap.index, .cr3 = v->label,
        .events = &gap, .n_events = 1,
    };

    if (left && !v->error) {
        v->error = btrail_stream_append(v->out, &slab, BTRAIL_GAP_CORRUPT);
    }
    if (!v->error) {
        v->error = btrail_stream_event(v->out, BTRAIL_EVENT_END,
                                       BTRAIL_END_STOPPED,
                                       c->hz ? c->ns : clock_ns());
    }
    if (!v->error) {
        v->error = btrail_stream_flush(v->out);
    }
}

static void decode(struct frozen_work *w, const struct frozen_stream *in)
{
    struct frozen_vcpu v = { .work = w, .in = in };
    struct pt_flow_options o = w->o->flow;
    uint64_t left;

    o.host_tsc = in->host_tsc;
    v.spaces = frozen_spaces_new();
    v.pages = frozen_pages_vcpu_new(w->pages, in->vcpu, in->code,
                                    in->code_opaque);
    v.events = g_array_new(FALSE, FALSE, sizeof(struct btrail_event));
    v.out = btrail_stream_new(in->vcpu, output_sink(w->output), false);
    v.flow = pt_flow_new(&o, read_code, &v, give, &v);

    left = feed(&v);
    pt_flow_finish(v.flow);
    end(&v, left);

    g_mutex_lock(&w->lock);
    pt_flow_add_counts(&w->count.flow, pt_flow_counted(v.flow));
    frozen_spaces_add(w->spaces, v.spaces);
    w->count.times += v.times;
    if (v.first_ns && (!w->count.first || v.first_ns < w->count.first)) {
        w->count.first = v.first_ns;
    }
    if (v.error && !w->error) {
        w->error = v.error;
        stop(w);
    }
    g_mutex_unlock(&w->lock);

    pt_flow_free(v.flow);
    btrail_stream_free(v.out);
    g_array_free(v.events, TRUE);
    frozen_pages_vcpu_free(v.pages);
    frozen_spaces_free(v.spaces);
}

static gpointer decode_thread(gpointer opaque)
{
    struct frozen_work *w = opaque;

    for (;;) {
        unsigned i = __atomic_fetch_add(&w->next, 1, __ATOMIC_RELAXED);

        if (i >= w->n) {
            break;
        }
        decode(w, &w->streams[i]);
    }
    g_mutex_lock(&w->lock);
    w->left--;
    g_cond_signal(&w->changed);
    g_mutex_unlock(&w->lock);
    return NULL;
}

static void report(struct frozen_work *w)
{
    const struct frozen_progress p = {
        .bytes = __atomic_load_n(&w->bytes, __ATOMIC_RELAXED),
        .size = w->count.size,
        .records = __atomic_load_n(&w->records, __ATOMIC_RELAXED),
    };

    if (w->o->progress && !w->o->progress(w->o->progress_opaque, &p)) {
        stop(w);
    }
}

static void wait_for_threads(struct frozen_work *w)
{
    g_mutex_lock(&w->lock);
    while (w->left) {
        gint64 until = g_get_monotonic_time() + PROGRESS_US;

        if (!g_cond_wait_until(&w->changed, &w->lock, until)) {
            g_mutex_unlock(&w->lock);
            report(w);
            g_mutex_lock(&w->lock);
        }
    }
    g_mutex_unlock(&w->lock);
}

int frozen_trace_write(struct output *output,
                       const struct frozen_options *options,
                       const struct frozen_stream *streams, unsigned n,
                       struct frozen_count *count)
{
    struct frozen_work w = {
        .output = output, .o = options, .streams = streams, .n = n,
        .pages = frozen_pages_new(output), .spaces = frozen_spaces_new(),
    };
    unsigned threads = options->threads ?: g_get_num_processors();
    g_autofree GThread **thread = NULL;

    for (unsigned i = 0; i < n; i++) {
        w.count.size += streams[i].size[0] + streams[i].size[1];
    }
    g_mutex_init(&w.lock);
    g_cond_init(&w.changed);
    report(&w);
    threads = MIN(threads, n);
    thread = g_new(GThread *, threads);
    w.left = threads;
    for (unsigned i = 0; i < threads; i++) {
        thread[i] = g_thread_new("pt", decode_thread, &w);
    }
    wait_for_threads(&w);
    for (unsigned i = 0; i < threads; i++) {
        g_thread_join(thread[i]);
    }
    report(&w);
    frozen_pages_flush(w.pages);

    w.count.spaces = frozen_spaces_counted(w.spaces);
    w.count.pages = frozen_pages_written(w.pages);
    w.count.more_pages = frozen_pages_more(w.pages);
    w.count.ended = w.bytes < w.count.size;
    *count = w.count;
    frozen_pages_free(w.pages);
    frozen_spaces_free(w.spaces);
    g_mutex_clear(&w.lock);
    g_cond_clear(&w.changed);
    return w.error ? w.error : output_error(output) ? -BTRAIL_ERR_IO : 0;
}

/* Which packets say times, and how close these are */
static JsonObject *clock_json(const struct frozen_options *o)
{
    const uint32_t *ratio = o->flow.tsc_per_ctc;
    bool cyc = o->cyc && o->flow.bus_ratio;
    bool mtc = !cyc && o->mtc && ratio[0] && ratio[1] &&
               o->flow.mtc_shift < 16;
    uint64_t step = MAX(o->flow.time_step ?: PT_FLOW_TIME_STEP,
                        mtc ? ((uint64_t)ratio[0] << o->flow.mtc_shift) /
                        ratio[1] : 1);
    JsonObject *json = btrail_json_new("s:packets", cyc ? "cyc" : mtc ? "mtc" :
                                       "tsc", NULL);

    if (cyc || mtc) {
        btrail_json_add(json, "U:step",
                        (uint64_t)MIN(step * 1e9 / o->clock.hz, 1e18), NULL);
    }
    return json;
}

void frozen_trace_describe(JsonObject *meta,
                           const struct frozen_options *options,
                           const struct frozen_stream *streams, unsigned n)
{
    uint64_t largest = 0, vcpus = 0;

    for (unsigned i = 0; i < n; i++) {
        largest = MAX(largest, streams[i].size[0] + streams[i].size[1]);
        vcpus = MAX(vcpus, streams[i].vcpu + UINT64_C(1));
    }
    /* Without "overflow": nobody knows when the vCPUs were paused. */
    btrail_json_add(meta, "s:writer", "backtrail " BACKTRAIL_VERSION,
                    "s:producer", btrail_producer_name(BTRAIL_PRODUCER_PT),
                    "s:privilege", "all", "s:mode", "last",
                    "U:tsc_hz", options->clock.hz,
                    "U:buffer_size", largest,
                    "U:vcpus", vcpus, NULL);
    if (options->clock.hz) {
        btrail_json_add(meta, "o:pt_clock", clock_json(options), NULL);
    }
}

JsonObject *frozen_trace_count_json(const struct frozen_count *count)
{
    const struct pt_flow_count *f = &count->flow;
    JsonObject *gaps = json_object_new();

    for (unsigned i = PT_GAP_NONE + 1; i < PT_GAPS; i++) {
        if (f->gaps[i]) {
            json_object_set_int_member(gaps, pt_gap_name(i), f->gaps[i]);
        }
    }
    return btrail_json_new(
        "U:size", count->size,
        "U:read", f->decoded + f->skipped + f->host,
        "U:decoded", f->decoded, "U:skipped", f->skipped, "U:host", f->host,
        "U:records", f->records, "U:dropped", f->dropped,
        "U:exits", f->exits, "o:gaps", gaps,
        "U:address_spaces", count->spaces.seen,
        "U:never_decoded", count->spaces.never,
        "b:more_address_spaces", count->spaces.more,
        "U:pages", count->pages, "b:more_pages", count->more_pages,
        "b:ended", count->ended, NULL);
}
