/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Functions that are searched by name: each only while it is there, and where
 * its process can be
 */

#include "symbol-samples.h"
#include "trace-samples.h"
#include "find/target.h"
#include "find/visits.h"

static struct btrail_trace *trace;
static struct symbolizer *symbols;

/* At which times does a function run?  They are printed one after the other. */
static void check(bool with_symbols, const char *function, const char *want)
{
    g_autoptr(GString) times = g_string_new(NULL);
    g_autoptr(GError) error = NULL;
    struct find_target *s = find_target_function(trace,
                                                 with_symbols ? symbols : NULL,
                                                 NULL, function, &error);
    struct visits *v;
    struct visit visit;

    if (!want) {
        g_assert_null(s);
        g_assert_error(error, AGENT_ERROR, AGENT_ERROR_NAMES);
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
    find_target_free(s);
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

/* A name that nothing has need not be searched. */
static void test_known(void)
{
    static const struct {
        const char *name;
        bool known;
        const char *found;
    } names[] = {
        { "tun_get", true, NULL }, { "tun_put", true, NULL },
        { "[unknown]", true, NULL }, { "tun_gett", false, "tun_get" },
        { "nothing", false, NULL }, { "tun_", false, NULL },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(names); i++) {
        struct closest closest = closest_to(names[i].name);

        g_assert_cmpint(find_target_is_known(symbols, names[i].name,
                                             &closest), ==, names[i].known);
        g_assert_cmpstr(closest.found, ==, names[i].found);
    }
}

/* Addresses that others have as well */
static void test_starts(void)
{
    const struct btrail_symbol_era old = { .kernel = 1, .from = 5, .last = 9 };
    const struct btrail_symbol_era new = { .kernel = 2, .from = 8, .last = 20 };
    GArray *starts = g_array_new(FALSE, FALSE, sizeof(struct kernel_start));
    struct find_target *s;

    kernel_start_add(starts, 7, &new);
    kernel_start_add(starts, 3, NULL);
    kernel_start_add(starts, 7, &old);
    s = find_target_starts(starts, NULL);
    g_assert_cmpuint(s->addresses->len, ==, 2);
    g_assert_true(find_target_at(s, 3, 0, 0));
    g_assert_true(find_target_at(s, 7, 1, 5));
    g_assert_true(find_target_at(s, 7, 1, 9));
    g_assert_false(find_target_at(s, 7, 1, 10));
    g_assert_false(find_target_at(s, 7, 2, 7));
    g_assert_true(find_target_at(s, 7, 2, 20));
    /* Which kernel runs is not known; or none of them does. */
    g_assert_true(find_target_at(s, 7, 0, 8));
    g_assert_false(find_target_at(s, 7, 0, 21));
    g_assert_false(find_target_at(s, 7, SYMBOLIZER_NO_KERNEL, 8));
    /* Of what has no times, all count. */
    g_assert_true(find_target_at(s, 8, 0, 0));
    find_target_free(s);
}

static void put_of(struct btrail_writer *w, uint16_t kernel, uint16_t kind,
                   uint64_t time, const void *data, size_t size)
{
    const struct btrail_sideband_info info = { kind, kernel, size, time };

    g_assert_cmpint(btrail_writer_sideband(w, &info, data), ==, 0);
}

/*
 * Where a function of one kernel is, another one has another, or the same
 * somewhere else, and no event says which of them runs.
 */
static void test_kernels(void)
{
    static const char first[] = "ffffffff81000000 T work\n"
                                "ffffffff81000100 T rest\n";
    static const char second[] = "ffffffff81000000 T rest\n"
                                 "ffffffff81000100 T work\n";
    char *path = sample_path();
    struct btrail_trace *t;
    struct btrail_writer *w;
    struct find_target *s;

    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    put_of(w, 1, BTRAIL_SIDEBAND_SYMBOLS, 100, first, sizeof(first) - 1);
    put_of(w, 2, BTRAIL_SIDEBAND_SYMBOLS, 200, second, sizeof(second) - 1);
    put_of(w, 1, BTRAIL_SIDEBAND_SYMBOLS, 300, first, sizeof(first) - 1);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&t, path), ==, 0);
    s = find_target_function(t, NULL, NULL, "work", NULL);
    g_assert_cmpuint(s->addresses->len, ==, 2);
    for (unsigned time = 50; time < 400; time += 50) {
        bool of_second = time >= 200 && time < 300;

        g_assert_true(find_target_at(s, 0xffffffff81000000, 0,
                                     time) == !of_second);
        g_assert_true(find_target_at(s, 0xffffffff81000100, 0,
                                     time) == of_second);
        /* Events know better. */
        g_assert_true(find_target_at(s, 0xffffffff81000100, 2, time));
        g_assert_false(find_target_at(s, 0xffffffff81000100, 1, time));
    }
    find_target_free(s);
    btrail_trace_close(t);
    sample_remove(path);
}

/*
 * Where no event names the task, only records of the process's page tables can
 * have its function: those of trace-samples.h with two of the roots, of which
 * some between are lost.
 */
static void test_roots(void)
{
    static const char map[] = "cr3 1000 pid=1 one\ncr3 2000 pid=2 two\n"
                              "cr3 3000 pid=3 one\n";
    static const struct piece want[] = { { 10, 20 }, { 27, 37 }, { 57, 77 } };
    char *path = sample_path();
    g_autofree char *names = g_strconcat(path, ".map", NULL);
    const struct symbolizer_options options = { .map = names };
    struct btrail_trace *t;
    struct symbolizer *named;
    struct find_target *s;

    g_assert_true(g_file_set_contents(names, map, -1, NULL));
    sample_write(path, 5);
    g_assert_cmpint(btrail_trace_open(&t, path), ==, 0);
    named = symbolizer_new(&options, t, NULL);
    g_assert_nonnull(named);
    s = find_target_function(t, named, "one", "main", NULL);
    for (unsigned vcpu = 0; vcpu < 4; vcpu += 3) {
        g_assert_cmpmem(s->others[vcpu]->data,
                        s->others[vcpu]->len * sizeof(*want), want,
                        sizeof(want));
    }
    find_target_free(s);
    s = find_target_function(t, named, "three", "main", NULL);
    g_assert_null(s->others[0]);
    find_target_free(s);
    symbolizer_free(named);
    btrail_trace_close(t);
    sample_remove(path);
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
    g_test_add_func("/wanted/times", test_times);
    g_test_add_func("/wanted/known", test_known);
    g_test_add_func("/wanted/starts", test_starts);
    g_test_add_func("/wanted/kernels", test_kernels);
    g_test_add_func("/wanted/roots", test_roots);
    ret = g_test_run();
    symbolizer_free(symbols);
    btrail_trace_close(trace);
    sample_remove(path);
    return ret;
}
