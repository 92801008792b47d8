/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of merged streams, against an estimate of the time of each item: order,
 * grain, seeking, streams that are ended, batches that are split; and threads
 * that move
 */
#include <math.h>

#include "lib/agent/merged.h"
#include "random-trace.h"
#include "trace-samples.h"

#define ROUNDS  20
/* Two ticks of a trace that does not say how long one is, in ns */
#define BUSY    2000000

/* What is next of a stream */
struct reader {
    const struct random_stream *s;
    unsigned item;
    double *times;              /* of all items, as they should be estimated */
};

static const struct random_item *item_of(const struct random_stream *s,
                                         unsigned i)
{
    return &g_array_index(s->items, struct random_item, i);
}

static uint64_t clock_of(const struct random_item *item)
{
    switch (item->event.type) {
    case BTRAIL_EVENT_TIME:
    case BTRAIL_EVENT_PAUSE:
    case BTRAIL_EVENT_RESUME:
    case BTRAIL_EVENT_END:
        return item->event.data[0];
    default:
        return 0;
    }
}

/*
 * The time of each item: that of a clock is what it says; between two clocks
 * time goes in proportion to the index, for two ticks, after the last one it
 * stands still.
 */
static double *estimate(const struct random_stream *s)
{
    double *times = g_new0(double, s->items->len + 1);
    const struct random_item *last = NULL;
    unsigned i, k;

    for (i = 0; i < s->items->len; i++) {
        const struct random_item *item = item_of(s, i);
        const struct random_item *next = NULL;

        times[i] = clock_of(item);
        if (times[i]) {
            last = item;
            continue;
        }
        for (k = i; !next && k < s->items->len; k++) {
            next = clock_of(item_of(s, k)) ? item_of(s, k) : NULL;
        }
        if (last) {
            times[i] = clock_of(last);
        }
        if (last && next && next->index > last->index) {
            times[i] += MIN((double)clock_of(next) - clock_of(last), BUSY) *
                        (item->index - last->index) /
                        (next->index - last->index);
        }
    }
    return times;
}

static void check_item(struct reader *r, const struct btrail_batch *b,
                       size_t i)
{
    const struct random_item *item;

    g_assert_cmpuint(r->item, <, r->s->items->len);
    item = item_of(r->s, r->item);
    if (b->event) {
        g_assert_cmpuint(item->event.type, !=, 0);
        g_assert_cmpmem(b->event, sizeof(*b->event), &item->event,
                        sizeof(item->event));
    } else {
        g_assert_cmpuint(item->event.type, ==, 0);
        g_assert_cmpmem(&b->records[i], sizeof(item->record), &item->record,
                        sizeof(item->record));
    }
    g_assert_cmpuint(b->index + i, ==, item->index);
}

/* Everything comes, in the order that the grain promises. */
static void check(const struct random_trace *t, uint64_t grain)
{
    g_autofree struct reader *readers =
        g_new0(struct reader, t->streams->len);
    double latest = 0;
    struct btrail_trace *trace;
    struct btrail_merged *merged;
    struct btrail_batch b;
    uint64_t time;
    unsigned vcpu, i;
    int ret;

    for (i = 0; i < t->streams->len; i++) {
        readers[i].s = &g_array_index(t->streams, struct random_stream, i);
        readers[i].times = estimate(readers[i].s);
    }
    g_assert_cmpint(btrail_trace_open(&trace, t->path), ==, 0);
    g_assert_cmpint(btrail_merged_open(&merged, trace, NULL, 0, 0, grain), ==,
                    0);
    while (!(ret = btrail_merged_next(merged, &vcpu, &time, &b))) {
        struct reader *r = &readers[vcpu / 3];
        size_t k;

        g_assert_cmpuint(r->s->vcpu, ==, vcpu);
        g_assert_cmpfloat(fabs((double)time - r->times[r->item]), <=, 1);
        for (k = 0; k < (b.event ? 1 : b.count); k++) {
            double estimated = r->times[r->item];

            check_item(r, &b, k);
            /* Each rounds down to a nanosecond. */
            g_assert_cmpfloat(latest - estimated, <=, grain + 2.0);
            latest = MAX(latest, estimated);
            r->item++;
        }
    }
    g_assert_cmpint(ret, ==, -BTRAIL_ERR_END);
    g_assert_cmpuint(btrail_merged_bad_chunks(merged), ==, 0);
    btrail_merged_close(merged);
    btrail_trace_close(trace);
    for (i = 0; i < t->streams->len; i++) {
        g_assert_cmpuint(readers[i].item, ==, readers[i].s->items->len);
        g_free(readers[i].times);
    }
}

static void test_order(void)
{
    static const uint64_t grains[] = { 0, 100, 3000, UINT64_MAX };
    unsigned i, k;

    for (i = 0; i < ROUNDS; i++) {
        struct random_trace *t = random_trace_new(1 + i % 4, 40);

        for (k = 0; k < G_N_ELEMENTS(grains); k++) {
            check(t, grains[k]);
        }
        random_trace_free(t);
    }
}

static void describe(GString *text, const struct btrail_batch *b)
{
    size_t i;

    if (b->event) {
        g_string_append_printf(text, "e%u %" G_GUINT64_FORMAT " %d\n",
                               b->event->type, b->event->index,
                               b->synthetic);
    }
    for (i = 0; i < b->count; i++) {
        g_string_append_printf(text, "%" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT
                               " %" G_GINT64_MODIFIER "x %" G_GUINT64_FORMAT
                               "\n", b->index + i,
                               b->records ? b->records[i].from : 0, b->cr3,
                               b->time.host);
    }
}

/*
 * Each stream by itself is what a cursor returns: from the start or from a
 * moment on, also of a damaged file, and whichever streams are merged.
 */
static void check_streams(const struct random_trace *t, const unsigned *vcpus,
                          size_t n, unsigned flags, uint64_t host)
{
    unsigned all = t->streams->len;
    g_autofree GString **got = g_new0(GString *, all);
    struct btrail_trace *trace;
    struct btrail_merged *merged;
    struct btrail_batch b;
    uint64_t bad = 0;
    unsigned vcpu, i;
    int ret;

    g_assert_cmpint(btrail_trace_open(&trace, t->path), ==, 0);
    g_assert_cmpint(btrail_merged_open(&merged, trace, vcpus, n, flags, 500),
                    ==, 0);
    for (i = 0; i < all; i++) {
        got[i] = g_string_new(NULL);
    }
    if (host) {
        /* Leave it somewhere in the middle. */
        for (i = 0; i < 50; i++) {
            btrail_merged_next(merged, &vcpu, NULL, &b);
        }
        g_assert_cmpint(btrail_merged_seek_time(merged, host), ==, 0);
    }
    while (!(ret = btrail_merged_next(merged, &vcpu, NULL, &b))) {
        describe(got[vcpu / 3], &b);
    }
    g_assert_cmpint(ret, ==, -BTRAIL_ERR_END);
    for (i = 0; i < all; i++) {
        g_autoptr(GString) want = g_string_new(NULL);
        struct btrail_cursor *cursor;
        bool merges = !n;
        unsigned k;

        for (k = 0; k < n; k++) {
            merges |= vcpus[k] == 3 * i;
        }
        g_assert_cmpint(btrail_cursor_open(&cursor, trace, 3 * i, flags), ==,
                        0);
        g_assert_cmpint(btrail_cursor_seek_time(cursor, host), ==, 0);
        while (merges && !btrail_cursor_next(cursor, &b)) {
            describe(want, &b);
        }
        g_assert_cmpstr(got[i]->str, ==, want->str);
        bad += btrail_cursor_bad_chunks(cursor);
        btrail_cursor_close(cursor);
        g_string_free(got[i], TRUE);
    }
    if (!host) {
        g_assert_cmpuint(btrail_merged_bad_chunks(merged), ==, bad);
    }
    btrail_merged_close(merged);
    btrail_trace_close(trace);
}

static void test_streams(void)
{
    static const unsigned some[] = { 6, 0 };
    unsigned i, v;

    for (i = 0; i < ROUNDS; i++) {
        struct random_trace *t = random_trace_new(3, 40);

        check_streams(t, NULL, 0, 0, 0);
        check_streams(t, some, 2, 0, 0);
        check_streams(t, NULL, 0, BTRAIL_CURSOR_EVENTS_ONLY, 0);
        check_streams(t, NULL, 0, BTRAIL_CURSOR_COUNTS_ONLY, 0);
        check_streams(t, NULL, 0, 0, g_test_rand_int_range(1000, 60000));
        for (v = 0; v < t->streams->len; v++) {
            random_trace_damage(t, v, g_test_rand_int_range(
                0, g_array_index(t->streams, struct random_stream,
                                 v).damaged->len));
        }
        check_streams(t, NULL, 0, 0, 0);
        check_streams(t, NULL, 0, 0, g_test_rand_int_range(1000, 60000));
        random_trace_free(t);
    }
}

/* Streams that begin at an index; one of them ends early. */
static void test_positions(void)
{
    unsigned i, v;

    for (i = 0; i < ROUNDS; i++) {
        struct random_trace *t = random_trace_new(3, 40);
        uint64_t begin = g_test_rand_int_range(0, 60);
        GString *got[3];
        unsigned vcpu, left = 5;
        struct btrail_merged *merged;
        struct btrail_trace *trace;
        struct btrail_batch b;

        g_assert_cmpint(btrail_trace_open(&trace, t->path), ==, 0);
        g_assert_cmpint(btrail_merged_open(&merged, trace, NULL, 0, 0, 500),
                        ==, 0);
        btrail_merged_end_stream(merged);
        btrail_merged_next(merged, &vcpu, NULL, &b);
        btrail_merged_seek(merged, begin);
        for (v = 0; v < 3; v++) {
            got[v] = g_string_new(NULL);
        }
        while (!btrail_merged_next(merged, &vcpu, NULL, &b)) {
            g_assert_true(vcpu != 3 || left);
            describe(got[vcpu / 3], &b);
            if (vcpu == 3 && !--left) {
                btrail_merged_end_stream(merged);
            }
        }
        for (v = 0; v < 3; v++) {
            g_autoptr(GString) want = g_string_new(NULL);
            struct btrail_cursor *cursor;

            g_assert_cmpint(btrail_cursor_open(&cursor, trace, 3 * v, 0), ==,
                            0);
            g_assert_cmpint(btrail_cursor_seek(cursor, begin), ==, 0);
            while (!btrail_cursor_next(cursor, &b)) {
                describe(want, &b);
            }
            g_assert_true(g_str_has_prefix(want->str, got[v]->str));
            if (v != 1) {
                g_assert_cmpstr(got[v]->str, ==, want->str);
            }
            btrail_cursor_close(cursor);
            g_string_free(got[v], TRUE);
        }
        btrail_merged_close(merged);
        btrail_trace_close(trace);
        random_trace_free(t);
    }
}

/* @busy: how long its records take, as the description says how long a tick
 * is */
static void check_waits(const char *meta, uint64_t busy)
{
    enum { N = 100 };
    const uint64_t ms = 1000000;
    char *path = sample_path();
    struct btrail_record records[N] = { { 0x1000, 0x2000, 0 } };
    struct btrail_trace *trace;
    struct btrail_merged *merged;
    struct btrail_writer *w;
    struct btrail_batch b;
    uint64_t time, seen = 0;
    unsigned vcpu;

    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    if (meta) {
        g_assert_cmpint(btrail_writer_meta(w, meta, strlen(meta)), ==, 0);
    }
    for (unsigned i = 0; i < 2; i++) {
        /* From 1 ms to 200 ms, but at once; and at 3.5 ms */
        const struct btrail_event events[] = {
            { .type = BTRAIL_EVENT_TIME, .data = { i ? 7 * ms / 2 : ms } },
            { .type = BTRAIL_EVENT_CR3, .index = N / 2, .data = { 0x2000 } },
            { .type = BTRAIL_EVENT_TIME, .index = N,
              .data = { i ? 4 * ms : 200 * ms } },
        };
        const struct btrail_slab slab = {
            .cr3 = 0x1000, .records = records, .n_records = N,
            .events = events, .n_events = G_N_ELEMENTS(events),
        };

        g_assert_cmpint(btrail_writer_append(w, i, &slab), ==, 0);
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_assert_cmpint(btrail_merged_open(&merged, trace, NULL, 0, 0, 0), ==, 0);
    while (!btrail_merged_next(merged, &vcpu, &time, &b)) {
        if (!b.event && vcpu == 0) {
            g_assert_cmpuint(time, ==, ms + b.index * busy / N);
        }
        if (!b.event) {
            g_assert_true(vcpu == 0 || seen >= N);
            seen += b.count;
        }
    }
    g_assert_cmpuint(seen, ==, 2 * N);
    btrail_merged_close(merged);
    btrail_trace_close(trace);
    sample_remove(path);
}

/* A vCPU that waits for long has done what it did before that. */
static void test_waits(void)
{
    check_waits(NULL, BUSY);
    check_waits("{\"tick_ns\": 0}", BUSY);
    check_waits("{\"tick_ns\": 500000}", 1000000);
}

static void test_arguments(void)
{
    static const unsigned twice[] = { 3, 0, 3 };
    static const unsigned missing[] = { 0, 1 };
    char *path = sample_path();
    struct btrail_trace *trace;
    struct btrail_merged *merged = NULL;
    struct btrail_batch b;
    unsigned vcpu;

    sample_write(path, 2);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_assert_cmpint(btrail_merged_open(NULL, trace, NULL, 0, 0, 0), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_merged_open(&merged, NULL, NULL, 0, 0, 0), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_merged_open(&merged, trace, NULL, 1, 0, 0), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_merged_open(&merged, trace, twice, 0, 0, 0), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_merged_open(&merged, trace, twice, 3, 0, 0), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_merged_open(&merged, trace, missing, 2, 0, 0), ==,
                    -BTRAIL_ERR_STREAM);
    g_assert_cmpint(btrail_merged_open(&merged, trace, NULL, 0, 0x80, 0), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_null(merged);
    g_assert_cmpint(btrail_merged_open(&merged, trace, NULL, 0, 0, 0), ==, 0);
    g_assert_cmpint(btrail_merged_next(NULL, &vcpu, NULL, &b), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_merged_next(merged, NULL, NULL, &b), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_merged_next(merged, &vcpu, NULL, NULL), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_merged_seek_time(NULL, 0), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpuint(btrail_merged_bad_chunks(NULL), ==, 0);
    btrail_merged_close(merged);
    btrail_merged_close(NULL);
    btrail_trace_close(trace);
    sample_remove(path);
}

/* Of a batch that is merged in pieces, one record goes to the next kernel. */
static void test_leaves(void)
{
    enum { N = 100, VCPUS = 2 };
    struct btrail_record records[N] = { { 0 } };
    struct btrail_event events[] = {
        { .type = BTRAIL_EVENT_KERNEL, .data = { 1 } },
        { .type = BTRAIL_EVENT_TIME, .data = { 1000 } },
        { .type = BTRAIL_EVENT_KERNEL, .index = N, .data = { 2 } },
        { .type = BTRAIL_EVENT_TIME, .index = N, .data = { 2000 } },
    };
    const struct btrail_slab slab = {
        .records = records, .n_records = N,
        .events = events, .n_events = G_N_ELEMENTS(events),
    };
    char *path = sample_path();
    unsigned pieces = 0, left = 0, vcpu;
    struct btrail_merged *merged;
    struct btrail_writer *w;
    struct btrail_trace *t;
    struct btrail_batch b;

    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    for (unsigned i = 0; i < VCPUS; i++) {
        g_assert_cmpint(btrail_writer_append(w, i, &slab), ==, 0);
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&t, path), ==, 0);
    g_assert_cmpint(btrail_merged_open(&merged, t, NULL, 0, 0, 50), ==, 0);
    while (!btrail_merged_next(merged, &vcpu, NULL, &b)) {
        pieces += b.count > 0;
        left += b.leaves;
        g_assert_cmpint(b.leaves, ==, b.count && b.index + b.count == N);
    }
    g_assert_cmpuint(pieces, >, 2 * VCPUS);
    g_assert_cmpuint(left, ==, VCPUS);
    btrail_merged_close(merged);
    btrail_trace_close(t);
    sample_remove(path);
}

/*
 * Threads that move.  In the text of a stream, what is at each index: a letter
 * is a thread that begins, "-" an idle task, "!" a gap, "k" a kernel, "K" the
 * same with thread a, "p" a pause, "t" a clock, "." nothing.  Its clock is 1000
 * at the begin and 2000 at the end, or as given, so it is at index I at 1000 + I
 * * 1000 / length.  @order has what is returned of all streams: each character,
 * and the number of its stream.
 */
static const struct {
    const char *streams[3];
    uint64_t ends[3];
    const char *order;
} moves[] = {
    /* As estimated: it has left when it begins. */
    { { "a...-.....", ".....a...." }, { 0 }, "a0 -0 a1" },
    /* It has not: the other vCPU waits, and nothing else does. */
    { { "a......-..", ".....a.b..", "......c..." }, { 0 },
      "a0 c2 -0 a1 b1" },
    { { "...a.b....", "a......-.." }, { 0 }, "a1 -1 a0 b0" },
    /* Any event after which nobody knows will do. */
    { { "a......!..", ".....a...." }, { 0 }, "a0 !0 a1" },
    { { "a......p..", ".....a...." }, { 0 }, "a0 p0 a1" },
    { { "a......k..", ".....a...." }, { 0 }, "a0 k0 a1" },
    { { "a......b..", ".....a...." }, { 0 }, "a0 b0 a1" },
    /* A kernel that is named again has not changed. */
    { { "K...K..-..", "...a......" }, { 0 }, "k0 a0 k0 a0 -0 a1" },
    /* It never leaves: no clock is after that of the waiting vCPU. */
    { { "a.........", ".....a...." }, { 0 }, "a0 a1" },
    /* It leaves after the next clock of the other one; or can have left. */
    { { "a..t...-..", ".....a...." }, { 0, 1200 }, "a0 a1 -0" },
    { { "a..t...-..", ".....a...." }, { 0, 1400 }, "a0 -0 a1" },
    { { "a......-..", ".....a...." }, { 0, 1200 }, "a0 -0 a1" },
    /* It stays too long to come back: it was there before. */
    { { "...a......", ".....a.-.." }, { 0 }, "a1 -1 a0" },
    { { "...a...t.b", "..t..a.-.." }, { 0, 1650 }, "a1 -1 a0 b0" },
    { { "...a......", ".a.-.a.-.." }, { 0 }, "a1 -1 a1 -1 a0" },
    { { "K..K......", "..K.K..-.." }, { 0 },
      "k0 k1 a1 k1 a1 -1 a0 k0 a0" },
    /* It can have come back. */
    { { "...a...t-.", ".....a.b.." }, { 0 }, "a0 -0 a1 b1" },
    /* It was never there before. */
    { { "...a.-....", ".......a.-" }, { 0 }, "a0 -0 a1 -1" },
    { { "..ta......", "...t.t.a.-" }, { 1250 }, "a0 a1 -1" },
    /* Two that are on each other's vCPU: one of them is wrong. */
    { { "a....b....", "b.....a..." }, { 0 }, "a0 b1 a1 b0" },
    /* A thread that comes back, and idle tasks, wait for nobody. */
    { { "a....a....", "-...-....." }, { 0 }, "a0 -1 -1 a0" },
    /* Two vCPUs wait for a third one. */
    { { "a......-..", ".....a....", "....a....." }, { 0 },
      "a0 -0 a2 a1" },
};

static unsigned add_moves(struct btrail_writer *w, unsigned vcpu,
                          const char *text, uint64_t end)
{
    struct btrail_record records[10] = { { 0 } };
    struct btrail_event events[22] = {
        { .type = BTRAIL_EVENT_TIME, .data = { 1000 } },
    };
    struct btrail_slab slab = {
        .records = records, .n_records = strlen(text), .events = events,
        .n_events = 1,
    };

    for (unsigned i = 0; text[i]; i++) {
        struct btrail_event *e = &events[slab.n_events];

        e->index = i;
        switch (text[i]) {
        case '.':
            continue;
        case '-':
            e->type = BTRAIL_EVENT_TASK;
            break;
        case '!':
            e->type = BTRAIL_EVENT_GAP;
            e->reason = BTRAIL_GAP_OVERFLOW;
            e->data[0] = BTRAIL_LOST_UNKNOWN;
            break;
        case 'k':
            e->type = BTRAIL_EVENT_KERNEL;
            e->data[0] = 1;
            break;
        case 'K':
            e->type = BTRAIL_EVENT_KERNEL;
            e->data[0] = 1;
            e[1].type = BTRAIL_EVENT_TASK;
            e[1].index = i;
            e[1].data[0] = (uint64_t)'a' << 32 | 'a';
            slab.n_events++;
            break;
        case 'p':
        case 't':
            /* These have a clock, which is the estimate. */
            e->type = text[i] == 'p' ? BTRAIL_EVENT_PAUSE : BTRAIL_EVENT_TIME;
            e->data[0] = 1000 + i * 100;
            break;
        default:
            e->type = BTRAIL_EVENT_TASK;
            e->data[0] = (uint64_t)text[i] << 32 | text[i];
            break;
        }
        slab.n_events++;
    }
    events[slab.n_events++] = (struct btrail_event) {
        .type = BTRAIL_EVENT_TIME, .index = strlen(text),
        .data = { end ? end : 2000 },
    };
    g_assert_cmpint(btrail_writer_append(w, vcpu, &slab), ==, 0);
    return slab.n_events;
}

/* What a batch is in the text of a stream; 0 if it is not in it */
static char moved(const struct btrail_batch *b)
{
    switch (b->event ? b->event->type : 0) {
    case BTRAIL_EVENT_TASK:
        return b->task.tid ? b->task.tid : '-';
    case BTRAIL_EVENT_GAP:
        return '!';
    case BTRAIL_EVENT_KERNEL:
        return 'k';
    case BTRAIL_EVENT_PAUSE:
        return 'p';
    default:
        return 0;
    }
}

static void check_moves(unsigned i, struct btrail_merged *merged, unsigned n)
{
    g_autoptr(GString) order = g_string_new(NULL);
    unsigned records = 0, events = 0, vcpu;
    uint64_t time, last = 0;
    struct btrail_batch b;

    while (!btrail_merged_next(merged, &vcpu, &time, &b)) {
        events += b.event != NULL;
        records += b.count;
        if (moved(&b)) {
            /* The times agree with the order. */
            g_assert_cmpuint(time, >=, last);
            last = time;
            g_string_append_printf(order, "%s%c%u", order->len ? " " : "",
                                   moved(&b), vcpu);
        }
    }
    g_assert_cmpstr(order->str, ==, moves[i].order);
    g_assert_cmpuint(events, ==, n);
    g_assert_cmpuint(records % 10, ==, 0);
}

static void test_moves(void)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(moves); i++) {
        char *path = sample_path();
        struct btrail_merged *merged;
        struct btrail_writer *w;
        struct btrail_trace *t;
        unsigned n = 0;

        g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
        for (unsigned k = 0; k < 3 && moves[i].streams[k]; k++) {
            n += add_moves(w, k, moves[i].streams[k], moves[i].ends[k]);
        }
        g_assert_cmpint(btrail_writer_close(w), ==, 0);
        g_assert_cmpint(btrail_trace_open(&t, path), ==, 0);
        g_assert_cmpint(btrail_merged_open(&merged, t, NULL, 0, 0, 0), ==, 0);
        check_moves(i, merged, n);
        /* Nobody waits for what was before a seek. */
        g_assert_cmpint(btrail_merged_seek_time(merged, 0), ==, 0);
        check_moves(i, merged, n);
        btrail_merged_close(merged);
        btrail_trace_close(t);
        sample_remove(path);
    }
}

/* Nobody waits for a stream that was ended: neither where a thread is on its
 * vCPU, nor where it would have come to it. */
static void test_moves_end(void)
{
    static const struct {
        const char *streams[2];
        unsigned ended, at;     /* which, and before which index */
        const char *order;
    } ends[] = {
        { { "a.......-.", "...a..b..." }, 0, 5, "a0 a1 b1" },
        { { "a.......-.", "...a..b..." }, 0, 0, "a0 a1 b1" },
        { { "...a......", ".....a.-.." }, 1, 4, "a0" },
        { { "...a......", ".....a.-.." }, 1, 0, "a0" },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(ends); i++) {
        g_autoptr(GString) order = g_string_new(NULL);
        char *path = sample_path();
        struct btrail_merged *merged;
        struct btrail_writer *w;
        struct btrail_trace *t;
        struct btrail_batch b;
        unsigned vcpu;

        g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
        add_moves(w, 0, ends[i].streams[0], 0);
        add_moves(w, 1, ends[i].streams[1], 0);
        g_assert_cmpint(btrail_writer_close(w), ==, 0);
        g_assert_cmpint(btrail_trace_open(&t, path), ==, 0);
        g_assert_cmpint(btrail_merged_open(&merged, t, NULL, 0, 0, 0), ==, 0);
        while (!btrail_merged_next(merged, &vcpu, NULL, &b)) {
            if (moved(&b)) {
                g_string_append_printf(order, "%s%c%u", order->len ? " " : "",
                                       moved(&b), vcpu);
            }
            if (vcpu == ends[i].ended && b.count &&
                b.index + b.count >= ends[i].at) {
                btrail_merged_end_stream(merged);
            }
        }
        g_assert_cmpstr(order->str, ==, ends[i].order);
        btrail_merged_close(merged);
        btrail_trace_close(t);
        sample_remove(path);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/merged/order", test_order);
    g_test_add_func("/merged/streams", test_streams);
    g_test_add_func("/merged/positions", test_positions);
    g_test_add_func("/merged/waits", test_waits);
    g_test_add_func("/merged/arguments", test_arguments);
    g_test_add_func("/merged/leaves", test_leaves);
    g_test_add_func("/merged/moves", test_moves);
    g_test_add_func("/merged/moves-end", test_moves_end);
    return g_test_run();
}
