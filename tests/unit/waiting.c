/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Why a thread took so long: scenes with one reason each; and random ones, of
 * which each microsecond is judged by what every thread did in it
 */

#include <string.h>

#include "code-samples.h"
#include "find/waiting.h"
#include "trace-samples.h"

#define VCPUS       2u
#define THREADS     6u          /* the first two are the idle tasks */
#define START       500000000u
#define PID         10u
#define TIMER       15u         /* a function that is an interrupt's */
#define NO_INDEX    THREAD_NO_INDEX

#define BLOCKED     (BTRAIL_TASK_LEFT_BLOCKED | BTRAIL_TASK_LEFT_INTERRUPTIBLE)
#define RUNNABLE    BTRAIL_TASK_LEFT_RUNNABLE
#define DEAD        BTRAIL_TASK_LEFT_DEAD
#define NEW         BTRAIL_WAKE_NEW

/*
 * What happens on a vCPU at a time in microseconds, and a record after that, in
 * function @in, or in that of the thread that runs
 */
struct beat {
    unsigned us;
    unsigned vcpu;
    enum btrail_event_type type;
    uint16_t reason;
    unsigned thread;
    unsigned in;
};

#define TASK(us, vcpu, thread, left) \
    { us, vcpu, BTRAIL_EVENT_TASK, left, thread, 0 }
#define WAKE(us, vcpu, thread, how) \
    { us, vcpu, BTRAIL_EVENT_WAKE, how, thread, 0 }
#define TIME(us, vcpu)  { us, vcpu, BTRAIL_EVENT_TIME, 0, 0, 0 }
#define IRQ(us, vcpu)   { us, vcpu, BTRAIL_EVENT_TIME, 0, 0, TIMER }
#define PAUSE(us, vcpu) \
    { us, vcpu, BTRAIL_EVENT_PAUSE, BTRAIL_PAUSE_OVERFLOW, 0, 0 }
#define RESUME(us, vcpu) \
    { us, vcpu, BTRAIL_EVENT_RESUME, BTRAIL_PAUSE_OVERFLOW, 0, 0 }

struct scene {
    char *path;
    struct btrail_trace *trace;
    struct symbolizer *symbols;
    struct pauses *pauses;
};

static uint64_t clock_of(unsigned us)
{
    return START + UINT64_C(1000) * us;
}

static uint64_t task_data(unsigned thread)
{
    return thread < VCPUS ? 0 : (uint64_t)PID << 32 | (PID + thread);
}

static void put_beat(struct btrail_writer *w, const struct beat *b,
                     uint64_t *index, unsigned *running)
{
    struct btrail_event events[2] = {
        { .index = *index, .type = BTRAIL_EVENT_TIME,
          .data = { clock_of(b->us), 0, BTRAIL_NO_ICOUNT } },
        { .index = *index, .type = b->type, .reason = b->reason },
    };
    struct btrail_record record;
    const struct btrail_slab slab = {
        .first_index = *index, .cr3 = 0x5000, .records = &record,
        .n_records = 1, .events = events,
        .n_events = 1 + (b->type != BTRAIL_EVENT_TIME),
    };

    events[1].data[0] = b->type == BTRAIL_EVENT_TASK ||
                        b->type == BTRAIL_EVENT_WAKE ? task_data(b->thread) :
                        clock_of(b->us);
    if (b->type == BTRAIL_EVENT_TASK) {
        *running = b->thread;
    }
    record.from = sample_function(b->in ?: *running) + 0x20;
    record.to = record.from - 0x10;
    record.flags = 0;
    g_assert_cmpint(btrail_writer_append(w, b->vcpu, &slab), ==, 0);
    ++*index;
}

static void scene_init(struct scene *s, const struct beat *beats, unsigned n)
{
    static const char meta[] = "{\"tick_ns\": 0, \"privilege\": \"all\"}";
    const struct pauses_guest guest = { .vcpus = VCPUS };
    g_autoptr(GString) map = g_string_new(NULL);
    uint64_t index[VCPUS] = { 0 };
    unsigned running[VCPUS] = { 0, 1 };
    struct btrail_writer *w;

    s->path = sample_path();
    g_assert_cmpint(btrail_writer_open(&w, s->path, 0), ==, 0);
    g_assert_cmpint(btrail_writer_meta(w, meta, strlen(meta)), ==, 0);
    for (unsigned i = 0; i < n; i++) {
        put_beat(w, &beats[i], &index[beats[i].vcpu], &running[beats[i].vcpu]);
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&s->trace, s->path), ==, 0);
    for (unsigned i = 0; i < TIMER; i++) {
        g_string_append_printf(map, "%" G_GINT64_MODIFIER "x T f%u\n",
                               sample_function(i), i);
    }
    g_string_append_printf(map, "%" G_GINT64_MODIFIER
                           "x T asm_sysvec_apic_timer_interrupt\n",
                           sample_function(TIMER));
    s->symbols = sample_symbolizer(s->trace, map->str);
    g_assert_cmpint(pauses_read(&s->pauses, s->trace, &guest), ==, 0);
}

static void scene_clear(struct scene *s)
{
    pauses_free(s->pauses);
    symbolizer_free(s->symbols);
    btrail_trace_close(s->trace);
    sample_remove(s->path);
}

static struct waiting_options options_of(const struct scene *s)
{
    return (struct waiting_options) {
        .trace = s->trace, .symbols = s->symbols, .pauses = s->pauses,
        .tick = 1000000, .whole = true, .stacks = 1000,
    };
}

/* A span of a thread, by times alone */
static struct waiting_span span_of(unsigned thread, unsigned begin,
                                   unsigned end)
{
    return (struct waiting_span) {
        .begin = { 0, NO_INDEX, clock_of(begin) },
        .end = { 0, NO_INDEX, clock_of(end) },
        .task = {
            .known = true, .pid = task_data(thread) >> 32,
            .tid = (uint32_t)task_data(thread),
        },
    };
}

static void add_stack(GString *text, const GPtrArray *stack)
{
    for (guint i = 0; stack && i < stack->len; i++) {
        const struct function *f = g_ptr_array_index(stack, i);

        g_string_append_printf(text, "%c%s", i ? '<' : '@', f->symbol);
    }
}

static void add_waker(GString *text, const struct waiting_waker *w)
{
    if (w->interrupt) {
        g_assert_cmpuint(w->task.tid, ==, 0);
        g_string_append_printf(text, " by %s", w->interrupt);
    } else if (w->known) {
        g_string_append_printf(text, " by %u", w->task.tid);
    }
}

static unsigned in_us(uint64_t ns)
{
    g_assert_cmpuint(ns % 1000, ==, 0);
    return ns / 1000;
}

/* The parts of a path: "BEGIN-END STATE THREAD/DEPTH@STACK by WAKER; ..." */
static char *path_text(const struct waiting_span *w)
{
    GString *text = g_string_new(NULL);

    for (guint i = 0; i < w->path->len; i++) {
        const struct waiting_part *p = &g_array_index(w->path,
                                                      struct waiting_part, i);

        g_string_append_printf(text, "%s%u-%u %s %u/%u", i ? "; " : "",
                               in_us(p->begin - START), in_us(p->end - START),
                               waiting_state_name(waiting_part_state(p)),
                               p->task.tid, p->depth);
        add_stack(text, p->stack);
        add_waker(text, &p->waker);
    }
    return g_string_free(text, FALSE);
}

/* Its waits: "STATE US*TIMES@STACK by WAKER US*TIMES; ... +OTHERS US" */
static char *waits_text(const struct waiting_span *w)
{
    GString *text = g_string_new(NULL);

    for (guint i = 0; i < w->waits->len; i++) {
        const struct waiting_wait *wait = &g_array_index(
            w->waits, struct waiting_wait, i);

        g_string_append_printf(text, "%s%s %u*%u", i ? "; " : "",
                               waiting_state_name(wait->state),
                               in_us(wait->ns), (unsigned)wait->times);
        add_stack(text, wait->stack);
        for (guint k = 0; k < wait->wakers->len; k++) {
            const struct waiting_waker *waker = &g_array_index(
                wait->wakers, struct waiting_waker, k);

            add_waker(text, waker);
            g_string_append_printf(text, " %u*%u", in_us(waker->ns),
                                   (unsigned)waker->times);
        }
    }
    if (w->others) {
        g_string_append_printf(text, " +%u %u", (unsigned)w->others,
                               in_us(w->others_ns));
    }
    return g_string_free(text, FALSE);
}

static char *sums_text(const struct waiting_span *w)
{
    return g_strdup_printf("%u: run %u able %u blocked %u paused %u unknown %u",
                           in_us(w->elapsed), in_us(w->on_cpu),
                           in_us(w->runnable), in_us(w->blocked),
                           in_us(w->paused), in_us(w->unknown));
}

#define CHECK(make, w, wanted) \
    do { \
        g_autofree char *text_ = make(w); \
        \
        g_assert_cmpstr(text_, ==, wanted); \
    } while (0)

/* Reads a span of a scene, which has the functions of its stacks. */
static struct waiting_span read_span(const struct scene *s,
                                     struct waiting_span w)
{
    const struct waiting_options options = options_of(s);

    g_assert_cmpint(waiting_read(&w, &options), ==, 0);
    return w;
}

/* One thread that runs, waits for another one, and for a vCPU */
static void test_path(void)
{
    static const struct beat beats[] = {
        TASK(0, 0, 2, 0), TASK(0, 1, 3, 0), TASK(100, 0, 0, BLOCKED),
        WAKE(300, 1, 2, 0), TASK(350, 1, 1, BLOCKED),
        TASK(400, 0, 2, RUNNABLE), TASK(500, 0, 0, RUNNABLE),
        TASK(620, 0, 2, RUNNABLE), TIME(800, 0), TIME(800, 1),
    };
    struct scene s;
    struct waiting_options options;
    struct waiting_span w = span_of(2, 50, 700);
    const struct waiting_user *user;

    scene_init(&s, beats, G_N_ELEMENTS(beats));
    options = options_of(&s);
    g_assert_cmpint(waiting_read(&w, &options), ==, 0);
    g_assert_true(w.wakes);
    g_assert_cmpuint(w.late, ==, 0);
    CHECK(sums_text, &w,
          "650: run 230 able 220 blocked 200 paused 0 unknown 0");
    CHECK(path_text, &w,
          "50-100 running 12/0; 100-300 running 13/1; "
          "300-400 runnable 12/0@f2; 400-500 running 12/0; "
          "500-620 runnable 12/0@f2; 620-700 running 12/0");
    CHECK(waits_text, &w,
          "runnable 220*2@f2; blocked 200*1@f2 by 13 200*1");
    g_assert_cmpuint(w.instead->len, ==, 1);
    user = &g_array_index(w.instead, struct waiting_user, 0);
    g_assert_cmpuint(user->ns, ==, 220000);
    g_assert_cmpuint(user->task.tid, ==, 0);
    g_assert_cmpuint(w.functions->len, ==, 1);
    waiting_clear(&w);

    /* The wait ends after the span: nobody knows yet who will end it. */
    w = span_of(2, 50, 200);
    g_assert_cmpint(waiting_read(&w, &options), ==, 0);
    CHECK(path_text, &w, "50-100 running 12/0; 100-200 blocked 12/0@f2");
    waiting_clear(&w);

    /* Neither path nor functions */
    w = span_of(2, 50, 700);
    options.brief = true;
    g_assert_cmpint(waiting_read(&w, &options), ==, 0);
    CHECK(sums_text, &w,
          "650: run 230 able 220 blocked 200 paused 0 unknown 0");
    g_assert_cmpuint(w.path->len, ==, 0);
    g_assert_cmpuint(w.functions->len, ==, 0);
    g_assert_cmpuint(w.instead->len, ==, 1);
    waiting_clear(&w);
    scene_clear(&s);
}

/* Four stacks make one wait that is described; without any, none is. */
static void test_stacks(void)
{
    static const struct beat beats[] = {
        TASK(0, 0, 2, 0), TASK(0, 1, 3, 0), TASK(100, 0, 0, BLOCKED),
        WAKE(300, 1, 2, 0), TASK(400, 0, 2, RUNNABLE), TIME(500, 0),
        TIME(500, 1),
    };
    static const char *const wanted[] = {
        "blocked 200*1@f2 by 13 200*1; runnable 100*1@f2",
        "blocked 200*1@f2 by 13 200*1 +1 100", " +2 300",
    };
    static const unsigned stacks[] = { 8, 7, 3 };
    struct scene s;

    scene_init(&s, beats, G_N_ELEMENTS(beats));
    for (unsigned i = 0; i < G_N_ELEMENTS(wanted); i++) {
        struct waiting_options options = options_of(&s);
        struct waiting_span w = span_of(2, 0, 500);

        options.stacks = stacks[i];
        g_assert_cmpint(waiting_read(&w, &options), ==, 0);
        CHECK(waits_text, &w, wanted[i]);
        CHECK(sums_text, &w,
              "500: run 200 able 100 blocked 200 paused 0 unknown 0");
        waiting_clear(&w);
    }
    scene_clear(&s);
}

/* The interrupt, and not the task that it has interrupted */
static void test_interrupt(void)
{
    static const struct beat beats[] = {
        TASK(0, 0, 2, 0), TASK(0, 1, 3, 0), TASK(100, 0, 0, BLOCKED),
        IRQ(290, 1), WAKE(300, 1, 2, 0), TASK(400, 0, 2, RUNNABLE),
        TASK(500, 0, 0, BLOCKED), WAKE(550, 1, 2, 0),
        TASK(600, 0, 2, RUNNABLE), TASK(700, 0, 0, BLOCKED), IRQ(710, 1),
        WAKE(720, 1, 2, 0), TASK(730, 0, 2, RUNNABLE), TIME(800, 0),
        TIME(800, 1),
    };
    struct scene s;
    struct waiting_span w;

    scene_init(&s, beats, G_N_ELEMENTS(beats));
    w = read_span(&s, span_of(2, 0, 750));
    CHECK(path_text, &w,
          "0-100 running 12/0; "
          "100-300 interrupt 12/0@f2 by apic_timer_interrupt; "
          "300-400 runnable 12/0@f2; 400-500 running 12/0; "
          "500-550 running 13/1; 550-600 runnable 12/0@f2; "
          "600-700 running 12/0; "
          "700-720 interrupt 12/0@f2 by apic_timer_interrupt; "
          "720-730 runnable 12/0@f2; 730-750 running 12/0");
    CHECK(waits_text, &w,
          "blocked 270*3@f2 by apic_timer_interrupt 220*2 by 13 50*1; "
          "runnable 160*3@f2");
    waiting_clear(&w);
    scene_clear(&s);
}

/* Of whom nobody else runs, the idle task is no reason. */
static void test_idle(void)
{
    static const struct beat beats[] = {
        TASK(0, 0, 2, 0), TASK(0, 1, 1, 0), TASK(100, 0, 0, BLOCKED),
        WAKE(300, 1, 2, 0), TASK(400, 0, 2, RUNNABLE), TIME(500, 0),
        TIME(500, 1),
    };
    struct scene s;
    struct waiting_span w;

    scene_init(&s, beats, G_N_ELEMENTS(beats));
    w = read_span(&s, span_of(2, 0, 450));
    CHECK(path_text, &w,
          "0-100 running 12/0; 100-300 blocked 12/0@f2 by 0; "
          "300-400 runnable 12/0@f2; 400-450 running 12/0");
    waiting_clear(&w);
    scene_clear(&s);
}

/* Before a thread began, the one that has begun it counts. */
static void test_parent(void)
{
    static const struct beat beats[] = {
        TASK(0, 0, 2, 0), TASK(0, 1, 1, 0), TASK(100, 0, 0, BLOCKED),
        WAKE(150, 1, 2, 0), TASK(180, 0, 2, RUNNABLE), WAKE(200, 0, 3, NEW),
        TASK(300, 0, 3, RUNNABLE), TASK(400, 0, 2, DEAD), TIME(500, 0),
        TIME(500, 1),
    };
    struct scene s;
    struct waiting_span w;

    scene_init(&s, beats, G_N_ELEMENTS(beats));
    w = read_span(&s, span_of(3, 50, 350));
    CHECK(sums_text, &w, "300: run 120 able 130 blocked 50 paused 0 unknown 0");
    CHECK(path_text, &w,
          "50-100 running 12/0; 100-150 blocked 12/0@f2 by 0; "
          "150-180 runnable 12/0@f2; 180-200 running 12/0; "
          "200-300 runnable 13/0; 300-350 running 13/0");
    waiting_clear(&w);

    /* Who is dead is so to the end. */
    w = read_span(&s, span_of(3, 350, 450));
    CHECK(sums_text, &w, "100: run 50 able 0 blocked 0 paused 0 unknown 50");
    CHECK(waits_text, &w, "");
    waiting_clear(&w);
    scene_clear(&s);
}

/* A chain of threads of which each waits for the next one, longer than is
 * followed: as deep as that, a wait is one. */
static void test_depth(void)
{
    enum { CHAIN = WAITING_DEPTH + 6, AWAKE = CHAIN + 10, ROOM = 4 * CHAIN };
    struct beat beats[ROOM];
    struct waiting_span w;
    struct scene s;
    unsigned n = 0, deepest = 0, blocked = 0;

    beats[n++] = (struct beat) TASK(0, 1, 1, 0);
    for (unsigned i = 0; i < CHAIN; i++) {
        beats[n++] = (struct beat) TASK(i, 0, 2 + i, i ? BLOCKED : 0);
    }
    /* The last one that came wakes the one before it, and so on. */
    for (unsigned i = CHAIN - 1; i--; ) {
        unsigned us = AWAKE + 2 * (CHAIN - i);

        beats[n++] = (struct beat) WAKE(us, 0, 2 + i, 0);
        beats[n++] = (struct beat) TASK(us + 1, 0, 2 + i, BLOCKED);
    }
    beats[n++] = (struct beat) TIME(1000, 0);
    beats[n++] = (struct beat) TIME(1000, 1);
    g_assert_cmpuint(n, <=, ROOM);
    for (unsigned i = 0; i < n; i++) {
        beats[i].in = 3;        /* There are more threads than functions. */
    }
    scene_init(&s, beats, n);
    w = read_span(&s, span_of(2, 0, 300));
    for (guint i = 0; i < w.path->len; i++) {
        const struct waiting_part *p = &g_array_index(w.path,
                                                      struct waiting_part, i);

        deepest = MAX(deepest, p->depth);
        if (p->state == WAITING_BLOCKED) {
            g_assert_cmpuint(p->depth, ==, WAITING_DEPTH);
            blocked++;
        }
    }
    g_assert_cmpuint(deepest, ==, WAITING_DEPTH);
    g_assert_cmpuint(blocked, ==, 1);
    waiting_clear(&w);
    scene_clear(&s);
}

/* More parts than are kept: the rest is one, of which nothing is known. */
static void test_cut(void)
{
    enum { TURNS = WAITING_PARTS / 2 + 100 };
    g_autofree struct beat *beats = g_new0(struct beat, 2 * TURNS + 3);
    const struct waiting_part *last;
    struct scene s;
    struct waiting_span w;
    unsigned n = 0;

    beats[n++] = (struct beat) TASK(0, 1, 1, 0);
    for (unsigned i = 0; i < TURNS; i++) {
        beats[n++] = (struct beat) TASK(2 * i, 0, 2, i ? RUNNABLE : 0);
        beats[n++] = (struct beat) TASK(2 * i + 1, 0, 3, RUNNABLE);
    }
    beats[n++] = (struct beat) TIME(2 * TURNS, 0);
    beats[n++] = (struct beat) TIME(2 * TURNS, 1);
    scene_init(&s, beats, n);
    w = read_span(&s, span_of(2, 0, 2 * TURNS));
    g_assert_cmpuint(w.path->len, ==, WAITING_PARTS);
    last = &g_array_index(w.path, struct waiting_part, WAITING_PARTS - 1);
    g_assert_cmpint(last->state, ==, WAITING_UNKNOWN);
    g_assert_cmpuint(last->begin, ==, clock_of(WAITING_PARTS - 1));
    g_assert_cmpuint(last->end, ==, clock_of(2 * TURNS));
    g_assert_cmpuint(in_us(w.cut), ==, 2 * TURNS - WAITING_PARTS);
    g_assert_cmpuint(w.others, ==, TURNS - WAITING_MOST);
    g_assert_cmpuint(in_us(w.runnable), ==, TURNS);
    waiting_clear(&w);
    scene_clear(&s);
}

/*
 * A wait that takes no time, as far as the trace knows it, has been ended by
 * somebody.  It is in a span that has its moment, and not in one that ends or
 * begins with it.
 */
static void test_instant(void)
{
    static const struct beat beats[] = {
        TASK(0, 0, 2, 0), TASK(0, 1, 1, 0), TASK(100, 0, 3, BLOCKED),
        WAKE(100, 0, 2, 0), TASK(200, 0, 2, BLOCKED), TIME(400, 0),
        TIME(400, 1),
    };
    static const struct {
        unsigned begin, end;
        const char *path;
        uint64_t indices[2];
    } spans[] = {
        { 50, 150, "50-100 running 12/0; 100-100 blocked 12/0 by 13; "
          "100-150 runnable 12/0@f2", { NO_INDEX, NO_INDEX } },
        { 50, 101, "50-100 running 12/0; 100-100 blocked 12/0 by 13; "
          "100-101 runnable 12/0@f2", { NO_INDEX, NO_INDEX } },
        { 50, 100, "50-100 running 12/0", { NO_INDEX, NO_INDEX } },
        { 100, 150, "100-150 runnable 12/0@f2", { NO_INDEX, NO_INDEX } },
        /* The thread leaves after record 0. */
        { 50, 100, "50-100 running 12/0", { NO_INDEX, 0 } },
        { 50, 100, "50-100 running 12/0; 100-100 blocked 12/0 by 13",
          { NO_INDEX, 1 } },
        { 100, 150, "100-100 blocked 12/0 by 13; 100-150 runnable 12/0@f2",
          { 0, NO_INDEX } },
        { 100, 150, "100-150 runnable 12/0@f2", { 1, NO_INDEX } },
    };
    struct scene s;

    scene_init(&s, beats, G_N_ELEMENTS(beats));
    for (unsigned i = 0; i < G_N_ELEMENTS(spans); i++) {
        struct waiting_span w = span_of(2, spans[i].begin, spans[i].end);

        w.begin.index = spans[i].indices[0];
        w.end.index = spans[i].indices[1];
        w = read_span(&s, w);
        CHECK(path_text, &w, spans[i].path);
        waiting_clear(&w);
    }
    scene_clear(&s);
}

/* Of very many parts, those that take no time are left out. */
static void test_instants(void)
{
    enum { TURNS = WAITING_PARTS / 4, MORE = 5 };
    g_autofree struct beat *beats = g_new0(struct beat, 3 * TURNS + MORE);
    unsigned n = 0, instants = 0, last = 0;
    struct waiting_span w;
    struct scene s;

    beats[n++] = (struct beat) TASK(0, 1, 1, 0);
    for (unsigned i = 0; i < TURNS; i++) {
        beats[n++] = (struct beat) TASK(2 * i, 0, 2, i ? RUNNABLE : 0);
        beats[n++] = (struct beat) TASK(2 * i + 1, 0, 3, BLOCKED);
        beats[n++] = (struct beat) WAKE(2 * i + 1, 0, 2, 0);
    }
    beats[n++] = (struct beat) TIME(2 * TURNS, 0);
    beats[n++] = (struct beat) TIME(2 * TURNS, 1);
    scene_init(&s, beats, n);
    w = read_span(&s, span_of(2, 0, 2 * TURNS));
    for (guint i = 0; i < w.path->len; i++) {
        const struct waiting_part *p = &g_array_index(w.path,
                                                      struct waiting_part, i);

        if (p->begin == p->end) {
            instants++;
            last = i;
        }
    }
    g_assert_cmpuint(last, <, WAITING_PARTS / 4);
    g_assert_cmpuint(last, >=, WAITING_PARTS / 4 - 3);
    g_assert_cmpuint(w.path->len - instants, ==, 2 * TURNS);
    g_assert_cmpuint(w.cut, ==, 0);
    /* As waits, all are. */
    g_assert_cmpuint(w.others, ==, 2 * TURNS - WAITING_MOST);
    waiting_clear(&w);
    scene_clear(&s);
}

/*
 * The records of what runs: those between the moments of the span; in
 * proportion to time, where only that is known
 */
static void test_range(void)
{
    static const struct beat beats[] = {
        TASK(0, 1, 1, 0), TASK(0, 0, 3, 0), TASK(100, 0, 2, RUNNABLE),
        TIME(110, 0), TIME(120, 0), TIME(130, 0), TIME(140, 0), TIME(150, 0),
        TIME(160, 0), TIME(170, 0), TIME(180, 0), TIME(190, 0),
        TASK(200, 0, 3, RUNNABLE), TIME(300, 0), TIME(300, 1),
    };
    /* The thread has records 1 to 10. */
    static const struct {
        uint64_t indices[2];
        unsigned times[2];
        unsigned begin, end;
    } spans[] = {
        { { NO_INDEX, NO_INDEX }, { 50, 250 }, 1, 11 },
        { { NO_INDEX, NO_INDEX }, { 100, 200 }, 1, 11 },
        { { NO_INDEX, NO_INDEX }, { 150, 180 }, 6, 9 },
        { { 2, 4 }, { 150, 180 }, 3, 5 },
        { { 1, 10 }, { 150, 180 }, 2, 11 },
        /* Records that are not of this thread say nothing. */
        { { 0, 11 }, { 150, 180 }, 6, 9 },
    };
    struct scene s;

    scene_init(&s, beats, G_N_ELEMENTS(beats));
    for (unsigned i = 0; i < G_N_ELEMENTS(spans); i++) {
        struct waiting_span w = span_of(2, spans[i].times[0],
                                        spans[i].times[1]);
        unsigned found = 0;

        w.begin.index = spans[i].indices[0];
        w.end.index = spans[i].indices[1];
        w = read_span(&s, w);
        for (guint k = 0; k < w.path->len; k++) {
            const struct waiting_part *p = &g_array_index(
                w.path, struct waiting_part, k);

            if (p->state == WAITING_RUNNING) {
                g_assert_cmpuint(p->range.vcpu, ==, 0);
                g_assert_cmpuint(p->range.begin, ==, spans[i].begin);
                g_assert_cmpuint(p->range.end, ==, spans[i].end);
                found++;
            }
        }
        g_assert_cmpuint(found, ==, 1);
        waiting_clear(&w);
    }
    scene_clear(&s);
}

/* Before the trace nothing is known, and of who does not run while nobody knows
 * who does: who wakes it then has not begun it, unless that is said. */
static void test_before(void)
{
    static const struct beat beats[] = {
        TASK(100, 0, 2, 0), TASK(100, 1, 3, 0), TASK(120, 1, 4, BLOCKED),
        TASK(140, 1, 0, BTRAIL_TASK_UNKNOWN), WAKE(150, 0, 3, 0),
        TASK(160, 1, 4, 0), TASK(250, 0, 3, BLOCKED), TIME(400, 0),
        TIME(400, 1),
    };
    struct waiting_span w;
    struct scene s;

    scene_init(&s, beats, G_N_ELEMENTS(beats));
    w = read_span(&s, span_of(3, 50, 300));
    CHECK(path_text, &w,
          "50-100 unknown 13/0; 100-120 running 13/0; "
          "120-140 blocked 13/0@f3; 140-150 unknown 13/0; "
          "150-250 unknown 13/0; 250-300 running 13/0");
    CHECK(sums_text, &w, "250: run 70 able 0 blocked 20 paused 0 unknown 160");
    waiting_clear(&w);
    w = read_span(&s, span_of(2, 50, 300));
    CHECK(path_text, &w, "50-100 unknown 12/0; 100-250 running 12/0; "
          "250-300 blocked 12/0@f2");
    waiting_clear(&w);
    scene_clear(&s);
}

/* One vCPU waits for room in the buffer: only who runs there is paused, and
 * where it ends up mostly paused, that is its state. */
static void test_pauses(void)
{
    static const struct beat beats[] = {
        TASK(0, 0, 2, 0), TASK(0, 1, 3, 0), PAUSE(100, 0), RESUME(180, 0),
        TASK(200, 0, 4, RUNNABLE), PAUSE(220, 0), RESUME(280, 0),
        TASK(300, 0, 2, BLOCKED), PAUSE(310, 0), RESUME(390, 0),
        TASK(400, 0, 4, BLOCKED), TIME(500, 0), TIME(500, 1),
    };
    struct scene s;
    struct waiting_span w;

    scene_init(&s, beats, G_N_ELEMENTS(beats));
    w = read_span(&s, span_of(2, 90, 400));
    CHECK(sums_text, &w,
          "310: run 50 able 100 blocked 0 paused 160 unknown 0");
    CHECK(path_text, &w,
          "90-200 paused 12/0; 200-300 runnable 12/0@f2; 300-400 paused 12/0");
    waiting_clear(&w);
    scene_clear(&s);
}

/* Nothing is known of a thread that the trace does not have, before it has one,
 * and of what comes where it is known no more. */
static void test_unknown(void)
{
    static const struct beat beats[] = {
        TASK(0, 0, 2, 0), TASK(0, 1, 1, 0), TASK(100, 0, 0, BLOCKED),
        WAKE(200, 1, 2, 0), TASK(300, 0, 2, RUNNABLE), TIME(400, 0),
        TIME(400, 1),
    };
    struct thread_states_options few = {
        .end = UINT64_MAX, .tick = 1000000, .whole = true, .items = 12,
    };
    struct thread_states *states;
    struct scene s;
    struct waiting_options options;
    struct waiting_span w = span_of(5, 50, 250);
    uint64_t until;

    scene_init(&s, beats, G_N_ELEMENTS(beats));
    options = options_of(&s);
    g_assert_cmpint(waiting_read(&w, &options), ==, 0);
    CHECK(sums_text, &w, "200: run 0 able 0 blocked 0 paused 0 unknown 200");
    CHECK(path_text, &w, "50-250 unknown 0/0");
    g_assert_cmpuint(w.instead->len, ==, 0);
    waiting_clear(&w);

    /* No time, and an end before the begin, which is none */
    for (unsigned end = 50; end < 100; end += 10) {
        w = span_of(2, 90, end);
        g_assert_cmpint(waiting_read(&w, &options), ==, 0);
        g_assert_cmpuint(w.elapsed, ==, 0);
        g_assert_cmpuint(w.end.time, ==, w.begin.time);
        g_assert_cmpuint(w.path->len, ==, 0);
        waiting_clear(&w);
    }

    g_assert_cmpint(thread_states_read(&states, s.trace, &few), ==, 0);
    until = thread_states_until(states);
    g_assert_cmpuint(until, >, clock_of(0));
    g_assert_cmpuint(until, <, clock_of(350));
    options.states = states;
    w = span_of(2, 0, 350);
    g_assert_cmpint(waiting_read(&w, &options), ==, 0);
    g_assert_cmpuint(w.late, ==, until);
    g_assert_cmpuint(w.unknown, ==, clock_of(350) - until);
    g_assert_cmpuint(w.on_cpu + w.runnable + w.blocked, ==,
                     until - clock_of(0));
    g_assert_cmpint(g_array_index(w.path, struct waiting_part,
                                  w.path->len - 1).state, ==, WAITING_UNKNOWN);
    waiting_clear(&w);
    thread_states_free(states);
    scene_clear(&s);
}

/*
 * Random scenes
 */

enum { LENGTH = 600, FIRST = 20, LAST = LENGTH - 10 };

/**
 * struct truth - of each microsecond
 * @state: enum thread_state of a thread
 * @vcpu:  that runs it, or that it has left
 * @until: end of its wait, if it is blocked; 0 if that does not end
 * @waker: who ends that
 * @runs:  what a vCPU runs
 */
struct truth {
    enum thread_state state[THREADS][LENGTH];
    unsigned vcpu[THREADS][LENGTH];
    unsigned until[THREADS][LENGTH];
    unsigned waker[THREADS][LENGTH];
    unsigned runs[VCPUS][LENGTH];
    bool paused[LENGTH];
};

struct play {
    struct truth truth;
    enum thread_state state[THREADS];
    unsigned vcpu[THREADS];
    unsigned since[THREADS];
    unsigned runs[VCPUS];
    bool paused;
    GArray *beats;
};

static void put(struct play *p, struct beat b)
{
    g_array_append_val(p->beats, b);
}

static void switch_to(struct play *p, unsigned us, unsigned vcpu,
                      unsigned thread)
{
    unsigned was = p->runs[vcpu];
    bool blocks = us < FIRST || g_test_rand_bit();

    if (was >= VCPUS) {
        p->state[was] = blocks ? THREAD_BLOCKED : THREAD_RUNNABLE;
        p->since[was] = us;
    }
    put(p, (struct beat) TASK(us, vcpu, thread, was >= VCPUS && blocks ?
                              BLOCKED : RUNNABLE));
    p->state[thread] = THREAD_RUNNING;
    p->vcpu[thread] = vcpu;
    p->runs[vcpu] = thread;
}

static void wake(struct play *p, unsigned us, unsigned vcpu, unsigned thread)
{
    put(p, (struct beat) WAKE(us, vcpu, thread, 0));
    for (unsigned x = p->since[thread]; x < us; x++) {
        p->truth.until[thread][x] = us;
        p->truth.waker[thread][x] = p->runs[vcpu];
    }
    p->state[thread] = THREAD_RUNNABLE;
}

static void step(struct play *p, unsigned us)
{
    unsigned vcpu = g_test_rand_int_range(0, VCPUS);
    unsigned thread = g_test_rand_int_range(VCPUS, THREADS);

    if (us < FIRST) {
        /* Each is seen. */
        if (us >= 2 && us < 2 + THREADS) {
            thread = us - 2;
            vcpu = thread < VCPUS ? thread : 0;
            switch_to(p, us, vcpu, thread);
        }
    } else if (p->paused || (us < LAST && !g_test_rand_int_range(0, 40))) {
        /* Of a pause without an end, nothing is known. */
        if (!p->paused || us >= LAST || !g_test_rand_int_range(0, 10)) {
            for (unsigned v = 0; v < VCPUS; v++) {
                struct beat b = PAUSE(us, v);

                b.type = p->paused ? BTRAIL_EVENT_RESUME : BTRAIL_EVENT_PAUSE;
                b.reason = BTRAIL_PAUSE_VM_STOP;
                put(p, b);
            }
            p->paused = !p->paused;
        }
    } else if (g_test_rand_bit()) {
        if (p->state[thread] == THREAD_BLOCKED) {
            wake(p, us, vcpu, thread);
        } else if (p->state[thread] == THREAD_RUNNABLE) {
            switch_to(p, us, vcpu, thread);
        }
    } else if (p->runs[vcpu] >= VCPUS && !g_test_rand_int_range(0, 3)) {
        switch_to(p, us, vcpu, vcpu);
    }
}

static void play_random(struct play *p)
{
    memset(p, 0, sizeof(*p));
    p->beats = g_array_new(FALSE, FALSE, sizeof(struct beat));
    for (unsigned v = 0; v < VCPUS; v++) {
        p->runs[v] = p->vcpu[v] = v;
        put(p, (struct beat) TASK(0, v, v, 0));
    }
    for (unsigned us = 0; us < LENGTH; us++) {
        if (us) {
            step(p, us);
        }
        for (unsigned t = 0; t < THREADS; t++) {
            p->truth.state[t][us] = p->state[t];
            p->truth.vcpu[t][us] = p->vcpu[t];
        }
        for (unsigned v = 0; v < VCPUS; v++) {
            p->truth.runs[v][us] = p->runs[v];
        }
        p->truth.paused[us] = p->paused;
    }
    for (unsigned v = 0; v < VCPUS; v++) {
        put(p, (struct beat) TIME(LENGTH, v));
    }
}

/* Whose doing a microsecond is, in the path of a thread in a time */
struct blame {
    unsigned thread;
    enum thread_state state;
    unsigned depth;
};

static struct blame blame(const struct truth *t, unsigned thread, unsigned x,
                          unsigned begin, unsigned end, unsigned small)
{
    struct blame b = { thread, t->state[thread][x], 0 };
    unsigned until = t->until[thread][x], from = x;

    if (b.state != THREAD_BLOCKED || !until || until > end ||
        t->waker[thread][x] < VCPUS) {
        return b;
    }
    while (from > begin && t->state[thread][from - 1] == THREAD_BLOCKED) {
        from--;
    }
    if ((until - from) * 1000 < small) {
        return b;
    }
    b = blame(t, t->waker[thread][x], x, from, until, small);
    b.depth++;
    return b;
}

static void check_path(const struct truth *t, const struct waiting_span *w,
                       unsigned thread, unsigned begin, unsigned end)
{
    static const enum waiting_state states[] = {
        [THREAD_RUNNING] = WAITING_RUNNING, [THREAD_BLOCKED] = WAITING_BLOCKED,
        [THREAD_RUNNABLE] = WAITING_RUNNABLE,
    };
    unsigned x = begin, small = MAX((end - begin) * 1000 / 512, 1);

    for (guint i = 0; i < w->path->len; i++) {
        const struct waiting_part *p = &g_array_index(w->path,
                                                      struct waiting_part, i);
        unsigned paused = 0;

        g_assert_cmpuint(p->begin, ==, clock_of(x));
        for (; clock_of(x) < p->end; x++) {
            struct blame b = blame(t, thread, x, begin, end, small);

            g_assert_cmpuint(p->task.tid, ==, PID + b.thread);
            g_assert_cmpint(p->state, ==, states[b.state]);
            g_assert_cmpuint(p->depth, ==, b.depth);
            paused += t->paused[x];
        }
        g_assert_cmpuint(in_us(p->paused), ==, paused);
        g_assert_cmpint(waiting_part_state(p), ==,
                        2000 * paused > p->end - p->begin ? WAITING_PAUSED :
                        p->state);
    }
    g_assert_cmpuint(x, ==, end);
}

static void check_sums(const struct truth *t, const struct waiting_span *w,
                       unsigned thread, unsigned begin, unsigned end)
{
    unsigned sums[5] = { 0 }, paused = 0, waits = 0, blocked = 0;

    for (unsigned x = begin; x < end; x++) {
        enum thread_state state = t->state[thread][x];
        bool first = x == begin || state != t->state[thread][x - 1];

        paused += t->paused[x];
        sums[state] += !t->paused[x];
        waits += first && state != THREAD_RUNNING;
        blocked += first && state == THREAD_BLOCKED;
    }
    g_assert_cmpuint(in_us(w->elapsed), ==, end - begin);
    g_assert_cmpuint(in_us(w->on_cpu), ==, sums[THREAD_RUNNING]);
    g_assert_cmpuint(in_us(w->runnable), ==, sums[THREAD_RUNNABLE]);
    g_assert_cmpuint(in_us(w->blocked), ==, sums[THREAD_BLOCKED]);
    g_assert_cmpuint(in_us(w->paused), ==, paused);
    g_assert_cmpuint(w->unknown, ==, 0);

    g_assert_cmpuint(w->others, ==, waits > WAITING_MOST ?
                     waits - WAITING_MOST : 0);
    for (guint i = 0; i < w->waits->len; i++) {
        const struct waiting_wait *wait = &g_array_index(
            w->waits, struct waiting_wait, i);
        uint64_t times = 0;

        for (guint k = 0; k < wait->wakers->len; k++) {
            times += g_array_index(wait->wakers, struct waiting_waker,
                                   k).times;
        }
        if (wait->state != WAITING_BLOCKED) {
            g_assert_cmpuint(times, ==, 0);
        } else if (waits <= WAITING_MOST) {
            g_assert_cmpuint(wait->times, ==, blocked);
            g_assert_cmpuint(in_us(wait->ns), ==, sums[THREAD_BLOCKED]);
        }
        g_assert_cmpuint(times, <=, wait->times);
    }
}

/* The vCPU that runs it next, or that it has left */
static unsigned next_vcpu(const struct truth *t, unsigned thread, unsigned x)
{
    unsigned k = x;

    while (k < LENGTH && t->state[thread][k] != THREAD_RUNNING) {
        k++;
    }
    return t->vcpu[thread][k < LENGTH ? k : x];
}

static void check_instead(const struct truth *t, const struct waiting_span *w,
                          unsigned thread, unsigned begin, unsigned end)
{
    unsigned sums[THREADS] = { 0 }, n = 0;

    for (unsigned x = begin; x < end; x++) {
        if (t->state[thread][x] == THREAD_RUNNABLE && !t->paused[x]) {
            sums[t->runs[next_vcpu(t, thread, x)][x]]++;
        }
    }
    for (guint i = 0; i < w->instead->len; i++) {
        const struct waiting_user *u = &g_array_index(
            w->instead, struct waiting_user, i);

        g_assert_true(!i || u->ns <= u[-1].ns);
        if (u->task.tid) {
            g_assert_cmpuint(in_us(u->ns), ==, sums[u->task.tid - PID]);
        } else {
            g_assert_true(in_us(u->ns) == sums[0] || in_us(u->ns) == sums[1]);
        }
        n += in_us(u->ns);
    }
    g_assert_cmpuint(n, ==, in_us(w->runnable));
}

static void test_random(void)
{
    g_autofree struct play *p = g_new(struct play, 1);

    for (unsigned round = 0; round < 20; round++) {
        struct thread_states_options all = {
            .end = UINT64_MAX, .tick = 1000000, .whole = true,
        };
        struct thread_states *states;
        struct scene s;

        play_random(p);
        scene_init(&s, (const struct beat *)p->beats->data, p->beats->len);
        g_assert_cmpint(thread_states_read(&states, s.trace, &all), ==, 0);
        for (unsigned i = 0; i < 30; i++) {
            unsigned thread = g_test_rand_int_range(VCPUS, THREADS);
            unsigned begin = g_test_rand_int_range(FIRST, LENGTH - 1);
            unsigned end = g_test_rand_int_range(begin + 1, LENGTH);
            struct waiting_options options = options_of(&s);
            struct waiting_span w = span_of(thread, begin, end);

            options.states = i % 2 ? states : NULL;
            g_assert_cmpint(waiting_read(&w, &options), ==, 0);
            check_sums(&p->truth, &w, thread, begin, end);
            check_path(&p->truth, &w, thread, begin, end);
            if (options.states) {
                check_instead(&p->truth, &w, thread, begin, end);
            }
            waiting_clear(&w);
        }
        thread_states_free(states);
        g_array_unref(p->beats);
        scene_clear(&s);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/waiting/path", test_path);
    g_test_add_func("/waiting/stacks", test_stacks);
    g_test_add_func("/waiting/interrupt", test_interrupt);
    g_test_add_func("/waiting/idle", test_idle);
    g_test_add_func("/waiting/parent", test_parent);
    g_test_add_func("/waiting/depth", test_depth);
    g_test_add_func("/waiting/cut", test_cut);
    g_test_add_func("/waiting/instant", test_instant);
    g_test_add_func("/waiting/instants", test_instants);
    g_test_add_func("/waiting/range", test_range);
    g_test_add_func("/waiting/before", test_before);
    g_test_add_func("/waiting/pauses", test_pauses);
    g_test_add_func("/waiting/unknown", test_unknown);
    g_test_add_func("/waiting/random", test_random);
    return g_test_run();
}
