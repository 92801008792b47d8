/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Whether calls take too long, without pauses, against a list of moments
 */

#include <string.h>

#include "drain/lasting-call.h"

enum { TIMES = 400 };

static struct calls_measure measure(uint64_t ns, struct any_pauses *pauses)
{
    return (struct calls_measure) { .ns = ns, .pauses = pauses };
}

/* Longer than is too long, and not as long; and once only */
static void test_once(void)
{
    struct any_pauses *pauses = any_pauses_new();
    struct calls_measure by = measure(10, pauses);
    struct lasting_call call = { .lasts = true, .begin = 100 };

    g_assert_false(lasting_call_find(&call, &by, 99, false));
    g_assert_false(lasting_call_find(&call, &by, 100, false));
    g_assert_false(lasting_call_find(&call, &by, 110, false));
    g_assert_cmpuint(by.longest.ns, ==, 0);
    g_assert_true(lasting_call_find(&call, &by, 111, false));
    g_assert_true(call.found);
    g_assert_cmpuint(by.longest.ns, ==, 11);
    g_assert_true(by.longest.lasts);
    g_assert_false(lasting_call_find(&call, &by, 200, true));
    g_assert_cmpuint(by.longest.ns, ==, 11);
    any_pauses_free(pauses);
}

/* Of several, the longest one is said, and the first of those as long. */
static void test_longest(void)
{
    static const struct {
        uint64_t time, longest;
        bool ends, lasts;
    } calls[] = {
        { 120, 20, true, false }, { 115, 20, false, false },
        { 130, 30, false, true }, { 130, 30, true, true },
        { 131, 31, true, false },
    };
    struct any_pauses *pauses = any_pauses_new();
    struct calls_measure by = measure(10, pauses);

    for (unsigned i = 0; i < G_N_ELEMENTS(calls); i++) {
        struct lasting_call call = { .lasts = true, .begin = 100 };

        g_assert_true(lasting_call_find(&call, &by, calls[i].time,
                                        calls[i].ends));
        g_assert_cmpuint(by.longest.ns, ==, calls[i].longest);
        g_assert_cmpint(by.longest.lasts, ==, calls[i].lasts);
    }
    any_pauses_free(pauses);
}

/*
 * Where pauses of all vCPUs are left out, those in the call are; where not,
 * what its thread has been paused is skipped.
 */
static void run(bool any)
{
    struct any_pauses *pauses = any_pauses_new();
    struct calls_measure by = measure(g_test_rand_int_range(0, 60), pauses);
    struct lasting_call call = {
        .lasts = true, .any = any, .begin = g_test_rand_int_range(0, TIMES),
    };
    const uint64_t begin = call.begin;
    bool paused[TIMES] = { false }, found = false;

    for (unsigned i = 0; i < 10; i++) {
        unsigned from = g_test_rand_int_range(0, TIMES - 20);
        const struct btrail_pause pause = {
            .begin = from, .end = from + g_test_rand_int_range(1, 20),
        };

        any_pauses_add(pauses, &pause);
        for (unsigned t = pause.begin; t < pause.end; t++) {
            paused[t] = true;
        }
    }
    for (unsigned time = 0; time < TIMES; time++) {
        uint64_t counts = 0;
        bool is_long;

        for (unsigned t = begin; t < time; t++) {
            counts += !paused[t];
        }
        is_long = counts > by.ns;
        g_assert_cmpint(lasting_call_find(&call, &by, time, false), ==,
                        is_long && !found);
        g_assert_cmpuint(by.longest.ns, ==, is_long || found ? by.ns + 1 : 0);
        found |= is_long;
        if (!any && time >= begin && paused[time] && !found) {
            lasting_call_skip(&call, 1);
        }
    }
    any_pauses_free(pauses);
}

static void test_pauses(void)
{
    for (unsigned i = 0; i < 200; i++) {
        run(false);
        run(true);
    }
}

/* One that can have begun later is not taken for longer than it is sure. */
static void test_delay(void)
{
    struct lasting_call call = { .lasts = true, .begin = 100 };

    lasting_call_delay(&call, 99, 150);
    g_assert_cmpuint(call.begin, ==, 100);
    lasting_call_delay(&call, 100, 150);
    g_assert_cmpuint(call.begin, ==, 150);
    call.lasts = false;
    lasting_call_delay(&call, 150, 160);
    g_assert_cmpuint(call.begin, ==, 150);
}

/* Times at the end of what a number can be */
static void test_extremes(void)
{
    struct any_pauses *pauses = any_pauses_new();
    struct calls_measure by = measure(UINT64_MAX - 1, pauses);
    struct lasting_call call = { .lasts = true }, late = {
        .lasts = true, .begin = UINT64_MAX,
    };

    g_assert_false(lasting_call_find(&call, &by, UINT64_MAX - 1, false));
    g_assert_true(lasting_call_find(&call, &by, UINT64_MAX, false));
    g_assert_false(lasting_call_find(&late, &by, 0, false));
    by.ns = 0;
    g_assert_false(lasting_call_find(&late, &by, UINT64_MAX, false));
    any_pauses_free(pauses);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/lasting-call/once", test_once);
    g_test_add_func("/lasting-call/longest", test_longest);
    g_test_add_func("/lasting-call/pauses", test_pauses);
    g_test_add_func("/lasting-call/delay", test_delay);
    g_test_add_func("/lasting-call/extremes", test_extremes);
    return g_test_run();
}
