/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of analyze/off-cpu-sums.h: random waits, each nanosecond of which is of
 * one kind
 */

#include <glib.h>

#include "analyze/off-cpu-sums.h"

#define NODES   4u
#define LENGTH  100u
#define WAITS   500u
#define KINDS   3u

static const struct stack_node nodes[NODES];
static bool counts[LENGTH];     /* does a nanosecond count? */

static uint64_t count(void *opaque, uint64_t since, uint64_t until)
{
    uint64_t n = 0;

    g_assert_true(opaque == counts);
    g_assert_cmpuint(since, <=, until);
    g_assert_cmpuint(until, <=, LENGTH);
    for (uint64_t i = since; i < until; i++) {
        n += counts[i];
    }
    return n;
}

struct sums {
    uint64_t times[NODES][NODES + 1][KINDS];
    uint64_t ticks[NODES][NODES + 1][KINDS];
};

/*
 * What a nanosecond of a wait is, by what is known of it: who has left as
 * runnable waits for a vCPU, and so does who was blocked, once it was woken.
 */
static enum off_cpu_kind kind_of(const struct off_cpu_wait *w, bool back,
                                 uint64_t now)
{
    switch (w->state) {
    case THREAD_RUNNABLE:
        return OFF_CPU_WAITED;
    case THREAD_BLOCKED:
        if (w->woken) {
            return now < w->woken ? OFF_CPU_BLOCKED : OFF_CPU_WAITED;
        }
        /* Whoever could be seen to be woken, and was not, is blocked. */
        return w->surely && back ? OFF_CPU_BLOCKED : OFF_CPU_PLAIN;
    default:
        return OFF_CPU_PLAIN;
    }
}

static unsigned number(const struct stack_node *n)
{
    return n ? n - nodes : NODES;
}

static void add(struct sums *s, const struct off_cpu_wait *w, uint64_t until,
                bool back, uint64_t all)
{
    enum off_cpu_kind first = w->state == THREAD_BLOCKED && w->woken ?
                              OFF_CPU_BLOCKED : kind_of(w, back, w->since);
    unsigned node = number(w->node);

    if (!all) {
        return;
    }
    for (uint64_t now = w->since; now < until; now++) {
        enum off_cpu_kind kind = kind_of(w, back, now);
        unsigned waker = number(kind == OFF_CPU_BLOCKED && w->woken ?
                                w->waker : NULL);

        s->ticks[node][waker][kind] += counts[now];
    }
    s->times[node][number(first == OFF_CPU_BLOCKED && w->woken ? w->waker :
                          NULL)][first]++;
}

static struct off_cpu_wait random_wait(uint64_t *until)
{
    uint64_t since = g_test_rand_int_range(1, LENGTH);
    struct off_cpu_wait w = {
        .node = &nodes[g_test_rand_int_range(0, NODES)], .since = since,
        .state = g_test_rand_int_range(THREAD_UNKNOWN, THREAD_DEAD + 1),
        .surely = g_test_rand_bit(),
    };

    *until = g_test_rand_int_range(since, LENGTH + 1);
    if (w.state == THREAD_BLOCKED && g_test_rand_bit()) {
        /* It can seem to be woken before it has left, or after it is back. */
        w.woken = g_test_rand_int_range(1, LENGTH + 1);
        w.waker = g_test_rand_bit() ?
                  &nodes[g_test_rand_int_range(0, NODES)] : NULL;
    }
    return w;
}

static void check(const struct off_cpu_sums *s, const struct sums *truth)
{
    struct sums left = *truth;
    const struct off_cpu_sum *sum;
    size_t n = 0;

    for (; (sum = off_cpu_sums_get(s, n)); n++) {
        unsigned node = number(sum->node), waker = number(sum->waker);

        g_assert_cmpuint(sum->times, ==, left.times[node][waker][sum->kind]);
        g_assert_cmpuint(sum->ticks, ==, left.ticks[node][waker][sum->kind]);
        left.times[node][waker][sum->kind] = 0;
        left.ticks[node][waker][sum->kind] = 0;
    }
    for (unsigned i = 0; i < NODES; i++) {
        for (unsigned k = 0; k <= NODES; k++) {
            for (unsigned kind = 0; kind < KINDS; kind++) {
                g_assert_cmpuint(left.times[i][k][kind], ==, 0);
                g_assert_cmpuint(left.ticks[i][k][kind], ==, 0);
            }
        }
    }
    g_assert_null(off_cpu_sums_get(s, n));
    g_assert_null(off_cpu_sums_get(s, SIZE_MAX));
}

static void test_random(void)
{
    for (unsigned round = 0; round < 100; round++) {
        struct off_cpu_sums *s = off_cpu_sums_new(0);
        struct sums truth = { { { { 0 } } } };

        for (unsigned i = 0; i < LENGTH; i++) {
            counts[i] = g_test_rand_int_range(0, 3);
        }
        for (unsigned i = 0; i < WAITS; i++) {
            uint64_t until, all;
            struct off_cpu_wait w = random_wait(&until);
            bool back = g_test_rand_bit();

            all = count(counts, w.since, until);
            g_assert_cmpuint(off_cpu_sums_add(s, &w, until, back, count,
                                              counts), ==, all);
            add(&truth, &w, until, back, all);
        }
        check(s, &truth);
        off_cpu_sums_free(s);
    }
}

static uint64_t all_counts(void *opaque, uint64_t since, uint64_t until)
{
    return until - since;
}

/* Of so many sums, wakers are not told apart any more, and nothing is lost. */
static void test_most(void)
{
    enum { MOST = 3 };
    struct off_cpu_sums *s = off_cpu_sums_new(MOST);
    const struct off_cpu_sum *sum;
    uint64_t ticks = 0, times = 0;
    size_t n;

    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < NODES; i++) {
            const struct off_cpu_wait w = {
                .node = &nodes[0], .since = 10, .state = THREAD_BLOCKED,
                .woken = 30, .waker = &nodes[i],
            };

            g_assert_cmpuint(off_cpu_sums_add(s, &w, 30, true, all_counts,
                                              NULL), ==, 20);
        }
    }
    for (n = 0; (sum = off_cpu_sums_get(s, n)); n++) {
        g_assert_true(sum->node == &nodes[0]);
        g_assert_true(sum->waker == (n < MOST ? &nodes[n] : NULL));
        g_assert_cmpuint(sum->times, ==, 2);
        g_assert_cmpint(sum->kind, ==, OFF_CPU_BLOCKED);
        times += sum->times;
        ticks += sum->ticks;
    }
    g_assert_cmpuint(n, ==, NODES);
    g_assert_cmpuint(times, ==, 2 * NODES);
    g_assert_cmpuint(ticks, ==, 2 * NODES * 20);
    off_cpu_sums_free(s);
}

static void test_empty(void)
{
    struct off_cpu_sums *s = off_cpu_sums_new(0);

    g_assert_null(off_cpu_sums_get(s, 0));
    off_cpu_sums_free(s);
    off_cpu_sums_free(NULL);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/off-cpu-sums/random", test_random);
    g_test_add_func("/off-cpu-sums/most", test_most);
    g_test_add_func("/off-cpu-sums/empty", test_empty);
    return g_test_run();
}
