/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How long threads ran and were off their vCPUs: random ones that take turns on
 * two vCPUs, against lists of what each of them did
 */

#include <string.h>

#include "analyze/thread-times.h"
#include "trace-samples.h"

#define VCPUS   2u
#define THREADS 6u              /* the first one is the idle task */
#define TURNS   600u
#define MOST    60              /* records of a turn */
#define EACH    1000u           /* ns that a record takes */
#define START   5000000u
#define FOREVER UINT64_MAX

enum { COULD_RUN, BLOCKED, WOKEN };

/*
 * @free: it does not run from then on, of which it has left @vcpu, as @state says;
 * @woken: when it was woken
 */
struct actor {
    uint64_t ran;
    uint64_t switches;
    GArray *off;
    uint64_t free;
    int state;
    uint64_t woken;
    uint64_t waited;
    uint64_t waits_unknown;
    uint64_t first;
    uint64_t last;
    unsigned vcpu;
    bool seen;
    bool left;
};

struct stage {
    struct actor actors[THREADS];
    struct btrail_writer *writer;
    uint64_t clocks[VCPUS];
    uint64_t index[VCPUS];
    unsigned running[VCPUS];
    struct window window;
    GRand *rand;
    bool silent;                /* nobody says who is woken */
};

static void add_event(struct btrail_slab *slab, struct btrail_event *events,
                      uint64_t index, enum btrail_event_type type,
                      uint16_t reason, uint64_t data)
{
    events[slab->n_events++] = (struct btrail_event) {
        .index = index, .type = type, .reason = reason, .data = { data },
    };
}

static void add_time(struct stage *s, unsigned vcpu, struct btrail_slab *slab,
                     struct btrail_event *events)
{
    add_event(slab, events, s->index[vcpu], BTRAIL_EVENT_TIME, 0,
              s->clocks[vcpu]);
    events[slab->n_events - 1].data[2] = BTRAIL_NO_ICOUNT;
}

/* The part of a time that is in the window */
static uint64_t in_window(const struct stage *s, uint64_t begin, uint64_t end)
{
    uint64_t from = s->window.start + s->window.begin;
    uint64_t to = s->window.end == FOREVER ? FOREVER :
                  s->window.start + s->window.end;

    begin = MAX(begin, from);
    end = MIN(end, to);
    return begin < end ? end - begin : 0;
}

static void add_ran(const struct stage *s, struct actor *a, uint64_t begin,
                    uint64_t end)
{
    uint64_t ns = in_window(s, begin, end);

    a->ran += ns;
    if (ns) {
        begin = MAX(begin, s->window.start + s->window.begin);
        a->first = a->first ? MIN(a->first, begin) : begin;
        a->last = MAX(a->last, begin + ns);
    }
}

static void leave(struct stage *s, unsigned vcpu)
{
    struct actor *a = &s->actors[s->running[vcpu]];

    if (s->running[vcpu] && s->running[vcpu] < THREADS) {
        a->left = true;
        a->free = s->clocks[vcpu];
        a->switches++;
        a->state = g_rand_boolean(s->rand) ? BLOCKED : COULD_RUN;
    }
}

/* The thread on a vCPU wakes one of those that are blocked. */
static unsigned wake(struct stage *s, unsigned vcpu)
{
    unsigned thread = g_rand_int_range(s->rand, 0, THREADS);
    struct actor *a = &s->actors[thread];

    if (s->silent) {
        return 0;
    }
    if (s->index[0] + s->index[1] == 0) {
        return THREADS;         /* somebody who never runs */
    }
    if (!a->left || a->state != BLOCKED || a->free >= s->clocks[vcpu]) {
        return 0;
    }
    a->state = WOKEN;
    a->woken = s->clocks[vcpu];
    return thread;
}

static void come(struct stage *s, unsigned thread, unsigned vcpu)
{
    struct actor *a = &s->actors[thread];
    uint64_t ns = in_window(s, a->free, s->clocks[vcpu]);

    /* After the window, nobody looks whether it comes back. */
    if (thread && a->left && (ns || a->free == s->clocks[vcpu]) &&
        (s->window.end == FOREVER ||
         s->clocks[vcpu] < s->window.start + s->window.end)) {
        g_array_append_val(a->off, ns);
        if (a->state == BLOCKED) {
            /* Who is back was woken: not before, as far as can be seen. */
            a->waits_unknown += s->silent;
        } else {
            a->waited += in_window(s, a->state == WOKEN ? a->woken : a->free,
                                   s->clocks[vcpu]);
        }
    }
    a->left = false;
    a->free = FOREVER;
    s->running[vcpu] = thread;
}

/* A thread runs for a while, without a wait since the one before. */
static void play(struct stage *s, GRand *rand, unsigned vcpu, unsigned thread)
{
    static struct btrail_record records[MOST];
    struct btrail_event events[3];
    unsigned woken, before = s->running[vcpu];
    struct btrail_slab slab = {
        .first_index = s->index[vcpu], .cr3 = 0x5000, .events = events,
        .records = records, .n_records = g_rand_int_range(rand, 1, MOST),
    };
    uint64_t ns = slab.n_records * EACH;

    s->rand = rand;
    if (thread != s->running[vcpu]) {
        leave(s, vcpu);
        come(s, thread, vcpu);
    }
    add_time(s, vcpu, &slab, events);
    add_event(&slab, events, s->index[vcpu], BTRAIL_EVENT_TASK, 0,
              thread ? UINT64_C(10) << 32 | (10 + thread) : 0);
    memcpy(&events[1].data[1], thread % 2 ? "odd" : "even", 4);
    if (before && before < THREADS && s->actors[before].left) {
        events[1].reason = s->actors[before].state == BLOCKED ?
                           BTRAIL_TASK_LEFT_BLOCKED : BTRAIL_TASK_LEFT_RUNNABLE;
    }
    woken = wake(s, vcpu);
    if (woken) {
        add_event(&slab, events, s->index[vcpu], BTRAIL_EVENT_WAKE, 0,
                  UINT64_C(10) << 32 | (10 + woken));
    }
    g_assert_cmpint(btrail_writer_append(s->writer, vcpu, &slab), ==, 0);
    add_ran(s, &s->actors[thread], s->clocks[vcpu], s->clocks[vcpu] + ns);
    s->clocks[vcpu] += ns;
    s->index[vcpu] += slab.n_records;
}

/* The next turn is of the vCPU that is behind, and of a thread that is free. */
static void turn(struct stage *s, GRand *rand)
{
    unsigned vcpu = s->clocks[1] < s->clocks[0];
    unsigned thread = g_rand_int_range(rand, 0, THREADS);

    if (thread && thread != s->running[vcpu] &&
        (thread == s->running[!vcpu] || (s->actors[thread].left &&
                                         s->actors[thread].free >
                                         s->clocks[vcpu]))) {
        thread = 0;
    }
    play(s, rand, vcpu, thread);
}

static void finish(struct stage *s)
{
    for (unsigned v = 0; v < VCPUS; v++) {
        struct btrail_event events[2];
        struct btrail_slab slab = {
            .first_index = s->index[v], .cr3 = 0x5000, .events = events,
        };

        add_time(s, v, &slab, events);
        add_event(&slab, events, s->index[v], BTRAIL_EVENT_END,
                  BTRAIL_END_STOPPED, s->clocks[v]);
        g_assert_cmpint(btrail_writer_append(s->writer, v, &slab), ==, 0);
    }
    g_assert_cmpint(btrail_writer_close(s->writer), ==, 0);
}

static gint by_size(gconstpointer a, gconstpointer b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static void check_row(const struct stage *s, const struct thread_time *t)
{
    const struct actor *a = &s->actors[t->task.tid ? t->task.tid - 10 : 0];
    uint64_t sum = 0;

    g_assert_true(t->task.known);
    g_assert_cmpuint(t->ran, ==, a->ran);
    g_assert_cmpuint(t->first, ==, a->first);
    g_assert_cmpuint(t->last, ==, a->last);
    g_assert_true(t->followed == (t->task.tid > 0));
    g_assert_cmpuint(t->unknown, ==, 0);
    if (!t->followed) {
        return;
    }
    g_assert_cmpuint(t->task.pid, ==, 10);
    g_assert_cmpstr(t->task.name, ==, t->task.tid % 2 ? "odd" : "even");
    g_array_sort(a->off, by_size);
    for (guint i = 0; i < a->off->len; i++) {
        sum += g_array_index(a->off, uint64_t, i);
    }
    g_assert_cmpuint(t->off_sum, ==, sum);
    g_assert_cmpuint(t->waited, ==, a->waited);
    g_assert_cmpuint(t->waits_unknown, ==, a->waits_unknown);
    g_assert_cmpuint(t->waited_max, <=, t->waited);
    g_assert_cmpuint(histogram_count(t->off), ==, a->off->len);
    if (a->off->len) {
        g_assert_cmpuint(histogram_max(t->off), ==,
                         g_array_index(a->off, uint64_t, a->off->len - 1));
    }
    if (s->window.end == FOREVER) {
        g_assert_cmpuint(t->switches, ==, a->switches);
        g_assert_true(t->away == a->left);
        g_assert_cmpuint(t->away_ns, ==, !a->left ? 0 : in_window(
            s, a->free, MAX(s->clocks[0], s->clocks[1])));
    }
}

static void stage_init(struct stage *s, const char *path)
{
    *s = (struct stage) {
        .clocks = { START, START }, .running = { THREADS, THREADS },
        .window = WINDOW_ALL(START),
    };
    for (unsigned i = 0; i < THREADS; i++) {
        s->actors[i].off = g_array_new(FALSE, FALSE, sizeof(uint64_t));
        s->actors[i].free = 0;
    }
    g_assert_cmpint(btrail_writer_open(&s->writer, path,
                                       BTRAIL_WRITER_REPLACE), ==, 0);
}

static void stage_clear(struct stage *s)
{
    for (unsigned i = 0; i < THREADS; i++) {
        g_array_unref(s->actors[i].off);
    }
}

static void read_times(struct thread_times *t, const char *path,
                       const struct thread_times_options *options)
{
    struct btrail_trace *trace;

    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_assert_cmpint(thread_times_read(t, trace, options), ==, 0);
    btrail_trace_close(trace);
}

/* What is known of threads, if only that is asked for */
static void check_ran(const struct thread_times *all, const char *path,
                      const struct thread_times_options *options)
{
    struct thread_times_options o = *options;
    struct thread_times t;

    o.ran = true;
    read_times(&t, path, &o);
    g_assert_cmpuint(t.threads->len, ==, all->threads->len);
    g_assert_cmpuint(t.records, ==, all->records);
    g_assert_cmpuint(t.gaps, ==, all->gaps);
    for (guint i = 0; i < t.threads->len; i++) {
        const struct thread_time *x = t.threads->pdata[i], *y = NULL;

        for (guint k = 0; k < all->threads->len; k++) {
            const struct thread_time *other = all->threads->pdata[k];

            y = other->task.tid == x->task.tid &&
                other->task.known == x->task.known ? other : y;
        }
        g_assert_nonnull(y);
        g_assert_cmpuint(x->ran, ==, y->ran);
        g_assert_cmpuint(x->first, ==, y->first);
        g_assert_cmpuint(x->last, ==, y->last);
        g_assert_cmpuint(x->switches, ==, 0);
    }
    thread_times_clear(&t);
}

static void test_random(void)
{
    GRand *rand = g_rand_new_with_seed(40);
    char *path = sample_path();

    for (unsigned round = 0; round < 40; round++) {
        struct thread_times t;
        struct thread_times_options o;
        struct stage s;

        stage_init(&s, path);
        s.silent = round % 5 == 0;
        if (round % 2) {
            s.window.begin = g_rand_int_range(rand, 0, 4000000);
            s.window.end = s.window.begin + g_rand_int_range(rand, 1, 9000000);
        }
        for (unsigned i = 0; i < TURNS; i++) {
            turn(&s, rand);
        }
        finish(&s);
        o = (struct thread_times_options) {
            .window = s.window, .tick = 1000000,
        };
        read_times(&t, path, &o);
        check_ran(&t, path, &o);
        g_assert_true(t.named);
        g_assert_cmpuint(t.threads->len, >, 0);
        for (guint i = 0; i < t.threads->len; i++) {
            check_row(&s, t.threads->pdata[i]);
        }
        thread_times_clear(&t);
        stage_clear(&s);
    }
    g_rand_free(rand);
    sample_remove(path);
}

/* There are more threads than rows: their time is not lost. */
static void test_limit(void)
{
    GRand *rand = g_rand_new_with_seed(41);
    char *path = sample_path();
    struct thread_times t;
    uint64_t sum;
    struct stage s;

    stage_init(&s, path);
    for (unsigned i = 0; i < TURNS; i++) {
        turn(&s, rand);
    }
    finish(&s);
    read_times(&t, path, &(struct thread_times_options) {
        .window = s.window, .tick = 1000000, .rows = 3,
    });
    g_assert_cmpuint(t.threads->len, ==, 3);
    g_assert_cmpuint(t.others, >, 0);
    sum = t.others;
    for (guint i = 0; i < t.threads->len; i++) {
        const struct thread_time *row = t.threads->pdata[i];

        check_row(&s, row);
        sum += row->ran;
    }
    g_assert_cmpuint(sum, ==, s.clocks[0] + s.clocks[1] - 2 * START);
    thread_times_clear(&t);
    stage_clear(&s);
    g_rand_free(rand);
    sample_remove(path);
}

/* Where records are missing, or nobody knows who ran, it is not known whether
 * those that were away were back meanwhile. */
static void test_unknown(void)
{
    for (unsigned how = 0; how < 2; how++) {
        GRand *rand = g_rand_new_with_seed(42);
        char *path = sample_path();
        struct btrail_event events[2];
        static const struct btrail_record record;
        struct btrail_slab slab = { .cr3 = 0x5000, .events = events };
        struct thread_times t;
        struct stage s;
        guint i;

        stage_init(&s, path);
        play(&s, rand, 0, 1);
        play(&s, rand, 0, 2);
        slab.first_index = s.index[0] + !how;
        add_event(&slab, events, slab.first_index,
                  how ? BTRAIL_EVENT_TASK : BTRAIL_EVENT_GAP,
                  how ? BTRAIL_TASK_UNKNOWN : BTRAIL_GAP_OVERFLOW, !how);
        slab.records = &record;
        slab.n_records = how;
        g_assert_cmpint(btrail_writer_append(s.writer, 0, &slab), ==, 0);
        s.index[0] = slab.first_index + how;
        s.clocks[0] += EACH;
        play(&s, rand, 0, 1);
        finish(&s);
        read_times(&t, path, &(struct thread_times_options) {
            .window = s.window, .tick = 1000000,
        });
        for (i = 0; i < t.threads->len; i++) {
            const struct thread_time *row = t.threads->pdata[i];

            g_assert_cmpuint(histogram_count(row->off), ==, 0);
            g_assert_cmpuint(row->unknown, ==, row->task.tid == 11);
        }
        g_assert_cmpuint(i, ==, 2 + how);
        thread_times_clear(&t);
        stage_clear(&s);
        g_rand_free(rand);
        sample_remove(path);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/thread-times/random", test_random);
    g_test_add_func("/thread-times/limit", test_limit);
    g_test_add_func("/thread-times/unknown", test_unknown);
    return g_test_run();
}
