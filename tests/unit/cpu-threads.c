/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of analyze/cpu-threads.h
 */

#include "analyze/cpu-threads.h"
#include "backtrail/trace.h"
#include "trace-samples.h"

struct kept {
    struct cpu_thread of;
    char *text;
};

static const struct process owner = { .owner = &owner, .tid = -1 };
static const struct process first = { .pid = 1, .tid = 1, .owner = &owner };
static const struct process second = { .pid = 1, .tid = 2, .owner = &owner };
/* The same thread in another address space, and one of a nested guest */
static const struct process moved = { .pid = 1, .tid = 1, .owner = &owner };
static const struct process nested = {
    .pid = 1, .tid = 1, .nested = 7, .owner = &owner,
};
static const struct process idle = { .owner = &owner };

static void clear(gpointer p)
{
    struct kept *k = p;

    g_clear_pointer(&k->text, g_free);
}

static void test_threads(void)
{
    struct cpu_threads *c = cpu_threads_new(sizeof(struct kept), clear);
    const struct btrail_task task = { .known = true, .pid = 1, .tid = 2 };
    const struct btrail_task other = { .known = true, .pid = 2, .tid = 2 };
    struct kept *a, *b, *n;
    GList *all;

    g_assert_null(cpu_threads_now(c, 0));
    g_assert_null(cpu_threads_run(c, 0, 1, NULL));
    g_assert_null(cpu_threads_run(c, 0, 1, &owner));
    g_assert_null(cpu_threads_run(c, 0, 1, &idle));
    a = cpu_threads_run(c, 0, 2, &first);
    g_assert_null(a->text);
    a->text = g_strdup("kept");
    g_assert_true(cpu_threads_run(c, 0, 3, &first) == a);
    g_assert_true(cpu_threads_run(c, 0, 3, &moved) == a);
    g_assert_true(cpu_threads_now(c, 0) == a);
    b = cpu_threads_run(c, 1, 4, &second);
    n = cpu_threads_run(c, 2, 4, &nested);
    g_assert_true(a != b && a != n && b != n);
    g_assert_true(cpu_threads_run(c, 3, 5, &first) == a);
    g_assert_cmpuint(a->of.vcpu, ==, 3);
    g_assert_true(cpu_threads_find(c, &task) == b);
    g_assert_null(cpu_threads_find(c, &other));
    g_assert_null(cpu_threads_run(c, 0, 6, &idle));
    g_assert_null(cpu_threads_now(c, 0));
    all = cpu_threads_all(c);
    g_assert_true(all->data == a && all->next->data == b &&
                  all->next->next->data == n && !all->next->next->next);
    g_list_free(all);
    cpu_threads_free(c);
}

/*
 * The first thread is seen on two vCPUs, on the second one at @time.  The vCPU
 * that @loses records has made them up to 100.
 */
static const struct {
    unsigned ran[2];            /* in this order; 2: nowhere */
    uint64_t time;
    unsigned loses;
    bool lost;
} cases[] = {
    /* It runs where records are missing, or somewhere. */
    { { 0, 2 }, 50, 0, true },
    { { 0, 1 }, 50, 1, true },
    /* It runs on the other vCPU, since before, and since then */
    { { 0, 2 }, 50, 1, false },
    { { 0, 1 }, 50, 0, false },
    { { 0, 1 }, 100, 0, false },
    { { 0, 1 }, 101, 0, true },
};

static void test_gaps(void)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct cpu_threads *c = cpu_threads_new(sizeof(struct kept), clear);
        struct kept *k, *other = cpu_threads_run(c, 2, 10, &second);

        k = cpu_threads_run(c, cases[i].ran[0], 20, &first);
        if (cases[i].ran[1] < 2) {
            cpu_threads_run(c, cases[i].ran[1], cases[i].time, &first);
        }
        cpu_threads_time(c, cases[i].loses, 100);
        cpu_threads_time(c, cases[i].loses, 90);
        g_assert_false(cpu_threads_lost(c, k));
        cpu_threads_gap(c, cases[i].loses);
        g_assert_null(cpu_threads_now(c, cases[i].loses));
        g_assert_cmpint(cpu_threads_lost(c, k), ==, cases[i].lost);
        g_assert_true(!cases[i].lost || cpu_threads_lost_since(c, k) == 100);
        g_assert_false(cpu_threads_lost(c, other));
        /* A second gap finds nothing again; the first one is what counts. */
        cpu_threads_time(c, cases[i].loses, 300);
        cpu_threads_gap(c, cases[i].loses);
        g_assert_cmpint(cpu_threads_lost(c, k), ==, cases[i].lost);
        g_assert_true(!cases[i].lost || cpu_threads_lost_since(c, k) == 100);
        cpu_threads_found(c, k);
        g_assert_false(cpu_threads_lost(c, k));
        cpu_threads_free(c);
    }
}

/* Each thread has lost records since another gap, and then there are many. */
static void test_many(void)
{
    enum { THREADS = 50, GAPS = 100000 };
    struct cpu_threads *c = cpu_threads_new(sizeof(struct kept), clear);
    struct process tasks[THREADS];
    struct kept *kept[THREADS];

    for (unsigned i = 0; i < THREADS; i++) {
        tasks[i] = (struct process) { .pid = 1, .tid = i + 1, .owner = &owner };
        kept[i] = cpu_threads_run(c, 0, 10 * i, &tasks[i]);
        cpu_threads_time(c, 0, 10 * i + 5);
        cpu_threads_gap(c, 0);
    }
    for (unsigned i = 0; i < GAPS; i++) {
        cpu_threads_time(c, 0, 1000 + i);
        cpu_threads_gap(c, 0);
        cpu_threads_time(c, 1, 1000 + i);
        cpu_threads_gap(c, 1);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        g_assert_true(cpu_threads_lost(c, kept[i]));
        g_assert_cmpuint(cpu_threads_lost_since(c, kept[i]), ==, 10 * i + 5);
    }
    /* A gap of a vCPU whose clock is late: all can have run there since. */
    cpu_threads_time(c, 2, 100);
    cpu_threads_gap(c, 2);
    for (unsigned i = 0; i < THREADS; i++) {
        g_assert_cmpuint(cpu_threads_lost_since(c, kept[i]), ==,
                         MIN(10 * i + 5, 100));
    }
    cpu_threads_found(c, kept[0]);
    g_assert_false(cpu_threads_lost(c, kept[0]));
    g_assert_true(cpu_threads_lost(c, kept[1]));
    cpu_threads_free(c);
}

/* It was here, elsewhere, and is here again: that is since when it is here. */
static void test_back(void)
{
    struct cpu_threads *c = cpu_threads_new(sizeof(struct kept), clear);
    struct kept *k = cpu_threads_run(c, 0, 10, &first);

    cpu_threads_run(c, 1, 20, &first);
    cpu_threads_run(c, 0, 200, &first);
    cpu_threads_time(c, 1, 100);
    cpu_threads_gap(c, 1);
    g_assert_true(cpu_threads_lost(c, k));
    cpu_threads_free(c);
}

/* One that nobody has seen before has lost nothing. */
static void test_new(void)
{
    struct cpu_threads *c = cpu_threads_new(sizeof(struct kept), clear);
    struct kept *k;

    cpu_threads_gap(c, 0);
    k = cpu_threads_run(c, 0, 10, &first);
    g_assert_false(cpu_threads_lost(c, k));
    cpu_threads_free(c);
}

/* Pauses are of the thread that a vCPU runs, but for those of the guest. */
static void test_paused(void)
{
    static const struct btrail_event events[] = {
        { .type = BTRAIL_EVENT_PAUSE, .reason = BTRAIL_PAUSE_OVERFLOW,
          .data = { 110 } },
        { .type = BTRAIL_EVENT_RESUME, .reason = BTRAIL_PAUSE_OVERFLOW,
          .data = { 130 } },
        { .type = BTRAIL_EVENT_PAUSE, .reason = BTRAIL_PAUSE_VM_STOP,
          .data = { 150 } },
        { .type = BTRAIL_EVENT_RESUME, .reason = BTRAIL_PAUSE_VM_STOP,
          .data = { 190 } },
        { .type = BTRAIL_EVENT_PAUSE, .reason = BTRAIL_PAUSE_OVERFLOW,
          .data = { 200 } },
        { .type = BTRAIL_EVENT_END, .reason = BTRAIL_END_STOPPED,
          .data = { 300 } },
    };
    const struct btrail_slab slab = {
        .events = events, .n_events = G_N_ELEMENTS(events),
    };
    const struct pauses_guest guest = { .vcpus = 2 };
    struct cpu_threads *c = cpu_threads_new(sizeof(struct kept), clear);
    char *path = sample_path();
    struct btrail_writer *w;
    struct btrail_trace *trace;
    struct pauses *pauses;
    struct kept *a, *b;

    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_assert_cmpint(pauses_read(&pauses, trace, &guest), ==, 0);
    cpu_threads_set_pauses(c, pauses);
    a = cpu_threads_run(c, 0, 100, &first);
    cpu_threads_run(c, 0, 120, &first);
    g_assert_cmpuint(a->of.paused, ==, 10);
    /* Up to here; and vCPU 1 was not paused. */
    b = cpu_threads_run(c, 0, 125, &second);
    g_assert_cmpuint(a->of.paused, ==, 15);
    cpu_threads_run(c, 1, 126, &first);
    cpu_threads_run(c, 0, 195, &second);
    cpu_threads_run(c, 1, 195, &first);
    g_assert_cmpuint(a->of.paused, ==, 15);
    g_assert_cmpuint(b->of.paused, ==, 5);
    /* The thread has left the vCPU, which has not said so. */
    cpu_threads_run(c, 1, 210, &second);
    cpu_threads_run(c, 0, 220, &first);
    g_assert_cmpuint(b->of.paused, ==, 5);
    cpu_threads_end(c, 240);
    g_assert_cmpuint(a->of.paused, ==, 35);
    cpu_threads_free(c);
    pauses_free(pauses);
    btrail_trace_close(trace);
    sample_remove(path);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/threads", test_threads);
    g_test_add_func("/gaps", test_gaps);
    g_test_add_func("/many", test_many);
    g_test_add_func("/back", test_back);
    g_test_add_func("/new", test_new);
    g_test_add_func("/paused", test_paused);
    return g_test_run();
}
