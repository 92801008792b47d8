/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Streams that come while the guest runs: see live-trace.h
 */

#include <glib.h>
#include <string.h>

#include "pt/live-trace.h"
#include "pt/packet-scan.h"
#include "util/hash.h"

#define HELD        ((size_t)64 << 20)
/* For the blocks of a piece that is tried */
#define TRIAL       ((size_t)4 << 20)

/* Bytes up to this offset were executed between these times. */
struct live_arrival {
    uint64_t end;
    uint64_t since;
    uint64_t until;
};

struct live_stream {
    struct live_trace *trace;
    struct pt_flow *flow;
    struct live_trace_ops ops;
    struct kvm_tsc host_tsc;
    struct live_code_view view;

    GByteArray *held;           /* what has come, */
    size_t done;                /* but for these first bytes: not decoded yet */
    uint64_t offset;            /* of the first that is not */
    GArray *arrivals;           /* from that of the first on */
    GArray *cuts;               /* of uint64_t: offsets of PSBs */

    struct packet_scan scan;
};

struct live_trace {
    struct live_trace_options o;
    struct live_code *code;
    GPtrArray *streams;
    struct live_trace_count count;
};

static void change_stream(struct live_stream *s, uint64_t cr3, uint64_t page)
{
    pt_flow_change(s->flow, cr3, page);
    if (s->ops.change) {
        s->ops.change(s->ops.code_opaque, cr3, page, pt_flow_held(s->flow));
    }
}

static void change(void *opaque, uint64_t cr3, uint64_t page)
{
    struct live_trace *t = opaque;

    for (guint i = 0; i < t->streams->len; i++) {
        change_stream(g_ptr_array_index(t->streams, i), cr3, page);
    }
}

struct live_trace *live_trace_new(const struct guest_memory *memory,
                                  const struct live_trace_options *options)
{
    struct live_trace *t = g_new0(struct live_trace, 1);

    t->o = *options;
    t->o.held = options->held ? options->held : HELD;
    t->code = live_code_new(memory, &options->code, change, t);
    t->streams = g_ptr_array_new();
    return t;
}

static void free_stream(struct live_stream *s)
{
    pt_flow_free(s->flow);
    g_array_free(s->view.passing, TRUE);
    g_byte_array_free(s->held, TRUE);
    g_array_free(s->arrivals, TRUE);
    g_array_free(s->cuts, TRUE);
    g_free(s);
}

void live_trace_free(struct live_trace *t)
{
    if (t) {
        for (guint i = 0; i < t->streams->len; i++) {
            free_stream(g_ptr_array_index(t->streams, i));
        }
        g_ptr_array_free(t->streams, TRUE);
        live_code_free(t->code);
        g_free(t);
    }
}

enum pt_code_result live_trace_read(void *opaque, uint64_t cr3,
                                    uint64_t address,
                                    const struct pt_moment *moment,
                                    struct pt_code *code)
{
    struct live_stream *s = opaque;

    return live_code_read(&s->view, cr3, address, moment, code);
}

struct live_stream *live_trace_add(struct live_trace *t,
                                   const struct kvm_tsc *host_tsc)
{
    struct live_stream *s = g_new0(struct live_stream, 1);

    s->trace = t;
    s->view.code = t->code;
    s->view.passing = g_array_new(FALSE, FALSE,
                                  sizeof(struct live_code_place));
    s->host_tsc = host_tsc ? *host_tsc : t->o.flow.host_tsc;
    s->held = g_byte_array_new();
    s->arrivals = g_array_new(FALSE, FALSE, sizeof(struct live_arrival));
    s->cuts = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    return s;
}

void live_stream_begin(struct live_stream *s, const struct live_trace_ops *ops)
{
    struct pt_flow_options flow = s->trace->o.flow;

    s->ops = *ops;
    flow.host_tsc = s->host_tsc;
    s->flow = pt_flow_new(&flow, ops->read ? ops->read : live_trace_read,
                          ops->read ? ops->code_opaque : s, ops->give,
                          ops->give_opaque);
    g_ptr_array_add(s->trace->streams, s);
}

/*
 * What is seen of what comes
 */

static void see_packet(void *opaque, const struct pt_packet *p, uint64_t at)
{
    struct live_stream *s = opaque;

    if (p->type == PT_PACKET_PSB) {
        g_array_append_val(s->cuts, at);
    } else if (p->form || s->trace->o.flow.bare) {
        live_code_see(s->trace->code, p->value);
    }
}

/*
 * Decoding
 */

/* Tells what comes of a piece, in one number. */
struct trial {
    uint64_t hash;
    bool bad;
};

static void give_trial(void *opaque, const struct btrail_record *records,
                       size_t n, const struct pt_flow_event *events,
                       size_t n_events)
{
    struct trial *t = opaque;

    for (size_t i = 0; i < n_events; i++) {
        const struct pt_flow_event *e = &events[i];

        t->bad |= e->type == PT_FLOW_GAP &&
                  (e->gap == PT_GAP_LOST || e->gap == PT_GAP_CHANGED ||
                   e->gap == PT_GAP_UNREADABLE);
    }
    for (size_t i = 0; i < n; i++) {
        t->hash = btrail_hash3(t->hash, records[i].from, records[i].to);
    }
}

/* Decodes a piece with one of the contents; returns whether there were two. */
static bool try_piece(struct live_stream *s, size_t n,
                      enum live_code_choice choice, struct trial *t)
{
    struct pt_flow_options o = s->trace->o.flow;
    struct live_code_view view = s->view;
    struct pt_flow *flow;

    o.memory = TRIAL;
    view.choice = choice;
    view.chosen = false;
    view.passing = g_array_new(FALSE, FALSE, sizeof(struct live_code_place));
    *t = (struct trial){ 0 };
    flow = pt_flow_new(&o, live_code_read, &view, give_trial, t);
    pt_flow_feed(flow, s->held->data + s->done, n);
    pt_flow_finish(flow);
    pt_flow_free(flow);
    g_array_free(view.passing, TRUE);
    return view.chosen;
}

static enum live_code_choice choose(struct live_stream *s, size_t n)
{
    struct trial before, after;

    if (!live_code_has_changed(s->trace->code, s->view.from, s->view.until) ||
        !try_piece(s, n, LIVE_CODE_BEFORE, &before)) {
        return LIVE_CODE_NEITHER;
    }
    s->trace->count.tried++;
    try_piece(s, n, LIVE_CODE_AFTER, &after);
    if (before.bad == after.bad && (before.bad || before.hash != after.hash)) {
        return LIVE_CODE_NEITHER;
    }
    s->trace->count.chosen++;
    return before.bad ? LIVE_CODE_AFTER : LIVE_CODE_BEFORE;
}

/* The arrival with the byte at an offset */
static unsigned arrival_of(const struct live_stream *s, uint64_t offset)
{
    const struct live_arrival *a = (const struct live_arrival *)
        s->arrivals->data;
    unsigned i = 0;

    while (i + 1 < s->arrivals->len && a[i].end <= offset) {
        i++;
    }
    return i;
}

/* Sets between which times the next @n bytes were executed. */
static void set_times(struct live_stream *s, size_t n)
{
    unsigned first = arrival_of(s, s->offset);

    /* Those before it are not asked for any more. */
    g_array_remove_range(s->arrivals, 0, first);
    s->view.from = g_array_index(s->arrivals, struct live_arrival, 0).since;
    s->view.until = g_array_index(s->arrivals, struct live_arrival,
                                  arrival_of(s, s->offset + n - 1)).until;
}

/* Decodes the next @n bytes that are held. */
static void decode(struct live_stream *s, size_t n)
{
    if (!n) {
        return;
    }
    set_times(s, n);
    s->view.chosen = false;
    s->view.choice = choose(s, n);
    pt_flow_feed(s->flow, s->held->data + s->done, n);
    s->trace->count.pieces++;
    for (guint i = 0; i < s->view.passing->len; i++) {
        const struct live_code_place *p = &g_array_index(
            s->view.passing, struct live_code_place, i);

        change_stream(s, p->cr3, p->page);
    }
    g_array_set_size(s->view.passing, 0);
    s->offset += n;
    s->done += n;
}

/* Decodes what is whole, or all. */
static void decode_stream(struct live_stream *s, bool all)
{
    unsigned i;

    for (i = 0; i < s->cuts->len; i++) {
        uint64_t cut = g_array_index(s->cuts, uint64_t, i);

        if (cut > s->offset) {
            decode(s, cut - s->offset);
        }
    }
    g_array_set_size(s->cuts, 0);
    if (all || s->held->len - s->done > s->trace->o.held) {
        decode(s, s->held->len - s->done);
    }
    g_byte_array_remove_range(s->held, 0, s->done);
    s->done = 0;
}

void live_trace_feed(struct live_stream *s, const uint8_t *p, size_t n,
                     uint64_t since)
{
    const struct live_arrival a = {
        s->offset + s->held->len + n, since, live_code_now(s->trace->code),
    };

    if (n) {
        g_array_append_val(s->arrivals, a);
        g_byte_array_append(s->held, p, n);
        packet_scan_feed(&s->scan, p, n, see_packet, s);
    }
    live_code_poll(s->trace->code);
}

void live_trace_missing(struct live_stream *s)
{
    live_code_check(s->trace->code);
    decode_stream(s, true);
    pt_flow_missing(s->flow);
    packet_scan_missing(&s->scan, s->offset);
}

void live_trace_decode(struct live_trace *t)
{
    live_code_check(t->code);
    for (guint i = 0; i < t->streams->len; i++) {
        decode_stream(g_ptr_array_index(t->streams, i), false);
    }
}

void live_trace_give(struct live_trace *t)
{
    for (guint i = 0; i < t->streams->len; i++) {
        struct live_stream *s = g_ptr_array_index(t->streams, i);

        pt_flow_give(s->flow);
    }
}

void live_trace_flush(struct live_trace *t)
{
    live_code_check(t->code);
    for (guint i = 0; i < t->streams->len; i++) {
        decode_stream(g_ptr_array_index(t->streams, i), true);
    }
    live_trace_give(t);
}

void live_trace_finish(struct live_trace *t)
{
    live_trace_flush(t);
    for (guint i = 0; i < t->streams->len; i++) {
        struct live_stream *s = g_ptr_array_index(t->streams, i);

        pt_flow_finish(s->flow);
    }
}

struct live_trace_count live_trace_counted(const struct live_trace *t)
{
    struct live_trace_count count = t->count;

    for (guint i = 0; i < t->streams->len; i++) {
        const struct live_stream *s = g_ptr_array_index(t->streams, i);

        pt_flow_add_counts(&count.flow, pt_flow_counted(s->flow));
    }
    return count;
}

const struct live_code *live_trace_code(const struct live_trace *t)
{
    return t->code;
}
