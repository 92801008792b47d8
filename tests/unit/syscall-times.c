/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * System calls as they began and ended: random threads that take turns on two
 * vCPUs, of which records are missing, against what each of them does
 */

#include <string.h>

#include "analyze/syscall-times.h"
#include "trace-samples.h"

#define THREADS     4u
#define VCPUS       2u
#define IDLE        THREADS     /* the idle task of each vCPU */
#define STEPS       400u
#define ROUNDS      200u
#define LAST        100000u     /* where the trace ends */

/* Where a thread is; each is called by the one before, or by USER */
enum spot { ROOT, USER, READ, VFS, OTHER, WRITE, PLACES };

static struct module kernel = { .kernel = true }, program;
static const struct function functions[PLACES] = {
    [USER] = { .name = "main", .module = &program },
    [READ] = { .name = "sys_read", .syscall = "read", .module = &kernel },
    /* It is one, too, but was called as a function. */
    [VFS] = { .name = "sys_pread", .syscall = "pread", .module = &kernel },
    [OTHER] = { .name = "other", .module = &kernel },
    [WRITE] = { .name = "sys_write", .syscall = "write", .module = &kernel },
};
static const enum spot parents[PLACES] = {
    [USER] = ROOT, [READ] = USER, [VFS] = READ, [OTHER] = VFS, [WRITE] = USER,
};

struct thread {
    struct process owner;
    struct process process;
    struct stack_node nodes[PLACES];
    enum spot at;
    bool seen;
    bool missed;                /* it may have done something since */
    uint64_t known_until;       /* not before, then */
    uint64_t since;             /* it has been seen where it runs */
    uint64_t time;              /* when it was seen last */
    bool in;                    /* a call, as far as is known */
    struct syscall_time call;
    bool counts;
};

struct scene {
    struct thread threads[THREADS + VCPUS];
    unsigned running[VCPUS];
    uint64_t last[VCPUS];       /* when a vCPU has made records */
    uint64_t clock;
    struct syscall_times *times;
    GArray *want;               /* of struct syscall_time */
    GArray *got;
};

static void thread_init(struct thread *t, unsigned i)
{
    *t = (struct thread) { .at = USER };
    t->owner = (struct process) { .owner = &t->owner, .tid = -1, .pid = -1 };
    t->process = (struct process) {
        .owner = &t->owner, .pid = i < IDLE ? 10 + i / 2 : 0,
        .tid = i < IDLE ? 10 + i : 0,
    };
    for (enum spot p = ROOT; p < PLACES; p++) {
        t->nodes[p] = (struct stack_node) {
            .process = &t->process, .function = p ? &functions[p] : NULL,
            .parent = p ? &t->nodes[parents[p]] : NULL,
        };
    }
    /* The idle task is in the kernel. */
    t->nodes[OTHER].parent = i < IDLE ? t->nodes[OTHER].parent :
                             &t->nodes[ROOT];
    t->at = i < IDLE ? USER : OTHER;
}

static void on_ended(void *opaque, const struct syscall_time *call)
{
    struct scene *s = opaque;

    g_array_append_val(s->got, *call);
}

/* The function of the call that a place is in */
static const struct function *call_of(enum spot p)
{
    return p == WRITE ? &functions[WRITE] : p >= READ ? &functions[READ] :
           NULL;
}

/* What is known of a call is over. */
static void end(struct scene *s, struct thread *t, uint64_t time, bool cut)
{
    if (t->in && t->counts) {
        t->call.end = time;
        t->call.cut = cut;
        g_array_append_val(s->want, t->call);
    }
    t->in = false;
}

/* Up to when a thread that has missed something was in its call */
static uint64_t known_until(const struct thread *t)
{
    return MAX(t->call.begin, MIN(t->time, t->known_until));
}

/* A thread is somewhere, where it has come from if that is known. */
static void see(struct scene *s, unsigned i, unsigned vcpu, bool came)
{
    struct thread *t = &s->threads[i];
    const struct function *f = call_of(t->at);

    if (i >= IDLE) {
        return;
    }
    if (t->missed) {
        end(s, t, known_until(t), true);
        came = t->missed = false;
    }
    t->since = t->seen ? t->since : s->clock;
    t->seen = true;
    t->time = s->clock;
    if (t->in && t->call.function != f) {
        end(s, t, s->clock, false);
    }
    if (f && !t->in) {
        t->call = (struct syscall_time) {
            .process = &t->process, .function = f, .begin = s->clock,
            .vcpu = vcpu, .late = !came || &functions[t->at] != f,
        };
        t->in = true;
        t->counts = false;
    }
}

static void spend(struct scene *s, unsigned vcpu)
{
    struct thread *t = &s->threads[s->running[vcpu]];

    s->clock += 3;
    syscall_times_tree_ops.spent(s->times, vcpu, s->clock, &t->nodes[t->at], 0,
                                 1);
    see(s, s->running[vcpu], vcpu, false);
    s->last[vcpu] = s->clock;
    t->counts = true;
}

/* Calls, or returns; what a thread begins in the kernel was not seen. */
static void go(struct scene *s, GRand *rand, unsigned vcpu)
{
    struct thread *t = &s->threads[s->running[vcpu]];
    enum spot from = t->at;

    if (s->running[vcpu] >= IDLE) {
        return;
    }
    if (from == USER) {
        t->at = g_rand_int_range(rand, 0, 2) ? READ : WRITE;
    } else if (from == OTHER || from == WRITE ||
               g_rand_int_range(rand, 0, 2)) {
        t->at = parents[from];
    } else {
        t->at = from + 1;
    }
    syscall_times_tree_ops.moved(s->times, vcpu, s->clock, &t->nodes[from],
                                 &t->nodes[t->at], 0);
    see(s, s->running[vcpu], vcpu, true);
}

static void switch_to(struct scene *s, GRand *rand, unsigned vcpu)
{
    const struct thread *old = &s->threads[s->running[vcpu]];
    unsigned next = (unsigned)g_rand_int_range(rand, 0, THREADS + 1);
    struct thread *t;

    next = next == IDLE ? IDLE + vcpu : next;
    t = &s->threads[next];
    if (next == s->running[!vcpu] || next == s->running[vcpu]) {
        return;
    }
    s->running[vcpu] = next;
    t->since = s->clock;
    syscall_times_tree_ops.moved(s->times, vcpu, s->clock,
                                 &old->nodes[old->at], &t->nodes[t->at], 0);
    see(s, next, vcpu, false);
}

/*
 * What is missing can be anything that a thread has done, but for one that the
 * other vCPU has run since before: it has returned, or another thread runs.
 */
static void lose(struct scene *s, GRand *rand, unsigned vcpu)
{
    struct thread *now = &s->threads[s->running[vcpu]];

    for (unsigned i = 0; i < THREADS; i++) {
        struct thread *t = &s->threads[i];
        bool elsewhere = i == s->running[!vcpu];

        if (t->missed) {
            t->known_until = MIN(t->known_until, s->last[vcpu]);
        } else if (t->seen && !(elsewhere && t->since <= s->last[vcpu])) {
            t->missed = true;
            t->known_until = s->last[vcpu];
        }
        if (!elsewhere && !g_rand_int_range(rand, 0, 3)) {
            t->at = g_rand_int_range(rand, 0, 2) ? READ : USER;
        }
    }
    syscall_times_tree_ops.gap(s->times, vcpu);
    now->since = s->clock;
    syscall_times_tree_ops.moved(s->times, vcpu, s->clock, NULL,
                                 &now->nodes[now->at], 0);
    see(s, s->running[vcpu], vcpu, false);
}

static void step(struct scene *s, GRand *rand, bool gaps)
{
    unsigned vcpu = (unsigned)g_rand_int_range(rand, 0, VCPUS);

    s->clock += (uint64_t)g_rand_int_range(rand, 1, 100);
    switch (g_rand_int_range(rand, 0, 10)) {
    case 0:
        if (gaps) {
            lose(s, rand, vcpu);
        }
        break;
    case 1 ... 3:
        switch_to(s, rand, vcpu);
        break;
    default:
        go(s, rand, vcpu);
    }
    /* Time is spent where a vCPU is. */
    spend(s, vcpu);
}

static struct btrail_trace *open_trace(void)
{
    const struct btrail_event time = {
        .type = BTRAIL_EVENT_TIME, .data = { LAST, 0, BTRAIL_NO_ICOUNT },
    };
    const struct btrail_slab slab = { .events = &time, .n_events = 1 };
    char *path = sample_path();
    struct btrail_trace *trace;
    struct btrail_writer *w;

    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    sample_remove(path);
    return trace;
}

static void compare(const struct scene *s)
{
    g_assert_cmpuint(s->got->len, ==, s->want->len);
    for (unsigned i = 0; i < s->want->len; i++) {
        const struct syscall_time *want =
            &g_array_index(s->want, struct syscall_time, i);
        const struct syscall_time *got =
            &g_array_index(s->got, struct syscall_time, i);

        g_assert_true(got->process == want->process);
        g_assert_cmpstr(got->function->syscall, ==, want->function->syscall);
        g_assert_cmpuint(got->begin, ==, want->begin);
        g_assert_cmpuint(got->end, ==, want->end);
        g_assert_cmpuint(got->vcpu, ==, want->vcpu);
        g_assert_cmpint(got->late, ==, want->late);
        g_assert_cmpint(got->cut, ==, want->cut);
    }
}

static void scene_init(struct scene *s,
                       const struct syscall_times_options *options)
{
    struct syscall_times_options all = *options;

    *s = (struct scene) { .clock = 1000 };
    s->want = g_array_new(FALSE, FALSE, sizeof(struct syscall_time));
    s->got = g_array_new(FALSE, FALSE, sizeof(struct syscall_time));
    all.ended = on_ended;
    all.opaque = s;
    s->times = syscall_times_new(&all);
    for (unsigned i = 0; i < THREADS + VCPUS; i++) {
        thread_init(&s->threads[i], i);
    }
}

static void scene_clear(struct scene *s)
{
    syscall_times_free(s->times);
    g_array_unref(s->want);
    g_array_unref(s->got);
}

static void check_random(bool gaps)
{
    struct btrail_trace *trace = open_trace();
    GRand *rand = g_rand_new_with_seed(gaps);
    const struct window window = WINDOW_ALL(0);
    const struct syscall_times_options options = { .name = NULL };
    unsigned calls = 0;

    for (unsigned round = 0; round < ROUNDS; round++) {
        struct scene s;

        scene_init(&s, &options);
        for (unsigned v = 0; v < VCPUS; v++) {
            s.running[v] = v;
            spend(&s, v);
        }
        for (unsigned i = 0; i < STEPS; i++) {
            step(&s, rand, gaps);
        }
        compare(&s);
        calls += s.got->len;
        /* What has not returned is cut at the end. */
        g_array_set_size(s.got, 0);
        g_array_set_size(s.want, 0);
        syscall_times_end(s.times, trace, &window);
        for (unsigned i = 0; i < THREADS; i++) {
            struct thread *t = &s.threads[i];

            end(&s, t, t->missed ? known_until(t) : LAST, true);
        }
        g_assert_cmpuint(s.got->len, ==, s.want->len);
        for (unsigned i = 0; i < s.got->len; i++) {
            const struct syscall_time *got =
                &g_array_index(s.got, struct syscall_time, i);
            unsigned n = 0;

            for (unsigned k = 0; k < s.want->len; k++) {
                const struct syscall_time *want =
                    &g_array_index(s.want, struct syscall_time, k);

                n += got->process == want->process && got->cut &&
                     got->end == want->end && got->begin == want->begin;
            }
            g_assert_cmpuint(n, ==, 1);
        }
        scene_clear(&s);
    }
    g_assert_cmpuint(calls, >, ROUNDS * 10);
    g_rand_free(rand);
    btrail_trace_close(trace);
}

static void test_random(void)
{
    check_random(false);
}

/* A thread may have returned, and called again, where records are missing. */
static void test_gaps(void)
{
    check_random(true);
}

/* Calls that are too short or called something else are left out. */
static void test_options(void)
{
    const struct syscall_times_options options[] = {
        { .shortest = 10 }, { .shortest = 11 }, { .name = "read" },
        { .name = "raed" },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(options); i++) {
        struct thread *t;
        struct scene s;

        scene_init(&s, &options[i]);
        t = &s.threads[0];
        spend(&s, 0);
        syscall_times_tree_ops.moved(s.times, 0, 2000, &t->nodes[USER],
                                     &t->nodes[READ], 0);
        syscall_times_tree_ops.spent(s.times, 0, 2005, &t->nodes[READ], 0, 1);
        syscall_times_tree_ops.moved(s.times, 0, 2010, &t->nodes[READ],
                                     &t->nodes[USER], 0);
        /* No record of this one counts. */
        syscall_times_tree_ops.moved(s.times, 0, 2020, &t->nodes[USER],
                                     &t->nodes[READ], 0);
        syscall_times_tree_ops.moved(s.times, 0, 2060, &t->nodes[READ],
                                     &t->nodes[USER], 0);
        g_assert_cmpuint(s.got->len, ==, i == 0 || i == 2);
        scene_clear(&s);
    }
}

/* A call that its thread ends in is over then, and not at the end of the trace.
 * Where nobody knows the function in which it ends, that is when it has run
 * last. */
static void test_dead(void)
{
    static const char *const calls[] = { "exit_group", "read" };
    const struct syscall_times_options options = { .name = NULL };
    const struct window window = WINDOW_ALL(0);
    struct btrail_trace *trace = open_trace();

    for (unsigned i = 0; i < 4; i++) {
        const struct function exits = {
            .name = "sys_exit_group", .syscall = calls[i / 2],
            .module = &kernel,
        };
        const struct function dead = {
            .name = "do_task_dead", .known = i % 2 == 0, .module = &kernel,
        };
        struct stack_node in, end;
        const struct syscall_time *call;
        struct thread *t;
        struct scene s;

        scene_init(&s, &options);
        t = &s.threads[0];
        in = t->nodes[READ];
        in.function = &exits;
        end = t->nodes[VFS];
        end.parent = &in;
        end.function = &dead;
        t->nodes[OTHER].parent = &end;
        spend(&s, 0);
        syscall_times_tree_ops.moved(s.times, 0, 2000, &t->nodes[USER], &in,
                                     0);
        syscall_times_tree_ops.spent(s.times, 0, 2005, &in, 0, 1);
        syscall_times_tree_ops.moved(s.times, 0, 2010, &in, &end, 0);
        syscall_times_tree_ops.moved(s.times, 0, 2015, &end, &t->nodes[OTHER],
                                     0);
        syscall_times_tree_ops.spent(s.times, 0, 2020, &t->nodes[OTHER], 0, 1);
        syscall_times_end(s.times, trace, &window);
        g_assert_cmpuint(s.got->len, ==, 1);
        call = &g_array_index(s.got, struct syscall_time, 0);
        g_assert_cmpuint(call->begin, ==, 2000);
        g_assert_cmpuint(call->end, ==, i % 2 == 0 ? 2010 :
                         i == 1 ? 2020 : LAST);
        g_assert_cmpint(call->cut, ==, i % 2);
        scene_clear(&s);
    }
    btrail_trace_close(trace);
}

/* Without names of threads, calls are of a vCPU, and end with its process. */
static void test_unnamed(void)
{
    const struct syscall_times_options options = { .name = NULL };
    const struct syscall_time *call;
    struct thread *a, *b;
    struct scene s;

    scene_init(&s, &options);
    a = &s.threads[0];
    b = &s.threads[1];
    a->process.owner = &a->process;
    b->process.owner = &b->process;
    syscall_times_tree_ops.moved(s.times, 0, 2000, &a->nodes[USER],
                                 &a->nodes[READ], 0);
    syscall_times_tree_ops.spent(s.times, 0, 2005, &a->nodes[READ], 0, 1);
    syscall_times_tree_ops.moved(s.times, 0, 2010, &a->nodes[READ],
                                 &b->nodes[READ], 0);
    /* The same function: this is taken for one call. */
    g_assert_cmpuint(s.got->len, ==, 0);
    syscall_times_tree_ops.moved(s.times, 0, 2020, &b->nodes[READ],
                                 &a->nodes[WRITE], 0);
    syscall_times_tree_ops.spent(s.times, 0, 2025, &a->nodes[WRITE], 0, 1);
    g_assert_cmpuint(s.got->len, ==, 1);
    call = &g_array_index(s.got, struct syscall_time, 0);
    g_assert_true(call->cut);
    g_assert_cmpuint(call->end, ==, 2020);
    /* Where records are missing it has been cut at the last that is known. */
    syscall_times_tree_ops.gap(s.times, 0);
    g_assert_cmpuint(s.got->len, ==, 2);
    call = &g_array_index(s.got, struct syscall_time, 1);
    g_assert_true(call->cut && call->late);
    g_assert_cmpuint(call->end, ==, 2025);
    scene_clear(&s);
}

/*
 * A thread goes to another vCPU, which then loses records.  The first one has
 * not been seen to have left it, and is not why it has missed nothing.
 */
static void test_moved(void)
{
    const struct syscall_times_options options = { .name = NULL };
    const struct syscall_time *call;
    struct thread *t;
    struct scene s;

    scene_init(&s, &options);
    t = &s.threads[0];
    syscall_times_tree_ops.moved(s.times, 0, 2000, &t->nodes[USER],
                                 &t->nodes[READ], 0);
    syscall_times_tree_ops.spent(s.times, 0, 2005, &t->nodes[READ], 0, 1);
    syscall_times_tree_ops.moved(s.times, 1, 2010, NULL, &t->nodes[READ], 0);
    syscall_times_tree_ops.spent(s.times, 1, 2015, &t->nodes[READ], 0, 1);
    syscall_times_tree_ops.gap(s.times, 1);
    syscall_times_tree_ops.moved(s.times, 1, 2030, NULL, &t->nodes[READ], 0);
    g_assert_cmpuint(s.got->len, ==, 1);
    call = &g_array_index(s.got, struct syscall_time, 0);
    g_assert_true(call->cut);
    g_assert_cmpuint(call->begin, ==, 2000);
    g_assert_cmpuint(call->end, ==, 2015);
    /* It came to a vCPU while the one that it came from lost records. */
    syscall_times_tree_ops.moved(s.times, 0, 2100, NULL, &t->nodes[WRITE], 0);
    syscall_times_tree_ops.spent(s.times, 0, 2110, &t->nodes[WRITE], 0, 1);
    syscall_times_tree_ops.moved(s.times, 1, 2120, NULL, &t->nodes[WRITE], 0);
    syscall_times_tree_ops.spent(s.times, 1, 2130, &t->nodes[WRITE], 0, 1);
    syscall_times_tree_ops.gap(s.times, 0);
    syscall_times_tree_ops.spent(s.times, 1, 2150, &t->nodes[WRITE], 0, 1);
    call = &g_array_index(s.got, struct syscall_time, s.got->len - 1);
    g_assert_true(call->cut);
    g_assert_cmpuint(call->begin, ==, 2100);
    g_assert_cmpuint(call->end, ==, 2110);
    scene_clear(&s);
}

/* No call lasts less than no time, whatever the clocks of two vCPUs say. */
static void test_clocks(void)
{
    const struct syscall_times_options options = { .name = NULL };
    const struct syscall_time *call;
    struct thread *t;
    struct scene s;

    scene_init(&s, &options);
    t = &s.threads[0];
    syscall_times_tree_ops.moved(s.times, 0, 2000, &t->nodes[USER],
                                 &t->nodes[READ], 0);
    syscall_times_tree_ops.spent(s.times, 0, 2005, &t->nodes[READ], 0, 1);
    syscall_times_tree_ops.moved(s.times, 1, 1990, &t->nodes[READ],
                                 &t->nodes[USER], 0);
    g_assert_cmpuint(s.got->len, ==, 1);
    call = &g_array_index(s.got, struct syscall_time, 0);
    g_assert_cmpuint(call->begin, ==, 2000);
    g_assert_cmpuint(call->end, ==, 2005);
    scene_clear(&s);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/syscall-times/random", test_random);
    g_test_add_func("/syscall-times/gaps", test_gaps);
    g_test_add_func("/syscall-times/options", test_options);
    g_test_add_func("/syscall-times/dead", test_dead);
    g_test_add_func("/syscall-times/unnamed", test_unnamed);
    g_test_add_func("/syscall-times/moved", test_moved);
    g_test_add_func("/syscall-times/clocks", test_clocks);
    return g_test_run();
}
