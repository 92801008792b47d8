/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of off-cpu.c: tasks that leave, return, end, and are forgotten; and
 * those of one number that are not the same
 */

#include "analyze/off-cpu-sums.h"
#include "wake-samples.h"

/* By so much clocks of two vCPUs can differ */
#define SLACK   20u

static const struct module kernel = { .name = "[kernel.kallsyms]",
                                      .kernel = true };
static struct function schedule = { .name = "schedule", .known = true,
                                    .module = (struct module *)&kernel };
static struct function dead = { .name = "do_task_dead", .known = true,
                                .module = (struct module *)&kernel };
static struct stack_node root, end_node = { .parent = &root,
                                            .function = &dead };
static struct stack_node alive = { .parent = &root, .function = &schedule };
static struct stack_node gone = { .parent = &end_node,
                                  .function = &schedule };

static struct task task_of(int64_t tid, uint32_t of_kernel, uint16_t nested)
{
    return (struct task) {
        .tid = tid, .nested = nested, .where = { .kernel = of_kernel },
    };
}

static void leave(struct off_cpu *o, int64_t tid, uint32_t of_kernel,
                  uint16_t nested, const struct stack_node *node,
                  uint64_t since)
{
    const struct task task = task_of(tid, of_kernel, nested);
    const struct off_cpu_wait wait = { node, since, since % 2 };

    off_cpu_leaves(o, &task, &wait);
}

static void check(struct off_cpu *o, int64_t tid, uint32_t of_kernel,
                  uint16_t nested, uint64_t since)
{
    const struct task task = task_of(tid, of_kernel, nested);
    struct off_cpu_wait wait;

    g_assert_cmpint(off_cpu_returns(o, &task, since, &wait), ==, since > 0);
    if (since) {
        g_assert_cmpuint(wait.since, ==, since);
        g_assert_cmpint(wait.counts, ==, since % 2);
        g_assert_true(wait.node == &alive);
    }
    /* It is back. */
    g_assert_false(off_cpu_returns(o, &task, since, &wait));
}

static void test_returns(void)
{
    struct off_cpu *o = off_cpu_new(SLACK);

    check(o, 1, 0, 0, 0);
    leave(o, 1, 0, 0, &alive, 1);
    leave(o, 2, 0, 0, &alive, 2);
    leave(o, 1, 1, 0, &alive, 3);
    leave(o, 1, 0, 1, &alive, 4);
    check(o, 3, 0, 0, 0);
    check(o, 1, 0, 1, 4);
    check(o, 1, 1, 0, 3);
    check(o, 1, 0, 0, 1);
    check(o, 2, 0, 0, 2);
    /* What was said last holds. */
    leave(o, 1, 0, 0, &alive, 1);
    leave(o, 1, 0, 0, &alive, 7);
    check(o, 1, 0, 0, 7);
    g_assert_cmpuint(off_cpu_forgotten(o), ==, 0);
    off_cpu_free(o);
}

/* Its number can be that of another one later. */
static void test_dead(void)
{
    struct off_cpu *o = off_cpu_new(SLACK);

    leave(o, 1, 0, 0, &gone, 1);
    leave(o, 2, 0, 0, &alive, 2);
    leave(o, 2, 0, 0, &end_node, 3);
    check(o, 1, 0, 0, 0);
    check(o, 2, 0, 0, 0);
    off_cpu_free(o);
}

static void add_since(void *opaque, const struct off_cpu_wait *wait)
{
    *(uint64_t *)opaque += wait->since;
}

static void test_forget(void)
{
    struct off_cpu *o = off_cpu_new(SLACK);
    uint64_t sum = 0;

    off_cpu_forget(o);
    g_assert_cmpuint(off_cpu_forgotten(o), ==, 0);
    leave(o, 1, 0, 0, &alive, 1);
    leave(o, 2, 0, 0, NULL, 2);
    off_cpu_each(o, add_since, &sum);
    g_assert_cmpuint(sum, ==, 3);
    off_cpu_forget(o);
    g_assert_cmpuint(off_cpu_forgotten(o), ==, 2);
    check(o, 1, 0, 0, 0);
    leave(o, 1, 0, 0, &alive, 5);
    check(o, 1, 0, 0, 5);
    off_cpu_each(o, add_since, &sum);
    g_assert_cmpuint(sum, ==, 3);
    g_assert_cmpuint(off_cpu_forgotten(o), ==, 2);
    off_cpu_free(o);
}

static uint64_t count(void *opaque, uint64_t since, uint64_t until)
{
    return until - since;
}

/* Requires one sum, which is taken away from what is left. */
static void take(const struct off_cpu_sums *s, size_t i, enum off_cpu_kind kind,
                 const struct stack_node *waker, uint64_t times,
                 uint64_t ticks)
{
    const struct off_cpu_sum *sum = off_cpu_sums_get(s, i);

    g_assert_nonnull(sum);
    g_assert_true(sum->node == &alive);
    g_assert_cmpint(sum->kind, ==, kind);
    g_assert_true(sum->waker == waker);
    g_assert_cmpuint(sum->times, ==, times);
    g_assert_cmpuint(sum->ticks, ==, ticks);
}

/* Tasks that are woken while they are away, before that, or unseen */
static void test_wakes(void)
{
    static const enum thread_state why[] = {
        THREAD_UNKNOWN, THREAD_BLOCKED, THREAD_BLOCKED,
        THREAD_RUNNABLE, THREAD_BLOCKED, THREAD_BLOCKED,
        THREAD_DEAD,
    };
    struct off_cpu *o = off_cpu_new(SLACK);
    struct off_cpu_sums *s = off_cpu_sums_new(0);
    struct off_cpu_wait wait;

    /* 1 leaves before anybody was woken. */
    for (unsigned i = 1; i < G_N_ELEMENTS(why); i++) {
        const struct task task = task_of(i, 1, 0);

        wait = (struct off_cpu_wait) { &alive, 100, true, why[i] };
        if (i == 2) {
            /* It is seen to leave later. */
            off_cpu_wakes(o, &task, 90, &end_node);
        }
        off_cpu_leaves(o, &task, &wait);
        if (i == 4 || i == 3) {
            off_cpu_wakes(o, &task, 130, &root);
            off_cpu_wakes(o, &task, 150, &end_node);
        }
    }
    for (unsigned i = 1; i < G_N_ELEMENTS(why); i++) {
        const struct task task = task_of(i, 1, 0);

        g_assert_cmpint(off_cpu_returns(o, &task, 200, &wait), ==, i < 6);
        if (i < 6) {
            g_assert_cmpint(wait.surely, ==, i >= 2);
            g_assert_cmpuint(off_cpu_sums_add(s, &wait, 200, true, count,
                                              NULL), ==, 100);
        }
    }
    take(s, 0, OFF_CPU_PLAIN, NULL, 1, 100);
    take(s, 1, OFF_CPU_BLOCKED, &end_node, 1, 0);
    take(s, 2, OFF_CPU_WAITED, NULL, 1, 100 + 100 + 70);
    take(s, 3, OFF_CPU_BLOCKED, &root, 1, 30);
    take(s, 4, OFF_CPU_BLOCKED, NULL, 1, 100);
    g_assert_null(off_cpu_sums_get(s, 5));
    off_cpu_sums_free(s);
    off_cpu_free(o);
}

/*
 * Wake-ups that are read early, late, or while a task runs: those that are known
 * when it is back are those of its wait.
 */
static void test_order(void)
{
    static struct stack_node wakers[WAKE_WAITS + 1];
    GRand *rand = g_rand_new_with_seed(41);
    const struct task task = task_of(1, 1, 0);
    unsigned known = 0, late = 0;

    for (unsigned round = 0; round < 100; round++) {
        g_autoptr(GArray) steps = wake_samples(rand);
        struct off_cpu *o = off_cpu_new(WAKE_SLACK);
        bool woken[WAKE_WAITS + 1] = { false };
        struct off_cpu_wait wait = { .node = &alive };

        for (guint i = 0; i < steps->len; i++) {
            const struct wake_step *s = &g_array_index(steps, struct wake_step,
                                                       i);

            switch (s->kind) {
            case WAKE_STEP_LEAVES:
                wait = (struct off_cpu_wait) {
                    &alive, s->time, true, THREAD_BLOCKED,
                };
                off_cpu_leaves(o, &task, &wait);
                break;
            case WAKE_STEP_WOKEN:
                off_cpu_wakes(o, &task, s->time, &wakers[s->wait]);
                woken[s->wait] = true;
                late += s->wait != WAKE_NO_WAIT && !wait.node;
                break;
            case WAKE_STEP_COMES:
                g_assert_true(off_cpu_returns(o, &task, s->time, &wait));
                g_assert_true(wait.waker == (woken[s->wait] ?
                                             &wakers[s->wait] : NULL));
                g_assert_cmpint(!wait.woken, ==, !woken[s->wait]);
                g_assert_true(!wait.woken || wait.woken >= wait.since);
                known += wait.woken > 0;
                wait.node = NULL;
                break;
            }
        }
        off_cpu_free(o);
    }
    g_assert_cmpuint(known, >, 0);
    g_assert_cmpuint(late, >, 0);
    g_rand_free(rand);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/off-cpu/returns", test_returns);
    g_test_add_func("/off-cpu/wakes", test_wakes);
    g_test_add_func("/off-cpu/order", test_order);
    g_test_add_func("/off-cpu/dead", test_dead);
    g_test_add_func("/off-cpu/forget", test_forget);
    return g_test_run();
}
