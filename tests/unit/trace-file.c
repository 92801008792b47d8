/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Trace files as commands open them: what is said of those that cannot be
 * opened or are damaged, and how times are printed
 */

#include <glib/gstdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "trace-samples.h"
#include "util/json.h"

/* What is printed as errors between the two, to be freed */
static FILE *caught;
static int kept;

static void catch_begin(void)
{
    fflush(stderr);
    caught = tmpfile();
    kept = dup(STDERR_FILENO);
    g_assert_cmpint(dup2(fileno(caught), STDERR_FILENO), ==, STDERR_FILENO);
}

static char *catch_end(void)
{
    char text[4096];
    size_t n;

    fflush(stderr);
    g_assert_cmpint(dup2(kept, STDERR_FILENO), ==, STDERR_FILENO);
    close(kept);
    rewind(caught);
    n = fread(text, 1, sizeof(text) - 1, caught);
    text[n] = '\0';
    fclose(caught);
    return g_strdup(text);
}

static void open_good(struct cli_trace *t, char *path)
{
    char *paths[] = { path, NULL };
    g_autofree char *said = NULL;

    catch_begin();
    g_assert_true(cli_trace_open(t, paths));
    said = catch_end();
    g_assert_cmpstr(said, ==, "");
}

/* Says which one it is, and nothing else. */
static void check_bad(char *a, char *b, const char *which)
{
    char *paths[] = { a, b, NULL };
    g_autofree char *said = NULL, *begin = g_strdup_printf("backtrail: %s: ",
                                                           which);
    struct cli_trace t;
    char *line;

    catch_begin();
    g_assert_false(cli_trace_open(&t, paths));
    said = catch_end();
    g_assert_true(g_str_has_prefix(said, begin));
    line = strchr(said, '\n');
    g_assert_nonnull(line);
    g_assert_cmpstr(line, ==, "\n");
}

static void test_open(void)
{
    char *path = sample_path(), *other = sample_path(), *bad = sample_path();
    g_autofree char *none = g_strconcat(path, "-none", NULL);
    struct cli_trace t;

    sample_write(path, 3);
    sample_write(other, 3);
    g_assert_true(g_file_set_contents(bad, "this is no trace", -1, NULL));
    open_good(&t, path);
    g_assert_cmpstr(t.path, ==, path);
    g_assert_true(t.status.complete);
    g_assert_true(json_object_get_boolean_member(t.meta, "sample"));
    g_assert_cmpuint(t.bad_metas, ==, 0);
    g_assert_cmpuint(t.start, ==, 0);
    cli_trace_close(&t);

    check_bad(none, NULL, none);
    check_bad(bad, NULL, bad);
    check_bad(path, none, none);
    check_bad(none, path, none);
    check_bad(path, bad, bad);
    /* Both are good, but of two traces. */
    check_bad(path, other, path);
    sample_remove(path);
    sample_remove(other);
    sample_remove(bad);
}

/* A description that says when it began, in pieces of which one is none */
static void test_described(void)
{
    static const char *const metas[] = {
        "{\"start\":{\"monotonic\":5000}}", "{\"tick_ns\":77}", "[1]",
    };
    char *path = sample_path();
    char *paths[] = { path, NULL };
    g_autofree char *said = NULL;
    struct btrail_writer *w;
    struct cli_trace t;

    g_assert_cmpint(btrail_writer_open(&w, path, BTRAIL_WRITER_REPLACE), ==,
                    0);
    for (unsigned i = 0; i < G_N_ELEMENTS(metas); i++) {
        g_assert_cmpint(btrail_writer_meta(w, metas[i], strlen(metas[i])), ==,
                        0);
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    catch_begin();
    g_assert_true(cli_trace_open(&t, paths));
    said = catch_end();
    g_assert_nonnull(strstr(said, "1 pieces of the description are not JSON"));
    g_assert_cmpuint(t.start, ==, 5000);
    g_assert_cmpuint(t.tick, ==, 77);
    cli_trace_close(&t);
    sample_remove(path);
}

/* @want: what is said, in this order, of which each is on a line of its own */
static void check_verdict(const struct cli_trace *t, uint64_t damage,
                          const char *const *want)
{
    g_autofree char *said = NULL;
    g_auto(GStrv) lines = NULL;
    unsigned n = 0;
    int verdict;

    catch_begin();
    verdict = cli_trace_verdict(t, damage);
    said = catch_end();
    lines = g_strsplit(said, "\n", -1);
    for (; want[n]; n++) {
        g_assert_nonnull(lines[n]);
        g_assert_true(g_str_has_prefix(lines[n], "backtrail: "));
        g_assert_nonnull(strstr(lines[n], t->path));
        g_assert_nonnull(strstr(lines[n], want[n]));
    }
    g_assert_true(!lines[n] || !*lines[n]);
    g_assert_cmpint(verdict, ==, n || t->left_out ? CLI_DAMAGED : CLI_OK);
}

#define SAYS(...)   ((const char *const []) { __VA_ARGS__, NULL })

static void test_verdict(void)
{
    char *path = sample_path();
    struct btrail_trace_status good;
    struct cli_trace t;

    sample_write(path, 3);
    open_good(&t, path);
    good = t.status;
    check_verdict(&t, 0, SAYS(NULL));
    check_verdict(&t, 7, SAYS("damaged: 7 places"));
    t.left_out = true;
    check_verdict(&t, 0, SAYS(NULL));
    t.left_out = false;
    t.status.indexed = false;
    check_verdict(&t, 0, SAYS("the index is damaged"));
    t.status.complete = false;
    t.status.cut_bytes = 12;
    /* One that was cut off has no index. */
    check_verdict(&t, 0, SAYS("cut off or is still being written; 12 bytes"));
    t.status = good;
    t.status.bad_chunks = 2;
    check_verdict(&t, 3, SAYS("2 bad chunks, 0 missing ones, 0 bytes",
                              "damaged: 3 places"));
    t.status = good;
    t.status.missing_chunks = 4;
    check_verdict(&t, 0, SAYS("0 bad chunks, 4 missing ones, 0 bytes"));
    t.status = good;
    t.status.skipped_bytes = 5;
    check_verdict(&t, 0, SAYS("0 bad chunks, 0 missing ones, 5 bytes"));
    t.status = good;
    t.status.missing_parts = 6;
    check_verdict(&t, 0, SAYS("6 files of the trace are missing between"));
    t.status = good;
    t.status.continued = true;
    check_verdict(&t, 0, SAYS("continues in a file that was not given"));
    /* Whoever names a later part wants only that. */
    t.status.first_part = 2;
    check_verdict(&t, 0, SAYS(NULL));
    t.status = good;
    cli_trace_close(&t);

    /* What is really cut off */
    g_assert_cmpint(truncate(path, good.file_size - 1), ==, 0);
    open_good(&t, path);
    check_verdict(&t, 0, SAYS("cut off or is still being written"));
    cli_trace_close(&t);
    sample_remove(path);
}

/* Whether the trace would say of pauses, by its description */
static void check_pauses(const struct cli_trace *t, const char *meta,
                         bool want)
{
    g_autoptr(JsonNode) node = btrail_json_parse_object(meta);
    struct cli_trace described = *t;
    struct pauses *p;
    bool known;

    g_assert_nonnull(node);
    described.meta = json_node_get_object(node);
    p = cli_trace_pauses(&described, &known);
    g_assert_nonnull(p);
    g_assert_cmpint(known, ==, want);
    pauses_free(p);
}

static void test_pauses(void)
{
    char *path = sample_path();
    g_autofree char *none = NULL, *some = NULL;
    struct cli_trace t;
    struct pauses *p;
    bool known;

    sample_write(path, 3);
    open_good(&t, path);
    check_pauses(&t, "{}", false);
    check_pauses(&t, "{\"overflow\":\"pause\"}", true);
    check_pauses(&t, "{\"overflow\":7,\"vcpus\":-1,\"privilege\":[]}", false);
    check_pauses(&t, "{\"overflow\":\"drop\",\"vcpus\":1000000}", true);
    p = cli_trace_pauses(&t, &known);
    none = cli_unknown_pauses(p, false);
    g_assert_nonnull(strstr(none, "not known"));
    some = cli_unknown_pauses(p, true);
    if (pauses_unknown(p)) {
        g_assert_nonnull(strstr(some, "places where records are missing"));
    } else {
        g_assert_null(some);
    }
    pauses_free(p);
    cli_trace_close(&t);
    sample_remove(path);
}

static void check_time(uint64_t start, uint64_t host, const char *want)
{
    const struct cli_trace t = { .start = start };
    char buf[CLI_TIME_SIZE];

    g_assert_cmpstr(cli_format_time(&t, host, buf), ==, want);
}

static void test_times(void)
{
    char buf[CLI_TIME_SIZE];

    g_assert_cmpstr(cli_format_ns(0, buf), ==, "0.000000000");
    g_assert_cmpstr(cli_format_ns(999999999, buf), ==, "0.999999999");
    g_assert_cmpstr(cli_format_ns(1000000000, buf), ==, "1.000000000");
    g_assert_cmpstr(cli_format_ns(UINT64_MAX, buf), ==,
                    "18446744073.709551615");
    check_time(0, 0, "-");
    check_time(5, 0, "-");
    check_time(5, 5, "0.000000000");
    check_time(5, 4, "-0.000000001");
    check_time(5000000000, 1, "-4.999999999");
    check_time(1, UINT64_MAX, "18446744073.709551614");
    check_time(UINT64_MAX, 1, "-18446744073.709551614");
}

static void test_icount(void)
{
    const struct btrail_record with = {
        .flags = BTRAIL_RECORD_HAS_ICOUNT |
                 UINT64_C(123) << BTRAIL_RECORD_ICOUNT_SHIFT,
    }, without = { .flags = 0 };
    const struct btrail_time time = { .icount = 100 };
    const struct btrail_time none = { .icount = BTRAIL_NO_ICOUNT };
    char buf[CLI_TIME_SIZE];

    g_assert_cmpstr(cli_format_icount(&with, &time, "?", buf), ==, "123");
    g_assert_cmpstr(cli_format_icount(&without, &none, "?", buf), ==, "?");
    g_assert_cmpstr(cli_strerror(-BTRAIL_ERR_CORRUPT), ==,
                    btrail_strerror(-BTRAIL_ERR_CORRUPT));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/trace-file/open", test_open);
    g_test_add_func("/trace-file/described", test_described);
    g_test_add_func("/trace-file/verdict", test_verdict);
    g_test_add_func("/trace-file/pauses", test_pauses);
    g_test_add_func("/trace-file/times", test_times);
    g_test_add_func("/trace-file/icount", test_icount);
    return g_test_run();
}
