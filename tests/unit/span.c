/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Spans, against those that the random trace was written with.
 */

#include "random-trace.h"
#include "trace-samples.h"

#define ROUNDS  40

/* What is known of one record's place in the stream, or of one lost record */
struct place {
    uint64_t index;
    uint64_t cr3;
    unsigned span;              /* as CR3 events number them */
    bool lost;
    uint64_t time;              /* in force */
};

static void lose(GArray *places, struct place *at, uint64_t n)
{
    at->lost = true;
    for (; n; n--) {
        g_array_append_vals(places, at, 1);
        at->index++;
    }
    at->lost = false;
}

/* Which span each index of a stream is in, from what was written. */
static GArray *places_of(const struct random_stream *s)
{
    GArray *places = g_array_new(FALSE, FALSE, sizeof(struct place));
    struct place at = { 0 };
    bool sound = false;         /* one chunk was */
    unsigned chunk = UINT_MAX, i;

    for (i = 0; i < s->items->len; i++) {
        const struct random_item *item =
            &g_array_index(s->items, struct random_item, i);
        const struct btrail_event *e = &item->event;

        if (item->chunk != chunk) {
            chunk = item->chunk;
            if (!g_array_index(s->damaged, bool, chunk)) {
                uint64_t cr3 = g_array_index(s->cr3s, uint64_t, chunk);

                /* What damaged chunks before have taken away */
                at.cr3 = sound ? at.cr3 : cr3;
                sound = true;
                lose(places, &at, item->index - at.index);
                at.span += cr3 != at.cr3;
                at.cr3 = cr3;
            }
        }
        if (g_array_index(s->damaged, bool, chunk)) {
            continue;
        }
        switch (e->type) {
        case 0:
            g_array_append_val(places, at);
            at.index++;
            break;
        case BTRAIL_EVENT_CR3:
            at.span++;
            at.cr3 = e->data[0];
            break;
        case BTRAIL_EVENT_TIME:
            at.time = e->data[0];
            break;
        case BTRAIL_EVENT_GAP:
            if (e->data[0] != BTRAIL_LOST_UNKNOWN) {
                lose(places, &at, e->data[0]);
            }
            break;
        default:
            break;
        }
    }
    lose(places, &at, s->end_index - at.index);
    return places;
}

/* The spans of a stream are runs of places with one number. */
static void check_stream(struct btrail_trace *trace,
                         const struct random_stream *s, uint64_t cr3,
                         unsigned flags, bool times)
{
    GArray *places = places_of(s);
    struct btrail_spans *spans;
    struct btrail_span got;
    unsigned i, end;

    g_assert_cmpint(btrail_spans_open(&spans, trace, s->vcpu, cr3, flags),
                    ==, 0);
    for (i = 0; i < places->len; i = end) {
        const struct place *first = &g_array_index(places, struct place, i);
        const struct place *first_record = NULL, *last_record = NULL;
        uint64_t records = 0;

        for (end = i; end < places->len; end++) {
            const struct place *p = &g_array_index(places, struct place, end);

            if (p->span != first->span) {
                break;
            }
            if (!p->lost) {
                first_record = first_record ? first_record : p;
                last_record = p;
                records++;
            }
        }
        if (flags && btrail_cr3_root(first->cr3) != btrail_cr3_root(cr3)) {
            continue;
        }
        g_assert_cmpint(btrail_spans_next(spans, &got), ==, 0);
        g_assert_cmpuint(got.vcpu, ==, s->vcpu);
        g_assert_cmphex(got.cr3, ==, first->cr3);
        g_assert_cmpuint(got.first_index, ==, first->index);
        g_assert_cmpuint(got.end_index, ==, first->index + end - i);
        g_assert_cmpuint(got.records, ==, records);
        g_assert_cmpuint(got.lost, ==, end - i - records);
        if (records && times) {
            g_assert_cmpuint(got.first.host, ==, first_record->time);
            g_assert_cmpuint(got.first.tsc, ==, 3 * first_record->time);
            g_assert_cmpuint(got.last.host, ==, last_record->time);
        }
    }
    g_assert_cmpint(btrail_spans_next(spans, &got), ==, -BTRAIL_ERR_END);
    g_assert_cmpint(btrail_spans_next(spans, &got), ==, -BTRAIL_ERR_END);
    btrail_spans_close(spans);
    g_array_free(places, TRUE);
}

static void check(const struct random_trace *t, bool times)
{
    struct btrail_trace *trace;
    unsigned i;

    g_assert_cmpint(btrail_trace_open(&trace, t->path), ==, 0);
    for (i = 0; i < t->streams->len; i++) {
        const struct random_stream *s =
            &g_array_index(t->streams, struct random_stream, i);

        check_stream(trace, s, 0, 0, times);
        check_stream(trace, s, 0x2000, BTRAIL_SPANS_OF_SPACE, times);
        check_stream(trace, s, 0x2001, BTRAIL_SPANS_OF_SPACE, times);
        check_stream(trace, s, 0x123000, BTRAIL_SPANS_OF_SPACE, times);
        check_stream(trace, s, BTRAIL_CR3_PAE | 0x2018, BTRAIL_SPANS_OF_SPACE,
                     times);
        check_stream(trace, s, BTRAIL_CR3_PAE | 0x2020, BTRAIL_SPANS_OF_SPACE,
                     times);
    }
    btrail_trace_close(trace);
}

static void test_spans(void)
{
    unsigned i;

    for (i = 0; i < ROUNDS; i++) {
        struct random_trace *t = random_trace_new(2, 60);

        check(t, true);
        random_trace_free(t);
    }
}

/* The times in force after a damaged chunk are not those that were written. */
static void test_damaged(void)
{
    unsigned i, stream, chunk;

    for (i = 0; i < ROUNDS; i++) {
        struct random_trace *t = random_trace_new(2, 40);
        uint64_t bad = 0;

        for (stream = 0; stream < 2; stream++) {
            const struct random_stream *s =
                &g_array_index(t->streams, struct random_stream, stream);
            struct btrail_trace *trace;
            struct btrail_spans *spans;
            struct btrail_span span;

            for (chunk = 0, bad = 0; chunk < s->damaged->len; chunk++) {
                if (!g_test_rand_int_range(0, 4)) {
                    random_trace_damage(t, stream, chunk);
                    bad++;
                }
            }
            g_assert_cmpint(btrail_trace_open(&trace, t->path), ==, 0);
            g_assert_cmpint(btrail_spans_open(&spans, trace, s->vcpu, 0, 0),
                            ==, 0);
            while (!btrail_spans_next(spans, &span)) {
            }
            g_assert_cmpuint(btrail_spans_bad_chunks(spans), ==, bad);
            btrail_spans_close(spans);
            btrail_trace_close(trace);
        }
        check(t, false);
        random_trace_free(t);
    }
}

static void test_arguments(void)
{
    char *path = sample_path();
    struct btrail_trace *trace;
    struct btrail_spans *spans = NULL;
    struct btrail_span span;

    sample_write(path, 2);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_assert_cmpint(btrail_spans_open(NULL, trace, 0, 0, 0), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_spans_open(&spans, NULL, 0, 0, 0), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_spans_open(&spans, trace, 0, 0, 2), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_spans_open(&spans, trace, 1, 0, 0), ==,
                    -BTRAIL_ERR_STREAM);
    g_assert_null(spans);
    g_assert_cmpint(btrail_spans_next(NULL, &span), ==, -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_spans_open(&spans, trace, 0, 0, 0), ==, 0);
    g_assert_cmpint(btrail_spans_next(spans, NULL), ==, -BTRAIL_ERR_ARGUMENT);
    btrail_spans_close(spans);
    btrail_spans_close(NULL);
    g_assert_cmpuint(btrail_spans_bad_chunks(NULL), ==, 0);
    btrail_trace_close(trace);
    sample_remove(path);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/span/spans", test_spans);
    g_test_add_func("/span/damaged", test_damaged);
    g_test_add_func("/span/arguments", test_arguments);
    return g_test_run();
}
