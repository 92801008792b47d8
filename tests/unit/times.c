/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of analyze/times.h: each nanosecond counts once or not at all, as it
 * is in the window and in a span or not; and a call tree has the time of what
 * is chosen, whatever that is
 */
#include <inttypes.h>
#include <string.h>

#include "analyze/call-tree.h"
#include "cli/cli.h"
#include "trace-samples.h"

#define TICKS   ((uint64_t)STACK_TICKS)

enum { START = 1000, MOST = 200, SPANS = 12 };

/* Each nanosecond from START on */
static bool counted[MOST];

static void mark_window(const struct window *w)
{
    for (unsigned i = 0; i < MOST; i++) {
        counted[i] &= START + i >= w->start + w->begin &&
                      (w->end == UINT64_MAX || START + i < w->start + w->end);
    }
}

static void mark_spans(const GArray *spans)
{
    for (unsigned i = 0; i < MOST; i++) {
        counted[i] = !spans;
        for (guint k = 0; spans && k < spans->len; k++) {
            const struct times_span *s = &g_array_index(
                spans, struct times_span, k);

            counted[i] |= START + i >= s->begin && START + i < s->end;
        }
    }
}

static GArray *make_spans(void)
{
    GArray *spans = g_array_new(FALSE, FALSE, sizeof(struct times_span));

    for (int n = g_test_rand_int_range(0, SPANS); n; n--) {
        const uint64_t begin = START + g_test_rand_int_range(-20, MOST);
        const struct times_span s = {
            begin, begin + g_test_rand_int_range(-5, 40),
        };

        g_array_append_val(spans, s);
    }
    return spans;
}

/* What counts from one moment to another, in ticks after START */
static uint64_t want(uint64_t begin, uint64_t end)
{
    uint64_t n = 0;

    for (uint64_t i = 0; i < MOST; i++) {
        uint64_t from = MAX(begin, i * TICKS);
        uint64_t to = MIN(end, (i + 1) * TICKS);

        n += counted[i] && from < to ? to - from : 0;
    }
    return n;
}

static void ask(const struct times *t)
{
    const uint64_t ns = g_test_rand_int_range(0, MOST);
    const uint64_t host = START + ns, left = (MOST - ns) * TICKS;
    const uint64_t begin = g_test_rand_int_range(0, left);
    const uint64_t end = g_test_rand_int_range(begin, left);
    const uint64_t before = ns * TICKS;
    const uint64_t same = times_same(t, host, begin);
    uint64_t n;
    bool any = false;

    g_assert_cmpuint(times_count(t, host, begin, end), ==,
                     want(before + begin, before + end));
    g_assert_cmpuint(times_count(t, host, begin, begin), ==, 0);
    g_assert_cmpuint(times_between(t, host, START + MOST), ==,
                     want(before, MOST * TICKS));
    g_assert_cmpuint(times_between(t, host, host), ==, 0);
    g_assert_cmpuint(times_between(t, host, host - 1), ==, 0);
    g_assert_cmpuint(same, >, 0);
    n = MIN(same, left - begin);
    g_assert_cmpuint(want(before + begin, before + begin + n), ==,
                     counted[ns + begin / TICKS] ? n : 0);
    /* It ends where something else begins, which can be after all this. */
    if (same < left - begin) {
        g_assert_cmpint(counted[ns + begin / TICKS], !=,
                        counted[ns + (begin + same) / TICKS]);
    }
    for (uint64_t i = ns; i < MOST; i++) {
        any |= counted[i];
    }
    if (any) {
        g_assert_true(times_after(t, host));
    }
}

static void test_random(void)
{
    for (unsigned round = 0; round < 500; round++) {
        const uint64_t begin = g_test_rand_int_range(0, MOST);
        const struct window all = WINDOW_ALL(START), window = {
            START, begin, g_test_rand_bit() ? UINT64_MAX :
                          begin + g_test_rand_int_range(0, MOST),
        };
        const struct window *w = round & 1 ? &all : &window;
        g_autoptr(GArray) spans = round & 2 ? make_spans() : NULL;
        struct times *t = times_new(w, spans);

        mark_spans(spans);
        mark_window(w);
        for (unsigned i = 0; i < 50; i++) {
            ask(t);
        }
        times_free(t);
    }
}

/* No spans are something else than no choice of spans. */
static void test_none(void)
{
    g_autoptr(GArray) none = g_array_new(FALSE, FALSE,
                                         sizeof(struct times_span));
    struct times *t = times_new(&WINDOW_ALL(START), none);

    g_assert_false(times_after(t, 0));
    g_assert_cmpuint(times_count(t, 0, 0, UINT64_MAX), ==, 0);
    g_assert_cmpuint(times_same(t, 0, 0), ==, UINT64_MAX);
    times_free(t);
    times_free(NULL);
}

/* Without a window, times before the start and unknown ones count, too. */
static void test_all(void)
{
    struct times *t = times_new(&WINDOW_ALL(START), NULL);

    g_assert_true(times_after(t, 0));
    g_assert_true(times_after(t, UINT64_MAX - 1));
    g_assert_cmpuint(times_count(t, 0, 5, 50), ==, 45);
    /* More than there is of ticks */
    g_assert_cmpuint(times_between(t, 0, UINT64_MAX), ==,
                     UINT64_MAX / TICKS * TICKS);
    g_assert_cmpuint(times_count(t, UINT64_MAX / 2, 5, 50), ==, 45);
    g_assert_cmpuint(times_same(t, 0, 7), ==, UINT64_MAX);
    times_free(t);
}

/* Hostile times and windows: nothing overflows. */
static void test_far(void)
{
    const struct window windows[] = {
        { UINT64_MAX - 5, 10, 20 }, { UINT64_MAX - 5, 3, UINT64_MAX },
        { 0, UINT64_MAX, UINT64_MAX }, { UINT64_MAX, 0, 1 },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(windows); i++) {
        struct times *t = times_new(&windows[i], NULL);
        uint64_t count = times_count(t, UINT64_MAX - 100, 0, UINT64_MAX);

        g_assert_cmpuint(count, <=, 5 * TICKS);
        g_assert_cmpuint(times_count(t, UINT64_MAX, 0, UINT64_MAX), ==, 0);
        g_assert_cmpuint(times_between(t, UINT64_MAX - 100, UINT64_MAX), ==,
                         count);
        g_assert_cmpuint(times_count(t, 0, UINT64_MAX - 1, UINT64_MAX), <=, 1);
        g_assert_cmpuint(times_same(t, 0, UINT64_MAX - 1), >, 0);
        times_free(t);
    }
}

/*
 * The time of two vCPUs, which wait now and then: what each record took, and
 * what the vCPU waited after it, as the trace has it
 */

enum {
    CPUS = 2, GROUPS = 300, MOST_RECORDS = 40, TASKS = 3, TICK_NS = 1000000,
};
#define BEGIN   UINT64_C(7000000000)

/**
 * struct piece - in 1/STACK_TICKS ns after BEGIN
 * @index: of the record that it is of
 * @time:  of that record's TIME event, in ns after BEGIN
 * @task:  from 1 on; its CR3 is 0x1000 times that
 * @waits: the vCPU waited after it
 */
struct piece {
    unsigned vcpu;
    uint64_t index;
    uint64_t begin;
    uint64_t end;
    uint64_t time;
    unsigned task;
    bool waits;
};

/* @clocks: of each vCPU's TIME events, in ns after BEGIN */
struct pieces {
    GArray *all;
    GArray *clocks[CPUS];
};

/* Adds the records of a group that takes so long, in ns.  If that is too long,
 * the vCPU waits after the last one. */
static void add_pieces(struct pieces *p, struct piece *now, unsigned n,
                       uint64_t took)
{
    uint64_t busy = n ? MIN(took, 2 * TICK_NS) : 0;
    uint64_t each = n ? busy * TICKS / n : 0;
    struct piece wait;

    for (unsigned i = 0; i < n; i++) {
        now->begin = now->time * TICKS + i * each;
        now->end = now->begin + each;
        g_array_append_val(p->all, *now);
        now->index++;
    }
    wait = *now;
    wait.index--;
    wait.waits = true;
    wait.begin = (now->time + busy) * TICKS;
    wait.end = (now->time + took) * TICKS;
    if (took > busy) {
        g_array_append_val(p->all, wait);
    }
}

static void write_group(struct btrail_writer *w, const struct piece *now,
                        unsigned n)
{
    struct btrail_record records[MOST_RECORDS];
    const struct btrail_event event = {
        .type = BTRAIL_EVENT_TIME, .index = now->index,
        .data = { BEGIN + now->time, 0, BTRAIL_NO_ICOUNT },
    };
    const struct btrail_slab slab = {
        .first_index = now->index, .cr3 = 0x1000 * now->task,
        .records = records, .n_records = n, .events = &event, .n_events = 1,
    };

    for (unsigned i = 0; i < n; i++) {
        records[i].from = 0x100000 + 0x100 * g_test_rand_int_range(0, 8);
        records[i].to = records[i].from - 0x10;
        records[i].flags = 0;
    }
    g_assert_cmpint(btrail_writer_append(w, now->vcpu, &slab), ==, 0);
}

static void write_end(struct btrail_writer *w, const struct piece *now)
{
    const struct btrail_event end = {
        .type = BTRAIL_EVENT_END, .reason = BTRAIL_END_STOPPED,
        .index = now->index, .data = { BEGIN + now->time },
    };
    const struct btrail_slab slab = {
        .first_index = now->index, .cr3 = 0x1000 * now->task,
        .events = &end, .n_events = 1,
    };

    g_assert_cmpint(btrail_writer_append(w, now->vcpu, &slab), ==, 0);
}

static void write_pieces(struct btrail_writer *w, struct pieces *p,
                         unsigned vcpu)
{
    struct piece now = { .vcpu = vcpu, .time = vcpu * 12345 };

    p->clocks[vcpu] = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    for (unsigned i = 0; i < GROUPS; i++) {
        unsigned n = !i || g_test_rand_int_range(0, 8) ?
                     g_test_rand_int_range(1, MOST_RECORDS + 1) : 0;
        uint64_t took = g_test_rand_int_range(
            1, (g_test_rand_int_range(0, 4) ? 2 : 50) * TICK_NS);

        /* Without a record, it is still the task of the one before. */
        if (n) {
            now.task = g_test_rand_int_range(1, TASKS + 1);
        }
        g_array_append_val(p->clocks[vcpu], now.time);
        write_group(w, &now, n);
        add_pieces(p, &now, n, took);
        now.time += took;
    }
    g_array_append_val(p->clocks[vcpu], now.time);
    write_end(w, &now);
}

/* The trace, and what is in it */
struct timed {
    struct pieces all;
    char *path;
    struct cli_trace trace;
};

static void make_timed(struct timed *t)
{
    g_autofree char *meta = g_strdup_printf(
        "{\"tick_ns\": %d, \"privilege\": \"all\", \"start\": "
        "{\"monotonic\": %" PRIu64 "}}", TICK_NS, BEGIN);
    char *path = sample_path(), *paths[] = { path, NULL };
    struct btrail_writer *w;

    t->path = path;
    t->all.all = g_array_new(FALSE, FALSE, sizeof(struct piece));
    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    g_assert_cmpint(btrail_writer_meta(w, meta, strlen(meta)), ==, 0);
    for (unsigned i = 0; i < CPUS; i++) {
        write_pieces(w, &t->all, i);
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_true(cli_trace_open(&t->trace, paths));
    g_assert_cmpuint(t->trace.start, ==, BEGIN);
    g_assert_cmpuint(t->trace.tick, ==, TICK_NS);
}

static void clear_timed(struct timed *t)
{
    cli_trace_close(&t->trace);
    g_array_unref(t->all.all);
    for (unsigned i = 0; i < CPUS; i++) {
        g_array_unref(t->all.clocks[i]);
    }
    sample_remove(t->path);
}

/**
 * struct choice - what is chosen
 * @task:  0: records of all
 * @cpu:   -1: of all
 * @begin, @end: the window, in ns after BEGIN; all if @end is UINT64_MAX
 * @spans: of struct times_span; or NULL
 * @whole: they have all records of all vCPUs; otherwise only those of task @of
 */
struct choice {
    unsigned task;
    int cpu;
    uint64_t begin;
    uint64_t end;
    GArray *spans;
    bool whole;
    unsigned of;
};

#define CHOOSE_ALL  ((struct choice) { .cpu = -1, .end = UINT64_MAX })

static const struct times_span *span_at(const struct choice *c, guint i)
{
    return &g_array_index(c->spans, struct times_span, i);
}

/* How much of a piece is in the window, and in a span that has no time in
 * common with others */
static uint64_t time_within(const struct choice *c, const struct piece *p)
{
    const struct times_span all = { BEGIN, UINT64_MAX };
    uint64_t sum = 0;

    for (guint i = 0; i < (c->spans ? c->spans->len : 1); i++) {
        const struct times_span *s = c->spans ? span_at(c, i) : &all;
        uint64_t from = MAX(s->begin - BEGIN, c->begin) * TICKS;
        uint64_t to = MIN(s->end - BEGIN, c->end);

        from = MAX(from, p->begin);
        to = MIN(to > UINT64_MAX / TICKS ? UINT64_MAX : to * TICKS, p->end);
        sum += from < to ? to - from : 0;
    }
    return sum;
}

/* Is a record in a span, that is, does it begin there? */
static bool is_within(const struct choice *c, const struct piece *record)
{
    const uint64_t time = BEGIN + record->begin / TICKS;
    bool in = !c->spans;

    for (guint i = 0; c->spans && i < c->spans->len; i++) {
        const struct times_span *s = span_at(c, i);

        in |= time >= s->begin && time < s->end &&
              (c->whole || record->task == c->of);
    }
    return in;
}

/* What is to be counted */
static uint64_t want_ticks(const struct choice *c, const struct pieces *all)
{
    const struct piece *record = NULL;
    uint64_t sum = 0;

    for (guint i = 0; i < all->all->len; i++) {
        const struct piece *p = &g_array_index(all->all, struct piece, i);
        bool chosen;

        record = p->waits ? record : p;
        chosen = p->waits ? c->whole || is_within(c, record) :
                 is_within(c, p) && p->time >= c->begin && p->time < c->end;
        if (chosen && (!c->task || p->task == c->task) &&
            (c->cpu < 0 || p->vcpu == (unsigned)c->cpu)) {
            sum += time_within(c, p);
        }
    }
    return sum;
}

static struct record_set *set_of(const struct choice *c,
                                 const struct pieces *all)
{
    struct record_set *set = record_set_new();

    for (guint i = 0; i < all->all->len; i++) {
        const struct piece *p = &g_array_index(all->all, struct piece, i);

        if (!p->waits && is_within(c, p)) {
            record_set_add(set, p->vcpu, p->index, p->index + 1);
        }
    }
    record_set_seal(set);
    return set;
}

static struct filter *filter_of(const struct choice *c,
                                const struct record_set *set)
{
    g_autoptr(GString) text = g_string_new("index >= 0");
    struct filter *f;

    if (!c->task && c->cpu < 0) {
        return set ? filter_within(NULL, set) : NULL;
    }
    if (c->task) {
        g_string_append_printf(text, " && cr3 == 0x%x", 0x1000 * c->task);
    }
    if (c->cpu >= 0) {
        g_string_append_printf(text, " && cpu == %d", c->cpu);
    }
    f = filter_parse(text->str, NULL);
    g_assert_nonnull(f);
    return set ? filter_within(f, set) : f;
}

static uint64_t tree_ticks(const struct call_tree *t)
{
    g_autofree struct call_sum *sums = call_tree_sums(t);
    const struct stack_node *n;
    uint64_t ticks = 0;

    for (n = stacks_roots(t->stacks); n; n = n->next) {
        ticks += sums[n->id].ticks;
    }
    return ticks;
}

/* What is counted */
static uint64_t count_ticks(const struct choice *c, const struct timed *t)
{
    const struct symbolizer_options none = { NULL };
    struct symbolizer *s = symbolizer_new(&none, t->trace.trace, NULL);
    struct record_set *set = c->spans ? set_of(c, &t->all) : NULL;
    struct filter *f = filter_of(c, set);
    const struct window window = { BEGIN, c->begin, c->end };
    struct times *times = c->spans ? times_new(&window, c->spans) : NULL;
    const struct call_tree_options options = {
        .names = s, .filter = f, .window = window, .times = times,
        .whole = c->whole, .tick = TICK_NS,
    };
    struct call_tree tree;
    uint64_t ticks;

    g_assert_cmpint(call_tree_read(&tree, t->trace.trace, &options), ==, 0);
    ticks = tree_ticks(&tree);
    call_tree_clear(&tree);
    times_free(times);
    filter_free(f);
    record_set_free(set);
    symbolizer_free(s);
    return ticks;
}

static void check_choice(const struct choice *c, const struct timed *t)
{
    g_test_message("task %u of cpu %d in %" PRIu64 "..%" PRIu64 ", %u spans "
                   "of %u", c->task, c->cpu, c->begin, c->end,
                   c->spans ? c->spans->len : 0, c->whole ? 0 : c->of);
    g_assert_cmpuint(count_ticks(c, t), ==, want_ticks(c, &t->all));
}

static uint64_t random_clock(const struct pieces *all, unsigned vcpu)
{
    const GArray *clocks = all->clocks[vcpu];

    return g_array_index(clocks, uint64_t,
                         g_test_rand_int_range(0, clocks->len));
}

/* Some spans, one after another; the next one can begin where one ends. */
static GArray *random_spans(const struct pieces *all)
{
    GArray *spans = g_array_new(FALSE, FALSE, sizeof(struct times_span));
    uint64_t at = BEGIN + random_clock(all, 0) / 4;

    for (int n = g_test_rand_int_range(1, 6); n; n--) {
        const struct times_span s = {
            at, at + g_test_rand_int_range(1, 30 * TICK_NS),
        };

        g_array_append_val(spans, s);
        at = s.end + g_test_rand_int_range(0, 20) * TICK_NS;
    }
    return spans;
}

static void random_choice(struct choice *c, const struct pieces *all)
{
    *c = CHOOSE_ALL;
    c->task = g_test_rand_int_range(0, TASKS + 1);
    c->cpu = g_test_rand_int_range(-1, CPUS);
    if (g_test_rand_bit()) {
        c->begin = random_clock(all, 1) + g_test_rand_int_range(0, 5000);
        c->end = c->begin + g_test_rand_int_range(1, 200 * TICK_NS);
    }
    if (g_test_rand_int_range(0, 3)) {
        c->spans = random_spans(all);
        c->whole = g_test_rand_bit();
        c->of = g_test_rand_int_range(1, TASKS + 1);
    }
}

/* Whatever is chosen, the time is that of what is chosen. */
static void test_chosen(void)
{
    for (unsigned round = 0; round < 4; round++) {
        struct choice c = CHOOSE_ALL;
        struct timed t;

        make_timed(&t);
        check_choice(&c, &t);
        for (unsigned i = 0; i < 60; i++) {
            random_choice(&c, &t.all);
            check_choice(&c, &t);
            g_clear_pointer(&c.spans, g_array_unref);
        }
        clear_timed(&t);
    }
}

/* The tasks of a vCPU have all the time of a window, and no more. */
static void test_window(void)
{
    struct timed t;

    make_timed(&t);
    for (unsigned i = 0; i < 40; i++) {
        struct choice c = { .cpu = i % CPUS };
        const GArray *clocks = t.all.clocks[c.cpu];
        unsigned from = g_test_rand_int_range(0, clocks->len - 1);
        unsigned to = g_test_rand_int_range(from + 1, clocks->len);
        /* The time of each record is rounded down. */
        const uint64_t rounded = (to - from + 2) * MOST_RECORDS;
        uint64_t took, sum = 0;

        /* Records are in a window if the clocks before them are. */
        c.begin = g_array_index(clocks, uint64_t, from);
        c.end = g_array_index(clocks, uint64_t, to);
        took = (c.end - c.begin) * TICKS;
        for (c.task = 1; c.task <= TASKS; c.task++) {
            sum += count_ticks(&c, &t);
        }
        g_assert_cmpuint(sum, <=, took);
        g_assert_cmpuint(sum + rounded, >=, took);
        c.task = 0;
        g_assert_cmpuint(count_ticks(&c, &t), ==, sum);
        /* Elsewhere, up to two ticks are missing at the beginning. */
        c.begin += 1;
        c.end += 1;
        sum = count_ticks(&c, &t);
        g_assert_cmpuint(sum, <=, took);
        g_assert_cmpuint(sum + rounded + (2 * TICK_NS + 1) * TICKS, >=, took);
    }
    clear_timed(&t);
}

/* 10 ms of two vCPUs are never more than 20 ms, and as many with all records,
 * but for one of each that has begun before. */
static void test_spans(void)
{
    enum { LONG = 10000000 };
    const uint64_t most = CPUS * LONG * TICKS;
    struct timed t;

    make_timed(&t);
    for (unsigned i = 0; i < 40; i++) {
        const uint64_t begin = BEGIN + random_clock(&t.all, 0) / 2 + 100000 + i;
        const struct times_span span = { begin, begin + LONG };
        struct choice c = CHOOSE_ALL;
        uint64_t sum = 0;

        c.spans = g_array_new(FALSE, FALSE, sizeof(span));
        g_array_append_val(c.spans, span);
        for (c.of = 1; c.of <= TASKS; c.of++) {
            sum += count_ticks(&c, &t);
        }
        g_assert_cmpuint(sum, <=, most);
        c.whole = true;
        sum = count_ticks(&c, &t);
        g_assert_cmpuint(sum, <=, most);
        g_assert_cmpuint(sum + CPUS * (2 * TICK_NS + 1000) * TICKS, >=, most);
        g_array_unref(c.spans);
    }
    clear_timed(&t);
}

/* Time without that of other spans: each nanosecond by itself */
static void test_except(void)
{
    GRand *rand = g_rand_new_with_seed(5);

    for (unsigned round = 0; round < 200; round++) {
        g_autoptr(GArray) in = g_array_new(FALSE, FALSE,
                                           sizeof(struct times_span));
        g_autoptr(GArray) out = g_array_new(FALSE, FALSE,
                                            sizeof(struct times_span));
        const struct window window = WINDOW_ALL(0);
        bool counts[256] = { false };
        struct times *t, *rest;
        uint64_t at = 0;

        for (unsigned i = 0; i < 5; i++) {
            uint64_t begin = g_rand_int_range(rand, 0, 200);
            const struct times_span span = {
                begin, begin + g_rand_int_range(rand, 1, 50),
            };

            g_array_append_val(in, span);
            for (uint64_t k = span.begin; k < span.end; k++) {
                counts[k] = true;
            }
        }
        for (unsigned i = 0; i < 5; i++) {
            const struct times_span span = {
                at + g_rand_int_range(rand, 1, 30),
                at + g_rand_int_range(rand, 31, 50),
            };

            g_array_append_val(out, span);
            at = span.end;
            for (uint64_t k = span.begin; k < span.end && k < 256; k++) {
                counts[k] = false;
            }
        }
        t = times_new(&window, in);
        rest = times_except(t, &window, out);
        for (uint64_t k = 0; k < 256; k++) {
            g_assert_cmpuint(times_count(rest, k, 0, 1024), ==,
                             counts[k] ? 1024 : 0);
        }
        times_free(rest);
        rest = times_except(NULL, &window, out);
        g_assert_cmpuint(times_count(rest, 0, 0, 1024), ==, 1024);
        g_assert_cmpuint(times_count(rest, g_array_index(
            out, struct times_span, 2).begin, 0, 1024), ==, 0);
        g_assert_true(times_after(rest, UINT64_MAX - 1));
        times_free(rest);
        times_free(t);
    }
    g_rand_free(rand);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/times/random", test_random);
    g_test_add_func("/times/except", test_except);
    g_test_add_func("/times/none", test_none);
    g_test_add_func("/times/all", test_all);
    g_test_add_func("/times/far", test_far);
    g_test_add_func("/times/chosen", test_chosen);
    g_test_add_func("/times/window", test_window);
    g_test_add_func("/times/spans", test_spans);
    return g_test_run();
}
