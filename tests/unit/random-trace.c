/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Random traces: see random-trace.h
 */

#include <glib/gstdio.h>

#include "lib/agent/chunk.h"
#include "random-trace.h"
#include "trace-samples.h"

#define MAX_RECORDS     40
#define MAX_EVENTS      80

/* A stream while it is made */
struct maker {
    struct random_stream s;
    uint64_t index;
    uint64_t cr3;
    bool pending;               /* something is not flushed */
    bool ended;
};

static bool one_in(int n)
{
    return !g_test_rand_int_range(0, n);
}

/* The chunk that the next item is in; the first item begins it. */
static unsigned this_chunk(struct maker *m)
{
    if (!m->pending) {
        const bool no = false;

        g_array_append_val(m->s.cr3s, m->cr3);
        g_array_append_val(m->s.damaged, no);
        m->pending = true;
    }
    return m->s.cr3s->len - 1;
}

static void add_event(struct maker *m, struct btrail_slab *slab,
                      const struct btrail_event *e)
{
    struct btrail_event *events = (struct btrail_event *)slab->events;
    struct random_item item = {
        .chunk = this_chunk(m), .event = *e, .index = m->index,
    };

    g_assert_cmpuint(slab->n_events, <, MAX_EVENTS);
    events[slab->n_events++] = *e;
    if (e->type == BTRAIL_EVENT_GAP && e->data[0] != BTRAIL_LOST_UNKNOWN) {
        m->index += e->data[0];
    } else if (e->type == BTRAIL_EVENT_CR3) {
        m->cr3 = e->data[0];
    }
    g_array_append_val(m->s.items, item);
}

static void add_some_event(struct maker *m, struct btrail_slab *slab,
                           uint64_t *clock)
{
    struct btrail_event e = { .index = m->index };

    switch (g_test_rand_int_range(0, 8)) {
    case 0 ... 2:
        e.type = BTRAIL_EVENT_CR3;
        e.data[0] = g_test_rand_int_range(0, 5) << 12 |
                    g_test_rand_int_range(0, 2);
        if (one_in(3)) {
            e.data[0] |= BTRAIL_CR3_PAE |
                         (uint64_t)g_test_rand_int_range(0, 3) << 5;
        }
        break;
    case 3 ... 5:
        *clock += g_test_rand_int_range(0, 1000);
        e.type = BTRAIL_EVENT_TIME;
        e.data[0] = *clock;
        e.data[1] = 3 * *clock;
        e.data[2] = BTRAIL_NO_ICOUNT;
        break;
    case 6:
        e.type = BTRAIL_EVENT_GAP;
        e.reason = BTRAIL_GAP_OVERFLOW;
        e.data[0] = one_in(3) ? BTRAIL_LOST_UNKNOWN :
                    (uint64_t)g_test_rand_int_range(0, 20);
        if (e.data[0] != BTRAIL_LOST_UNKNOWN) {
            e.index += e.data[0];
        }
        break;
    default:
        e.type = one_in(2) ? BTRAIL_EVENT_PAUSE : BTRAIL_EVENT_RESUME;
        e.reason = BTRAIL_PAUSE_VM_STOP;
        *clock += g_test_rand_int_range(0, 1000);
        e.data[0] = *clock;
        break;
    }
    add_event(m, slab, &e);
}

static void add_slab(struct maker *m, struct btrail_writer *w,
                     uint64_t *clock, bool last)
{
    struct btrail_record records[MAX_RECORDS];
    struct btrail_event events[MAX_EVENTS];
    unsigned n = one_in(6) ? 0 : g_test_rand_int_range(1, MAX_RECORDS), i;
    struct btrail_slab slab = {
        .cr3 = m->cr3, .records = records, .events = events,
    };
    struct btrail_event e;

    if (m->ended) {
        return;
    }
    if (m->index && one_in(5)) {
        e = (struct btrail_event) {
            .index = m->index + 7,
            .type = BTRAIL_EVENT_GAP,
            .reason = BTRAIL_GAP_OVERFLOW,
            .data = { 7 },
        };
        add_event(m, &slab, &e);
    }
    slab.first_index = m->index;
    if (!one_in(5)) {
        *clock += g_test_rand_int_range(0, 1000);
        e = (struct btrail_event) {
            .index = m->index,
            .type = BTRAIL_EVENT_TIME,
            .data = { *clock, 3 * *clock, BTRAIL_NO_ICOUNT },
        };
        add_event(m, &slab, &e);
    }
    for (i = 0; i <= n; i++) {
        /* At the very start only what does not move the first index */
        while (slab.n_events < MAX_EVENTS - 3 && i && one_in(6)) {
            add_some_event(m, &slab, clock);
        }
        if (i < n) {
            struct random_item item = {
                .chunk = this_chunk(m),
                .record = { g_test_rand_int(), m->index, m->s.vcpu & 1 },
                .index = m->index,
            };

            records[slab.n_records++] = item.record;
            g_array_append_val(m->s.items, item);
            m->index++;
        }
    }
    if (last && !one_in(4)) {
        e = (struct btrail_event) {
            .index = m->index,
            .type = BTRAIL_EVENT_END,
            .reason = BTRAIL_END_STOPPED,
            .data = { *clock },
        };
        add_event(m, &slab, &e);
        m->ended = true;
    }
    g_assert_cmpint(btrail_writer_append(w, m->s.vcpu, &slab), ==, 0);
}

struct random_trace *random_trace_new(unsigned vcpus, unsigned slabs)
{
    struct random_trace *t = g_new0(struct random_trace, 1);
    g_autofree struct maker *makers = g_new0(struct maker, vcpus);
    struct btrail_writer *w;
    uint64_t clock = 1000;
    unsigned i, v;

    t->path = sample_path();
    t->streams = g_array_new(FALSE, FALSE, sizeof(struct random_stream));
    g_assert_cmpint(btrail_writer_open(&w, t->path, 0), ==, 0);
    for (v = 0; v < vcpus; v++) {
        makers[v].s = (struct random_stream) {
            .vcpu = v * 3,
            .items = g_array_new(FALSE, FALSE, sizeof(struct random_item)),
            .cr3s = g_array_new(FALSE, FALSE, sizeof(uint64_t)),
            .damaged = g_array_new(FALSE, FALSE, sizeof(bool)),
        };
        makers[v].cr3 = 0x1000 * v;
    }
    for (i = 0; i < slabs; i++) {
        for (v = 0; v < vcpus; v++) {
            if (!i || !one_in(4)) {
                add_slab(&makers[v], w, &clock, i == slabs - 1);
            }
        }
        if (one_in(2)) {
            g_assert_cmpint(btrail_writer_flush(w), ==, 0);
            for (v = 0; v < vcpus; v++) {
                makers[v].pending = false;
            }
        }
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    for (v = 0; v < vcpus; v++) {
        makers[v].s.end_index = makers[v].index;
        g_array_append_val(t->streams, makers[v].s);
    }
    return t;
}

/* Where the payload of a chunk begins, and its size */
static size_t find_payload(const uint8_t *bytes, size_t len, unsigned vcpu,
                           unsigned number, size_t *size)
{
    size_t at = BTRAIL_FILE_HEADER_SIZE;

    for (;;) {
        struct btrail_chunk chunk;

        g_assert_cmpuint(len - at, >=, BTRAIL_CHUNK_HEADER_SIZE);
        g_assert_true(btrail_chunk_get(bytes + at, &chunk));
        at += BTRAIL_CHUNK_HEADER_SIZE;
        if (chunk.type == BTRAIL_CHUNK_DATA && bytes[at] == vcpu &&
            !number--) {
            *size = chunk.size;
            return at;
        }
        at += chunk.size;
    }
}

void random_trace_damage(struct random_trace *t, unsigned stream,
                         unsigned chunk)
{
    struct random_stream *s =
        &g_array_index(t->streams, struct random_stream, stream);
    g_autofree char *bytes = NULL;
    size_t len, at, size;

    g_array_index(s->damaged, bool, chunk) = true;
    g_assert_true(g_file_get_contents(t->path, &bytes, &len, NULL));
    at = find_payload((uint8_t *)bytes, len, s->vcpu, chunk, &size);
    bytes[at + size - 1] ^= 0x55;
    g_assert_true(g_file_set_contents(t->path, bytes, len, NULL));
}

void random_trace_free(struct random_trace *t)
{
    unsigned i;

    for (i = 0; i < t->streams->len; i++) {
        struct random_stream *s =
            &g_array_index(t->streams, struct random_stream, i);

        g_array_free(s->items, TRUE);
        g_array_free(s->cr3s, TRUE);
        g_array_free(s->damaged, TRUE);
    }
    g_array_free(t->streams, TRUE);
    sample_remove(t->path);
    g_free(t);
}
