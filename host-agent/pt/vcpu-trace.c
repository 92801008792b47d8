/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a flow gives, as the stream of a vCPU in a trace: see vcpu-trace.h
 */

#include <glib.h>

#include "lib/agent/stream.h"
#include "pt/vcpu-trace.h"
#include "util/clock.h"

struct vcpu_trace {
    struct vcpu_trace_options o;
    struct btrail_stream *out;
    struct frozen_spaces *spaces;
    struct frozen_pages_vcpu *pages;
    GArray *events;             /* of struct btrail_event */
    uint64_t cr3;               /* as PIP says it */
    uint64_t label;             /* as the trace has it */
    uint64_t to;                /* of the record before, if there is one */
    bool has_to;
    uint64_t last_ns;
    struct vcpu_trace_count count;
    int error;
};

struct vcpu_trace *vcpu_trace_new(const struct vcpu_trace_options *options)
{
    struct vcpu_trace *v = g_new0(struct vcpu_trace, 1);

    v->o = *options;
    v->spaces = frozen_spaces_new();
    v->pages = frozen_pages_vcpu_new(v->o.pages, v->o.vcpu, v->o.code,
                                     v->o.code_opaque);
    v->events = g_array_new(FALSE, FALSE, sizeof(struct btrail_event));
    v->out = btrail_stream_new(v->o.vcpu, output_sink(v->o.output), false);
    return v;
}

void vcpu_trace_free(struct vcpu_trace *v)
{
    if (v) {
        btrail_stream_free(v->out);
        g_array_free(v->events, TRUE);
        frozen_pages_vcpu_free(v->pages);
        frozen_spaces_free(v->spaces);
        g_free(v);
    }
}

uint16_t vcpu_trace_reason(enum pt_gap gap, bool wrapped)
{
    static const uint16_t reasons[] = {
        [PT_GAP_BEGIN] = BTRAIL_GAP_NOT_TRACED,
        [PT_GAP_OVERFLOW] = BTRAIL_GAP_PT_OVERFLOW,
        [PT_GAP_RING] = BTRAIL_GAP_PT_RING,
        [PT_GAP_UNREADABLE] = BTRAIL_GAP_CODE_UNREADABLE,
        [PT_GAP_CHANGED] = BTRAIL_GAP_CODE_CHANGED,
        [PT_GAP_LOST] = BTRAIL_GAP_PT_LOST,
        [PT_GAP_OFF] = BTRAIL_GAP_NOT_TRACED,
        [PT_GAP_MODE] = BTRAIL_GAP_MODE,
    };

    return gap == PT_GAP_BEGIN && wrapped ? BTRAIL_GAP_OVERWRITTEN :
           reasons[gap];
}

static struct btrail_event gap_event(const struct vcpu_trace *v, uint64_t index,
                                     const struct pt_flow_event *e)
{
    struct btrail_event gap = {
        .index = index, .type = BTRAIL_EVENT_GAP,
        .reason = vcpu_trace_reason(e->gap, v->o.wrapped),
        .data = { BTRAIL_LOST_UNKNOWN },
    };

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
static uint64_t host_time(const struct vcpu_trace *v, uint64_t tsc)
{
    __extension__ typedef unsigned __int128 wide;
    const struct vcpu_trace_clock *c = v->o.clock;
    uint64_t at = c->tsc + v->o.tsc_ahead;
    wide away;

    if (!c->hz || (tsc > at && !c->runs)) {
        return 0;
    }
    away = (wide)(tsc > at ? tsc - at : at - tsc) * 1000000000 / c->hz;
    if (tsc > at) {
        uint64_t now = clock_ns();

        return now >= c->ns && away <= now - c->ns ? c->ns + (uint64_t)away : 0;
    }
    return away < c->ns && c->ns - (uint64_t)away >= c->begin ?
           c->ns - (uint64_t)away : 0;
}

static void add_event(struct vcpu_trace *v, struct btrail_event e)
{
    g_array_append_val(v->events, e);
}

static void add_time(struct vcpu_trace *v, uint64_t index, uint64_t ns,
                     uint64_t tsc)
{
    v->count.first = v->count.first ?: ns;
    v->last_ns = ns;
    add_event(v, (struct btrail_event){
        .index = index, .type = BTRAIL_EVENT_TIME,
        .data = { ns, tsc, BTRAIL_NO_ICOUNT },
    });
}

static void take_time(struct vcpu_trace *v, uint64_t index, uint64_t tsc)
{
    uint64_t ns = host_time(v, tsc);

    /* Readers find moments by times that never go back. */
    if (ns && ns >= v->last_ns) {
        add_time(v, index, ns, tsc);
    } else {
        v->count.times += v->o.clock->hz != 0;
    }
}

static void take_event(struct vcpu_trace *v, uint64_t index,
                       const struct pt_flow_event *e)
{
    switch (e->type) {
    case PT_FLOW_CR3:
        v->cr3 = e->value;
        v->label = e->value | (v->o.pae ? BTRAIL_CR3_PAE : 0) |
                   (e->bits == 16 ? BTRAIL_CR3_CODE16 :
                    e->bits == 32 ? BTRAIL_CR3_CODE32 : 0);
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
        add_event(v, gap_event(v, index, e));
        break;
    }
}

/* Records up to the next event: which pages, and whose they are */
static void take_records(struct vcpu_trace *v, uint64_t index,
                         const struct btrail_record *records, size_t n)
{
    bool lower = false;

    if (n && !v->last_ns) {
        /* No record is without a time.  Not before this one, it is true. */
        add_time(v, index, MAX(v->o.clock->begin, 1), 0);
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

static void append(struct vcpu_trace *v, const struct btrail_slab *slab)
{
    if (!v->error) {
        v->error = btrail_stream_append(v->out, slab, BTRAIL_GAP_CORRUPT);
    }
}

void vcpu_trace_give(void *opaque, const struct btrail_record *records,
                     size_t n, const struct pt_flow_event *events,
                     size_t n_events)
{
    struct vcpu_trace *v = opaque;
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
    append(v, &slab);
}

enum pt_code_result vcpu_trace_read(void *opaque, uint64_t cr3,
                                    uint64_t address,
                                    const struct pt_moment *moment,
                                    struct pt_code *code)
{
    struct vcpu_trace *v = opaque;
    enum pt_code_result result = v->o.code(v->o.code_opaque, cr3, address,
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

void vcpu_trace_change(void *opaque, uint64_t cr3, uint64_t page,
                       unsigned held)
{
    struct vcpu_trace *v = opaque;

    frozen_pages_change(v->pages, cr3, page,
                        btrail_stream_index(v->out) + held);
}

void vcpu_trace_gap(struct vcpu_trace *v, uint16_t reason, uint64_t bytes)
{
    const struct btrail_event gap = {
        .index = btrail_stream_index(v->out), .type = BTRAIL_EVENT_GAP,
        .reason = reason, .data = { BTRAIL_LOST_UNKNOWN, bytes },
    };
    const struct btrail_slab slab = {
        .first_index = gap.index, .cr3 = v->label,
        .events = &gap, .n_events = 1,
    };

    v->has_to = false;
    append(v, &slab);
}

void vcpu_trace_event(struct vcpu_trace *v, uint16_t type, uint16_t reason,
                      uint64_t ns)
{
    if (!v->error) {
        v->error = btrail_stream_event(v->out, type, reason, ns);
    }
}

void vcpu_trace_flush(struct vcpu_trace *v)
{
    if (!v->error) {
        v->error = btrail_stream_flush(v->out);
    }
}

void vcpu_trace_end(struct vcpu_trace *v, uint16_t reason, uint64_t ns)
{
    vcpu_trace_event(v, BTRAIL_EVENT_END, reason, ns);
    vcpu_trace_flush(v);
}

int vcpu_trace_error(const struct vcpu_trace *v)
{
    return v->error;
}

struct vcpu_trace_count vcpu_trace_counted(const struct vcpu_trace *v)
{
    return v->count;
}

const struct frozen_spaces *vcpu_trace_spaces(const struct vcpu_trace *v)
{
    return v->spaces;
}
