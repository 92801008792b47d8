/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of analyze/pace.h: time of records, and of vCPUs that wait
 */
#include <glib.h>
#include <glib/gstdio.h>

#include "analyze/pace.h"
#include "lib/agent/meta.h"
#include "trace-samples.h"

#define MS      UINT64_C(1000000)

static void add(struct btrail_writer *w, uint64_t index, size_t n,
                const struct btrail_event *events, size_t n_events)
{
    g_autofree struct btrail_record *records = g_new0(struct btrail_record,
                                                      n);
    const struct btrail_slab slab = { index, 0x1000, records, n, events,
                                      n_events };

    g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
}

static void expect(const struct pace *p, uint64_t begin, uint64_t end,
                   uint64_t time, uint64_t ticks, uint64_t wait,
                   uint64_t until)
{
    g_assert_cmpuint(p->begin, ==, begin);
    g_assert_cmpuint(p->end, ==, end);
    g_assert_cmpuint(p->time, ==, time);
    g_assert_cmpuint(p->ticks, ==, ticks * PACE_TICKS);
    g_assert_cmpuint(p->wait, ==, wait * PACE_TICKS);
    g_assert_cmpuint(p->until, ==, until);
}

struct watched {
    const struct btrail_event *first;
    const struct btrail_event *second;
    unsigned n;
};

/* Events of the two slabs of test_pace(), each once */
static void check_event(void *opaque, const struct btrail_event *e)
{
    struct watched *w = opaque;
    const struct btrail_event *want = w->n < 6 ? &w->first[w->n] :
                                      &w->second[w->n - 6];

    g_assert_cmpuint(e->type, ==, want->type);
    g_assert_cmpuint(e->index, ==, want->index);
    g_assert_cmpuint(e->data[0], ==, want->data[0]);
    w->n++;
}

static void test_pace(void)
{
    char *path = sample_path();
    const struct btrail_event first[] = {
        { .type = BTRAIL_EVENT_TIME, .index = 0, .data = { 100 * MS } },
        { .type = BTRAIL_EVENT_TIME, .index = 1000, .data = { 101 * MS } },
        { .type = BTRAIL_EVENT_PAUSE, .index = 1100, .data = { 102 * MS } },
        { .type = BTRAIL_EVENT_RESUME, .index = 1100, .data = { 105 * MS } },
        { .type = BTRAIL_EVENT_TIME, .index = 1200, .data = { 106 * MS } },
        /* It has waited for most of this. */
        { .type = BTRAIL_EVENT_TIME, .index = 1300, .data = { 206 * MS } },
    };
    const struct btrail_event second[] = {
        { .type = BTRAIL_EVENT_GAP, .reason = BTRAIL_GAP_OVERFLOW,
          .index = 1800, .data = { 500 } },
        { .type = BTRAIL_EVENT_TIME, .index = 2000, .data = { 207 * MS } },
        { .type = BTRAIL_EVENT_END, .reason = BTRAIL_END_STOPPED,
          .index = 2100, .data = { 208 * MS } },
    };
    static const uint64_t ticks[] = { 0, MS / 2, 10 * MS };
    struct watched watched = { first, second };
    struct btrail_writer *w;
    struct btrail_trace *trace;
    struct paces *p;

    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    add(w, 0, 1300, first, G_N_ELEMENTS(first));
    add(w, 1800, 300, second, G_N_ELEMENTS(second));
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_assert_cmpint(paces_open(&p, trace, 0, 1 * MS), ==, 0);
    expect(paces_at(p, 0), 0, 1000, 100 * MS, 1000, 0, 101 * MS);
    expect(paces_at(p, 999), 0, 1000, 100 * MS, 1000, 0, 101 * MS);
    expect(paces_next(p), 1000, 1100, 101 * MS, 10000, 0, 102 * MS);
    expect(paces_next(p), 1100, 1100, 102 * MS, 0, 0, 105 * MS);
    expect(paces_next(p), 1100, 1200, 105 * MS, 10000, 0, 106 * MS);
    expect(paces_at(p, 1250), 1200, 1300, 106 * MS, 20000, 98 * MS,
           206 * MS);
    expect(paces_next(p), 1300, 2000, 206 * MS, 5000, 0, 207 * MS);
    expect(paces_at(p, 2050), 2000, 2100, 207 * MS, 10000, 0, 208 * MS);
    expect(paces_next(p), 2100, UINT64_MAX, 208 * MS, 10000, 0, UINT64_MAX);
    expect(paces_next(p), 2100, UINT64_MAX, 208 * MS, 10000, 0, UINT64_MAX);
    paces_close(p);
    /* With a look at all events */
    g_assert_cmpint(paces_open(&p, trace, 0, 1 * MS), ==, 0);
    paces_watch(p, check_event, &watched);
    expect(paces_at(p, 2050), 2000, 2100, 207 * MS, 10000, 0, 208 * MS);
    expect(paces_next(p), 2100, UINT64_MAX, 208 * MS, 10000, 0, UINT64_MAX);
    g_assert_cmpint(paces_error(p), ==, 0);
    g_assert_cmpuint(watched.n, ==, G_N_ELEMENTS(first) +
                     G_N_ELEMENTS(second));
    paces_close(p);
    /* Somewhere in the middle */
    g_assert_cmpint(paces_open(&p, trace, 0, 0), ==, 0);
    expect(paces_at(p, 1900), 1300, 2000, 206 * MS, 5000, 0, 207 * MS);
    paces_close(p);
    /* The ticks of other traces */
    for (unsigned i = 0; i < G_N_ELEMENTS(ticks); i++) {
        g_assert_cmpint(paces_open(&p, trace, 0, ticks[i]), ==, 0);
        expect(paces_at(p, 1250), 1200, 1300, 106 * MS,
               btrail_busy_time(ticks[i]) / 100,
               100 * MS - btrail_busy_time(ticks[i]), 206 * MS);
        paces_close(p);
    }
    g_assert_cmpint(paces_open(&p, trace, 5, 0), ==, -BTRAIL_ERR_STREAM);
    paces_close(NULL);
    btrail_trace_close(trace);
    sample_remove(path);
}

/*
 * A guest that is stopped while its vCPU waits for room, with a record that is
 * made on the way out; the rest goes on as before
 */
static void test_nested(void)
{
    char *path = sample_path();
    const struct btrail_event events[] = {
        { .type = BTRAIL_EVENT_TIME, .index = 0, .data = { 100 * MS } },
        { .type = BTRAIL_EVENT_PAUSE, .reason = BTRAIL_PAUSE_OVERFLOW,
          .index = 100, .data = { 101 * MS } },
        { .type = BTRAIL_EVENT_TIME, .index = 100, .data = { 102 * MS } },
        { .type = BTRAIL_EVENT_PAUSE, .reason = BTRAIL_PAUSE_VM_STOP,
          .index = 101, .data = { 200 * MS } },
        { .type = BTRAIL_EVENT_RESUME, .reason = BTRAIL_PAUSE_VM_STOP,
          .index = 101, .data = { 300 * MS } },
        { .type = BTRAIL_EVENT_RESUME, .reason = BTRAIL_PAUSE_OVERFLOW,
          .index = 101, .data = { 400 * MS } },
    };
    struct btrail_writer *w;
    struct btrail_trace *trace;
    struct paces *p;

    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    add(w, 0, 150, events, G_N_ELEMENTS(events));
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_assert_cmpint(paces_open(&p, trace, 0, 1 * MS), ==, 0);
    expect(paces_at(p, 0), 0, 100, 100 * MS, 10000, 0, 101 * MS);
    expect(paces_next(p), 100, 100, 101 * MS, 0, 0, 102 * MS);
    expect(paces_next(p), 100, 101, 102 * MS, 0, 0, 200 * MS);
    expect(paces_next(p), 101, 101, 200 * MS, 0, 0, 300 * MS);
    expect(paces_next(p), 101, 101, 300 * MS, 0, 0, 400 * MS);
    expect(paces_next(p), 101, UINT64_MAX, 400 * MS, 10000, 0, UINT64_MAX);
    paces_close(p);
    btrail_trace_close(trace);
    sample_remove(path);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/pace/pace", test_pace);
    g_test_add_func("/pace/nested", test_nested);
    return g_test_run();
}
