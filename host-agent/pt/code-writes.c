/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * When code was written last: see code-writes.h
 */

#include <glib.h>

#include "pt/code-writes.h"
#include "pt/packets.h"

/* Bytes that are read until it is asked whether to end */
#define PIECE       (256u << 10)
/*
 * Ticks, of about a millisecond: clocks of CPUs are not that far from each
 * other, nor is what MTC and CYC say between two TSCs from what is.
 */
#define SLACK       (UINT64_C(1) << 22)

/* What one stream says; times are those of struct vcpu_trace_clock */
struct code_writes_said {
    uint64_t visits;
    uint64_t lost;
    bool has_begin;
    uint64_t begin;             /* its first time */
    bool some;                  /* code was or can have been written, */
    uint64_t last;              /* not after this time; */
    bool open;                  /* or no time comes after it */
    bool ended;
};

struct code_writes_reader {
    const struct linux_code_writers *writers;
    const struct frozen_stream *in;
    bool bare;
    struct pt_split split;
    uint64_t last_ip;
    unsigned items;
    bool seeks;                 /* the next PSB */
    bool knows_guest, in_guest;
    bool in_psb, psb_has_pip, psb_guest, psb_has_tsc;
    uint64_t psb_tsc;
    struct code_writes_said said;
};

struct code_writes_work {
    const struct linux_code_writers *writers;
    const struct frozen_options *o;
    const struct frozen_stream *streams;
    code_writes_fn *go_on;
    void *opaque;
    struct code_writes_said *said;
};

static void write_code(struct code_writes_reader *r)
{
    r->said.some = r->said.open = true;
}

static void lose(struct code_writes_reader *r)
{
    r->said.lost++;
    write_code(r);
}

static void read_ip(struct code_writes_reader *r)
{
    if (linux_code_writers_have(r->writers, r->last_ip) &&
        (r->in_guest || !r->knows_guest)) {
        r->said.visits++;
        write_code(r);
    }
}

static void read_tsc(struct code_writes_reader *r, uint64_t tsc, bool guest)
{
    if (!guest) {
        if (!r->in->host_tsc.ratio) {
            return;
        }
        tsc = kvm_tsc_at(&r->in->host_tsc, tsc);
    }
    tsc = (tsc - r->in->tsc_ahead) & CODE_WRITES_TSC;
    if (!r->said.has_begin) {
        r->said.has_begin = true;
        r->said.begin = tsc;
    }
    if (r->said.open) {
        r->said.open = false;
        r->said.last = MAX(r->said.last, tsc);
    }
}

static void end_psb(struct code_writes_reader *r)
{
    r->in_psb = false;
    if (r->psb_has_pip) {
        r->in_guest = r->psb_guest;
        r->knows_guest = true;
    }
    if (r->psb_has_tsc && r->knows_guest) {
        read_tsc(r, r->psb_tsc, r->in_guest);
    }
}

static void seek(struct code_writes_reader *r)
{
    lose(r);
    r->seeks = true;
    r->in_psb = false;
    r->items = 0;
    r->knows_guest = r->in_guest = r->bare;
}

static void read_in_psb(struct code_writes_reader *r,
                        const struct pt_packet *p)
{
    switch (p->type) {
    case PT_PACKET_TSC:
        r->psb_has_tsc = true;
        r->psb_tsc = p->value;
        break;
    case PT_PACKET_PIP:
        r->psb_has_pip = true;
        r->psb_guest = p->form || r->bare;
        break;
    case PT_PACKET_FUP:
        pt_packet_ip(p, &r->last_ip);
        break;
    case PT_PACKET_PSBEND:
        end_psb(r);
        if (r->knows_guest && r->in_guest) {
            read_ip(r);
        }
        break;
    case PT_PACKET_TNT:
    case PT_PACKET_TIP:
    case PT_PACKET_TIP_PGE:
    case PT_PACKET_TIP_PGD:
        seek(r);
        break;
    }
}

static void read_packet(struct code_writes_reader *r,
                        const struct pt_packet *p)
{
    switch (p->type) {
    case PT_PACKET_PSB:
        r->last_ip = 0;
        r->in_psb = true;
        r->psb_has_pip = r->psb_has_tsc = false;
        r->items = 0;
        return;
    case PT_PACKET_OVF:
        lose(r);
        r->in_psb = false;
        r->knows_guest = r->in_guest = r->bare;
        return;
    }
    if (r->in_psb) {
        read_in_psb(r, p);
        return;
    }
    switch (p->type) {
    case PT_PACKET_TIP:
    case PT_PACKET_TIP_PGE:
    case PT_PACKET_FUP:
        if (pt_packet_ip(p, &r->last_ip)) {
            read_ip(r);
        }
        break;
    case PT_PACKET_TIP_PGD:
        if (pt_packet_ip(p, &r->last_ip)) {
            read_ip(r);
        }
        if (r->in_guest || !r->knows_guest) {
            /* What it does from here on is not traced. */
            lose(r);
        }
        break;
    case PT_PACKET_PIP:
        r->in_guest = p->form || r->bare;
        r->knows_guest = true;
        break;
    case PT_PACKET_TSC:
        if (r->knows_guest) {
            read_tsc(r, p->value, r->in_guest);
        }
        break;
    case PT_PACKET_BBP:
        r->items = p->form;
        break;
    case PT_PACKET_BEP:
        r->items = 0;
        break;
    }
}

/* Most packets are TNT and TIP; returns the first that is another one. */
static size_t pass(struct code_writes_reader *r, const uint8_t *p, size_t i,
                   size_t n)
{
    while (n - i >= PT_PACKET_MAX) {
        unsigned size = 1;

        if ((p[i] & 1) || p[i] == 2) {
            size = pt_packet_tip(p + i, &r->last_ip);
            if (!size) {
                break;
            }
            read_ip(r);
        }
        i += size;
    }
    return i;
}

static size_t read_packets(void *opaque, const uint8_t *p, size_t n)
{
    struct code_writes_reader *r = opaque;
    struct pt_packet packet;
    size_t i = 0;

    while (i < n) {
        int size;

        if (r->seeks) {
            size_t psb = pt_packet_find_psb(p + i, n - i);

            if (psb == n - i) {
                return i + pt_packet_seek_psb(p + i, n - i);
            }
            i += psb;
            r->seeks = false;
        }
        if (!r->in_psb && !r->items) {
            i = pass(r, p, i, n);
        }
        size = pt_packet_read(p + i, n - i, r->items, &packet);
        if (!size) {
            break;
        }
        i += MAX(size, 1);
        if (size < 0) {
            seek(r);
        } else {
            read_packet(r, &packet);
        }
    }
    return i;
}

static void read_stream(gpointer data, gpointer opaque)
{
    struct code_writes_work *w = opaque;
    unsigned at = GPOINTER_TO_UINT(data) - 1;
    struct code_writes_reader r = {
        .writers = w->writers, .in = &w->streams[at], .bare = w->o->flow.bare,
        .seeks = true, .knows_guest = w->o->flow.bare,
        .in_guest = w->o->flow.bare,
    };

    for (unsigned i = 0; i < 2; i++) {
        for (size_t k = 0; k < r.in->size[i]; k += PIECE) {
            if (w->go_on && !w->go_on(w->opaque)) {
                r.said.ended = true;
                w->said[at] = r.said;
                return;
            }
            pt_split_feed(&r.split, r.in->bytes[i] + k,
                          MIN(r.in->size[i] - k, PIECE), read_packets, &r);
        }
    }
    w->said[at] = r.said;
}

static void read_all(struct code_writes_work *w, unsigned n)
{
    unsigned threads = w->o->threads ? w->o->threads : g_get_num_processors();
    GThreadPool *pool = g_thread_pool_new(read_stream, w, MIN(threads, n),
                                          FALSE, NULL);

    for (unsigned i = 0; i < n; i++) {
        g_thread_pool_push(pool, GUINT_TO_POINTER(i + 1), NULL);
    }
    g_thread_pool_free(pool, FALSE, TRUE);
}

/*
 * What was before a ring begins can have been done there, too: so it is not
 * known what others had before.
 */
static uint64_t covered(const struct code_writes_work *w, unsigned n,
                        unsigned stream)
{
    uint64_t from = w->said[stream].begin;

    for (unsigned i = 0; i < n; i++) {
        if (!w->said[i].has_begin) {
            return 0;
        }
        if (w->streams[i].wrapped) {
            from = MAX(from, w->said[i].begin);
        }
    }
    return from > w->said[stream].begin ? from : 0;
}

void code_writes_find(const struct linux_code_writers *writers,
                      const struct frozen_options *o,
                      const struct frozen_stream *streams, unsigned n,
                      unsigned vcpus, code_writes_fn *go_on, void *opaque,
                      uint64_t *after, struct code_writes_count *count)
{
    g_autofree struct code_writes_said *said =
        g_new0(struct code_writes_said, n);
    struct code_writes_work w = {
        .writers = writers, .o = o, .streams = streams, .go_on = go_on,
        .opaque = opaque, .said = said,
    };
    bool never = o->flow.returns || n < vcpus;
    uint64_t last = 0;

    *count = (struct code_writes_count){ 0 };
    if (!never) {
        read_all(&w, n);
    }
    for (unsigned i = 0; i < n; i++) {
        count->visits += said[i].visits;
        count->lost += said[i].lost;
        /* Without a clock it is not known what their TSCs are to each other. */
        never |= said[i].ended || said[i].open ||
                 (said[i].some && n > 1 && !o->clock.hz);
        if (said[i].some) {
            last = MAX(last, said[i].last + SLACK);
        }
    }
    for (unsigned i = 0; i < n; i++) {
        uint64_t from = MAX(last, covered(&w, n, i));

        /* A guest can make any TSC: none is after the greatest. */
        after[i] = never || from > CODE_WRITES_TSC ? CODE_WRITES_NEVER :
                   from ? (from + streams[i].tsc_ahead) & CODE_WRITES_TSC : 0;
    }
}
