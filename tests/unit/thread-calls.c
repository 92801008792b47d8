/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of drain/thread-calls.h: the call that a thread is in
 */

#include "drain/thread-calls.h"

#define A       UINT64_C(0x1000)
#define B       UINT64_C(0x2000)
#define C       UINT64_C(0x3000)
#define BACK    5               /* from a site to where it returns */

static uint64_t now;
static struct calls_measure by;
static struct thread_calls calls;
static unsigned found;

static void start(void)
{
    now = 0;
    found = 0;
    by = (struct calls_measure) {
        .ns = 100, .sites = call_sites_new(), .pauses = any_pauses_new(),
    };
    calls = (struct thread_calls) { 0 };
}

static void end(void)
{
    call_sites_free(by.sites);
    any_pauses_free(by.pauses);
}

static void call_at(uint64_t from, uint64_t time, bool any)
{
    const struct lasting_call call = {
        .lasts = true, .from = from, .begin = time, .any = any,
    };

    g_assert_true(call_sites_add(by.sites, from, &now));
    thread_calls_begin(&calls, &by, &call);
}

static bool back(uint64_t from, uint64_t time)
{
    return thread_calls_end(&calls, &by, from + BACK, time, &found);
}

static void test_length(void)
{
    start();
    g_assert_false(thread_calls_last(&calls));
    call_at(A, 1000, false);
    g_assert_true(thread_calls_last(&calls));
    g_assert_false(back(B, 1050));
    g_assert_true(back(A, 1100));
    g_assert_cmpuint(found, ==, 0);
    g_assert_false(thread_calls_last(&calls));
    call_at(A, 2000, false);
    g_assert_true(back(A, 2101));
    g_assert_cmpuint(found, ==, 1);
    /* What does not count */
    call_at(A, 3000, false);
    thread_calls_skip(&calls, 50);
    g_assert_true(back(A, 3150));
    g_assert_cmpuint(found, ==, 1);
    /* It began later, if it began then. */
    call_at(A, 4000, false);
    thread_calls_delay(&calls, 3999, 5000);
    thread_calls_delay(&calls, 4000, 4001);
    g_assert_true(back(A, 4101));
    g_assert_cmpuint(found, ==, 1);
    end();
}

/* One that lasts is found once, and only if such calls return. */
static void test_lasts(void)
{
    start();
    call_at(A, 1000, false);
    g_assert_cmpuint(thread_calls_find(&calls, &by, 2000), ==, 0);
    back(A, 1001);
    call_at(A, 1000, false);
    g_assert_cmpuint(thread_calls_find(&calls, &by, 1100), ==, 0);
    g_assert_cmpuint(thread_calls_find(&calls, &by, 1101), ==, 1);
    g_assert_cmpuint(thread_calls_find(&calls, &by, 2000), ==, 0);
    back(A, 2000);
    g_assert_cmpuint(found, ==, 0);

    /* Its end may have been handed over before its site was known. */
    call_at(A, 3000, false);
    thread_calls_doubt(&calls, &by, now);
    g_assert_false(calls.call.unsure);
    thread_calls_doubt(&calls, &by, now - 1);
    g_assert_cmpuint(thread_calls_find(&calls, &by, 4000), ==, 0);
    back(A, 4000);
    g_assert_cmpuint(found, ==, 1);
    end();
}

/* Pauses of all vCPUs are left out if it can be any thread's. */
static void test_paused(void)
{
    const struct btrail_pause pause = { .begin = 1020, .end = 1060 };

    start();
    any_pauses_add(by.pauses, &pause);
    call_at(A, 1000, true);
    back(A, 1140);
    g_assert_cmpuint(found, ==, 0);
    call_at(A, 1000, true);
    back(A, 1141);
    g_assert_cmpuint(found, ==, 1);
    call_at(A, 1000, false);
    back(A, 1140);
    g_assert_cmpuint(found, ==, 2);
    end();
}

/* Calls in a call are part of it; a jump is not one. */
static void test_outer(void)
{
    start();
    call_at(A, 0, false);
    back(A, 10);
    call_at(A, 1000, false);
    call_at(B, 1050, false);
    g_assert_false(back(B, 1060));
    g_assert_true(back(A, 1200));
    g_assert_cmpuint(found, ==, 1);

    /* C can be a jump, as none has returned: B counts, too. */
    call_at(C, 2000, false);
    call_at(B, 2050, false);
    g_assert_cmphex(calls.outer.from, ==, C);
    g_assert_true(back(C, 2300));
    g_assert_cmpuint(found, ==, 2);
    g_assert_false(thread_calls_last(&calls));
    /* The same site again: the one before has ended without a return. */
    call_at(C, 3000, false);
    call_at(C, 3050, false);
    g_assert_true(back(C, 3150));
    g_assert_cmpuint(found, ==, 2);
    end();
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/thread-calls/length", test_length);
    g_test_add_func("/thread-calls/lasts", test_lasts);
    g_test_add_func("/thread-calls/paused", test_paused);
    g_test_add_func("/thread-calls/outer", test_outer);
    return g_test_run();
}
