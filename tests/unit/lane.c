/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Lanes: what is read of them, and found in them, compared with all records
 * that were made
 */

#include <glib.h>
#include <string.h>

#include "gdb/lane.h"
#include "trace-samples.h"

#define VCPUS   3u
#define TASKS   4u
#define TURNS   400u
#define LONGEST 40u
#define N       (TURNS * LONGEST)
#define TICK    1000
/* That are read from, and looked for */
#define PLACES  (g_test_slow() ? 100u : 20u)
#define MOMENTS (g_test_slow() ? 300u : 60u)

/**
 * struct made - a record that the guest has made
 * @order:   of all
 * @lost:    the one before it is missing
 * @written: it is in the trace
 */
struct made {
    struct btrail_record record;
    uint64_t index;
    uint64_t cr3;
    uint64_t icount;
    uint64_t host;
    size_t order;
    unsigned vcpu;
    unsigned task;
    bool lost;
    bool written;
};

/* All records, in the order in which they were made */
static struct made all[N];
static size_t n_all;

/**
 * struct guest - what makes them
 * @tick: a vCPU has no TIME events sooner after each other
 * @next: index of the next record of each vCPU
 * @host: of the last TIME event of each vCPU
 */
struct guest {
    struct btrail_writer *writer;
    bool counted;
    uint64_t tick;
    uint64_t clock;
    uint64_t icount;
    uint64_t next[VCPUS];
    uint64_t host[VCPUS];
};

static uint64_t cr3_of(unsigned task)
{
    return 0x1000 * (task + 1);
}

static struct btrail_event name_task(uint64_t index, unsigned task)
{
    return (struct btrail_event) {
        .index = index, .type = BTRAIL_EVENT_TASK,
        .data = { (uint64_t)(task + 1) << 32 | (task + 1), 'a' + task },
    };
}

static void make_records(struct guest *g, unsigned vcpu, unsigned task,
                         struct btrail_record *records, size_t n, bool lost)
{
    for (size_t i = 0; i < n; i++) {
        struct made *m = &all[n_all++];

        g->icount += g_test_rand_int_range(1, 10);
        records[i] = (struct btrail_record) {
            n_all, 2 * n_all,
            g->counted ? g->icount << BTRAIL_RECORD_ICOUNT_SHIFT : 0,
        };
        *m = (struct made) {
            .record = records[i], .index = g->next[vcpu]++,
            .cr3 = cr3_of(task), .icount = g->icount, .host = g->host[vcpu],
            .order = n_all - 1, .vcpu = vcpu, .task = task,
            .lost = lost && !i, .written = true,
        };
    }
}

/* A task runs on a vCPU.  Records can be missing before, or without that an
 * event says that some happened otherwise. */
static void take_turn(struct guest *g, unsigned vcpu, unsigned task,
                      uint64_t lost, bool reset)
{
    size_t n = g_test_rand_int_range(1, LONGEST + 1);
    struct btrail_record records[LONGEST];
    struct btrail_event events[4];
    struct btrail_slab slab = {
        .first_index = g->next[vcpu] + lost, .records = records,
        .n_records = n, .events = events,
    };

    g->next[vcpu] += lost;
    if (lost || reset) {
        events[slab.n_events++] = (struct btrail_event) {
            .index = g->next[vcpu], .type = BTRAIL_EVENT_GAP,
            .reason = lost ? BTRAIL_GAP_OVERFLOW : BTRAIL_GAP_RESET,
            .data = { lost },
        };
    }
    if (!g->host[vcpu] || g->clock - g->host[vcpu] > g->tick) {
        g->host[vcpu] = g->clock;
        events[slab.n_events++] = (struct btrail_event) {
            .index = g->next[vcpu], .type = BTRAIL_EVENT_TIME,
            .data = { g->clock, 0, g->counted ? g->icount : BTRAIL_NO_ICOUNT },
        };
    }
    events[slab.n_events++] = name_task(g->next[vcpu], task);
    events[slab.n_events++] = (struct btrail_event) {
        .index = g->next[vcpu], .type = BTRAIL_EVENT_CR3,
        .data = { cr3_of(task) },
    };
    make_records(g, vcpu, task, records, n, lost || reset);
    g_assert_cmpint(btrail_writer_append(g->writer, vcpu, &slab), ==, 0);
    if (!g_test_rand_int_range(0, 10)) {
        g_assert_cmpint(btrail_writer_flush(g->writer), ==, 0);
    }
}

/* @longest: the most records that are missing at once; 0 for none */
static void write_trace(const char *path, bool counted, uint64_t tick,
                        unsigned longest)
{
    struct guest g = { .counted = counted, .tick = tick, .clock = 1000000 };
    unsigned vcpu = 0, task = 0;

    n_all = 0;
    g_assert_cmpint(btrail_writer_open(&g.writer, path, BTRAIL_WRITER_REPLACE),
                    ==, 0);
    for (unsigned i = 0; i < TURNS; i++) {
        bool lost = longest && !g_test_rand_int_range(0, 6);
        bool reset = longest && !g_test_rand_int_range(0, 20);

        /* Sometimes it continues where it was, or the host sleeps. */
        if (g_test_rand_int_range(0, 4)) {
            vcpu = g_test_rand_int_range(0, VCPUS);
            task = g_test_rand_int_range(0, TASKS);
        }
        g.clock += g_test_rand_int_range(0, 15) ?
                   g_test_rand_int_range(1, 900) : 3000000000;
        take_turn(&g, vcpu, task,
                  lost ? g_test_rand_int_range(1, longest) : 0, reset);
    }
    g_assert_cmpint(btrail_writer_close(g.writer), ==, 0);
}

/**
 * struct fixture
 * @known: of struct made: the records of the lane that are in the trace
 * @at:    where each of them is in the lane
 */
struct fixture {
    char *path;
    struct btrail_trace *trace;
    struct symbolizer *symbols;
    struct lane *lane;
    uint64_t tick;
    GArray *known;
    GArray *at;
};

static void setup(struct fixture *f, bool counted, unsigned longest)
{
    f->path = sample_path();
    write_trace(f->path, counted, f->tick, longest);
    g_assert_cmpint(btrail_trace_open(&f->trace, f->path), ==, 0);
    f->symbols = symbolizer_new(&(struct symbolizer_options) { NULL },
                                f->trace, NULL);
    f->known = g_array_new(FALSE, FALSE, sizeof(struct made));
    f->at = g_array_new(FALSE, FALSE, sizeof(struct lane_at));
}

static void drop_lane(struct fixture *f)
{
    lane_free(f->lane);
    f->lane = NULL;
    g_array_set_size(f->known, 0);
    g_array_set_size(f->at, 0);
}

static void teardown(struct fixture *f)
{
    drop_lane(f);
    symbolizer_free(f->symbols);
    btrail_trace_close(f->trace);
    g_array_unref(f->known);
    g_array_unref(f->at);
    sample_remove(f->path);
}

static const struct made *made_at(const struct fixture *f, size_t i)
{
    return &g_array_index(f->known, struct made, i);
}

static const struct lane_at *place_of(const struct fixture *f, size_t i)
{
    return &g_array_index(f->at, struct lane_at, i);
}

static void know(struct fixture *f, const struct made *m, size_t run,
                 bool lost)
{
    const struct lane_at at = { run, m->index };

    g_array_append_val(f->known, *m);
    g_array_append_val(f->at, at);
    g_array_index(f->known, struct made, f->known->len - 1).lost = lost;
}

static void know_vcpu(struct fixture *f, unsigned vcpu)
{
    bool lost = false;

    f->lane = lane_new_vcpu(f->trace, f->symbols, vcpu);
    g_assert_nonnull(f->lane);
    for (size_t i = 0; i < n_all; i++) {
        if (all[i].vcpu == vcpu) {
            lost |= all[i].lost || !all[i].written;
            if (all[i].written) {
                know(f, &all[i], 0, lost);
                lost = false;
            }
        }
    }
}

/* A run ends where records are missing, as others may have been made; and here
 * also before a few records, which are not of the lane. */
static bool continues(const struct lane_run *run, const struct made *m)
{
    return run && run->vcpu == m->vcpu && run->end == m->index;
}

static void know_task(struct fixture *f, unsigned task)
{
    GArray *runs = g_array_new(FALSE, FALSE, sizeof(struct lane_run));
    bool lost = false, before_lost[VCPUS] = { 0 };

    for (size_t i = 0; i < n_all; i++) {
        const struct made *m = &all[i];
        struct lane_run *last = runs->len ?
            &g_array_index(runs, struct lane_run, runs->len - 1) : NULL;

        if (m->task == task && g_test_rand_int_range(0, 50)) {
            const struct lane_run run = {
                m->vcpu, m->index, m->index + 1, { m->host, 0, m->icount },
            };

            if (continues(last, m)) {
                last->end++;
            } else {
                g_array_append_val(runs, run);
            }
            lost |= m->lost || !m->written || before_lost[m->vcpu];
            if (m->written) {
                know(f, m, runs->len - 1, lost);
                lost = false;
            }
        }
        before_lost[m->vcpu] = !m->written;
    }
    f->lane = lane_new(f->trace, f->symbols, runs);
}

static void check_record(const struct fixture *f, const struct lane_record *r,
                         size_t i)
{
    const struct made *m = made_at(f, i);
    const struct symbolizer_where where = {
        .vcpu = m->vcpu, .index = m->index, .cr3 = m->cr3, .time = m->host,
    };
    const struct symbolizer_where got = lane_where(r);
    enum btrail_certainty certainty;

    g_assert_cmpmem(&r->record, sizeof(r->record), &m->record,
                    sizeof(m->record));
    g_assert_cmpuint(r->at.run, ==, place_of(f, i)->run);
    g_assert_cmpuint(r->at.index, ==, m->index);
    g_assert_cmpuint(r->vcpu, ==, m->vcpu);
    g_assert_cmphex(r->cr3, ==, m->cr3);
    g_assert_cmpuint(r->time.host, ==, m->host);
    g_assert_true(r->task.known);
    g_assert_cmpuint(r->task.tid, ==, m->task + 1);
    g_assert_true(r->process == symbolizer_process(f->symbols, &where,
                                                   &certainty));
    g_assert_cmpuint(got.vcpu, ==, m->vcpu);
    g_assert_cmpuint(got.index, ==, m->index);
    g_assert_cmphex(got.cr3, ==, m->cr3);
    g_assert_cmpuint(got.time, ==, m->host);
    /* Before the lane nothing is known anyway. */
    g_assert_true(!i || r->lost == m->lost);
}

/* The last record up to a place; -1 if there is none */
static ssize_t last_up_to(const struct fixture *f, const struct lane_at *at)
{
    ssize_t i = f->at->len - 1;

    while (i >= 0 && lane_before(at, place_of(f, i))) {
        i--;
    }
    return i;
}

/* How many records before @i are less than @before indices away from @at */
static size_t near(const struct fixture *f, const struct lane_at *at, ssize_t i,
                   size_t before)
{
    const GArray *runs = lane_runs(f->lane);
    size_t n = 0;
    uint64_t far = 0;
    struct lane_at here = *at;

    for (ssize_t k = i - (i >= 0 && !lane_before(place_of(f, i), at)); k >= 0;
         k--) {
        const struct lane_at *to = place_of(f, k);

        while (here.run > to->run) {
            far += here.index + 1 -
                   g_array_index(runs, struct lane_run, here.run).begin;
            here.run--;
            here.index = g_array_index(runs, struct lane_run, here.run).end - 1;
        }
        far += here.index - to->index;
        here = *to;
        n += far <= before && k < i;
    }
    return n;
}

static void check_read(struct fixture *f, const struct lane_at *at,
                       size_t before, size_t after)
{
    ssize_t here, want = last_up_to(f, at);
    GArray *records = lane_read(f->lane, at, before, after, &here);
    size_t behind = f->known->len - 1 - want;

    g_assert_cmpint(here < 0, ==, want < 0);
    if (want >= 0) {
        g_assert_cmpint(here, <=, MAX(before, 1));
        g_assert_cmpint(here, >=, near(f, at, want, before));
        g_assert_cmpint(here, >=, MIN(want, 1));
        g_assert_cmpint(here, <=, want);
    }
    g_assert_cmpint((ssize_t)records->len - 1 - here, ==,
                    MIN(after, behind));
    for (size_t i = 0; i < records->len; i++) {
        check_record(f, &g_array_index(records, struct lane_record, i),
                     want - here + i);
    }
    lane_release(f->lane, records);
}

/* Also one that is missing */
static struct lane_at some_place(const struct fixture *f)
{
    const GArray *runs = lane_runs(f->lane);
    size_t run = g_test_rand_int_range(0, runs->len);
    const struct lane_run *r = &g_array_index(runs, struct lane_run, run);

    return (struct lane_at) {
        run, g_test_rand_int_range(r->begin, r->end),
    };
}

static void check_reads(struct fixture *f)
{
    static const size_t sizes[] = { 0, 1, 2, 7, 50, 300, N };
    const GArray *runs = lane_runs(f->lane);
    const struct lane_at begin = {
        0, g_array_index(runs, struct lane_run, 0).begin,
    };
    const struct lane_at end = {
        runs->len - 1,
        g_array_index(runs, struct lane_run, runs->len - 1).end - 1,
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(sizes); i++) {
        check_read(f, &begin, sizes[i], sizes[i]);
        check_read(f, &end, sizes[i], sizes[i]);
    }
    for (unsigned i = 0; i < PLACES; i++) {
        const struct lane_at at = some_place(f);

        check_read(f, &at, sizes[g_test_rand_int_range(0, 6)],
                   sizes[g_test_rand_int_range(0, 6)]);
    }
}

static void each_vcpu(struct fixture *f, void (*check)(struct fixture *f))
{
    for (unsigned vcpu = 0; vcpu < VCPUS; vcpu++) {
        know_vcpu(f, vcpu);
        check(f);
        drop_lane(f);
    }
}

static void each_task(struct fixture *f, void (*check)(struct fixture *f))
{
    for (unsigned task = 0; task < TASKS; task++) {
        know_task(f, task);
        check(f);
        drop_lane(f);
    }
}

static void each_lane(struct fixture *f, void (*check)(struct fixture *f))
{
    each_vcpu(f, check);
    each_task(f, check);
}

static void test_read(void)
{
    struct fixture f = { .tick = TICK };

    setup(&f, false, 0);
    each_lane(&f, check_reads);
    teardown(&f);
}

static void test_lost(void)
{
    static const unsigned longest[] = { 5, 500, 1000000 };

    for (unsigned i = 0; i < G_N_ELEMENTS(longest); i++) {
        struct fixture f = { .tick = TICK };

        setup(&f, false, longest[i]);
        each_lane(&f, check_reads);
        teardown(&f);
    }
}

/* The records that a damaged trace still has */
static void find_written(const struct fixture *f)
{
    uint64_t bad = 0;

    for (size_t i = 0; i < n_all; i++) {
        all[i].written = false;
    }
    for (unsigned vcpu = 0; vcpu < VCPUS; vcpu++) {
        struct btrail_cursor *cursor;
        struct btrail_batch b;
        size_t i = 0;

        g_assert_cmpint(btrail_cursor_open(&cursor, f->trace, vcpu, 0), ==, 0);
        while (!btrail_cursor_next(cursor, &b)) {
            for (size_t k = 0; k < b.count; k++, i++) {
                while (all[i].vcpu != vcpu || all[i].index != b.index + k) {
                    i++;
                }
                all[i].written = true;
            }
        }
        bad += btrail_cursor_bad_chunks(cursor);
        btrail_cursor_close(cursor);
    }
    g_assert_cmpuint(bad, >, 0);
}

/* Some bytes of the trace are others. */
static void damage(struct fixture *f)
{
    g_autofree char *bytes = NULL;
    gsize n;

    symbolizer_free(f->symbols);
    btrail_trace_close(f->trace);
    g_assert_true(g_file_get_contents(f->path, &bytes, &n, NULL));
    for (unsigned i = 1; i < 8; i++) {
        bytes[n / 9 * i] ^= 0x55;
    }
    g_assert_true(g_file_set_contents(f->path, bytes, n, NULL));
    g_assert_cmpint(btrail_trace_open(&f->trace, f->path), ==, 0);
    f->symbols = symbolizer_new(&(struct symbolizer_options) { NULL },
                                f->trace, NULL);
    find_written(f);
}

static void test_damaged(void)
{
    for (unsigned i = 0; i < 5; i++) {
        struct fixture f = { .tick = TICK };

        setup(&f, false, 0);
        damage(&f);
        each_lane(&f, check_reads);
        teardown(&f);
    }
}

static struct moment moment_of(const struct made *m, bool counted)
{
    return (struct moment) {
        .vcpu = m->vcpu, .index = m->index, .exact = counted,
        .icount = counted ? m->icount : BTRAIL_NO_ICOUNT,
        .time = { m->host, 0, counted ? m->icount : BTRAIL_NO_ICOUNT },
    };
}

static void require_in_run(const struct fixture *f, const struct lane_at *at)
{
    const GArray *runs = lane_runs(f->lane);
    const struct lane_run *run;

    g_assert_cmpuint(at->run, <, runs->len);
    run = &g_array_index(runs, struct lane_run, at->run);
    g_assert_cmpuint(at->index, >=, run->begin);
    g_assert_cmpuint(at->index, <, run->end);
}

static bool counts;

/* To the moment of any record of the guest */
static void check_find(struct fixture *f)
{
    for (unsigned i = 0; i < MOMENTS; i++) {
        size_t by = g_test_rand_int_range(0, n_all);
        const struct moment m = moment_of(&all[by], counts);
        const struct lane_at at = lane_find(f->lane, &m);
        ssize_t want = f->known->len - 1;

        while (want >= 0 && made_at(f, want)->order > by) {
            want--;
        }
        require_in_run(f, &at);
        g_assert_cmpint(MAX(last_up_to(f, &at), 0), ==, MAX(want, 0));
    }
}

static void find(bool counted, uint64_t tick, unsigned longest)
{
    struct fixture f = { .tick = tick };

    counts = counted;
    setup(&f, counted, longest);
    each_vcpu(&f, check_find);
    if (!tick) {
        each_task(&f, check_find);
    }
    teardown(&f);
}

/* Each turn has a time of its own. */
static void test_times(void)
{
    for (unsigned i = 0; i < 5; i++) {
        find(false, 0, 0);
        find(false, 0, 100);
    }
}

/* Counts are finer than ticks. */
static void test_counts(void)
{
    for (unsigned i = 0; i < 5; i++) {
        find(true, 0, 100);
        find(true, 1000, 0);
        find(true, 10000, 100);
    }
}

/* The index at which the lane of vCPU 3 of a sample is at a time of vCPU 0 */
static uint64_t index_at(const struct lane *l, uint64_t host)
{
    const struct moment m = {
        .vcpu = 0, .icount = BTRAIL_NO_ICOUNT,
        .time = { host, 0, BTRAIL_NO_ICOUNT },
    };
    const struct lane_at at = lane_find(l, &m);

    g_assert_cmpuint(at.run, ==, 0);
    return at.index;
}

/* All records of one time are up to it. */
static void test_same_time(void)
{
    const uint64_t lost = SAMPLE_CHUNK_RECORDS + SAMPLE_LOST;
    struct btrail_trace *trace;
    char *path = sample_path();
    struct lane *lane;

    sample_write(path, 3);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    lane = lane_new_vcpu(trace, NULL, 3);
    g_assert_cmpuint(index_at(lane, 1), ==, 0);
    g_assert_cmpuint(index_at(lane, 999999), ==, 0);
    /* No record is after the last one of a hole. */
    g_assert_cmpuint(index_at(lane, 1000000), >=, SAMPLE_CHUNK_RECORDS - 1);
    g_assert_cmpuint(index_at(lane, 1000000), <, lost);
    g_assert_cmpuint(index_at(lane, 2000000), ==,
                     lost + SAMPLE_CHUNK_RECORDS - 1);
    g_assert_cmpuint(index_at(lane, 2999999), ==,
                     lost + SAMPLE_CHUNK_RECORDS - 1);
    g_assert_cmpuint(index_at(lane, 3000000), ==,
                     lost + 2 * SAMPLE_CHUNK_RECORDS - 1);
    g_assert_cmpuint(index_at(lane, UINT64_MAX), ==,
                     lost + 2 * SAMPLE_CHUNK_RECORDS - 1);
    lane_free(lane);
    btrail_trace_close(trace);
    sample_remove(path);
}

struct walked {
    GArray *moments;
    unsigned vcpu;
};

static void take_moments(void *opaque, const struct btrail_batch *b)
{
    struct walked *w = opaque;

    for (size_t i = 0; !b->event && i < b->count; i++) {
        const struct moment at = moment_after(w->vcpu, b, i);

        g_array_append_val(w->moments, at);
    }
}

static GArray *moments_of(struct btrail_trace *trace, unsigned vcpu)
{
    struct walked w = {
        g_array_new(FALSE, FALSE, sizeof(struct moment)), vcpu,
    };
    struct clock_order *order = clock_order_of(trace);
    struct sample_end end;

    g_assert_true(sample_walk(trace, vcpu, take_moments, &w, &end));
    for (guint i = 0; i < w.moments->len; i++) {
        clock_order_stamp(order, &g_array_index(w.moments, struct moment, i));
    }
    clock_order_free(order);
    return w.moments;
}

/* Those of one time are in the order that is estimated, if it is asked for. */
static void test_estimated(void)
{
    struct btrail_trace *trace;
    char *path = sample_path();
    g_autoptr(GArray) own = NULL, others = NULL;
    struct lane *lane;

    sample_write(path, 3);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    own = moments_of(trace, 3);
    others = moments_of(trace, 0);
    lane = lane_new_vcpu(trace, NULL, 3);
    for (guint i = 0; i < others->len; i += 1 + i % 37) {
        const struct moment *m = &g_array_index(others, struct moment, i);
        uint64_t index = lane_find(lane, m).index;
        guint k = own->len - 1;

        while (k && g_array_index(own, struct moment, k).clock > m->clock) {
            k--;
        }
        /* The last one up to it, or one that is missing after that */
        g_assert_cmpuint(index, >=, g_array_index(own, struct moment,
                                                  k).index);
        if (k + 1 < own->len) {
            g_assert_cmpuint(index, <, g_array_index(own, struct moment,
                                                     k + 1).index);
        }
    }
    lane_free(lane);
    btrail_trace_close(trace);
    sample_remove(path);
}

/* A vCPU that is not in the trace, or has made no records */
static void test_none(void)
{
    const struct btrail_event event = {
        .type = BTRAIL_EVENT_TIME, .data = { 1, 0, BTRAIL_NO_ICOUNT },
    };
    const struct btrail_slab slab = { .events = &event, .n_events = 1 };
    struct btrail_writer *w;
    struct btrail_trace *trace;
    char *path = sample_path();

    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    g_assert_cmpint(btrail_writer_append(w, 1, &slab), ==, 0);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_assert_null(lane_new_vcpu(trace, NULL, 0));
    g_assert_null(lane_new_vcpu(trace, NULL, 1));
    btrail_trace_close(trace);
    sample_remove(path);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/lane/read", test_read);
    g_test_add_func("/lane/lost", test_lost);
    g_test_add_func("/lane/damaged", test_damaged);
    g_test_add_func("/lane/times", test_times);
    g_test_add_func("/lane/counts", test_counts);
    g_test_add_func("/lane/same-time", test_same_time);
    g_test_add_func("/lane/estimated", test_estimated);
    g_test_add_func("/lane/none", test_none);
    return g_test_run();
}
