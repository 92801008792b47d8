/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of drain/open-spans.h: spans between marks that have not ended
 */

#include "drain/open-spans.h"

static struct open_spans spans;
static struct calls_measure by;

static void start(uint64_t ns)
{
    spans = (struct open_spans) { 0 };
    by = (struct calls_measure) { .ns = ns, .spans = true };
}

static bool begin(uint64_t time)
{
    const struct lasting_call span = { .lasts = true, .begin = time };

    return open_spans_begin(&spans, &span);
}

/* 1 if it was too long, 0 if not, -1 if none was open */
static int end(uint64_t time)
{
    unsigned found = 0;

    return open_spans_end(&spans, &by, time, &found) ? (int)found : -1;
}

static void test_nested(void)
{
    start(100);
    g_assert_cmpint(end(1), ==, -1);
    g_assert_true(begin(1000));
    g_assert_true(begin(1090));
    g_assert_cmpint(end(1110), ==, 0);
    g_assert_cmpuint(open_spans_find(&spans, &by, 1100), ==, 0);
    g_assert_cmpint(end(1110), ==, 1);
    g_assert_cmpuint(by.longest.ns, ==, 110);
    g_assert_false(by.longest.lasts);
    g_assert_cmpint(end(1120), ==, -1);
}

/* One is found once. */
static void test_found(void)
{
    start(100);
    begin(1000);
    begin(1050);
    g_assert_cmpuint(open_spans_find(&spans, &by, 1101), ==, 1);
    g_assert_true(by.longest.lasts);
    g_assert_cmpuint(open_spans_find(&spans, &by, 1149), ==, 0);
    open_spans_skip(&spans, 50);
    open_spans_delay(&spans, 1100, 1120);
    g_assert_cmpuint(open_spans_find(&spans, &by, 1220), ==, 0);
    g_assert_cmpuint(open_spans_find(&spans, &by, 1221), ==, 1);
    g_assert_cmpint(end(2000), ==, 0);
    g_assert_cmpint(end(2000), ==, 0);
}

/*
 * By a stack without a limit: what is too deep is not measured, and each end is
 * that of its own.
 */
static void test_deep(void)
{
    g_autoptr(GArray) all = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    g_autoptr(GRand) rand = g_rand_new_with_seed(5);
    unsigned deep = 0;

    start(100);
    for (uint64_t time = 0; time < 200000; time += g_rand_int_range(rand, 1,
                                                                    40)) {
        if (g_rand_int_range(rand, 0, 2) || all->len > 30) {
            if (!all->len) {
                g_assert_cmpint(end(time), ==, -1);
                continue;
            }
            g_assert_cmpint(end(time), ==, all->len <= OPEN_SPANS_MAX &&
                            time - g_array_index(all, uint64_t, all->len - 1) >
                            100);
            g_array_set_size(all, all->len - 1);
        } else {
            g_assert_cmpint(begin(time), ==, all->len < OPEN_SPANS_MAX);
            g_array_append_val(all, time);
            deep += all->len > OPEN_SPANS_MAX;
        }
    }
    g_assert_cmpuint(deep, >, 100);
}

/* What has begun on another vCPU is in what had begun before. */
static void test_join(void)
{
    struct open_spans other = { 0 };
    struct lasting_call span = { .lasts = true, .begin = 500 };

    start(100);
    begin(0);
    for (unsigned i = 0; i < OPEN_SPANS_MAX + 2; i++) {
        open_spans_begin(&other, &span);
    }
    g_assert_cmpuint(open_spans_join(&spans, &other), ==, 1);
    for (unsigned i = 0; i < 3; i++) {
        g_assert_cmpint(end(1000), ==, 0);
    }
    for (unsigned i = 0; i < OPEN_SPANS_MAX; i++) {
        g_assert_cmpint(end(1000), ==, 1);
    }
    g_assert_false(open_spans_drop(&spans));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/open-spans/nested", test_nested);
    g_test_add_func("/open-spans/found", test_found);
    g_test_add_func("/open-spans/deep", test_deep);
    g_test_add_func("/open-spans/join", test_join);
    return g_test_run();
}
