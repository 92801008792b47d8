/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which task each vCPU runs, and in which state the others are: random ones that
 * take turns on two vCPUs, against what each of them did at each moment
 */

#include <string.h>

#include "analyze/schedule.h"
#include "trace-samples.h"

#define VCPUS   2u
#define THREADS 6u              /* the first one is the idle task */
#define TURNS   500u
#define MOST    60              /* records of a turn */
#define EACH    1000u           /* ns that a record takes */
#define START   5000000u
#define TICK    1000000u
#define FOREVER UINT64_MAX

/* States of threads: those of schedule.h, and */
#define RUNS(vcpu)  (100 + (vcpu))
#define NOTHING     99          /* not seen yet */

/* From @time on */
struct change {
    uint64_t time;
    unsigned state;
};

/* @free: up to when it ran */
struct actor {
    GArray *truth;
    GArray *told;
    unsigned state;
    uint64_t free;
};

struct stage {
    struct actor actors[THREADS];
    struct btrail_writer *writer;
    uint64_t clocks[VCPUS];
    uint64_t index[VCPUS];
    unsigned running[VCPUS];
    unsigned on[VCPUS];         /* as reported: thread, or THREADS */
    uint64_t last[VCPUS];
    GRand *rand;
    bool silent;                /* nobody says who is woken */
    unsigned wakes;
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

static void change(GArray *list, uint64_t time, unsigned state)
{
    struct change c = { time, state };

    g_array_append_val(list, c);
}

/* The state at a moment */
static unsigned state_at(const GArray *list, uint64_t time)
{
    unsigned state = NOTHING;

    for (guint i = 0; i < list->len; i++) {
        const struct change *c = &g_array_index(list, struct change, i);

        if (c->time > time) {
            break;
        }
        state = c->state;
    }
    return state;
}

static uint16_t flags_of(unsigned state)
{
    switch (state) {
    case SCHEDULE_RUNNABLE:
        return BTRAIL_TASK_LEFT_RUNNABLE;
    case SCHEDULE_INTERRUPTIBLE:
        return BTRAIL_TASK_LEFT_BLOCKED | BTRAIL_TASK_LEFT_INTERRUPTIBLE;
    case SCHEDULE_UNINTERRUPTIBLE:
        return BTRAIL_TASK_LEFT_BLOCKED | BTRAIL_TASK_LEFT_UNINTERRUPTIBLE;
    default:
        return 0;
    }
}

static bool is_blocked(unsigned state)
{
    return state == SCHEDULE_INTERRUPTIBLE ||
           state == SCHEDULE_UNINTERRUPTIBLE;
}

/* A thread runs for a while, without a wait since the one before. */
static void play(struct stage *s, unsigned vcpu, unsigned thread)
{
    static struct btrail_record records[MOST];
    struct btrail_event events[4];
    unsigned before = s->running[vcpu], woken;
    uint64_t now = s->clocks[vcpu];
    struct btrail_slab slab = {
        .first_index = s->index[vcpu], .cr3 = 0x5000, .events = events,
        .records = records, .n_records = g_rand_int_range(s->rand, 1, MOST),
    };
    uint16_t left = 0;

    if (thread != before) {
        if (before && before < THREADS) {
            struct actor *a = &s->actors[before];

            a->state = g_rand_int_range(s->rand, SCHEDULE_RUNNABLE,
                                        SCHEDULE_UNINTERRUPTIBLE + 1);
            a->free = now;
            left = flags_of(a->state);
            change(a->truth, now, s->silent && is_blocked(a->state) ?
                   SCHEDULE_UNKNOWN : a->state);
        }
        if (thread) {
            change(s->actors[thread].truth, now, RUNS(vcpu));
            s->actors[thread].state = RUNS(vcpu);
        }
        s->running[vcpu] = thread;
    }
    add_time(s, vcpu, &slab, events);
    add_event(&slab, events, s->index[vcpu], BTRAIL_EVENT_TASK, left,
              thread ? UINT64_C(10) << 32 | (10 + thread) : 0);
    memcpy(&events[1].data[1], thread % 2 ? "odd" : "even", 4);
    woken = g_rand_int_range(s->rand, 1, THREADS);
    if (!s->silent && is_blocked(s->actors[woken].state) &&
        s->actors[woken].free < now) {
        add_event(&slab, events, s->index[vcpu], BTRAIL_EVENT_WAKE, 0,
                  UINT64_C(10) << 32 | (10 + woken));
        s->actors[woken].state = SCHEDULE_RUNNABLE;
        change(s->actors[woken].truth, now, SCHEDULE_RUNNABLE);
        s->wakes++;
    }
    g_assert_cmpint(btrail_writer_append(s->writer, vcpu, &slab), ==, 0);
    s->clocks[vcpu] += slab.n_records * EACH;
    s->index[vcpu] += slab.n_records;
}

/* Does a thread run, or can it, at a time? */
static bool can_run(const struct stage *s, unsigned thread, unsigned vcpu)
{
    const struct actor *a = &s->actors[thread];

    return !thread || a->state == NOTHING || a->state == RUNS(vcpu) ||
           (a->state == SCHEDULE_RUNNABLE && a->free < s->clocks[vcpu] &&
            state_at(a->truth, s->clocks[vcpu]) == SCHEDULE_RUNNABLE) ||
           (s->silent && is_blocked(a->state) && a->free < s->clocks[vcpu]);
}

/* The next turn is of the vCPU that is behind. */
static void turn(struct stage *s)
{
    unsigned vcpu = s->clocks[1] < s->clocks[0];
    unsigned thread = g_rand_int_range(s->rand, 0, THREADS);

    play(s, vcpu, can_run(s, thread, vcpu) ? thread : 0);
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

static void on_run(void *opaque, const struct schedule_run *run)
{
    struct stage *s = opaque;
    unsigned before = s->on[run->vcpu];

    g_assert_cmpuint(run->time, >=, s->last[run->vcpu]);
    g_assert_true(run->first == !s->last[run->vcpu]);
    s->last[run->vcpu] = run->time;
    if (before && before < THREADS) {
        change(s->actors[before].told, run->time, run->state);
    }
    s->on[run->vcpu] = !run->task.known ? THREADS :
                       run->task.tid ? run->task.tid - 10 : 0;
    if (run->task.known && run->task.tid) {
        unsigned thread = run->task.tid - 10;

        g_assert_cmpuint(run->task.pid, ==, 10);
        g_assert_cmpstr(run->task.name, ==, thread % 2 ? "odd" : "even");
        change(s->actors[thread].told, run->time, RUNS(run->vcpu));
    }
}

static void on_wake(void *opaque, const struct schedule_wake *wake)
{
    struct stage *s = opaque;

    g_assert_cmpuint(wake->time, >=, s->last[wake->vcpu]);
    change(s->actors[wake->task.tid - 10].told, wake->time,
           SCHEDULE_RUNNABLE);
    if (!wake->late) {
        g_assert_true(wake->waker.known == (s->on[wake->vcpu] < THREADS));
        g_assert_cmpuint(wake->waker.tid, ==, !s->on[wake->vcpu] ? 0 :
                         10 + s->on[wake->vcpu]);
        s->last[wake->vcpu] = wake->time;
    }
}

static const struct schedule_ops ops = { on_run, on_wake };

static void stage_init(struct stage *s, const char *path, unsigned seed)
{
    *s = (struct stage) {
        .clocks = { START, START }, .running = { THREADS, THREADS },
        .on = { THREADS, THREADS }, .rand = g_rand_new_with_seed(seed),
    };
    for (unsigned i = 0; i < THREADS; i++) {
        s->actors[i].truth = g_array_new(FALSE, FALSE, sizeof(struct change));
        s->actors[i].told = g_array_new(FALSE, FALSE, sizeof(struct change));
        s->actors[i].state = NOTHING;
    }
    g_assert_cmpint(btrail_writer_open(&s->writer, path,
                                       BTRAIL_WRITER_REPLACE), ==, 0);
}

static void stage_clear(struct stage *s)
{
    for (unsigned i = 0; i < THREADS; i++) {
        g_array_unref(s->actors[i].truth);
        g_array_unref(s->actors[i].told);
    }
    g_rand_free(s->rand);
}

static struct schedule_sums read_stage(struct stage *s, const char *path,
                                       const struct schedule_options *o)
{
    struct schedule_sums sums;
    struct btrail_trace *trace;

    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_assert_cmpint(schedule_read(trace, o, &ops, s, &sums), ==, 0);
    btrail_trace_close(trace);
    return sums;
}

/* Requires that what is told is so, where it is said to be known.  Returns how
 * many moments are not. */
static unsigned compare(const struct stage *s, uint64_t begin, uint64_t end)
{
    unsigned unknown = 0;

    for (unsigned i = 1; i < THREADS; i++) {
        const struct actor *a = &s->actors[i];

        for (uint64_t t = begin; t < end; t += 7 * EACH / 2) {
            unsigned truth = state_at(a->truth, t);
            unsigned told = state_at(a->told, t);

            /* Of one nanosecond nobody speaks. */
            if (told == truth || state_at(a->told, t + 2) == truth) {
                continue;
            }
            if (told != SCHEDULE_UNKNOWN && told != NOTHING) {
                g_test_message("thread %u is %u, not %u, at %" G_GUINT64_FORMAT,
                               i, told, truth, t);
                g_test_fail();
                return 0;
            }
            unknown++;
        }
    }
    return unknown;
}

static void test_random(void)
{
    char *path = sample_path();

    for (unsigned round = 0; round < 40; round++) {
        struct schedule_options o = {
            .window = WINDOW_ALL(START), .tick = TICK,
        };
        struct schedule_sums sums;
        struct stage s;
        uint64_t end;
        unsigned unknown;

        stage_init(&s, path, round);
        s.silent = round % 5 == 0;
        for (unsigned i = 0; i < TURNS; i++) {
            turn(&s);
        }
        finish(&s);
        end = MIN(s.clocks[0], s.clocks[1]);
        if (round % 3 == 1) {
            o.window.begin = (end - START) / 3;
            o.window.end = (end - START) / 3 * 2;
        }
        sums = read_stage(&s, path, &o);
        g_assert_true(sums.named);
        g_assert_true(sums.woken == (s.wakes > 0));
        unknown = compare(&s, START + o.window.begin,
                          MIN(end, START + MIN(o.window.end, FOREVER - START)));
        if (round % 3 != 1) {
            g_assert_cmpuint(sums.wakes, <=, s.wakes);
            /* Up to the first wake-up nobody knows whether there are some. */
            g_assert_cmpuint(unknown, <, 300);
            if (!s.silent) {
                g_assert_cmpuint(sums.wakes + 10, >, s.wakes);
                g_assert_cmpuint(sums.unknown, <, 10);
            }
        }
        stage_clear(&s);
    }
    sample_remove(path);
}

/* Other vCPUs, of which there is no stream, can run what does not run here. */
static void test_some(void)
{
    char *path = sample_path();
    struct stage s;

    stage_init(&s, path, 7);
    for (unsigned i = 0; i < TURNS; i++) {
        turn(&s);
    }
    finish(&s);
    read_stage(&s, path, &(struct schedule_options) {
        .window = WINDOW_ALL(START), .tick = TICK, .some = true,
    });
    for (unsigned i = 1; i < THREADS; i++) {
        for (guint k = 0; k < s.actors[i].told->len; k++) {
            unsigned state = g_array_index(s.actors[i].told, struct change,
                                           k).state;

            g_assert_true(state >= RUNS(0) || state == SCHEDULE_UNKNOWN);
        }
    }
    compare(&s, START, MIN(s.clocks[0], s.clocks[1]));
    stage_clear(&s);
    sample_remove(path);
}

static void put_slab(struct stage *s, unsigned vcpu, struct btrail_event *e,
                     unsigned n_events, unsigned lost, unsigned n)
{
    static struct btrail_record records[MOST];
    struct btrail_event events[8];
    struct btrail_slab slab = {
        .first_index = s->index[vcpu] + lost, .cr3 = 0x5000, .events = events,
        .records = records, .n_records = n,
    };

    if (lost) {
        add_event(&slab, events, slab.first_index, BTRAIL_EVENT_GAP,
                  BTRAIL_GAP_OVERFLOW, lost);
    }
    s->index[vcpu] = slab.first_index;
    add_time(s, vcpu, &slab, events);
    for (unsigned i = 0; i < n_events; i++) {
        e[i].index = s->index[vcpu];
        events[slab.n_events++] = e[i];
    }
    g_assert_cmpint(btrail_writer_append(s->writer, vcpu, &slab), ==, 0);
    s->index[vcpu] += n;
    s->clocks[vcpu] += n * EACH;
}

static struct btrail_event task(unsigned thread, uint16_t left)
{
    struct btrail_event e = {
        .type = BTRAIL_EVENT_TASK, .reason = left,
        .data = { thread ? UINT64_C(10) << 32 | (10 + thread) : 0 },
    };

    memcpy(&e.data[1], thread % 2 ? "odd" : "even", 4);
    return e;
}

static struct btrail_event wakes(unsigned thread)
{
    return (struct btrail_event) {
        .type = BTRAIL_EVENT_WAKE,
        .data = { UINT64_C(10) << 32 | (10 + thread) },
    };
}

/*
 * Thread 1 blocks, and records are missing before it is back: nobody knows
 * whether it ran meanwhile.  Thread 2 blocks after that, and is woken.
 */
static void test_gap(void)
{
    char *path = sample_path();
    const uint16_t blocked = flags_of(SCHEDULE_UNINTERRUPTIBLE);
    uint64_t left, lost, back, again;
    struct stage s;

    stage_init(&s, path, 1);
    put_slab(&s, 0, (struct btrail_event[]) { task(1, 0), wakes(5) }, 2, 0, 10);
    left = s.clocks[0];
    put_slab(&s, 0, (struct btrail_event[]) { task(2, blocked) }, 1, 0, 10);
    lost = s.clocks[0];
    s.clocks[0] += 10 * EACH;
    put_slab(&s, 0, (struct btrail_event[]) { task(2, 0) }, 1, 10, 10);
    back = s.clocks[0];
    put_slab(&s, 0, (struct btrail_event[]) { task(1, blocked) }, 1, 0, 10);
    put_slab(&s, 0, (struct btrail_event[]) { task(1, 0), wakes(2) }, 2, 0,
             10);
    again = s.clocks[0];
    put_slab(&s, 0, (struct btrail_event[]) { task(2, flags_of(
        SCHEDULE_RUNNABLE)) }, 1, 0, 10);
    put_slab(&s, 1, (struct btrail_event[]) { task(0, 0) }, 1, 0, 1);
    finish(&s);
    read_stage(&s, path, &(struct schedule_options) {
        .window = WINDOW_ALL(START), .tick = 0,
    });
    g_assert_cmpuint(state_at(s.actors[1].told, left - 1), ==, RUNS(0));
    g_assert_cmpuint(state_at(s.actors[1].told, left + 5 * EACH), ==,
                     SCHEDULE_UNKNOWN);
    g_assert_cmpuint(state_at(s.actors[2].told, lost - 1), ==, RUNS(0));
    g_assert_cmpuint(state_at(s.actors[2].told, back - 1), ==, RUNS(0));
    g_assert_cmpuint(state_at(s.actors[2].told, back + 1), ==,
                     SCHEDULE_UNINTERRUPTIBLE);
    g_assert_cmpuint(state_at(s.actors[2].told, again - 1), ==,
                     SCHEDULE_RUNNABLE);
    g_assert_cmpuint(state_at(s.actors[2].told, again), ==, RUNS(0));
    g_assert_cmpuint(state_at(s.actors[1].told, again), ==,
                     SCHEDULE_RUNNABLE);
    stage_clear(&s);
    sample_remove(path);
}

/* Another vCPU wakes a thread that is about to leave: it can run at once. */
static void test_early_wake(void)
{
    char *path = sample_path();
    uint64_t left;
    struct stage s;

    stage_init(&s, path, 1);
    put_slab(&s, 0, (struct btrail_event[]) { task(1, 0), wakes(5) }, 2, 0, 50);
    put_slab(&s, 1, (struct btrail_event[]) { task(2, 0) }, 1, 0, 30);
    put_slab(&s, 1, (struct btrail_event[]) { wakes(1), task(2, 0) }, 2, 0, 50);
    left = s.clocks[0];
    put_slab(&s, 0, (struct btrail_event[]) { task(0, flags_of(
        SCHEDULE_INTERRUPTIBLE)) }, 1, 0, 30);
    finish(&s);
    read_stage(&s, path, &(struct schedule_options) {
        .window = WINDOW_ALL(START), .tick = TICK,
    });
    g_assert_cmpuint(state_at(s.actors[1].told, left - 1), ==, RUNS(0));
    g_assert_cmpuint(state_at(s.actors[1].told, left + 1), ==,
                     SCHEDULE_RUNNABLE);
    stage_clear(&s);
    sample_remove(path);
}

/* There are more tasks than are followed. */
static void test_most(void)
{
    char *path = sample_path();
    struct stage s;

    stage_init(&s, path, 3);
    for (unsigned i = 0; i < TURNS; i++) {
        turn(&s);
    }
    finish(&s);
    read_stage(&s, path, &(struct schedule_options) {
        .window = WINDOW_ALL(START), .tick = TICK, .most = 3,
    });
    g_assert_cmpuint(compare(&s, START, MIN(s.clocks[0], s.clocks[1])), >, 0);
    stage_clear(&s);
    sample_remove(path);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/schedule/random", test_random);
    g_test_add_func("/schedule/some", test_some);
    g_test_add_func("/schedule/gap", test_gap);
    g_test_add_func("/schedule/early-wake", test_early_wake);
    g_test_add_func("/schedule/most", test_most);
    return g_test_run();
}
