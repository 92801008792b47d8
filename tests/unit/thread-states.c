/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The states of threads: random ones that take turns on two vCPUs, against
 * lists of what each of them did, at random moments
 */

#include <string.h>

#include "analyze/thread-states.h"
#include "trace-samples.h"

#define VCPUS   2u
#define THREADS 6u              /* the first two are the idle tasks */
#define TURNS   600u
#define MOST    60              /* records of a turn */
#define EACH    1000u           /* ns that a record takes */
#define START   500000000u
#define PID     10u

/* From a time on */
struct act {
    uint64_t begin;
    enum thread_state state;
    unsigned vcpu;
    unsigned waker;             /* a thread; THREADS: nobody */
};

struct stage {
    GArray *acts[THREADS];
    struct btrail_writer *writer;
    uint64_t clocks[VCPUS];
    uint64_t index[VCPUS];
    unsigned running[VCPUS];
    GRand *rand;
};

static struct act *now(struct stage *s, unsigned thread)
{
    return &g_array_index(s->acts[thread], struct act,
                          s->acts[thread]->len - 1);
}

static void act(struct stage *s, unsigned thread, uint64_t time,
                enum thread_state state, unsigned vcpu, unsigned waker)
{
    const struct act a = { time, state, vcpu, waker };

    g_array_append_val(s->acts[thread], a);
}

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

static uint64_t task_data(unsigned thread)
{
    return thread < VCPUS ? 0 : (uint64_t)PID << 32 | (PID + thread);
}

/* A thread leaves a vCPU.  Returns the flags of the event. */
static uint16_t leave(struct stage *s, unsigned vcpu)
{
    unsigned thread = s->running[vcpu];
    bool blocks = g_rand_boolean(s->rand);

    if (thread < VCPUS) {
        act(s, thread, s->clocks[vcpu], THREAD_UNKNOWN, vcpu, THREADS);
        return BTRAIL_TASK_LEFT_RUNNABLE;
    }
    act(s, thread, s->clocks[vcpu], blocks ? THREAD_BLOCKED : THREAD_RUNNABLE,
        vcpu, THREADS);
    return blocks ? BTRAIL_TASK_LEFT_BLOCKED | BTRAIL_TASK_LEFT_INTERRUPTIBLE :
           BTRAIL_TASK_LEFT_RUNNABLE;
}

/* The thread on a vCPU may wake one that is blocked. */
static void wake(struct stage *s, unsigned vcpu, struct btrail_slab *slab,
                 struct btrail_event *events)
{
    unsigned thread = g_rand_int_range(s->rand, VCPUS, THREADS);

    if (now(s, thread)->state == THREAD_BLOCKED &&
        now(s, thread)->begin < s->clocks[vcpu]) {
        add_event(slab, events, s->index[vcpu], BTRAIL_EVENT_WAKE, 0,
                  task_data(thread));
        act(s, thread, s->clocks[vcpu], THREAD_RUNNABLE,
            now(s, thread)->vcpu, s->running[vcpu]);
    }
}

/* The vCPU that is behind runs a thread for a while. */
static void turn(struct stage *s)
{
    static struct btrail_record records[MOST];
    struct btrail_event events[3];
    unsigned vcpu = s->clocks[1] < s->clocks[0];
    unsigned thread = g_rand_int_range(s->rand, VCPUS - 1, THREADS);
    struct btrail_slab slab = {
        .first_index = s->index[vcpu], .cr3 = 0x5000, .events = events,
        .records = records, .n_records = g_rand_int_range(s->rand, 1, MOST),
    };
    uint16_t left = 0;

    if (thread < VCPUS || (thread != s->running[vcpu] &&
                           (now(s, thread)->state != THREAD_RUNNABLE ||
                            now(s, thread)->begin >= s->clocks[vcpu]))) {
        thread = vcpu;
    }
    if (thread != s->running[vcpu]) {
        left = leave(s, vcpu);
        act(s, thread, s->clocks[vcpu], THREAD_RUNNING, vcpu, THREADS);
        s->running[vcpu] = thread;
    }
    add_time(s, vcpu, &slab, events);
    add_event(&slab, events, s->index[vcpu], BTRAIL_EVENT_TASK, left,
              task_data(thread));
    wake(s, vcpu, &slab, events);
    g_assert_cmpint(btrail_writer_append(s->writer, vcpu, &slab), ==, 0);
    s->clocks[vcpu] += slab.n_records * EACH;
    s->index[vcpu] += slab.n_records;
}

static void stage_init(struct stage *s, const char *path, unsigned seed)
{
    *s = (struct stage) {
        .clocks = { START, START }, .running = { 0, 1 },
        .rand = g_rand_new_with_seed(seed),
    };
    for (unsigned i = 0; i < THREADS; i++) {
        s->acts[i] = g_array_new(FALSE, FALSE, sizeof(struct act));
        act(s, i, START, i < VCPUS ? THREAD_RUNNING :
            i % 2 ? THREAD_BLOCKED : THREAD_RUNNABLE, i, THREADS);
    }
    g_assert_cmpint(btrail_writer_open(&s->writer, path,
                                       BTRAIL_WRITER_REPLACE), ==, 0);
    for (unsigned v = 0; v < VCPUS; v++) {
        struct btrail_event events[2];
        static const struct btrail_record record;
        struct btrail_slab slab = {
            .cr3 = 0x5000, .events = events, .records = &record,
            .n_records = 1,
        };

        add_time(s, v, &slab, events);
        add_event(&slab, events, 0, BTRAIL_EVENT_TASK, 0, 0);
        g_assert_cmpint(btrail_writer_append(s->writer, v, &slab), ==, 0);
        s->clocks[v] += EACH;
        s->index[v]++;
    }
}

static void stage_end(struct stage *s)
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

static void stage_clear(struct stage *s)
{
    for (unsigned i = 0; i < THREADS; i++) {
        g_array_unref(s->acts[i]);
    }
    g_rand_free(s->rand);
}

static struct thread_states *read_states(
    const char *path, const struct thread_states_options *options)
{
    struct thread_states *states;
    struct btrail_trace *trace;

    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_assert_cmpint(thread_states_read(&states, trace, options), ==, 0);
    btrail_trace_close(trace);
    return states;
}

static const struct states_thread *find(const struct thread_states *states,
                                 unsigned thread)
{
    const struct btrail_kernel kernel = { 0 };
    const struct btrail_task task = {
        .known = true, .tid = (uint32_t)task_data(thread),
        .pid = task_data(thread) >> 32,
    };

    return thread_states_find(states, &task, &kernel, thread);
}

/* What a thread does right before a time; @next: its next act */
static const struct act *act_before(const struct stage *s, unsigned thread,
                                    uint64_t time, const struct act **next)
{
    const GArray *acts = s->acts[thread];
    guint i = 0;

    while (i + 1 < acts->len &&
           g_array_index(acts, struct act, i + 1).begin < time) {
        i++;
    }
    *next = i + 1 < acts->len ? &g_array_index(acts, struct act, i + 1) : NULL;
    return &g_array_index(acts, struct act, i);
}

static void check_waker(const struct stage *s,
                        const struct thread_states *states,
                        const struct thread_part *p, unsigned waker)
{
    const struct thread_wake *wake = thread_states_wake(states, p->wake);

    if (waker == THREADS) {
        g_assert_null(wake);
    } else {
        g_assert_nonnull(wake);
        g_assert_true(wake->by == find(states, waker));
    }
}

/* The state right before a time; @begun: when the threads were looked for */
static void check_moment(const struct stage *s,
                         const struct thread_states *states, unsigned thread,
                         uint64_t time)
{
    const struct states_thread *t = find(states, thread);
    const struct thread_part *p;
    const struct act *a, *next;
    unsigned i;

    a = act_before(s, thread, time, &next);
    if (!t) {
        /* It is seen when it runs, or is woken. */
        g_assert_cmpint(a->state, !=, THREAD_RUNNING);
        return;
    }
    i = thread_part_before(t, time);
    p = thread_part(t, i);
    g_assert_cmpint(p->state, ==, a->state);
    if (p->begin > START) {
        g_assert_cmpuint(p->begin, ==, a->begin);
    }
    if (a->state == THREAD_RUNNING) {
        g_assert_cmpuint(p->vcpu, ==, a->vcpu);
    } else if (a->state == THREAD_RUNNABLE) {
        check_waker(s, states, p, a->waker);
    } else if (a->state == THREAD_BLOCKED && next) {
        check_waker(s, states, p, next->waker);
        g_assert_cmpuint(thread_part_end(states, t, i), ==, next->begin);
    }
    /* It has left that one, if it was seen there. */
    if (a->vcpu < VCPUS && a->begin > START && a->state != THREAD_RUNNING) {
        g_assert_cmpuint(p->vcpu, ==, a->vcpu);
        g_assert_cmpuint(p->index, <, s->index[a->vcpu]);
    }
    if (a->state == THREAD_BLOCKED && a->begin > START) {
        g_assert_true(p->interruptible);
    }
}

static uint64_t last_clock(const struct stage *s)
{
    return MIN(s->clocks[0], s->clocks[1]);
}

static void test_random(void)
{
    char *path = sample_path();

    for (unsigned round = 0; round < 40; round++) {
        struct thread_states_options options = {
            .end = UINT64_MAX, .tick = 1000000, .whole = true,
        };
        struct thread_states *states;
        struct stage s;

        stage_init(&s, path, round);
        for (unsigned i = 0; i < TURNS; i++) {
            turn(&s);
        }
        stage_end(&s);
        states = read_states(path, &options);
        g_assert_cmpuint(thread_states_until(states), ==, UINT64_MAX);
        g_assert_true(thread_states_has_wakes(states));
        for (unsigned i = 0; i < 2000; i++) {
            check_moment(&s, states, g_rand_int_range(s.rand, 0, THREADS),
                         g_rand_int_range(s.rand, START + 1, last_clock(&s)));
        }
        thread_states_free(states);
        stage_clear(&s);
    }
    sample_remove(path);
}

static void add_run(void *opaque, const struct states_thread *t, uint64_t begin,
                    uint64_t end)
{
    uint64_t *sums = opaque;

    g_assert_nonnull(t);
    g_assert_cmpuint(begin, <, end);
    sums[t->task.tid ? t->task.tid - PID : 0] += end - begin;
}

/* What a vCPU has run is all of the time, each thread as long as it ran. */
static void test_vcpu(void)
{
    char *path = sample_path();
    struct thread_states *states;
    struct stage s;

    stage_init(&s, path, 50);
    for (unsigned i = 0; i < TURNS; i++) {
        turn(&s);
    }
    stage_end(&s);
    states = read_states(path, &(struct thread_states_options) {
        .end = UINT64_MAX, .tick = 1000000, .whole = true,
    });
    for (unsigned round = 0; round < 500; round++) {
        uint64_t begin = g_rand_int_range(s.rand, START, last_clock(&s) - 1);
        uint64_t end = g_rand_int_range(s.rand, begin + 1, last_clock(&s));
        uint64_t sums[THREADS] = { 0 }, wanted[THREADS] = { 0 }, all = 0;
        unsigned vcpu = round % VCPUS;

        thread_states_vcpu(states, vcpu, begin, end, add_run, sums);
        for (unsigned i = 0; i < THREADS; i++) {
            for (guint k = 0; k < s.acts[i]->len; k++) {
                const struct act *a = &g_array_index(s.acts[i], struct act, k);
                uint64_t to = k + 1 < s.acts[i]->len ? a[1].begin : end;

                if (a->state == THREAD_RUNNING && a->vcpu == vcpu &&
                    MAX(a->begin, begin) < MIN(to, end)) {
                    wanted[i < VCPUS ? 0 : i] += MIN(to, end) -
                                                 MAX(a->begin, begin);
                }
            }
        }
        for (unsigned i = 0; i < THREADS; i++) {
            g_assert_cmpuint(sums[i], ==, wanted[i]);
            all += sums[i];
        }
        g_assert_cmpuint(all, ==, end - begin);
    }
    thread_states_free(states);
    stage_clear(&s);
    sample_remove(path);
}

/* Of a part of a trace, that part is as in the whole. */
static void test_part(void)
{
    char *path = sample_path();
    struct stage s;

    stage_init(&s, path, 51);
    while (last_clock(&s) < START + 400000000) {
        turn(&s);
    }
    stage_end(&s);
    for (unsigned round = 0; round < 20; round++) {
        uint64_t begin = START + 150000000 +
                         g_rand_int_range(s.rand, 0, 100000000);
        uint64_t end = begin + g_rand_int_range(s.rand, 1, 50000000);
        struct thread_states *states = read_states(
            path, &(struct thread_states_options) {
                .begin = begin, .end = end, .tick = 1000000, .whole = true,
            });

        for (unsigned i = 0; i < 100; i++) {
            unsigned thread = g_rand_int_range(s.rand, VCPUS, THREADS);
            uint64_t time = g_rand_int_range(s.rand, begin, end) + 1;

            check_moment(&s, states, thread, time);
        }
        thread_states_free(states);
    }
    stage_clear(&s);
    sample_remove(path);
}

/* Memory is bounded: after it has ended, nothing is known, and that is said. */
static void test_limit(void)
{
    char *path = sample_path();
    struct thread_states *states;
    struct stage s;
    uint64_t until;

    stage_init(&s, path, 52);
    for (unsigned i = 0; i < TURNS; i++) {
        turn(&s);
    }
    stage_end(&s);
    states = read_states(path, &(struct thread_states_options) {
        .end = UINT64_MAX, .tick = 1000000, .whole = true, .items = 500,
    });
    until = thread_states_until(states);
    g_assert_cmpuint(until, >, START);
    g_assert_cmpuint(until, <, last_clock(&s));
    for (unsigned i = 0; i < THREADS; i++) {
        const struct states_thread *t = find(states, i);

        g_assert_cmpuint(thread_part_end(states, t, t->parts->len - 1), <=,
                         until);
    }
    for (unsigned i = 0; i < 500; i++) {
        check_moment(&s, states, g_rand_int_range(s.rand, VCPUS, THREADS),
                     g_rand_int_range(s.rand, START + 1, until));
    }
    thread_states_free(states);
    stage_clear(&s);
    sample_remove(path);
}

/* What happens, at a time in microseconds: one record each */
struct scene {
    unsigned us;
    enum btrail_event_type type;
    uint16_t reason;
    unsigned thread;            /* of a GAP, records that are lost */
    unsigned vcpu;
};

/* From @begin on; @chunk in each chunk, 0: all.  If that is 1, those of a GAP
 * have no record. */
static struct thread_states *play(const struct scene *scenes, unsigned n,
                                  bool whole, uint64_t begin, unsigned chunk)
{
    static const struct btrail_record record;
    struct btrail_writer *w;
    uint64_t index[VCPUS] = { 0 };
    char *path = sample_path();
    struct thread_states *states;

    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    for (unsigned i = 0; i < n; i++) {
        const struct scene *c = &scenes[i];
        struct btrail_event events[3];
        struct btrail_slab slab = {
            .cr3 = 0x5000, .events = events, .records = &record,
        };
        bool gap = c->type == BTRAIL_EVENT_GAP;

        slab.n_records = !gap || chunk != 1;
        index[c->vcpu] += gap ? c->thread : 0;
        slab.first_index = index[c->vcpu];
        add_event(&slab, events, slab.first_index, BTRAIL_EVENT_TIME, 0,
                  START + c->us * 1000);
        events[0].data[2] = BTRAIL_NO_ICOUNT;
        if (c->type != BTRAIL_EVENT_TIME) {
            add_event(&slab, events, slab.first_index, c->type, c->reason,
                      gap ? c->thread : task_data(c->thread));
        }
        g_assert_cmpint(btrail_writer_append(w, c->vcpu, &slab), ==, 0);
        if (chunk && !((i + 1) % chunk)) {
            g_assert_cmpint(btrail_writer_flush(w), ==, 0);
        }
        index[c->vcpu] += slab.n_records;
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    states = read_states(path, &(struct thread_states_options) {
        .begin = begin, .end = UINT64_MAX, .tick = 1000000, .whole = whole,
    });
    sample_remove(path);
    return states;
}

static enum thread_state state_at(const struct thread_states *states,
                                  unsigned thread, unsigned us)
{
    const struct states_thread *t = find(states, thread);

    return thread_part(t, thread_part_before(t, START + us * 1000))->state;
}

#define PLAY(scenes, whole) play(scenes, G_N_ELEMENTS(scenes), whole, 0, 0)
#define TASK(us, thread, left) { us, BTRAIL_EVENT_TASK, left, thread, 0 }

/* Where records are missing, or nobody knows who runs, nothing is known of
 * those that do not run, until they are seen again. */
static void test_unknown(void)
{
    for (unsigned how = 0; how < 2; how++) {
        const struct scene scenes[] = {
            TASK(0, 2, 0), TASK(100, 3, BTRAIL_TASK_LEFT_BLOCKED),
            { 200, how ? BTRAIL_EVENT_TASK : BTRAIL_EVENT_GAP,
              how ? BTRAIL_TASK_UNKNOWN : BTRAIL_GAP_OVERFLOW, how ? 0 : 5 },
            TASK(300, 3, 0), TASK(400, 2, BTRAIL_TASK_LEFT_RUNNABLE),
            { 500, BTRAIL_EVENT_TIME },
        };
        struct thread_states *states = PLAY(scenes, true);

        g_assert_cmpint(state_at(states, 2, 50), ==, THREAD_RUNNING);
        g_assert_cmpint(state_at(states, 2, 150), ==, THREAD_BLOCKED);
        g_assert_cmpint(state_at(states, 3, 150), ==, THREAD_RUNNING);
        g_assert_cmpint(state_at(states, 2, 250), ==, THREAD_UNKNOWN);
        g_assert_cmpint(state_at(states, 3, 250), ==, THREAD_UNKNOWN);
        g_assert_cmpint(state_at(states, 2, 350), ==, THREAD_UNKNOWN);
        g_assert_cmpint(state_at(states, 3, 350), ==, THREAD_RUNNING);
        g_assert_cmpint(state_at(states, 3, 450), ==, THREAD_RUNNABLE);
        g_assert_cmpint(state_at(states, 2, 450), ==, THREAD_RUNNING);
        thread_states_free(states);
    }
}

/*
 * A vCPU that is idle has its next event long after the time that is asked for,
 * in another chunk; or nobody knows what it runs, or records are missing.
 */
static void test_idle(void)
{
    enum { BEGIN = 300000, BACK = 500000 };
    static const struct scene next[] = {
        { .type = BTRAIL_EVENT_TIME },
        { .type = BTRAIL_EVENT_TASK, .reason = BTRAIL_TASK_UNKNOWN },
        { .type = BTRAIL_EVENT_GAP, .reason = BTRAIL_GAP_OVERFLOW,
          .thread = 1 },
    };

    for (unsigned lost = 0; lost < 3; lost++) {
        const struct scene scenes[] = {
            TASK(0, 2, 0), { 0, BTRAIL_EVENT_TASK, 0, 4, 1 },
            { 100, BTRAIL_EVENT_TASK, BTRAIL_TASK_LEFT_BLOCKED, 1, 1 },
            { 200, next[lost].type, next[lost].reason, next[lost].thread, 1 },
            TASK(BEGIN, 3, BTRAIL_TASK_LEFT_BLOCKED),
            { BEGIN + 100, BTRAIL_EVENT_WAKE, 0, 2, 0 },
            TASK(BEGIN + 200, 2, BTRAIL_TASK_LEFT_RUNNABLE),
            { BACK, BTRAIL_EVENT_TASK, BTRAIL_TASK_LEFT_RUNNABLE, 5, 1 },
            { BACK + 100, BTRAIL_EVENT_TIME, 0, 0, 1 },
        };
        struct thread_states *states = play(scenes, G_N_ELEMENTS(scenes), true,
                                            START + (BEGIN - 10) * 1000, 1);

        g_assert_cmpint(state_at(states, 2, BEGIN - 5), ==, THREAD_RUNNING);
        g_assert_cmpint(state_at(states, 2, BEGIN + 50), ==,
                        lost ? THREAD_UNKNOWN : THREAD_BLOCKED);
        g_assert_cmpint(state_at(states, 2, BEGIN + 150), ==,
                        lost ? THREAD_UNKNOWN : THREAD_RUNNABLE);
        g_assert_cmpint(state_at(states, 5, BACK + 50), ==, THREAD_RUNNING);
        thread_states_free(states);
    }
}

/*
 * Records are missing long before the time that is asked for, in the chunk that
 * has that time; or the task was named since then, as the next chunk does.
 */
static void test_lost(void)
{
    static const unsigned chunks[] = { 0, 1, 5 };
    enum { BEGIN = 300000 };

    for (unsigned how = 0; how < 4 * G_N_ELEMENTS(chunks); how++) {
        bool gap = how & 1, seen = how & 2;
        unsigned chunk = chunks[how / 4];
        const struct scene scenes[] = {
            TASK(0, 2, 0), TASK(100, 3, BTRAIL_TASK_LEFT_BLOCKED),
            { 200, gap ? BTRAIL_EVENT_GAP : BTRAIL_EVENT_TIME,
              BTRAIL_GAP_OVERFLOW, 5, 0 },
            { 300, seen ? BTRAIL_EVENT_TASK : BTRAIL_EVENT_TIME, 0, 3, 0 },
            { BEGIN - 110000, BTRAIL_EVENT_TIME, 0, 0, 0 },
            { BEGIN - 90000, BTRAIL_EVENT_TIME, 0, 0, 0 },
            { BEGIN, BTRAIL_EVENT_TIME, 0, 0, 0 },
            TASK(BEGIN + 200, 2, BTRAIL_TASK_LEFT_RUNNABLE),
            { BEGIN + 300, BTRAIL_EVENT_TIME, 0, 0, 0 },
        };
        struct thread_states *states = play(scenes, G_N_ELEMENTS(scenes), true,
                                            START + BEGIN * 1000, chunk);
        const struct states_thread *t = find(states, 3);

        if (gap && !seen && !chunk) {
            /* It need not have run since then. */
            g_assert_true(!t || state_at(states, 3, BEGIN + 50) ==
                          THREAD_UNKNOWN);
        } else {
            g_assert_cmpint(state_at(states, 3, BEGIN + 50), ==,
                            THREAD_RUNNING);
            g_assert_cmpint(state_at(states, 3, BEGIN + 250), ==,
                            THREAD_RUNNABLE);
        }
        g_assert_cmpint(state_at(states, 2, BEGIN + 250), ==, THREAD_RUNNING);
        thread_states_free(states);
    }
}

/* The same of a vCPU that is idle since then, in the chunk before */
static void test_lost_idle(void)
{
    enum { BEGIN = 300000, BACK = 500000, CHUNK = 6 };

    for (unsigned how = 0; how < 4; how++) {
        bool gap = how & 1, seen = how & 2;
        const struct scene scenes[] = {
            TASK(0, 2, 0), { 0, BTRAIL_EVENT_TASK, 0, 4, 1 },
            { 100, BTRAIL_EVENT_TASK, BTRAIL_TASK_LEFT_BLOCKED, 1, 1 },
            { 200, gap ? BTRAIL_EVENT_GAP : BTRAIL_EVENT_TIME,
              BTRAIL_GAP_OVERFLOW, 5, 1 },
            { 300, seen ? BTRAIL_EVENT_TASK : BTRAIL_EVENT_TIME, 0, 1, 1 },
            { 400, BTRAIL_EVENT_TIME, 0, 0, 1 },
            /* Another chunk */
            TASK(BEGIN, 3, BTRAIL_TASK_LEFT_BLOCKED),
            { BEGIN + 100, BTRAIL_EVENT_WAKE, 0, 2, 0 },
            TASK(BEGIN + 200, 2, BTRAIL_TASK_LEFT_RUNNABLE),
            { BACK, BTRAIL_EVENT_TASK, BTRAIL_TASK_LEFT_RUNNABLE, 5, 1 },
            { BACK + 100, BTRAIL_EVENT_TIME, 0, 0, 1 },
        };
        struct thread_states *states = play(scenes, G_N_ELEMENTS(scenes), true,
                                            START + (BEGIN - 10) * 1000, CHUNK);

        g_assert_cmpint(state_at(states, 2, BEGIN + 50), ==,
                        gap && !seen ? THREAD_UNKNOWN : THREAD_BLOCKED);
        g_assert_cmpint(state_at(states, 5, BACK + 50), ==, THREAD_RUNNING);
        thread_states_free(states);
    }
}

/* Who is back and was not woken was blocked for nobody knows how long.  So it
 * is of a trace without WAKE events, or of some of the vCPUs. */
static void test_no_wakes(void)
{
    static const struct scene scenes[] = {
        TASK(0, 2, 0), TASK(100, 3, BTRAIL_TASK_LEFT_BLOCKED),
        TASK(200, 2, BTRAIL_TASK_LEFT_RUNNABLE),
        TASK(300, 3, BTRAIL_TASK_LEFT_DEAD), { 400, BTRAIL_EVENT_TIME },
    };

    for (unsigned whole = 0; whole < 2; whole++) {
        struct thread_states *states = PLAY(scenes, whole);

        g_assert_false(thread_states_has_wakes(states));
        g_assert_cmpint(state_at(states, 2, 150), ==, THREAD_UNKNOWN);
        g_assert_cmpint(state_at(states, 3, 250), ==,
                        whole ? THREAD_RUNNABLE : THREAD_UNKNOWN);
        g_assert_cmpint(state_at(states, 2, 350), ==, THREAD_DEAD);
        thread_states_free(states);
    }
}

/* Wake-ups that seem to be before the thread has left, or after it is back */
static void test_order(void)
{
    for (unsigned late = 0; late < 2; late++) {
        const struct scene scenes[] = {
            { 0, BTRAIL_EVENT_TASK, 0, 5, 1 }, TASK(0, 2, 0),
            { late ? 250 : 90, BTRAIL_EVENT_WAKE, 0, 2, 1 },
            TASK(100, 3, BTRAIL_TASK_LEFT_BLOCKED),
            TASK(200, 2, BTRAIL_TASK_LEFT_RUNNABLE),
            { 300, BTRAIL_EVENT_TIME }, { 300, BTRAIL_EVENT_TIME, 0, 0, 1 },
        };
        struct thread_states *states = PLAY(scenes, true);
        const struct states_thread *t = find(states, 2);
        const struct thread_part *p = thread_part(t, thread_part_before(
            t, START + 150000));

        g_assert_cmpint(p->state, ==, late ? THREAD_BLOCKED : THREAD_RUNNABLE);
        g_assert_nonnull(thread_states_wake(states, p->wake));
        g_assert_true(thread_states_wake(states, p->wake)->by ==
                      find(states, 5));
        thread_states_free(states);
    }
}

/*
 * Thread 2 is back unwoken, and leaves again.  Of two wake-ups after that, the
 * first one is that of the wait before, although its clock is later.
 */
static void test_two_late(void)
{
    static const struct scene scenes[] = {
        { 0, BTRAIL_EVENT_TASK, 0, 5, 1 }, TASK(0, 2, 0),
        TASK(100, 3, BTRAIL_TASK_LEFT_BLOCKED),
        TASK(200, 2, BTRAIL_TASK_LEFT_RUNNABLE),
        TASK(300, 3, BTRAIL_TASK_LEFT_BLOCKED),
        { 350, BTRAIL_EVENT_WAKE, 0, 2, 1 },
        { 450, BTRAIL_EVENT_WAKE, 0, 2, 1 },
        TASK(500, 2, BTRAIL_TASK_LEFT_RUNNABLE),
        { 600, BTRAIL_EVENT_TIME }, { 600, BTRAIL_EVENT_TIME, 0, 0, 1 },
    };
    struct thread_states *states = PLAY(scenes, true);

    g_assert_cmpint(state_at(states, 2, 150), ==, THREAD_BLOCKED);
    g_assert_cmpint(state_at(states, 2, 250), ==, THREAD_RUNNING);
    g_assert_cmpint(state_at(states, 2, 400), ==, THREAD_BLOCKED);
    g_assert_cmpint(state_at(states, 2, 475), ==, THREAD_RUNNABLE);
    g_assert_cmpint(state_at(states, 2, 550), ==, THREAD_RUNNING);
    thread_states_free(states);
}

/* A new thread is known from its first wake-up on, and a number that was of a
 * dead one is of another thread then. */
static void test_new(void)
{
    static const struct scene scenes[] = {
        TASK(0, 2, 0), { 100, BTRAIL_EVENT_WAKE, BTRAIL_WAKE_NEW, 3, 0 },
        TASK(200, 3, BTRAIL_TASK_LEFT_RUNNABLE),
        TASK(300, 2, BTRAIL_TASK_LEFT_DEAD),
        { 400, BTRAIL_EVENT_WAKE, BTRAIL_WAKE_NEW, 3, 0 },
        { 500, BTRAIL_EVENT_TIME },
    };
    struct thread_states *states = PLAY(scenes, true);
    const struct states_thread *t = find(states, 3);
    const struct thread_part *p;

    g_assert_cmpint(state_at(states, 3, 50), ==, THREAD_UNKNOWN);
    g_assert_cmpint(state_at(states, 3, 150), ==, THREAD_RUNNABLE);
    g_assert_cmpint(state_at(states, 3, 250), ==, THREAD_RUNNING);
    g_assert_cmpint(state_at(states, 3, 350), ==, THREAD_DEAD);
    g_assert_cmpint(state_at(states, 3, 450), ==, THREAD_RUNNABLE);
    p = thread_part(t, thread_part_before(t, START + 450000));
    g_assert_true(thread_states_wake(states, p->wake)->is_new);
    g_assert_true(thread_states_wake(states, p->wake)->by == find(states, 2));
    thread_states_free(states);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/thread-states/random", test_random);
    g_test_add_func("/thread-states/vcpu", test_vcpu);
    g_test_add_func("/thread-states/part", test_part);
    g_test_add_func("/thread-states/limit", test_limit);
    g_test_add_func("/thread-states/unknown", test_unknown);
    g_test_add_func("/thread-states/idle", test_idle);
    g_test_add_func("/thread-states/lost", test_lost);
    g_test_add_func("/thread-states/lost-idle", test_lost_idle);
    g_test_add_func("/thread-states/no-wakes", test_no_wakes);
    g_test_add_func("/thread-states/order", test_order);
    g_test_add_func("/thread-states/two-late", test_two_late);
    g_test_add_func("/thread-states/new", test_new);
    return g_test_run();
}
