/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A trace, prepared for call stacks: what a random trace has comes once and in
 * order, with one thread and with two
 */

#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "analyze/call-reader.h"
#include "random-trace.h"
#include "trace-samples.h"

/* What has come of a vCPU */
struct lane {
    const struct random_stream *s;
    unsigned item;              /* the next one */
    uint64_t waited;
    uint64_t next;              /* the index after the last record */
    bool open;                  /* a part that is not the last one was there */
};

struct reading {
    struct lane lanes[BTRAIL_MAX_VCPUS];
    struct call_reader_sums sums;
    uint64_t records;
    uint64_t chosen;
    uint64_t waited;
    unsigned many_edges;
    bool filtered;
};

#define FILTER  "to < 500 && (index == 0 || index > 2)"

static bool is_wanted(const struct random_item *item)
{
    return item->record.to < 500 && (item->index == 0 || item->index > 2);
}

static bool is_gap(const struct random_item *item)
{
    return item->event.type == BTRAIL_EVENT_GAP;
}

/* The next item of a lane that comes; NULL at its end */
static const struct random_item *next_item(struct lane *l)
{
    while (l->item < l->s->items->len) {
        const struct random_item *item =
            &g_array_index(l->s->items, struct random_item, l->item++);

        if ((!item->event.type || is_gap(item)) &&
            !g_array_index(l->s->damaged, bool, item->chunk)) {
            return item;
        }
    }
    return NULL;
}

static void check_records(struct reading *r, const struct call_step *step)
{
    struct lane *l = &r->lanes[step->vcpu];

    g_assert_cmpuint(step->part.vcpu, ==, step->vcpu);
    g_assert_cmpuint(step->part.n, >, 0);
    g_assert_cmpint(!step->counts, ==, !r->filtered);
    g_assert_cmpint(step->part.first > 0, ==, l->open);
    g_assert_cmpuint(step->part.ticks, ==, step->pace.ticks);
    g_assert_cmpuint(step->index, >=, step->pace.begin);
    for (size_t i = 0; i < step->part.n; i++) {
        const struct random_item *item = next_item(l);
        uint64_t index = step->index + step->part.first + i;
        const struct stack_edge *e = step->part.edges[i];

        g_assert_nonnull(item);
        g_assert_cmpuint(item->event.type, ==, 0);
        g_assert_cmpuint(item->index, ==, index);
        g_assert_cmpuint(index, <, step->pace.end);
        g_assert_cmphex(e->from, ==, item->record.from);
        g_assert_cmphex(e->to, ==, item->record.to);
        if (r->filtered) {
            bool counts = step->part.counts[i];

            g_assert_true(&step->part.counts[i] ==
                          &step->counts[step->part.first + i]);
            g_assert_cmpint(counts, ==, is_wanted(item));
            r->chosen += counts;
        }
        l->next = index + 1;
        r->records++;
    }
    l->open = !step->last;
}

static void check_step(struct reading *r, const struct call_step *step)
{
    struct lane *l = &r->lanes[step->vcpu];
    const struct random_item *item;

    switch (step->kind) {
    case CALL_STEP_WAIT:
        g_assert_false(l->open);
        g_assert_cmpuint(step->wait, >, 0);
        l->waited += step->wait;
        break;
    case CALL_STEP_GAP:
        item = next_item(l);
        g_assert_nonnull(item);
        g_assert_true(is_gap(item));
        g_assert_cmpuint(step->index, ==, item->index);
        break;
    case CALL_STEP_RECORDS:
        check_records(r, step);
        break;
    case CALL_STEP_LEFT:
    case CALL_STEP_WAKE:
        /* Nobody has asked for them. */
        g_assert_not_reached();
    }
}

/* Is the last record before @index wanted?  @next: where to go on */
static bool wanted_before(const struct lane *l, uint64_t index, guint *next,
                          bool *wanted)
{
    for (; *next < l->s->items->len; ++*next) {
        const struct random_item *item =
            &g_array_index(l->s->items, struct random_item, *next);

        if (item->index >= index) {
            break;
        }
        *wanted = item->event.type ? *wanted : is_wanted(item);
    }
    return *wanted;
}

/* How long a vCPU waited after records that count, up to its last clock */
static uint64_t want_wait(const struct btrail_trace *trace,
                          const struct lane *l, uint64_t tick, bool filtered)
{
    const struct pace *pace;
    struct paces *paces;
    uint64_t wait = 0;
    bool wanted = false;
    guint next = 0;

    /* A vCPU of which nothing came has no stream. */
    if (!l->s->items->len) {
        return 0;
    }
    g_assert_cmpint(paces_open(&paces, trace, l->s->vcpu, tick), ==, 0);
    for (pace = paces_at(paces, 0); l->next && pace->end != UINT64_MAX;
         pace = paces_next(paces)) {
        if (wanted_before(l, pace->end, &next, &wanted) || !filtered) {
            wait += pace->wait;
        }
    }
    paces_close(paces);
    return wait;
}

static void read_all(struct reading *r, const struct random_trace *random,
                     const struct btrail_trace *trace)
{
    enum { TICK = 100 };
    const struct symbolizer_options none = { NULL };
    struct symbolizer *s = symbolizer_new(&none, NULL, NULL);
    struct filter *filter = r->filtered ? filter_parse(FILTER, NULL) : NULL;
    const struct call_reader_options options = {
        .names = s, .filter = filter, .window = WINDOW_ALL(0), .tick = TICK,
        .many_edges = r->many_edges,
    };
    const struct call_step *steps;
    struct call_reader *reader;
    size_t n;

    for (unsigned i = 0; i < random->streams->len; i++) {
        const struct random_stream *stream =
            &g_array_index(random->streams, struct random_stream, i);

        r->lanes[stream->vcpu].s = stream;
    }
    g_assert_cmpint(call_reader_open(&reader, trace, &options), ==, 0);
    while ((steps = call_reader_next(reader, &n))) {
        for (size_t i = 0; i < n; i++) {
            check_step(r, &steps[i]);
        }
    }
    /* The end stays the end. */
    g_assert_null(call_reader_next(reader, &n));
    g_assert_cmpint(call_reader_close(reader, &r->sums), ==, 0);
    for (unsigned i = 0; i < BTRAIL_MAX_VCPUS; i++) {
        struct lane *l = &r->lanes[i];

        if (l->s) {
            g_assert_null(next_item(l));
            g_assert_false(l->open);
            g_assert_cmpuint(l->waited, ==, want_wait(trace, l, TICK,
                                                       r->filtered));
            r->waited += l->waited;
        }
    }
    g_assert_cmpuint(r->sums.records, ==, r->records);
    g_assert_cmpuint(r->sums.chosen, ==, r->filtered ? r->chosen : r->records);
    filter_free(filter);
    symbolizer_free(s);
}

/* A reader that has one CPU starts no thread. */
static void use_cpus(bool one)
{
    static cpu_set_t all;
    cpu_set_t first;

    if (!CPU_COUNT(&all)) {
        g_assert_cmpint(sched_getaffinity(0, sizeof(all), &all), ==, 0);
    }
    CPU_ZERO(&first);
    for (unsigned i = 0; i < CPU_SETSIZE && !CPU_COUNT(&first); i++) {
        if (CPU_ISSET(i, &all)) {
            CPU_SET(i, &first);
        }
    }
    g_assert_cmpint(sched_setaffinity(0, sizeof(all), one ? &first : &all), ==,
                    0);
}

static void check_random(unsigned vcpus, unsigned slabs, bool waits)
{
    struct random_trace *random = random_trace_new(vcpus, slabs);
    struct btrail_trace *trace;

    g_assert_cmpint(btrail_trace_open(&trace, random->path), ==, 0);
    for (unsigned i = 0; i < 8; i++) {
        struct reading *r = g_new0(struct reading, 1);

        use_cpus(i & 1);
        r->filtered = i & 2;
        r->many_edges = i & 4 ? 100 : 0;
        read_all(r, random, trace);
        g_assert_cmpuint(r->sums.damage, ==, 0);
        g_assert_true(!waits || r->waited);
        g_free(r);
    }
    use_cpus(false);
    btrail_trace_close(trace);
    random_trace_free(random);
}

static void test_random(void)
{
    for (unsigned i = 0; i < 20; i++) {
        check_random(1 + i % 3, 1 + 5 * i, false);
    }
}

/* More than what is read ahead */
static void test_long(void)
{
    check_random(3, 2500, true);
}

/* Whoever ends early waits for nothing. */
static void test_stop(void)
{
    struct random_trace *random = random_trace_new(2, 2500);
    const struct symbolizer_options none = { NULL };
    struct btrail_trace *trace;

    g_assert_cmpint(btrail_trace_open(&trace, random->path), ==, 0);
    alarm(120);
    for (unsigned i = 0; i < 12; i++) {
        struct symbolizer *s = symbolizer_new(&none, NULL, NULL);
        const struct call_reader_options options = {
            .names = s, .window = WINDOW_ALL(0), .many_edges = i % 2 ? 50 : 0,
        };
        struct call_reader *reader;
        size_t n;

        g_assert_cmpint(call_reader_open(&reader, trace, &options), ==, 0);
        for (unsigned k = 0; k < i / 2; k++) {
            g_assert_nonnull(call_reader_next(reader, &n));
        }
        g_assert_cmpint(call_reader_close(reader, NULL), ==, 0);
        symbolizer_free(s);
    }
    alarm(0);
    btrail_trace_close(trace);
    random_trace_free(random);
}

/* What leaves its kernel is a part of its own, of the same batch. */
static void test_parts(void)
{
    enum { N = 10 };
    char *path = sample_path();
    struct btrail_record records[N];
    const struct btrail_event events[] = {
        { .type = BTRAIL_EVENT_KERNEL, .data = { 1 } },
        { .type = BTRAIL_EVENT_KERNEL, .index = N, .data = { 2 } },
    };
    const struct btrail_slab slab = {
        .cr3 = 0x1000, .records = records, .n_records = N, .events = events,
        .n_events = G_N_ELEMENTS(events),
    };
    struct filter *filter = filter_parse("index != 3", NULL);
    const struct symbolizer_options none = { NULL };
    struct call_reader_options options = {
        .filter = filter, .window = WINDOW_ALL(0),
    };
    const struct call_step *steps;
    struct call_reader *reader;
    struct btrail_trace *trace;
    struct btrail_writer *w;
    struct symbolizer *s;
    size_t n;

    for (unsigned i = 0; i < N; i++) {
        records[i] = (struct btrail_record) { 0x1000 + i, 0x2000 + i, 0 };
    }
    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    s = symbolizer_new(&none, trace, NULL);
    options.names = s;
    g_assert_cmpint(call_reader_open(&reader, trace, &options), ==, 0);
    steps = call_reader_next(reader, &n);
    g_assert_cmpuint(n, ==, 2);
    for (unsigned i = 0; i < 2; i++) {
        const struct stack_part *part = &steps[i].part;

        g_assert_cmpint(steps[i].kind, ==, CALL_STEP_RECORDS);
        g_assert_cmpuint(steps[i].index, ==, 0);
        g_assert_cmpuint(part->first, ==, i ? N - 1 : 0);
        g_assert_cmpuint(part->n, ==, i ? 1 : N - 1);
        g_assert_cmpint(steps[i].last, ==, i);
        g_assert_cmphex(part->edges[0]->from, ==, 0x1000 + part->first);
        for (size_t k = 0; k < N; k++) {
            g_assert_cmpint(steps[i].counts[k], ==, k != 3);
        }
        g_assert_true(part->counts == steps[i].counts + part->first);
    }
    g_assert_null(call_reader_next(reader, &n));
    g_assert_cmpint(call_reader_close(reader, NULL), ==, 0);
    filter_free(filter);
    symbolizer_free(s);
    btrail_trace_close(trace);
    sample_remove(path);
}

/* Writes a stream with a clock before each @step of its @n records. */
static void write_clocks(struct btrail_writer *w, unsigned vcpu, unsigned n,
                         unsigned step, uint64_t first, uint64_t apart)
{
    g_autofree struct btrail_record *records =
        g_new0(struct btrail_record, n);
    g_autofree struct btrail_event *events = g_new0(struct btrail_event, n);
    struct btrail_slab slab = {
        .cr3 = 0x1000, .records = records, .n_records = n, .events = events,
    };

    for (unsigned i = 0; i < n; i++) {
        records[i] = (struct btrail_record) { 0x1000 + i, 0x2000 + i, 0 };
        if (i % step == 0) {
            events[slab.n_events++] = (struct btrail_event) {
                .type = BTRAIL_EVENT_TIME, .index = i,
                .data = { first + i / step * apart },
            };
        }
    }
    g_assert_cmpint(btrail_writer_append(w, vcpu, &slab), ==, 0);
}

/* What was recorded before a time is not read, and the rest has the same pace. */
static void test_from(void)
{
    char *path = sample_path();
    const struct symbolizer_options none = { NULL };
    struct symbolizer *s = symbolizer_new(&none, NULL, NULL);
    const uint64_t ms = 1000000, start = 1000 * ms;
    const struct call_reader_options options = {
        .names = s, .window = WINDOW_ALL(start), .from = start + 15 * ms,
        .tick = 10 * ms,
    };
    const struct call_step *steps;
    struct call_reader *reader;
    struct btrail_trace *trace;
    struct btrail_writer *w;
    uint64_t next[2] = { 20, 15 };
    size_t n;

    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    write_clocks(w, 0, 100, 10, start, 10 * ms);
    write_clocks(w, 1, 100, 1, start, ms);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_assert_cmpint(call_reader_open(&reader, trace, &options), ==, 0);
    while ((steps = call_reader_next(reader, &n))) {
        for (size_t i = 0; i < n; i++) {
            const struct call_step *step = &steps[i];

            if (step->kind == CALL_STEP_RECORDS) {
                g_assert_cmpuint(step->index + step->part.first, ==,
                                 next[step->vcpu]);
                g_assert_cmpuint(step->pace.time, ==,
                                 start + step->pace.begin * ms);
                g_assert_cmpuint(step->part.ticks, ==, ms * PACE_TICKS);
                next[step->vcpu] += step->part.n;
            }
        }
    }
    g_assert_cmpint(call_reader_close(reader, NULL), ==, 0);
    g_assert_cmpuint(next[0], ==, 100);
    g_assert_cmpuint(next[1], ==, 100);
    btrail_trace_close(trace);
    symbolizer_free(s);
    sample_remove(path);
}

/* A window has all records of a vCPU whose next clock is long after its end. */
static void test_window(void)
{
    char *path = sample_path();
    const struct symbolizer_options none = { NULL };
    struct symbolizer *s = symbolizer_new(&none, NULL, NULL);
    const uint64_t ms = 1000000, start = 1000 * ms;
    const struct call_reader_options options = {
        .names = s, .window = { start, 0, 20 * ms },
    };
    struct call_reader_sums sums = { 0 };
    struct call_reader *reader;
    struct btrail_trace *trace;
    struct btrail_writer *w;
    size_t n;

    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    write_clocks(w, 0, 200, 100, start, 100 * ms);
    write_clocks(w, 1, 100, 1, start, ms);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_assert_cmpint(call_reader_open(&reader, trace, &options), ==, 0);
    while (call_reader_next(reader, &n)) {
        continue;
    }
    g_assert_cmpint(call_reader_close(reader, &sums), ==, 0);
    g_assert_cmpuint(sums.records, ==, 100 + 20);
    btrail_trace_close(trace);
    symbolizer_free(s);
    sample_remove(path);
}

/* Reads all; the number of steps that are gaps */
static unsigned count_gaps(struct call_reader *reader)
{
    const struct call_step *steps;
    unsigned gaps = 0;
    size_t n;

    while ((steps = call_reader_next(reader, &n))) {
        for (size_t i = 0; i < n; i++) {
            gaps += steps[i].kind == CALL_STEP_GAP;
        }
    }
    return gaps;
}

/* Not each gap has lost something. */
static void test_gaps(void)
{
    static const uint64_t lost[] = { 0, 5, BTRAIL_LOST_UNKNOWN };
    static const uint64_t indices[] = { 0, 6, 7 };
    char *path = sample_path();
    const struct symbolizer_options none = { NULL };
    struct symbolizer *s = symbolizer_new(&none, NULL, NULL);
    const struct call_reader_options options = {
        .names = s, .window = WINDOW_ALL(0),
    };
    struct call_reader_sums sums = { 0 };
    struct btrail_record record = { 0x1000, 0x2000, 0 };
    struct call_reader *reader;
    struct btrail_trace *trace;
    struct btrail_writer *w;
    unsigned gaps;

    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    for (unsigned i = 0; i < G_N_ELEMENTS(lost); i++) {
        const struct btrail_event event = {
            .type = BTRAIL_EVENT_GAP, .index = indices[i], .data = { lost[i] },
            .reason = lost[i] ? BTRAIL_GAP_OVERFLOW : BTRAIL_GAP_RESET,
        };
        const struct btrail_slab slab = {
            .first_index = indices[i], .cr3 = 0x1000, .records = &record,
            .n_records = 1, .events = &event, .n_events = 1,
        };

        g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_assert_cmpint(call_reader_open(&reader, trace, &options), ==, 0);
    gaps = count_gaps(reader);
    g_assert_cmpint(call_reader_close(reader, &sums), ==, 0);
    g_assert_cmpuint(gaps, ==, 3);
    g_assert_cmpuint(sums.gaps, ==, 2);
    btrail_trace_close(trace);
    symbolizer_free(s);
    sample_remove(path);
}

/* Records of a damaged chunk are missing, which is said. */
static void test_damage(void)
{
    char *path = sample_path();
    const struct symbolizer_options none = { NULL };
    struct symbolizer *s = symbolizer_new(&none, NULL, NULL);
    const struct call_reader_options options = {
        .names = s, .window = WINDOW_ALL(0),
    };
    struct call_reader_sums sums = { 0 };
    struct call_reader *reader;
    struct btrail_trace *trace;
    g_autofree char *bytes = NULL;
    unsigned gaps;
    size_t size;

    sample_write(path, 4);
    g_assert_true(g_file_get_contents(path, &bytes, &size, NULL));
    bytes[size / 2] ^= 0x55;
    g_assert_true(g_file_set_contents(path, bytes, (gssize)size, NULL));
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_assert_cmpint(call_reader_open(&reader, trace, &options), ==, 0);
    gaps = count_gaps(reader);
    g_assert_cmpint(call_reader_close(reader, &sums), ==, 0);
    g_assert_cmpuint(sums.damage, ==, 1);
    g_assert_cmpuint(sums.records, ==, 7 * SAMPLE_CHUNK_RECORDS);
    g_assert_cmpuint(gaps, ==, 3);
    btrail_trace_close(trace);
    symbolizer_free(s);
    sample_remove(path);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/call-reader/random", test_random);
    g_test_add_func("/call-reader/long", test_long);
    g_test_add_func("/call-reader/stop", test_stop);
    g_test_add_func("/call-reader/parts", test_parts);
    g_test_add_func("/call-reader/from", test_from);
    g_test_add_func("/call-reader/window", test_window);
    g_test_add_func("/call-reader/gaps", test_gaps);
    g_test_add_func("/call-reader/damage", test_damage);
    return g_test_run();
}
