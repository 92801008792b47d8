/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Limits of CPU time, with a clock and with consumers that the test makes up
 */

#include <glib.h>

#include "util/cpu-limit.h"

#define MS      UINT64_C(1000000)
#define S       (1000 * MS)
#define BURST   CPU_BURST_NS

/* Some moment */
#define BEGIN   (12345 * S)

/* A consumer that uses all that it may: it works whenever it need not wait. */
struct user {
    struct cpu_limit *limit;
    uint64_t step;              /* ns at a time; 0: it rests */
    uint64_t until;             /* it works or waits */
    uint64_t used;
};

static void go(struct user *users, unsigned n, uint64_t begin, uint64_t end)
{
    uint64_t now;
    unsigned i;

    for (now = begin; now < end; now += MS / 10) {
        for (i = 0; i < n; i++) {
            struct user *u = &users[i];
            uint64_t wait;

            if (!u->step || now < u->until) {
                continue;
            }
            wait = cpu_limit_wait(u->limit, now);
            if (wait) {
                u->until = now + wait;
                continue;
            }
            u->used += u->step;
            u->until = now + u->step;
            cpu_limit_spend(u->limit, u->step, u->until);
        }
    }
}

static void about(uint64_t is, uint64_t should, uint64_t least)
{
    uint64_t slack = MAX(should / 50, least);

    g_test_message("%" G_GUINT64_FORMAT " should be %" G_GUINT64_FORMAT, is,
                   should);
    g_assert_cmpuint(is, >=, should - MIN(should, slack));
    g_assert_cmpuint(is, <=, should + slack);
}

static void test_none(void)
{
    struct cpu_pool *pool = cpu_pool_new();
    struct cpu_limit *l = cpu_limit_new(pool);

    g_assert_false(cpu_limit_holds(l));
    cpu_limit_spend(l, UINT64_MAX, BEGIN);
    g_assert_cmpuint(cpu_limit_wait(l, BEGIN), ==, 0);
    g_assert_cmpuint(cpu_limit_pace(l, S, BEGIN), ==, 0);
    cpu_pool_free(pool);
    cpu_limit_free(l);
}

static void test_debt(void)
{
    struct cpu_pool *pool = cpu_pool_new();
    struct cpu_limit *l = cpu_limit_new(pool);
    uint64_t now = BEGIN;

    cpu_pool_set(pool, 5, 0, now);
    g_assert_true(cpu_limit_holds(l));
    cpu_limit_spend(l, BURST, now);
    g_assert_cmpuint(cpu_limit_wait(l, now), ==, 0);
    cpu_limit_spend(l, MS, now);
    g_assert_cmpuint(cpu_limit_wait(l, now), ==, 20 * MS);
    g_assert_cmpuint(cpu_limit_wait(l, now + 5 * MS), ==, 15 * MS);
    /* A user with an older clock does no harm. */
    g_assert_cmpuint(cpu_limit_wait(l, now), ==, 15 * MS);
    g_assert_cmpuint(cpu_limit_wait(l, now + 20 * MS), ==, 0);
    g_assert_cmpuint(cpu_limit_pace(l, MS, now), ==, 20 * MS);
    /* No more is saved than a burst, however long it takes. */
    now += 1000000 * S;
    g_assert_cmpuint(cpu_limit_wait(l, now), ==, 0);
    cpu_limit_spend(l, BURST + 1, now);
    g_assert_cmpuint(cpu_limit_wait(l, now), >, 0);
    /* Nothing overflows. */
    cpu_limit_spend(l, UINT64_MAX, now);
    cpu_limit_spend(l, UINT64_MAX, now);
    g_assert_cmpuint(cpu_limit_wait(l, now), >, 1000 * S);
    g_assert_cmpuint(cpu_limit_wait(l, UINT64_MAX), >, 1000 * S);
    cpu_limit_free(l);
    cpu_pool_free(pool);
}

/* New limits hold at once. */
static void test_set(void)
{
    struct cpu_pool *pool = cpu_pool_new();
    struct cpu_limit *l = cpu_limit_new(pool);

    cpu_pool_set(pool, 1, 0, BEGIN);
    cpu_limit_spend(l, BURST + 10 * S, BEGIN);
    g_assert_cmpuint(cpu_limit_wait(l, BEGIN), ==, 1000 * S);
    /* The limit of all does not touch it. */
    cpu_pool_set(pool, 1, 50, BEGIN);
    g_assert_cmpuint(cpu_limit_wait(l, BEGIN), ==, 1000 * S);
    cpu_pool_set(pool, 2, 50, BEGIN);
    g_assert_cmpuint(cpu_limit_wait(l, BEGIN), ==, 0);
    cpu_limit_spend(l, BURST + S, BEGIN);
    g_assert_cmpuint(cpu_limit_wait(l, BEGIN), ==, 50 * S);
    cpu_pool_set(pool, 0, 0, BEGIN);
    g_assert_cmpuint(cpu_limit_wait(l, BEGIN), ==, 0);
    g_assert_false(cpu_limit_holds(l));
    cpu_limit_free(l);
    cpu_pool_free(pool);
}

/* Over some time, each uses what it may, and does not feel the other. */
static void test_each(void)
{
    struct cpu_pool *pool = cpu_pool_new();
    struct user users[2] = {
        { .limit = cpu_limit_new(pool), .step = MS / 2 },
        { .limit = cpu_limit_new(pool), .step = 30 * MS },
    };

    cpu_pool_set(pool, 10, 0, BEGIN);
    go(users, 2, BEGIN, BEGIN + 60 * S);
    about(users[0].used, 6 * S + BURST, MS);
    about(users[1].used, 6 * S + BURST, 30 * MS);
    cpu_limit_free(users[0].limit);
    cpu_limit_free(users[1].limit);
    cpu_pool_free(pool);
}

/* A slow debt halves the income of its own guest, and of no other one. */
static void test_slowly(gconstpointer all)
{
    struct cpu_pool *pool = cpu_pool_new();
    struct user users[2] = {
        { .limit = cpu_limit_new(pool), .step = MS },
        { .limit = cpu_limit_new(pool), .step = MS },
    };

    cpu_pool_set(pool, all ? 0 : 10, all ? 20 : 0, BEGIN);
    cpu_limit_spend_slowly(users[0].limit, S, BEGIN);
    g_assert_cmpuint(cpu_limit_wait(users[0].limit, BEGIN), ==, 0);
    go(users, 2, BEGIN, BEGIN + 10 * S);
    about(users[0].used, S / 2, BURST + 20 * MS);
    about(users[1].used, S, BURST + 20 * MS);
    go(users, 2, BEGIN + 10 * S, BEGIN + 30 * S);
    about(users[0].used, 2 * S, BURST + 50 * MS);
    about(users[1].used, 3 * S, BURST + 50 * MS);
    /* A user that does nothing else pays it off with all that it is given. */
    users[0].step = users[0].used = users[1].used = 0;
    go(users, 2, BEGIN + 30 * S, BEGIN + 33 * S);
    cpu_limit_spend_slowly(users[0].limit, S, BEGIN + 33 * S);
    go(users, 2, BEGIN + 33 * S, BEGIN + 44 * S);
    users[0].step = MS;
    go(users, 2, BEGIN + 44 * S, BEGIN + 54 * S);
    about(users[0].used, S, BURST + 50 * MS);
    cpu_limit_free(users[0].limit);
    cpu_limit_free(users[1].limit);
    cpu_pool_free(pool);
}

/* Guests that want more than there is get equal shares. */
static void test_all(void)
{
    struct cpu_pool *pool = cpu_pool_new();
    struct user users[5] = { { NULL } };
    unsigned i;

    for (i = 0; i < 5; i++) {
        users[i].limit = cpu_limit_new(pool);
    }
    cpu_pool_set(pool, 0, 40, BEGIN);
    /* Three of them rest. */
    users[0].step = MS / 2;
    users[1].step = 5 * MS;
    go(users, 5, BEGIN, BEGIN + 30 * S);
    about(users[0].used, 6 * S, 30 * MS);
    about(users[1].used, 6 * S, 30 * MS);
    /* And one alone gets it all. */
    users[0].step = 0;
    go(users, 5, BEGIN + 30 * S, BEGIN + 60 * S);
    about(users[1].used, 18 * S, 50 * MS);
    for (i = 0; i < 5; i++) {
        cpu_limit_free(users[i].limit);
    }
    cpu_pool_free(pool);
}

/* A guest that uses less than its share does not wait for the others. */
static void test_fair(void)
{
    struct cpu_pool *pool = cpu_pool_new();
    struct user greedy = { cpu_limit_new(pool), MS };
    struct cpu_limit *modest = cpu_limit_new(pool);
    uint64_t now = BEGIN;
    uint64_t waited = 0;

    cpu_pool_set(pool, 0, 50, now);
    for (; now < BEGIN + 30 * S; now += 10 * MS) {
        go(&greedy, 1, now, now + 10 * MS);
        waited += cpu_limit_wait(modest, now + 10 * MS);
        cpu_limit_spend(modest, MS, now + 10 * MS);
    }
    g_assert_cmpuint(waited, ==, 0);
    /* It has got what was left. */
    about(greedy.used, 12 * S, 100 * MS);
    cpu_limit_free(greedy.limit);
    cpu_limit_free(modest);
    cpu_pool_free(pool);
}

/* Both limits hold; what one guest may not use, the other one gets. */
static void test_both(void)
{
    struct cpu_pool *pool = cpu_pool_new();
    struct user users[2] = {
        { .limit = cpu_limit_new(pool), .step = MS },
        { .limit = cpu_limit_new(pool), .step = MS },
    };

    cpu_pool_set(pool, 30, 40, BEGIN);
    go(users, 2, BEGIN, BEGIN + 30 * S);
    about(users[0].used, 6 * S, 100 * MS);
    about(users[1].used, 6 * S, 100 * MS);
    users[0].used = users[1].used = users[1].step = 0;
    go(users, 2, BEGIN + 30 * S, BEGIN + 60 * S);
    about(users[0].used, 9 * S, 100 * MS);
    cpu_limit_free(users[0].limit);
    cpu_limit_free(users[1].limit);
    cpu_pool_free(pool);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/cpu-limit/none", test_none);
    g_test_add_data_func("/cpu-limit/slowly/each", NULL, test_slowly);
    g_test_add_data_func("/cpu-limit/slowly/all", "", test_slowly);
    g_test_add_func("/cpu-limit/debt", test_debt);
    g_test_add_func("/cpu-limit/set", test_set);
    g_test_add_func("/cpu-limit/each", test_each);
    g_test_add_func("/cpu-limit/all", test_all);
    g_test_add_func("/cpu-limit/fair", test_fair);
    g_test_add_func("/cpu-limit/both", test_both);
    return g_test_run();
}
