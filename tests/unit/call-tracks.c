/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of analyze/call-tracks.h: threads call, return, sleep and go from one
 * vCPU to another at random, and some of it is missing; what is said to be a
 * call must have been one
 */

#include <string.h>

#include "analyze/call-tracks.h"
#include "trace-samples.h"

enum { VCPUS = 3, THREADS = 5, FUNCTIONS = 4, DEPTH = 8, STEPS = 1500 };

/* A call as it was made; @end is 0 if it has not ended. */
struct call {
    unsigned thread, level, function, vcpu;
    uint64_t begin, end;
    bool unsure;                /* something can be missing in it */
};

/* A call as it is reported */
struct told {
    unsigned thread, level;
    const struct function *function;
    uint64_t begin, end;
    unsigned vcpu;
    bool late, cut;
};

/* Records of a thread can be missing between these times. */
struct doubt {
    unsigned thread;
    uint64_t begin, end;
};

struct thread {
    unsigned stack[DEPTH], calls[DEPTH];
    unsigned depth;
    int vcpu;                   /* -1: it sleeps */
    int seen;                   /* the same as far as records say */
    uint64_t since;             /* it has been seen there */
    uint64_t last;              /* it was seen to run up to then */
    bool doubted;               /* and has not moved since */
};

struct scene {
    struct process processes[THREADS], idle, owner;
    struct function functions[FUNCTIONS];
    struct thread threads[THREADS];
    int running[VCPUS];         /* -1: idle */
    uint64_t hidden[VCPUS];     /* since when records are missing, or 0 */
    struct stack_counts counts;
    struct stack_tree tree;
    struct call_tracks *tracks;
    GArray *calls, *told, *doubts;
    uint64_t now;
};

#define call_of(s, i)   (&g_array_index((s)->calls, struct call, i))
#define TREE_OPS        (&call_tracks_tree_ops)

static const struct stack_node *node_of(struct scene *s, int thread)
{
    struct stack_node *n = stack_tree_root(&s->tree, thread < 0 ? &s->idle :
                                           &s->processes[thread]);

    for (unsigned i = 0; thread >= 0 && i < s->threads[thread].depth; i++) {
        n = stack_tree_child(&s->tree, n,
                             &s->functions[s->threads[thread].stack[i]]);
    }
    return n;
}

/* What a vCPU runs has run up to now. */
static void spend(struct scene *s, unsigned vcpu)
{
    if (!s->hidden[vcpu]) {
        TREE_OPS->spent(s->tracks, vcpu, s->now,
                        node_of(s, s->running[vcpu]), 0, 1);
        if (s->running[vcpu] >= 0) {
            s->threads[s->running[vcpu]].last = s->now;
        }
    }
}

/* A vCPU is seen to run a thread, or none. */
static void see(struct scene *s, unsigned vcpu, int thread)
{
    for (int i = 0; i < THREADS; i++) {
        struct thread *t = &s->threads[i];

        if (i != thread && t->seen == (int)vcpu) {
            t->seen = -1;
        } else if (i == thread) {
            t->since = t->seen == (int)vcpu ? t->since : s->now;
            t->seen = vcpu;
            t->doubted = false;
        }
    }
}

static void moved(struct scene *s, unsigned vcpu)
{
    if (!s->hidden[vcpu]) {
        TREE_OPS->moved(s->tracks, vcpu, s->now, NULL,
                        node_of(s, s->running[vcpu]), 0);
        see(s, vcpu, s->running[vcpu]);
    }
}

static void enter(struct scene *s, unsigned vcpu)
{
    unsigned number = s->running[vcpu];
    struct thread *t = &s->threads[number];
    struct call call = {
        .thread = number, .level = t->depth + 1, .vcpu = vcpu,
        .function = g_test_rand_int_range(0, FUNCTIONS), .begin = s->now,
        .unsure = s->hidden[vcpu] || t->doubted,
    };

    t->stack[t->depth] = call.function;
    t->calls[t->depth++] = s->calls->len;
    g_array_append_val(s->calls, call);
}

static void leave(struct scene *s, unsigned vcpu)
{
    struct thread *t = &s->threads[s->running[vcpu]];
    struct call *call = call_of(s, t->calls[--t->depth]);

    call->end = s->now;
    call->unsure |= s->hidden[vcpu] || t->doubted;
}

static void push(struct scene *s, unsigned vcpu)
{
    if (s->threads[s->running[vcpu]].depth < DEPTH) {
        spend(s, vcpu);
        enter(s, vcpu);
        moved(s, vcpu);
    }
}

static void pop(struct scene *s, unsigned vcpu)
{
    if (s->threads[s->running[vcpu]].depth) {
        spend(s, vcpu);
        leave(s, vcpu);
        moved(s, vcpu);
    }
}

/* A function jumps to another one, which returns to its caller. */
static void jump(struct scene *s, unsigned vcpu)
{
    struct thread *t = &s->threads[s->running[vcpu]];
    unsigned function;

    if (t->depth) {
        spend(s, vcpu);
        function = t->stack[t->depth - 1];
        leave(s, vcpu);
        enter(s, vcpu);
        if (t->stack[t->depth - 1] == function) {
            t->stack[t->depth - 1] = (function + 1) % FUNCTIONS;
            call_of(s, t->calls[t->depth - 1])->function =
                t->stack[t->depth - 1];
        }
        moved(s, vcpu);
    }
}

static void change_task(struct scene *s, unsigned vcpu)
{
    int next = g_test_rand_int_range(-1, THREADS);

    if (next < 0 || s->threads[next].vcpu < 0) {
        spend(s, vcpu);
        if (s->running[vcpu] >= 0) {
            s->threads[s->running[vcpu]].vcpu = -1;
        }
        s->running[vcpu] = next;
        if (next >= 0) {
            s->threads[next].vcpu = vcpu;
        }
        moved(s, vcpu);
    }
}

/* Was the thread seen on another vCPU while records of this one are missing? */
static bool is_sure(const struct scene *s, const struct thread *t,
                    unsigned vcpu)
{
    return t->seen >= 0 && t->seen != (int)vcpu &&
           t->since <= s->hidden[vcpu];
}

static void begin_gap(struct scene *s, unsigned vcpu)
{
    spend(s, vcpu);
    s->hidden[vcpu] = s->now;
}

static void end_gap(struct scene *s, unsigned vcpu)
{
    for (unsigned i = 0; i < THREADS; i++) {
        const struct doubt doubt = { i, s->hidden[vcpu], s->now };

        if (!is_sure(s, &s->threads[i], vcpu)) {
            s->threads[i].doubted = true;
            g_array_append_val(s->doubts, doubt);
            for (unsigned k = 0; k < s->calls->len; k++) {
                struct call *call = call_of(s, k);

                call->unsure |= call->thread == i &&
                    (!call->end || call->end >= s->hidden[vcpu]);
            }
        }
    }
    TREE_OPS->moved(s->tracks, vcpu, s->hidden[vcpu], NULL, NULL, 0);
    TREE_OPS->gap(s->tracks, vcpu);
    s->hidden[vcpu] = 0;
    see(s, vcpu, -1);
    moved(s, vcpu);
}

/* Only the stacks of now are kept. */
static void spill(struct scene *s)
{
    TREE_OPS->spill(s->tracks, NULL);
    stack_tree_clear(&s->tree);
    stack_tree_init(&s->tree, false, &s->counts);
}

static void step(struct scene *s, unsigned gaps)
{
    unsigned vcpu = g_test_rand_int_range(0, VCPUS);
    unsigned what = g_test_rand_int_range(0, 100);

    s->now += g_test_rand_int_range(1, 20);
    if (what < 12) {
        change_task(s, vcpu);
    } else if (what < 12 + (s->hidden[vcpu] ? 8 * gaps : gaps)) {
        (s->hidden[vcpu] ? end_gap : begin_gap)(s, vcpu);
    } else if (what < 25) {
        spill(s);
    } else if (s->running[vcpu] >= 0) {
        (what < 60 ? push : what < 68 ? jump : pop)(s, vcpu);
    }
}

static void on_begin(void *opaque, struct call_track *t, unsigned i)
{
    g_assert_true(i || !t->thread);
}

static void on_end(void *opaque, struct call_track *t, unsigned i,
                   uint64_t time, bool cut)
{
    const struct call_slice *slice = call_track_slice(t, i);
    struct scene *s = opaque;

    if (t->thread) {
        const struct told told = {
            t->thread - s->processes, i, slice->function, slice->begin, time,
            slice->vcpu, slice->late, cut,
        };

        g_assert_true(slice->process == t->thread || t->stack);
        g_array_append_val(s->told, told);
    }
}

static void begin(struct scene *s, uint64_t shortest)
{
    static const struct call_tracks_ops track_ops = {
        on_begin, on_end, on_end,
    };

    memset(s, 0, sizeof(*s));
    s->now = 1000;
    s->idle = (struct process) { .owner = &s->owner, .who = &s->idle };
    for (unsigned i = 0; i < THREADS; i++) {
        /* Two of one process */
        s->processes[i] = (struct process) {
            .pid = 1 + i / 2, .tid = 1 + i, .owner = &s->owner,
            .who = &s->processes[i],
        };
        s->threads[i].vcpu = s->threads[i].seen = -1;
    }
    for (unsigned i = 0; i < FUNCTIONS; i++) {
        s->functions[i].name = s->functions[i].symbol = "f";
    }
    s->calls = g_array_new(FALSE, FALSE, sizeof(struct call));
    s->told = g_array_new(FALSE, FALSE, sizeof(struct told));
    s->doubts = g_array_new(FALSE, FALSE, sizeof(struct doubt));
    stack_tree_init(&s->tree, false, &s->counts);
    s->tracks = call_tracks_new(&(struct call_tracks_options) {
        .shortest = shortest, .prompt = g_test_rand_bit(), .ops = &track_ops,
        .opaque = s,
    });
    for (unsigned i = 0; i < VCPUS; i++) {
        s->running[i] = -1;
        moved(s, i);
    }
}

static void end(struct scene *s)
{
    const struct window all = WINDOW_ALL(0);
    struct btrail_trace *trace;
    char *path = sample_path();

    s->now += 100;
    for (unsigned i = 0; i < VCPUS; i++) {
        spend(s, i);
    }
    sample_write(path, 1);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    call_tracks_end(s->tracks, trace, &all);
    btrail_trace_close(trace);
    sample_remove(path);
}

static void clear(struct scene *s)
{
    call_tracks_free(s->tracks);
    stack_tree_clear(&s->tree);
    g_array_unref(s->calls);
    g_array_unref(s->told);
    g_array_unref(s->doubts);
}

/* Is a call in what was told? */
static const struct told *find_told(const struct scene *s,
                                    const struct call *call)
{
    for (unsigned i = 0; i < s->told->len; i++) {
        const struct told *t = &g_array_index(s->told, struct told, i);

        if (t->thread == call->thread && t->level == call->level &&
            t->begin == call->begin &&
            t->function == &s->functions[call->function]) {
            return t;
        }
    }
    return NULL;
}

/* Has a call begun where this says? */
static bool has_begun(const struct scene *s, const struct told *t)
{
    for (unsigned i = 0; i < s->calls->len; i++) {
        const struct call *call = call_of(s, i);

        if (t->thread == call->thread && t->level == call->level &&
            t->begin == call->begin &&
            t->function == &s->functions[call->function]) {
            return true;
        }
    }
    return false;
}

static void check_told(const struct scene *s, const struct told *t)
{
    bool doubted = false;

    for (unsigned i = 0; i < s->doubts->len; i++) {
        const struct doubt *d = &g_array_index(s->doubts, struct doubt, i);

        if (d->thread == t->thread) {
            g_assert_false(t->begin < d->end && t->end > d->end && !t->cut);
            doubted |= t->begin > d->begin && t->begin < d->end;
        }
    }
    g_assert_true(t->late || doubted || has_begun(s, t));
}

static void check(const struct scene *s, uint64_t shortest)
{
    unsigned sure = 0;

    for (unsigned i = 0; i < s->calls->len; i++) {
        const struct call *call = call_of(s, i);
        uint64_t until = call->end ?: s->threads[call->thread].last;
        const struct told *t = find_told(s, call);

        if (call->unsure) {
            continue;
        }
        if (until - call->begin < shortest) {
            g_assert_null(t);
            continue;
        }
        sure++;
        g_assert_nonnull(t);
        g_assert_cmpuint(t->end, ==, until);
        g_assert_cmpuint(t->vcpu, ==, call->vcpu);
        g_assert_false(t->late);
        g_assert_cmpint(t->cut, ==, !call->end);
    }
    for (unsigned i = 0; i < s->told->len; i++) {
        check_told(s, &g_array_index(s->told, struct told, i));
    }
    /* Without gaps, nothing else is told. */
    if (!s->doubts->len) {
        g_assert_cmpuint(s->told->len, ==, sure);
    }
    g_assert_cmpuint(sure, >, 10);
}

/* What a thread does on one of its stacks, at one time after the other */
static void go(struct scene *s, unsigned thread, uint64_t stack,
               const struct function *const *path, unsigned n)
{
    struct stack_node *node = stack_tree_root(&s->tree,
                                              &s->processes[thread]);

    for (unsigned i = 0; i < n; i++) {
        node = stack_tree_child(&s->tree, node, path[i]);
    }
    TREE_OPS->moved(s->tracks, 0, s->now, NULL, node, stack);
    TREE_OPS->spent(s->tracks, 0, ++s->now, node, stack, 1);
}

/*
 * Calls on stacks that a program switches between begin and end once, whatever
 * other stacks, and whichever threads, it continues meanwhile.
 */
static void test_stacks(void)
{
    static const struct told want[] = {
        { .level = 3, .begin = 1006, .end = 1007 },
        { .level = 2, .begin = 1004, .end = 1008 },
        { .level = 2, .begin = 1002, .end = 1009 },
        { .level = 1, .begin = 1001, .end = 1010, .cut = true },
        { .level = 2, .begin = 1005, .end = 1010 },
        { .level = 1, .begin = 1000, .end = 1011, .late = true },
        { .level = 1, .begin = 1003, .end = 1009, .cut = true },
    };
    const struct function *f[FUNCTIONS];
    struct scene s;
    unsigned n = 0;

    begin(&s, 0);
    for (unsigned i = 0; i < FUNCTIONS; i++) {
        f[i] = &s.functions[i];
    }
    go(&s, 0, 0, f, 1);
    go(&s, 0, 1, f, 1);
    go(&s, 0, 1, f, 2);
    go(&s, 0, 2, f, 1);
    go(&s, 0, 2, f, 2);
    go(&s, 0, 0, f, 2);
    spill(&s);
    /* Another thread of the process continues them. */
    go(&s, 1, 1, f, 3);
    go(&s, 1, 1, f, 2);
    go(&s, 1, 2, f, 1);
    go(&s, 0, 1, f, 1);
    TREE_OPS->moved(s.tracks, 0, s.now, NULL, NULL, 1);
    go(&s, 0, 0, f, 1);
    go(&s, 0, 0, f, 0);
    end(&s);
    for (unsigned i = 0; i < s.told->len; i++) {
        const struct told *t = &g_array_index(s.told, struct told, i);

        if (t->function) {
            g_assert_cmpuint(n, <, G_N_ELEMENTS(want));
            g_assert_cmpuint(t->level, ==, want[n].level);
            g_assert_cmpuint(t->begin, ==, want[n].begin);
            g_assert_cmpuint(t->end, ==, want[n].end);
            g_assert_cmpint(t->late, ==, want[n].late);
            g_assert_cmpint(t->cut, ==, want[n].cut);
            n++;
        }
    }
    g_assert_cmpuint(n, ==, G_N_ELEMENTS(want));
    clear(&s);
}

static void test_random(gconstpointer gaps)
{
    for (unsigned round = 0; round < 30; round++) {
        uint64_t shortest = round % 2 ? 40 : 0;
        struct scene s;

        begin(&s, shortest);
        for (unsigned i = 0; i < STEPS; i++) {
            step(&s, GPOINTER_TO_UINT(gaps));
        }
        for (unsigned i = 0; i < VCPUS; i++) {
            if (s.hidden[i]) {
                end_gap(&s, i);
            }
        }
        end(&s);
        check(&s, shortest);
        clear(&s);
    }
}

/*
 * A thread goes to another vCPU; the one that it has left is idle.  What the
 * new one loses can be of this thread.
 */
static void test_left(void)
{
    const struct told *t;
    struct scene s;

    begin(&s, 0);
    s.running[0] = 0;
    s.threads[0].vcpu = 0;
    moved(&s, 0);
    s.now++;
    push(&s, 0);
    s.running[0] = -1;
    moved(&s, 0);
    s.now++;
    s.running[1] = 0;
    s.threads[0].vcpu = 1;
    moved(&s, 1);
    s.now++;
    begin_gap(&s, 1);
    s.now++;
    end_gap(&s, 1);
    s.now++;
    pop(&s, 1);
    end(&s);
    g_assert_cmpuint(s.told->len, ==, 1);
    t = &g_array_index(s.told, struct told, 0);
    g_assert_cmpuint(t->begin, ==, 1001);
    g_assert_cmpuint(t->end, ==, 1005);
    g_assert_true(t->cut);
    clear(&s);
}

/* A call that runs as the trace ends has lasted that long. */
static void test_runs_at_end(void)
{
    const struct told *t;
    struct scene s;

    begin(&s, 50);
    s.running[2] = 3;
    s.threads[3].vcpu = 2;
    moved(&s, 2);
    s.now++;
    push(&s, 2);
    end(&s);
    g_assert_cmpuint(s.told->len, ==, 1);
    t = &g_array_index(s.told, struct told, 0);
    g_assert_cmpuint(t->thread, ==, 3);
    g_assert_cmpuint(t->end - t->begin, ==, 100);
    g_assert_true(t->cut);
    clear(&s);
}

/* Threads of the same numbers, of two kernels, have tracks of their own. */
static void test_nested(void)
{
    const struct btrail_task outer = { .known = true, .pid = 1, .tid = 1 };
    const struct btrail_task inner = {
        .known = true, .pid = 1, .tid = 1, .nested = 2,
    };
    const struct call_track *a, *b;
    struct scene s;

    begin(&s, 0);
    s.processes[1].pid = s.processes[1].tid = 1;
    s.processes[1].nested = 2;
    for (unsigned i = 0; i < 2; i++) {
        s.running[0] = i;
        moved(&s, 0);
        s.now++;
    }
    a = call_tracks_find(s.tracks, 0, &outer);
    b = call_tracks_find(s.tracks, 0, &inner);
    g_assert_true(a->thread == &s.processes[0]);
    g_assert_true(b->thread == &s.processes[1]);
    /* That of a thread that has none is the vCPU's. */
    g_assert_null(call_tracks_find(s.tracks, 2, &(struct btrail_task) {
        .known = true, .pid = 1, .tid = 7,
    })->thread);
    end(&s);
    clear(&s);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_data_func("/call-tracks/random", GUINT_TO_POINTER(0),
                         test_random);
    g_test_add_data_func("/call-tracks/gaps", GUINT_TO_POINTER(1),
                         test_random);
    g_test_add_func("/call-tracks/stacks", test_stacks);
    g_test_add_func("/call-tracks/left", test_left);
    g_test_add_func("/call-tracks/runs-at-end", test_runs_at_end);
    g_test_add_func("/call-tracks/nested", test_nested);
    return g_test_run();
}
