/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Functions that are searched by name: each only while it is there
 */

#include "symbol-samples.h"
#include "trace-samples.h"
#include "walk/sought.h"
#include "walk/visits.h"

static struct btrail_trace *trace;
static struct symbolizer *symbols;

/* At which times does a function run?  They are printed one after the other. */
static void check(bool with_symbols, const char *function, const char *want)
{
    g_autoptr(GString) times = g_string_new(NULL);
    g_autoptr(GError) error = NULL;
    struct sought *s = sought_function(trace, with_symbols ? symbols : NULL,
                                       NULL, function, &error);
    struct visits *v;
    struct visit visit;

    if (!want) {
        g_assert_null(s);
        g_assert_error(error, BTRAIL_AGENT_ERROR, BTRAIL_AGENT_ERROR_NAMES);
        return;
    }
    g_assert_no_error(error);
    v = visits_new(trace, symbols, s, &error);
    while (visits_next(v, &visit, &error)) {
        g_string_append_printf(times, "%u ",
                               (unsigned)visit.at.time.host);
    }
    g_assert_no_error(error);
    g_assert_cmpstr(times->str, ==, want);
    visits_free(v);
    sought_free(s);
}

static void test_times(void)
{
    for (unsigned i = 0; i < 2; i++) {
        check(i, "dummy_xmit", "1500 ");
        check(i, "tun_get", "3500 ");
        check(i, "tun_put", "");
        check(i, "do_work", "");
        check(i, "nothing", NULL);
        check(i, ".end", NULL);
    }
}

/* Addresses that others have as well */
static void test_starts(void)
{
    const struct btrail_symbol_era old = { .kernel = 1, .from = 5, .last = 9 };
    const struct btrail_symbol_era new = { .kernel = 2, .from = 8, .last = 20 };
    GArray *starts = g_array_new(FALSE, FALSE, sizeof(struct kernel_start));
    struct sought *s;

    kernel_start_add(starts, 7, &new);
    kernel_start_add(starts, 3, NULL);
    kernel_start_add(starts, 7, &old);
    s = sought_starts(starts);
    g_assert_cmpuint(s->addresses->len, ==, 2);
    g_assert_true(sought_at(s, 3, 0, 0));
    g_assert_true(sought_at(s, 7, 1, 5));
    g_assert_true(sought_at(s, 7, 1, 9));
    g_assert_false(sought_at(s, 7, 1, 10));
    g_assert_false(sought_at(s, 7, 2, 7));
    g_assert_true(sought_at(s, 7, 2, 20));
    /* Which kernel runs is not known; or none of them does. */
    g_assert_true(sought_at(s, 7, 0, 8));
    g_assert_false(sought_at(s, 7, 0, 21));
    g_assert_false(sought_at(s, 7, SYMBOLIZER_NO_KERNEL, 8));
    /* Of what has no times, all count. */
    g_assert_true(sought_at(s, 8, 0, 0));
    sought_free(s);
}

int main(int argc, char **argv)
{
    const struct symbolizer_options options = { 0 };
    char *path;
    int ret;

    g_test_init(&argc, &argv, NULL);
    path = sample_path();
    symbol_samples_write(path);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    symbols = symbolizer_new(&options, trace, NULL);
    g_test_add_func("/sought/times", test_times);
    g_test_add_func("/sought/starts", test_starts);
    ret = g_test_run();
    symbolizer_free(symbols);
    btrail_trace_close(trace);
    sample_remove(path);
    return ret;
}
