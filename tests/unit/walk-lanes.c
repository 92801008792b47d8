/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of gdb/walk-lanes.h: threads that take random turns on several vCPUs,
 * whose runs a list of the turns has as well
 */

#include <string.h>

#include "gdb/walk-lanes.h"
#include "trace-samples.h"

#define VCPUS   3u
#define TURNS   800u
#define NESTED  2u              /* number of a nested guest's kernel */
#define LATER   3u              /* number of one that is booted later */

/* A thread, and what it is called first, and from the middle on */
struct thread {
    uint32_t pid, tid;
    unsigned nested;
    const char *names[2];
    unsigned kernel;            /* 0: the first one */
};

static const struct thread threads[] = {
    { 10, 10, 0, { "sh", "sh" } },
    /* Another kernel counts again, and so do processes that come later. */
    { 10, 10, 0, { "late", "late" }, LATER },
    { 10, 11, 0, { "worker", "worker" } },
    { 50, 11, 0, { "sh", "sh" } },
    { 20, 20, 0, { "sh", "ls" } },
    { 30, 30, 0, { "init", "sh" } },
    { 40, 40, 0, { "other", "other" } },
    { 40, 42, 0, { "12", "12" } },
    /* A nested guest counts again. */
    { 10, 10, NESTED, { "inner", "inner" } },
    { 10, 12, NESTED, { "inner", "shy" } },
    { 0, 0, 0, { "swapper", "swapper" } },
};

#define THREADS G_N_ELEMENTS(threads)
#define IDLE    (THREADS - 1)
#define UNKNOWN THREADS         /* nobody knows which runs */

struct turn {
    unsigned vcpu;
    unsigned thread;
    unsigned half;
    uint64_t begin, end;
    uint64_t time;
};

/* All but those of idle tasks */

static struct turn turns[TURNS];

static void put_turn(struct btrail_writer *w, const struct turn *t)
{
    static const struct btrail_record records[9];
    const struct thread *thread = t->thread < THREADS ? &threads[t->thread] :
                                  NULL;
    struct btrail_event events[3] = {
        { .index = t->begin, .type = BTRAIL_EVENT_TIME,
          .data = { t->time, 0, BTRAIL_NO_ICOUNT } },
        { .index = t->begin, .type = BTRAIL_EVENT_KERNEL, .data = { 1 } },
        { .index = t->begin, .type = BTRAIL_EVENT_TASK },
    };
    const struct btrail_slab slab = {
        .first_index = t->begin, .cr3 = 0x1000, .records = records,
        .n_records = t->end - t->begin, .events = events,
        .n_events = G_N_ELEMENTS(events),
    };

    if (thread) {
        if (thread->nested) {
            events[1].reason = BTRAIL_KERNEL_NESTED;
            events[1].data[0] = thread->nested;
        }
        if (thread->kernel) {
            events[1].data[0] = thread->kernel;
        }
        events[2].data[0] = (uint64_t)thread->pid << 32 | thread->tid;
        memcpy(&events[2].data[1], thread->names[t->half],
               strlen(thread->names[t->half]));
    } else {
        events[2].reason = BTRAIL_TASK_UNKNOWN;
    }
    g_assert_cmpint(btrail_writer_append(w, t->vcpu, &slab), ==, 0);
}

/*
 * Turns follow each other, whichever vCPUs take them.  A thread that another
 * vCPU may run has left its own.
 */
static struct btrail_trace *make_trace(char *path, unsigned n, bool named)
{
    uint64_t next[VCPUS] = { 0 };
    bool stays = false;
    struct btrail_trace *trace;
    struct btrail_writer *w;

    g_assert_cmpint(btrail_writer_open(&w, path, BTRAIL_WRITER_REPLACE), ==,
                    0);
    for (unsigned i = 0; i < n; i++) {
        struct turn *t = &turns[i];
        bool same = stays && g_test_rand_bit();

        t->vcpu = stays ? t[-1].vcpu :
                  (unsigned)g_test_rand_int_range(0, VCPUS);
        t->thread = !named ? UNKNOWN : same ? t[-1].thread :
                    (unsigned)g_test_rand_int_range(0, THREADS + 1);
        t->half = i >= n / 2;
        t->time = 1000000 + UINT64_C(100000) * i;
        t->begin = next[t->vcpu];
        t->end = next[t->vcpu] += g_test_rand_int_range(1, 9);
        put_turn(w, t);
        stays = !named || g_test_rand_bit();
        if (!stays) {
            struct turn idle = *t;

            idle.thread = IDLE;
            idle.time += 50000;
            idle.begin = t->end;
            idle.end = ++next[t->vcpu];
            put_turn(w, &idle);
        }
        if (!g_test_rand_int_range(0, 20)) {
            g_assert_cmpint(btrail_writer_flush(w), ==, 0);
        }
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    return trace;
}

/* Was the process of a thread ever called so? */
static bool is_wanted(const struct thread *t, const char *name, int pid)
{
    for (unsigned i = 0; i < TURNS; i++) {
        const struct thread *o = turns[i].thread < THREADS ?
                                 &threads[turns[i].thread] : NULL;

        if (o && o->tid && o->pid == t->pid && o->nested == t->nested &&
            o->kernel == t->kernel &&
            (name ? !strcmp(o->names[turns[i].half], name) :
             o->pid == (unsigned)pid)) {
            return true;
        }
    }
    return false;
}

/* The runs of a thread, with turns that continue each other as one */
static void check_runs(const struct walk_lane *lane, unsigned thread)
{
    const struct turn *last = NULL;
    guint n = 0;

    for (unsigned i = 0; i < TURNS; i++) {
        const struct turn *t = &turns[i];
        const struct lane_run *run;

        if (t->thread != thread) {
            continue;
        }
        if (!last || last->vcpu != t->vcpu || last->end != t->begin) {
            g_assert_cmpuint(n, <, lane->runs->len);
            run = &g_array_index(lane->runs, struct lane_run, n++);
            g_assert_cmpuint(run->begin, ==, t->begin);
            g_assert_cmpuint(run->time.host, ==, t->time);
        }
        run = &g_array_index(lane->runs, struct lane_run, n - 1);
        g_assert_cmpuint(run->vcpu, ==, t->vcpu);
        g_assert_cmpuint(run->end, >=, t->end);
        last = t;
    }
    g_assert_cmpuint(n, ==, lane->runs->len);
    g_assert_cmpuint(g_array_index(lane->runs, struct lane_run, n - 1).end, ==,
                     last->end);
}

/* All lanes of a process, by its name or number; returns how many. */
static unsigned check_lanes(const struct btrail_trace *trace,
                            const char *process, const char *name, int pid)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GArray) lanes = walk_lanes(trace, process, &error);
    unsigned n = 0;

    g_assert_no_error(error);
    /* They are in the order of numbers, nested ones last. */
    for (unsigned i = 0; i < THREADS; i++) {
        const struct walk_lane *lane;

        if (!threads[i].tid || !is_wanted(&threads[i], name, pid)) {
            continue;
        }
        g_assert_cmpuint(n, <, lanes->len);
        lane = &g_array_index(lanes, struct walk_lane, n++);
        g_assert_cmpuint(lane->task.tid, ==, threads[i].tid);
        g_assert_cmpuint(lane->task.pid, ==, threads[i].pid);
        g_assert_cmpuint(lane->task.nested, ==, threads[i].nested);
        g_assert_cmpuint(lane->kernel, ==, threads[i].nested ?:
                         threads[i].kernel ?: 1);
        g_assert_cmpstr(lane->task.name, ==, threads[i].names[1]);
        check_runs(lane, i);
    }
    g_assert_cmpuint(n, ==, lanes->len);
    return n;
}

static void test_random(void)
{
    for (unsigned round = 0; round < 10; round++) {
        char *path = sample_path();
        struct btrail_trace *trace = make_trace(path, TURNS, true);

        /* Threads of other names are of the process, too. */
        g_assert_cmpuint(check_lanes(trace, "sh", "sh", 0), ==, 5);
        g_assert_cmpuint(check_lanes(trace, "late", "late", 0), ==, 1);
        g_assert_cmpuint(check_lanes(trace, "ls", "ls", 0), ==, 1);
        g_assert_cmpuint(check_lanes(trace, "worker", "worker", 0), ==, 2);
        g_assert_cmpuint(check_lanes(trace, "inner", "inner", 0), ==, 2);
        g_assert_cmpuint(check_lanes(trace, "shy", "shy", 0), ==, 2);
        /* Of all kernels, and in any base */
        g_assert_cmpuint(check_lanes(trace, "10", NULL, 10), ==, 5);
        g_assert_cmpuint(check_lanes(trace, "0x14", NULL, 20), ==, 1);
        btrail_trace_close(trace);
        sample_remove(path);
    }
}

static void check_fails(const struct btrail_trace *trace, const char *process,
                        const char *message)
{
    g_autoptr(GError) error = NULL;

    g_assert_null(walk_lanes(trace, process, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_COMMAND);
    g_assert_cmpstr(error->message, ==, message);
}

static void test_none(void)
{
    char *path = sample_path();
    struct btrail_trace *trace = make_trace(path, TURNS, true);

    check_fails(trace, "s", "no process 's' has run");
    check_fails(trace, "", "no process '' has run");
    /* A number of a thread is none of a process; a name that is a number is
     * none. */
    check_fails(trace, "11", "no process '11' has run");
    check_fails(trace, "12", "no process '12' has run");
    /* Idle tasks are nobody's. */
    check_fails(trace, "0", "no process '0' has run");
    check_fails(trace, "swapper", "no process 'swapper' has run");
    btrail_trace_close(trace);
    trace = make_trace(path, 10, false);
    check_fails(trace, "sh", "the trace names no processes, and has no 'sh'");
    btrail_trace_close(trace);
    trace = make_trace(path, 0, false);
    check_fails(trace, "sh", "the trace names no processes, and has no 'sh'");
    btrail_trace_close(trace);
    sample_remove(path);
}

/* Adds threads of one record each. */
static void put_threads(struct btrail_writer *w, unsigned first, unsigned n)
{
    g_autofree struct btrail_record *records =
        g_new0(struct btrail_record, n);
    g_autofree struct btrail_event *events = g_new0(struct btrail_event, n);
    const struct btrail_slab slab = {
        .first_index = first, .cr3 = 0x1000, .records = records,
        .n_records = n, .events = events, .n_events = n,
    };

    for (unsigned i = 0; i < n; i++) {
        events[i] = (struct btrail_event) {
            .index = first + i, .type = BTRAIL_EVENT_TASK,
            .data = { UINT64_C(1) << 32 | (first + i + 1), 0x6873 },
        };
    }
    g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
    g_assert_cmpint(btrail_writer_flush(w), ==, 0);
}

static void test_too_many(void)
{
    const unsigned piece = 10000;
    g_autoptr(GError) error = NULL;
    g_autoptr(GArray) lanes = NULL;
    char *path = sample_path();
    struct btrail_trace *trace;
    struct btrail_writer *w;

    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    for (unsigned i = 0; i < WALK_LANES_MAX; i += piece) {
        put_threads(w, i, piece);
    }
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    lanes = walk_lanes(trace, "sh", &error);
    g_assert_no_error(error);
    g_assert_cmpuint(lanes->len, ==, WALK_LANES_MAX);
    btrail_trace_close(trace);
    put_threads(w, WALK_LANES_MAX, 1);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    check_fails(trace, "sh", "the trace has more than 1000000 threads; walk "
                "along its vCPUs");
    btrail_trace_close(trace);
    sample_remove(path);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/walk-lanes/random", test_random);
    g_test_add_func("/walk-lanes/none", test_none);
    g_test_add_func("/walk-lanes/too-many", test_too_many);
    return g_test_run();
}
