/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Calls that take long: threads, vCPUs, returns that do not come
 */

#include "drain/long-calls.h"

#define MS      UINT64_C(1000000)
#define TICK    MS
#define LONG    (10 * MS)

#define SITE    UINT64_C(0x401000)
#define OTHER   UINT64_C(0x402000)
#define CR3     UINT64_C(0x5000)

static struct btrail_long_calls *c;

static unsigned put(unsigned vcpu, uint16_t type, uint64_t data)
{
    const struct btrail_event e = { .type = type, .data = { data } };

    return btrail_long_calls_event(c, vcpu, &e);
}

static unsigned at(unsigned vcpu, uint64_t ms)
{
    return put(vcpu, BTRAIL_EVENT_TIME, ms * MS);
}

static void run(unsigned vcpu, uint64_t thread)
{
    g_assert_cmpuint(put(vcpu, BTRAIL_EVENT_TASK, thread), ==, 0);
}

static void begin(unsigned vcpu, uint64_t from)
{
    btrail_long_calls_begin(c, vcpu, CR3, from);
}

static bool end(unsigned vcpu, uint64_t to)
{
    return btrail_long_calls_end(c, vcpu, CR3, to);
}

static void make(void)
{
    c = btrail_long_calls_new(LONG);
    btrail_long_calls_set_tick(c, TICK);
}

static void drop(void)
{
    btrail_long_calls_free(c);
}

/* A call from a place that has returned before */
static void make_known(void)
{
    make();
    run(0, 1);
    at(0, 1);
    begin(0, SITE);
    g_assert_false(end(0, SITE + 5));
}

/* Never too early, and late by two ticks at most */
static void test_limit(void)
{
    make_known();
    at(0, 100);
    begin(0, SITE);
    g_assert_cmpuint(at(0, 110), ==, 0);
    g_assert_cmpuint(at(0, 111), ==, 0);
    g_assert_cmpuint(at(0, 112), ==, 1);
    /* Once */
    g_assert_cmpuint(at(0, 200), ==, 0);
    g_assert_false(end(0, SITE + 2));
    g_assert_false(btrail_long_calls_any(c));
    at(0, 300);
    begin(0, SITE);
    g_assert_true(btrail_long_calls_any(c));
    at(0, 309);
    g_assert_false(end(0, SITE + 9));
    g_assert_cmpuint(at(0, 400), ==, 0);
    drop();
}

/* A place that is new can be a jump, whose call is not seen to end. */
static void test_new_site(void)
{
    make();
    run(0, 1);
    at(0, 100);
    begin(0, SITE);
    g_assert_cmpuint(at(0, 200), ==, 0);
    g_assert_cmpuint(btrail_long_calls_waiting(c, 900 * MS), ==, 0);
    g_assert_false(end(0, SITE));
    g_assert_false(end(0, SITE + 10));
    g_assert_false(end(0, OTHER + 5));
    g_assert_true(end(0, SITE + 1));
    begin(0, SITE);
    g_assert_cmpuint(at(0, 300), ==, 1);
    drop();
}

/* Each thread has its call, wherever it runs. */
static void test_threads(void)
{
    make_known();
    at(1, 1);
    at(0, 100);
    begin(0, SITE);
    run(0, 2);
    begin(0, SITE);
    g_assert_cmpuint(at(0, 200), ==, 1);
    at(1, 201);
    run(1, 1);
    g_assert_false(end(0, SITE + 5));
    g_assert_true(end(1, SITE + 5));
    g_assert_false(btrail_long_calls_any(c));
    /* The idle threads of two vCPUs have one number. */
    run(0, 0);
    run(1, 0);
    at(0, 300);
    at(1, 300);
    begin(0, SITE);
    g_assert_false(end(1, SITE + 5));
    at(0, 320);
    g_assert_cmpuint(at(0, 321), ==, 0);
    g_assert_false(end(0, SITE + 5));
    drop();
}

/* One that waits is found by the clock, but not before it has all come. */
static void test_waiting(void)
{
    make_known();
    at(0, 100);
    begin(0, SITE);
    /* It runs: the events of its vCPU decide. */
    g_assert_cmpuint(btrail_long_calls_waiting(c, 900 * MS), ==, 0);
    run(0, 2);
    g_assert_cmpuint(at(0, 150), ==, 0);
    g_assert_cmpuint(btrail_long_calls_waiting(c, 150 * MS), ==, 0);
    g_assert_cmpuint(btrail_long_calls_waiting(c, 211 * MS), ==, 0);
    g_assert_cmpuint(btrail_long_calls_waiting(c, 212 * MS), ==, 1);
    g_assert_cmpuint(btrail_long_calls_waiting(c, 900 * MS), ==, 0);
    run(0, 1);
    g_assert_false(end(0, SITE + 5));
    drop();
}

/* The records of the vCPU that a thread went to can come first. */
static void test_migrated(void)
{
    make_known();
    at(0, 100);
    at(1, 105);
    run(1, 1);
    g_assert_false(end(1, SITE + 5));
    begin(0, SITE);
    g_assert_false(btrail_long_calls_any(c));
    g_assert_cmpuint(btrail_long_calls_waiting(c, 900 * MS), ==, 0);
    drop();
}

/* Calls that the function makes of itself, and a return that was not seen */
static void test_nested(void)
{
    make_known();
    at(0, 100);
    begin(0, SITE);
    at(0, 109);
    begin(0, OTHER);
    g_assert_false(end(0, OTHER + 5));
    g_assert_cmpuint(at(0, 112), ==, 1);
    g_assert_false(end(0, SITE + 5));
    at(0, 200);
    begin(0, SITE);
    at(0, 209);
    begin(0, SITE);
    g_assert_cmpuint(at(0, 215), ==, 0);
    g_assert_cmpuint(at(0, 221), ==, 1);
    drop();
}

/* Without what it did, or the time, nothing is known of a call. */
static void test_unknown(void)
{
    make();
    run(0, 1);
    begin(0, SITE);
    g_assert_false(btrail_long_calls_any(c));
    drop();
    make_known();
    at(0, 100);
    begin(0, SITE);
    put(0, BTRAIL_EVENT_GAP, 0);
    g_assert_true(btrail_long_calls_any(c));
    put(0, BTRAIL_EVENT_GAP, 3);
    g_assert_false(btrail_long_calls_any(c));
    run(0, 1);
    begin(0, SITE);
    btrail_long_calls_lost(c, 1);
    g_assert_false(btrail_long_calls_any(c));
    g_assert_cmpuint(at(0, 200), ==, 0);
    drop();
}

/* A guest without tasks: address spaces, whose calls are found at the end. */
static void test_no_tasks(void)
{
    make();
    at(0, 1);
    begin(0, SITE);
    g_assert_false(end(0, SITE + 5));
    begin(0, SITE);
    g_assert_cmpuint(at(0, 50), ==, 0);
    g_assert_false(btrail_long_calls_end(c, 0, 0x6000, SITE + 5));
    g_assert_true(btrail_long_calls_end(c, 0, CR3 | 1, SITE + 5));
    drop();
}

/* The guest makes more threads, and calls from more places, than it may. */
static void test_many(void)
{
    make_known();
    for (uint64_t i = 0; i < 20000; i++) {
        run(0, i);
        at(0, 100 + i);
        begin(0, SITE + i * 16);
        if (i % 3) {
            end(0, SITE + i * 16 + 5);
        }
    }
    run(0, 1);
    at(0, 30000);
    begin(0, SITE);
    g_assert_cmpuint(at(0, 30050), ==, 1);
    drop();
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/long-calls/limit", test_limit);
    g_test_add_func("/long-calls/new-site", test_new_site);
    g_test_add_func("/long-calls/threads", test_threads);
    g_test_add_func("/long-calls/waiting", test_waiting);
    g_test_add_func("/long-calls/migrated", test_migrated);
    g_test_add_func("/long-calls/nested", test_nested);
    g_test_add_func("/long-calls/unknown", test_unknown);
    g_test_add_func("/long-calls/no-tasks", test_no_tasks);
    g_test_add_func("/long-calls/many", test_many);
    return g_test_run();
}
