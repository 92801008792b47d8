/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A trace of frozen rings: see frozen-trace.h
 */

#include <string.h>

#include "backtrail/words.h"
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

/* A stream that is decoded */
struct frozen_vcpu {
    struct frozen_work *work;
    const struct frozen_stream *in;
    struct pt_flow *flow;
    struct vcpu_trace *trace;
};

unsigned frozen_trace_blocks(unsigned streams)
{
    /* One that each stream fills, and some that are written */
    return streams + g_get_num_processors() + 4;
}

static void give(void *opaque, const struct btrail_record *records, size_t n,
                 const struct pt_flow_event *events, size_t n_events)
{
    struct frozen_vcpu *v = opaque;

    vcpu_trace_give(v->trace, records, n, events, n_events);
    __atomic_fetch_add(&v->work->records, n, __ATOMIC_RELAXED);
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

            if (vcpu_trace_error(v->trace) || is_stopped(v->work)) {
                return left;
            }
            pt_flow_feed(v->flow, v->in->bytes[i] + at, n);
            left -= n;
            __atomic_fetch_add(&v->work->bytes, n, __ATOMIC_RELAXED);
        }
    }
    return left;
}

static void decode(struct frozen_work *w, const struct frozen_stream *in)
{
    const struct vcpu_trace_clock *c = &w->o->clock;
    const struct vcpu_trace_options trace = {
        .vcpu = in->vcpu, .output = w->output, .pages = w->pages,
        .clock = c, .tsc_ahead = in->tsc_ahead, .pae = w->o->pae,
        .wrapped = in->wrapped, .code = in->code,
        .code_opaque = in->code_opaque,
    };
    struct frozen_vcpu v = { .work = w, .in = in };
    struct pt_flow_options o = w->o->flow;
    struct vcpu_trace_count count;
    uint64_t left;

    o.host_tsc = in->host_tsc;
    v.trace = vcpu_trace_new(&trace);
    v.flow = pt_flow_new(&o, vcpu_trace_read, v.trace, give, &v);

    left = feed(&v);
    pt_flow_finish(v.flow);
    if (left) {
        vcpu_trace_gap(v.trace, BTRAIL_GAP_PT_RING, left);
    }
    if (in->untraced) {
        vcpu_trace_gap(v.trace, BTRAIL_GAP_NOT_TRACED, 0);
    }
    vcpu_trace_end(v.trace, BTRAIL_END_STOPPED, c->hz ? c->ns : clock_ns());

    g_mutex_lock(&w->lock);
    pt_flow_add_counts(&w->count.flow, pt_flow_counted(v.flow));
    frozen_spaces_add(w->spaces, vcpu_trace_spaces(v.trace));
    count = vcpu_trace_counted(v.trace);
    w->count.times += count.times;
    if (count.first && (!w->count.first || count.first < w->count.first)) {
        w->count.first = count.first;
    }
    if (vcpu_trace_error(v.trace) && !w->error) {
        w->error = vcpu_trace_error(v.trace);
        stop(w);
    }
    g_mutex_unlock(&w->lock);

    pt_flow_free(v.flow);
    vcpu_trace_free(v.trace);
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
