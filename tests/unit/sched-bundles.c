/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a kernel schedules, at random, against what a reader finds in the events
 * of ftrace that are made of it: one that is made of Perfetto's schema
 */

#include <stdlib.h>
#include <string.h>

#include "cli/export/sched-bundles.h"
#include "timeline-reader.h"

enum { VCPUS = 3 };

/* A switch, or with @wake a wake-up, as ftrace has it */
struct event {
    unsigned cpu;
    bool wake, late;
    uint64_t time, pid, state, waker;
    const char *name;           /* of timeline_text(); NULL: none */
};

struct scene {
    char *bytes;
    size_t size;
    FILE *out;
    struct perfetto *p;
    struct sched_bundles *b;
    GArray *want;
    uint64_t now;
    bool begun[VCPUS];
};

static void begin(struct scene *s)
{
    memset(s, 0, sizeof(*s));
    s->out = open_memstream(&s->bytes, &s->size);
    s->p = perfetto_new(s->out);
    s->b = sched_bundles_new(s->p);
    s->want = g_array_new(FALSE, FALSE, sizeof(struct event));
    s->now = 1000;
}

static void end(struct scene *s)
{
    sched_bundles_free(s->b);
    perfetto_free(s->p);
    fclose(s->out);
    free(s->bytes);
    g_array_unref(s->want);
}

/* As Linux numbers them since 4.14; none has 0x200. */
static uint64_t state_of(enum schedule_state state)
{
    switch (state) {
    case SCHEDULE_RUNNABLE:
        return 0;
    case SCHEDULE_INTERRUPTIBLE:
        return 1;
    case SCHEDULE_UNINTERRUPTIBLE:
        return 2;
    case SCHEDULE_DEAD:
        return 0x10;
    default:
        return 0x200;
    }
}

static struct btrail_task task_of(uint32_t pid, uint32_t tid, const char *name)
{
    struct btrail_task t = { .known = true, .pid = pid, .tid = tid };

    g_strlcpy(t.name, name, sizeof(t.name));
    return t;
}

/* @t: NULL: nobody knows; @name: as it is read */
static void run(struct scene *s, unsigned cpu, const struct btrail_task *t,
                enum schedule_state state, const char *name)
{
    const struct schedule_run r = {
        .vcpu = cpu, .time = s->now, .state = state, .first = !s->begun[cpu],
        .task = t ? *t : (struct btrail_task) { 0 },
    };
    struct event e = { .cpu = cpu, .time = s->now };

    if (r.first) {
        e.name = timeline_text("swapper");
        g_array_append_val(s->want, e);
        s->begun[cpu] = true;
    }
    e.pid = t ? t->tid & 0x7fffffff : 0x7fffffff - cpu;
    e.name = timeline_text(t ? name : "(unknown task)");
    e.state = state_of(state);
    g_array_append_val(s->want, e);
    sched_bundles_ops.run(s->b, &r);
}

/* @waker: of one that is late; NULL: nobody knows */
static void wake(struct scene *s, unsigned cpu, uint32_t tid, bool late,
                 const struct btrail_task *waker, const char *name)
{
    const struct schedule_wake w = {
        .vcpu = cpu, .time = s->now, .task = { .known = true, .tid = tid },
        .late = late, .waker = waker ? *waker : (struct btrail_task) { 0 },
    };
    struct event e = {
        .cpu = cpu, .time = s->now, .wake = true, .late = late,
        .pid = tid & 0x7fffffff,
        .name = late ? (name ? timeline_text(name) : NULL) :
                timeline_text(""),
        .waker = !late ? 0 : waker ? waker->tid & 0x7fffffff :
                 0x7fffffff - cpu,
    };

    g_array_append_val(s->want, e);
    sched_bundles_ops.wake(s->b, &w);
}

/* A packed column of numbers; @n: how many there must be */
static GArray *column(const GArray *compact, unsigned field, unsigned n)
{
    GArray *values = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    const struct proto_field *f = proto_get(compact, field, 0);
    const uint8_t *at = f ? f->bytes : NULL, *to = f ? at + f->n : NULL;

    g_assert_cmpuint(proto_count(compact, field), ==, n ? 1 : 0);
    while (at < to) {
        uint64_t v = proto_varint(&at, to);

        g_array_append_val(values, v);
    }
    g_assert_cmpuint(values->len, ==, n);
    return values;
}

#define value_at(a, i)  g_array_index(a, uint64_t, i)

static unsigned column_length(const GArray *compact, unsigned field)
{
    const struct proto_field *f = proto_get(compact, field, 0);
    unsigned n = 0;

    for (size_t i = 0; f && i < f->n; i++) {
        n += f->bytes[i] < 128;
    }
    return n;
}

static const char *table_name(const GArray *compact, uint64_t i)
{
    const struct proto_field *f = proto_get(compact, 5, i);
    g_autofree char *text = NULL;

    g_assert_nonnull(f);
    text = g_strndup((const char *)f->bytes, f->n);
    return timeline_text(text);
}

static void check_zeros(const GArray *compact, unsigned field, unsigned n)
{
    g_autoptr(GArray) zeros = column(compact, field, n);

    for (unsigned i = 0; i < n; i++) {
        g_assert_cmpuint(value_at(zeros, i), ==, 0);
    }
}

/* Adds the switches, or the wake-ups, of a compact bundle. */
static unsigned read_compact(const GArray *compact, unsigned cpu, bool wakes,
                             GArray *found)
{
    unsigned n = column_length(compact, wakes ? 7 : 1);
    g_autoptr(GArray) times = column(compact, wakes ? 7 : 1, n);
    g_autoptr(GArray) pids = column(compact, wakes ? 8 : 3, n);
    g_autoptr(GArray) names = column(compact, wakes ? 11 : 6, n);
    g_autoptr(GArray) states = wakes ? NULL : column(compact, 2, n);
    uint64_t time = 0;

    g_assert_cmpuint(n, <=, 1024);
    check_zeros(compact, wakes ? 10 : 4, n);
    if (wakes) {
        check_zeros(compact, 9, n);
    }
    for (unsigned i = 0; i < n; i++) {
        struct event e = {
            .cpu = cpu, .wake = wakes, .time = time += value_at(times, i),
            .pid = value_at(pids, i), .state = wakes ? 0 : value_at(states, i),
            .name = table_name(compact, value_at(names, i)),
        };

        g_array_append_val(found, e);
    }
    return n;
}

static void read_event(const GArray *event, unsigned cpu, GArray *found)
{
    g_autoptr(GArray) waking = proto_message(event, 20);
    g_autofree char *name = proto_count(waking, 1) ? proto_text(waking, 1) :
                            NULL;
    struct event e = {
        .cpu = cpu, .wake = true, .late = true, .time = proto_value(event, 1),
        .waker = proto_value(event, 2), .pid = proto_value(waking, 2),
        .name = name ? timeline_text(name) : NULL,
    };

    g_array_append_val(found, e);
}

static void read_bundle(const GArray *bundle, GArray *found)
{
    uint64_t cpu = proto_value(bundle, 1);
    unsigned n = proto_count(bundle, 2);

    for (unsigned i = 0; i < n; i++) {
        const struct proto_field *f = proto_get(bundle, 2, i);
        g_autoptr(GArray) event = proto_read(f->bytes, f->n);

        read_event(event, cpu, found);
    }
    if (proto_count(bundle, 4)) {
        g_autoptr(GArray) compact = proto_message(bundle, 4);

        n += read_compact(compact, cpu, false, found);
        n += read_compact(compact, cpu, true, found);
    }
    /* Nobody writes empty ones. */
    g_assert_cmpuint(n, >, 0);
}

static int compare(const void *a, const void *b)
{
    const struct event *x = a, *y = b;

#define BY(field)                                                            \
    if (x->field != y->field) {                                              \
        return x->field < y->field ? -1 : 1;                                 \
    }
    BY(cpu)
    BY(wake)
    BY(late)
    BY(time)
    BY(pid)
    BY(state)
    BY(waker)
#undef BY
    return g_strcmp0(x->name, y->name);
}

/* What is found is what was scheduled.  Returns the number of bundles. */
static unsigned check(struct scene *s)
{
    g_autoptr(GArray) found = g_array_new(FALSE, FALSE, sizeof(struct event));
    g_autoptr(GPtrArray) packets = NULL;

    sched_bundles_end(s->b);
    fflush(s->out);
    packets = timeline_packets(s->bytes, s->size);
    for (guint i = 0; i < packets->len; i++) {
        g_autoptr(GArray) bundle = proto_message(packets->pdata[i], 1);

        read_bundle(bundle, found);
    }
    g_array_sort(found, compare);
    g_array_sort(s->want, compare);
    g_assert_cmpuint(found->len, ==, s->want->len);
    for (guint i = 0; i < found->len; i++) {
        g_assert_cmpint(compare(&g_array_index(found, struct event, i),
                                &g_array_index(s->want, struct event, i)), ==,
                        0);
    }
    return packets->len;
}

static void test_none(void)
{
    struct scene s;

    begin(&s);
    g_assert_cmpuint(check(&s), ==, 0);
    sched_bundles_threads(s.b, s.p);
    g_assert_cmpuint(perfetto_written(s.p), ==, 0);
    end(&s);
}

static void test_states(void)
{
    const struct btrail_task idle = task_of(0, 0, "swapper/1");
    const struct btrail_task bad = task_of(7, 7, "a\nb");
    struct scene s;

    begin(&s);
    for (int state = SCHEDULE_UNKNOWN; state <= SCHEDULE_DEAD; state++) {
        s.now += 10;
        run(&s, 1, &bad, state, "a\\nb");
        s.now += 300;
        run(&s, 1, &idle, state, "swapper/1");
        run(&s, 2, NULL, state, NULL);
    }
    g_assert_cmpuint(check(&s), ==, 2);
    /* There is nothing left. */
    g_assert_cmpuint(check(&s), ==, 2);
    end(&s);
}

/* One that says who has done it; a thread that was never seen has no name. */
static void test_late(void)
{
    const struct btrail_task one = task_of(5, 6, "one"), two = task_of(
        8, UINT32_MAX, "two");
    struct scene s;

    begin(&s);
    wake(&s, 0, 6, true, &two, NULL);
    run(&s, 0, &one, SCHEDULE_RUNNABLE, "one");
    wake(&s, 0, 6, true, &two, "one");
    s.now++;
    wake(&s, 0, 99, true, NULL, NULL);
    wake(&s, 2, 6, true, NULL, "one");
    wake(&s, 2, UINT32_MAX, false, &one, NULL);
    g_assert_cmpuint(check(&s), ==, 2);
    end(&s);
}

/* However many there are, each is there once, and no bundle has all. */
static void test_late_many(void)
{
    const struct btrail_task t = task_of(5, 6, "one");
    struct scene s;

    begin(&s);
    for (unsigned i = 0; i < 10000; i++) {
        s.now++;
        wake(&s, 1, i, true, &t, NULL);
    }
    g_assert_cmpuint(check(&s), >=, 4);
    end(&s);
}

/* Bundles do not grow without an end, and none loses or repeats an event. */
static void test_random(void)
{
    static const char *const names[] = { "sh", "cc1", "kworker/0:1", "x" };
    struct scene s;

    begin(&s);
    for (unsigned i = 0; i < 30000; i++) {
        unsigned cpu = g_test_rand_int_range(0, VCPUS);
        uint32_t tid = g_test_rand_int_range(1, 5);
        const char *name = names[tid - 1];
        const struct btrail_task t = task_of(tid, tid, name);

        s.now += (uint64_t)g_test_rand_int_range(0, 100)
                 << g_test_rand_int_range(0, 30);
        if (i < 4) {
            const struct btrail_task one = task_of(i + 1, i + 1, names[i]);

            run(&s, cpu, &one, SCHEDULE_DEAD, names[i]);
        } else if (g_test_rand_bit()) {
            run(&s, cpu, g_test_rand_int_range(0, 9) ? &t : NULL,
                g_test_rand_int_range(SCHEDULE_UNKNOWN, SCHEDULE_DEAD + 1),
                name);
        } else {
            wake(&s, cpu, tid, !g_test_rand_int_range(0, 4), &t, name);
        }
    }
    g_assert_cmpuint(check(&s), >=, 15);
    end(&s);
}

/* Exactly as many as a bundle has, and one more or less */
static void test_full(void)
{
    const struct btrail_task t = task_of(1, 1, "t");

    for (unsigned n = 1020; n < 1028; n++) {
        struct scene s;

        begin(&s);
        for (unsigned i = 0; i < n; i++) {
            s.now++;
            wake(&s, 1, i, false, &t, NULL);
        }
        g_assert_cmpuint(check(&s), ==, n > 1024 ? 2 : 1);
        end(&s);
        begin(&s);
        for (unsigned i = 0; i < n; i++) {
            s.now++;
            run(&s, 1, &t, SCHEDULE_RUNNABLE, "t");
        }
        check(&s);
        end(&s);
    }
}

/* The process of a thread that is described; its name is @want's. */
static uint64_t thread_of(const GPtrArray *packets, uint64_t tid,
                          const char *want)
{
    uint64_t pid = UINT64_MAX;

    for (guint i = 0; i < packets->len; i++) {
        if (proto_count(packets->pdata[i], 2)) {
            g_autoptr(GArray) tree = proto_message(packets->pdata[i], 2);
            g_autoptr(GArray) thread = proto_message(tree, 2);

            if (proto_value(thread, 1) == tid) {
                g_autofree char *name = proto_text(thread, 2);

                g_assert_cmpstr(name, ==, want);
                g_assert_cmpuint(pid, ==, UINT64_MAX);
                pid = proto_value(thread, 3);
            }
        }
    }
    return pid;
}

/* Each thread that ran has the name that it had last; idle tasks have none. */
static void test_threads(void)
{
    const struct btrail_task idle = task_of(0, 0, "swapper/0");
    const struct btrail_task sh = task_of(5, 5, "sh"), make = task_of(
        5, 5, "make"), worker = task_of(5, 6, "worker"), large = task_of(
        UINT32_MAX, UINT32_MAX, "large");
    g_autoptr(GPtrArray) packets = NULL;
    struct scene s;

    begin(&s);
    run(&s, 0, &sh, SCHEDULE_RUNNABLE, "sh");
    run(&s, 0, &idle, SCHEDULE_RUNNABLE, "swapper/0");
    run(&s, 1, &worker, SCHEDULE_RUNNABLE, "worker");
    run(&s, 0, &make, SCHEDULE_RUNNABLE, "make");
    run(&s, 0, NULL, SCHEDULE_RUNNABLE, NULL);
    run(&s, 0, &large, SCHEDULE_RUNNABLE, "large");
    wake(&s, 0, 77, false, &sh, NULL);
    check(&s);
    sched_bundles_threads(s.b, s.p);
    fflush(s.out);
    packets = timeline_packets(s.bytes, s.size);
    g_assert_cmpuint(packets->len, ==, 2 + 3);
    g_assert_cmpuint(thread_of(packets, 5, "make"), ==, 5);
    g_assert_cmpuint(thread_of(packets, 6, "worker"), ==, 5);
    g_assert_cmpuint(thread_of(packets, INT32_MAX, "large"), ==, INT32_MAX);
    end(&s);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/sched-bundles/none", test_none);
    g_test_add_func("/sched-bundles/states", test_states);
    g_test_add_func("/sched-bundles/late", test_late);
    g_test_add_func("/sched-bundles/late-many", test_late_many);
    g_test_add_func("/sched-bundles/random", test_random);
    g_test_add_func("/sched-bundles/full", test_full);
    g_test_add_func("/sched-bundles/threads", test_threads);
    return g_test_run();
}
