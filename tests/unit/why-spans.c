/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Test which spans are explained: the longest ones of many, the life of a
 * process, and the wait before a record, against lists of what threads did
 */

#include <stdlib.h>
#include <string.h>

#include "cli/why/why.h"
#include "trace-samples.h"

#define START   UINT64_C(5000000000)
#define VCPU    3u
#define TURNS   200u
#define MOST    20              /* records of a turn */

struct thread {
    uint32_t pid, tid;
    const char *name;
};

/* The last one is the idle task. */
static const struct thread threads[] = {
    { 10, 10, "main" }, { 20, 20, "job" }, { 20, 21, "late" },
    { 30, 30, "job" }, { 40, 41, "only" }, { 0, 0, "swapper" },
};

#define THREADS G_N_ELEMENTS(threads)
#define IDLE    (THREADS - 1)

struct turn {
    unsigned thread;
    uint64_t begin, end;        /* times */
    uint64_t first, after;      /* records */
};

struct scene {
    struct turn turns[TURNS];
    bool dies[THREADS];
    struct why why;
    char *path;
};

static const struct turn *last_turn(const struct scene *s, unsigned thread,
                                    unsigned before)
{
    for (unsigned i = before; i-- > 0;) {
        if (s->turns[i].thread == thread) {
            return &s->turns[i];
        }
    }
    return NULL;
}

static const struct turn *first_turn(const struct scene *s, unsigned thread)
{
    for (unsigned i = 0; i < TURNS; i++) {
        if (s->turns[i].thread == thread) {
            return &s->turns[i];
        }
    }
    return NULL;
}

/* How the thread of the turn before has left */
static uint16_t left(const struct scene *s, unsigned turn)
{
    const struct turn *t = turn ? &s->turns[turn - 1] : NULL;

    return !t ? 0 : t->thread == IDLE ? BTRAIL_TASK_LEFT_RUNNABLE :
           s->dies[t->thread] && t == last_turn(s, t->thread, TURNS) ?
           BTRAIL_TASK_LEFT_DEAD :
           g_test_rand_bit() ? BTRAIL_TASK_LEFT_BLOCKED :
           BTRAIL_TASK_LEFT_RUNNABLE;
}

static void put_turn(const struct scene *s, struct btrail_writer *w,
                     unsigned i)
{
    static const struct btrail_record records[MOST];
    const struct turn *t = &s->turns[i];
    const struct thread *thread = &threads[t->thread];
    struct btrail_event events[] = {
        { .index = t->first, .type = BTRAIL_EVENT_TIME,
          .data = { t->begin, 0, BTRAIL_NO_ICOUNT } },
        { .index = t->first, .type = BTRAIL_EVENT_TASK, .reason = left(s, i),
          .data = { (uint64_t)thread->pid << 32 | thread->tid } },
    };
    const struct btrail_slab slab = {
        .first_index = t->first, .cr3 = 0x1000, .records = records,
        .n_records = t->after - t->first, .events = events,
        .n_events = G_N_ELEMENTS(events),
    };

    memcpy(&events[1].data[1], thread->name, strlen(thread->name));
    g_assert_cmpint(btrail_writer_append(w, VCPU, &slab), ==, 0);
}

static void put_end(const struct scene *s, struct btrail_writer *w)
{
    const struct turn *t = &s->turns[TURNS - 1];
    const struct btrail_event events[] = {
        { .index = t->after, .type = BTRAIL_EVENT_TIME,
          .data = { t->end, 0, BTRAIL_NO_ICOUNT } },
        { .index = t->after, .type = BTRAIL_EVENT_END,
          .reason = BTRAIL_END_STOPPED, .data = { t->end } },
    };
    const struct btrail_slab slab = {
        .first_index = t->after, .cr3 = 0x1000, .events = events,
        .n_events = G_N_ELEMENTS(events),
    };

    g_assert_cmpint(btrail_writer_append(w, VCPU, &slab), ==, 0);
}

static void scene_init(struct scene *s)
{
    struct btrail_writer *w;
    uint64_t time = START, index = 0;

    memset(s, 0, sizeof(*s));
    s->path = sample_path();
    for (unsigned i = 0; i < THREADS; i++) {
        s->dies[i] = i != IDLE && g_test_rand_bit();
    }
    for (unsigned i = 0; i < TURNS; i++) {
        struct turn *t = &s->turns[i];
        /* The one after the first begins late, and is away for long. */
        bool some = i > TURNS / 4 && i < TURNS * 3 / 4;

        do {
            t->thread = g_test_rand_int_range(0, THREADS);
        } while ((i && t->thread == t[-1].thread) ||
                 (!some && t->thread == 1));
        t->begin = time;
        t->end = time += g_test_rand_int_range(1, 20000000);
        t->first = index;
        t->after = index += g_test_rand_int_range(1, MOST);
    }
    g_assert_cmpint(btrail_writer_open(&w, s->path, 0), ==, 0);
    for (unsigned i = 0; i < TURNS; i++) {
        put_turn(s, w, i);
    }
    put_end(s, w);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    s->why.spans = g_array_new(FALSE, FALSE, sizeof(struct why_span));
    s->why.in.trace.path = "x";
    s->why.in.trace.start = START - 1000;
    s->why.in.trace.tick = 1000000;
    s->why.in.trace.meta = json_object_new();
    s->why.in.window = (struct window) {
        .start = START - 1000, .end = UINT64_MAX,
    };
    g_assert_cmpint(btrail_trace_open(&s->why.in.trace.trace, s->path), ==, 0);
}

static void scene_clear(struct scene *s)
{
    btrail_trace_close(s->why.in.trace.trace);
    json_object_unref(s->why.in.trace.meta);
    g_array_unref(s->why.spans);
    sample_remove(s->path);
}

/* The only span; NULL if none is found */
static const struct why_span *find(struct scene *s)
{
    bool found;

    why_clear_spans(&s->why);
    found = why_find_spans(&s->why);
    g_assert_cmpuint(s->why.spans->len, ==, found);
    return found ? &g_array_index(s->why.spans, struct why_span, 0) : NULL;
}

static void check_life(struct scene *s, const char *name, unsigned thread)
{
    const struct turn *first = first_turn(s, thread);
    const struct turn *last = last_turn(s, thread, TURNS);
    const struct why_span *found;

    s->why.process = (char *)name;
    found = find(s);
    s->why.process = NULL;
    g_assert_cmpuint(!!found, ==, !!first);
    if (!found) {
        return;
    }
    g_assert_cmpuint(found->task.tid, ==, threads[thread].tid);
    g_assert_cmpuint(found->begin.time, ==, first->begin);
    if (s->dies[thread]) {
        g_assert_cmpuint(found->end.time, ==, last->end);
    } else {
        g_assert_cmpuint(found->end.time, ==, s->turns[TURNS - 1].end);
    }
    if (s->dies[thread] && last != &s->turns[TURNS - 1]) {
        g_assert_cmpuint(found->end.vcpu, ==, VCPU);
        g_assert_cmpuint(found->end.index, ==, last->after - 1);
    }
}

static void test_life(void)
{
    for (unsigned round = 0; round < 20; round++) {
        struct scene s;
        const struct turn *one, *other;

        scene_init(&s);
        one = first_turn(&s, 1);
        other = first_turn(&s, 3);
        check_life(&s, "main", 0);
        check_life(&s, "10", 0);
        check_life(&s, "20", 1);
        check_life(&s, "0x1e", 3);
        /* The one that has run first */
        check_life(&s, "job", one && (!other || one->begin < other->begin) ?
                   1 : 3);
        /* Names and numbers of threads, and idle tasks, are of no process. */
        s.why.process = (char *)"late";
        g_assert_null(find(&s));
        s.why.process = (char *)"21";
        g_assert_null(find(&s));
        s.why.process = (char *)"only";
        g_assert_null(find(&s));
        s.why.process = (char *)"0";
        g_assert_null(find(&s));
        s.why.process = (char *)"swapper";
        g_assert_null(find(&s));
        scene_clear(&s);
    }
}

/* The wait before a record: since its thread ran before */
static void check_wait(struct scene *s, unsigned turn, uint64_t index)
{
    const struct turn *t = &s->turns[turn];
    const struct turn *before = last_turn(s, t->thread, turn);
    g_autofree char *place = g_strdup_printf("%u:%" G_GUINT64_FORMAT, VCPU,
                                             index);
    const struct why_span *found;

    s->why.what = place;
    found = find(s);
    g_assert_cmpuint(!!found, ==, before && t->thread != IDLE);
    if (found) {
        g_assert_cmpuint(found->task.tid, ==, threads[t->thread].tid);
        g_assert_cmpuint(found->begin.time, ==, before->end);
        g_assert_cmpuint(found->end.vcpu, ==, VCPU);
        g_assert_cmpuint(found->end.index, ==, index);
        g_assert_cmpuint(found->end.time, >=, t->begin);
        g_assert_cmpuint(found->end.time, <=, t->end);
    }
}

static void test_wait(void)
{
    for (unsigned round = 0; round < 10; round++) {
        struct scene s;

        scene_init(&s);
        for (unsigned i = 0; i < 40; i++) {
            unsigned turn = g_test_rand_int_range(0, i % 2 ? 20 : TURNS);
            const struct turn *t = &s.turns[turn];

            check_wait(&s, turn, g_test_rand_int_range(t->first, t->after));
        }
        scene_clear(&s);
    }
}

static int by_length(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return (*x < *y) - (*x > *y);
}

/* However many there are, and in whatever order, the longest ones are known;
 * pauses do not count. */
static void test_limit(void)
{
    enum { MOST_SPANS = 1 << 20, FIRST = 1000 };
    static const unsigned counts[] = {
        FIRST, MOST_SPANS, MOST_SPANS + 1, 2 * MOST_SPANS + 12345,
    };

    for (unsigned k = 0; k < G_N_ELEMENTS(counts); k++) {
        unsigned n = counts[k];
        g_autofree uint64_t *lengths = g_new(uint64_t, n);
        struct why why = {
            .spans = g_array_new(FALSE, FALSE, sizeof(struct why_span)),
        };

        for (unsigned i = 0; i < n; i++) {
            uint64_t begin = START + i;
            struct why_span span = { .begin.time = begin };

            lengths[i] = (uint64_t)g_test_rand_int_range(0, G_MAXINT32);
            span.paused = g_test_rand_int_range(0, 1000000000);
            span.end.time = begin + lengths[i] + span.paused;
            why_add_span(&why, &span);
        }
        qsort(lengths, n, sizeof(*lengths), by_length);
        why_sort_spans(&why);
        g_assert_cmpuint(why.spans->len, <=, MOST_SPANS);
        g_assert_cmpuint(why.left_out + why.spans->len, ==, n);
        g_assert_true(n > MOST_SPANS || !why.left_out);
        for (unsigned i = 0; i < FIRST; i++) {
            const struct why_span *s = &g_array_index(why.spans,
                                                      struct why_span, i);

            g_assert_cmpuint(s->end.time - s->begin.time - s->paused, ==,
                             lengths[i]);
        }
        why_clear_spans(&why);
        g_assert_cmpuint(why.spans->len + why.left_out, ==, 0);
        g_array_unref(why.spans);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/why-spans/life", test_life);
    g_test_add_func("/why-spans/wait", test_wait);
    g_test_add_func("/why-spans/limit", test_limit);
    return g_test_run();
}
