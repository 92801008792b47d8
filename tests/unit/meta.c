/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The description of a trace: which member counts, and what is left out
 */

#include <glib/gstdio.h>
#include <string.h>

#include "backtrail/names.h"
#include "lib/agent/meta.h"
#include "lib/agent/names-private.h"

static char *path;

static struct btrail_trace *trace_with(const char *const *pieces)
{
    struct btrail_writer *w;
    struct btrail_trace *trace;

    g_assert_cmpint(btrail_writer_open(&w, path, BTRAIL_WRITER_REPLACE), ==,
                    0);
    for (; *pieces; pieces++) {
        g_assert_cmpint(btrail_writer_meta(w, *pieces, strlen(*pieces)), ==,
                        0);
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    return trace;
}

static void check(const char *const *pieces, const char *want,
                  unsigned want_bad)
{
    struct btrail_trace *trace = trace_with(pieces);
    g_autoptr(JsonNode) node = json_node_new(JSON_NODE_OBJECT);
    g_autofree char *text = NULL;
    unsigned bad;

    json_node_take_object(node, btrail_meta_read(trace, &bad));
    text = json_to_string(node, FALSE);
    g_assert_cmpstr(text, ==, want);
    g_assert_cmpuint(bad, ==, want_bad);
    btrail_trace_close(trace);
}

#define CHECK(want, bad, ...) \
    check((const char *const []) { __VA_ARGS__ __VA_OPT__(,) NULL }, want, bad)

static void test_members(void)
{
    CHECK("{}", 0);
    CHECK("{\"a\":1,\"b\":{\"c\":2}}", 0, "{\"a\": 1}", "{\"b\": {\"c\": 2}}");
    CHECK("{\"a\":[2]}", 0, "{\"a\": {\"x\": 1}}", "{\"a\": [2]}");
}

static void test_bad(void)
{
    g_autoptr(GString) deep = g_string_new("{\"a\":");
    unsigned i;

    for (i = 0; i < 1000; i++) {
        g_string_append(deep, "[");
    }
    CHECK("{\"a\":1,\"b\":2}", 3, "{\"a\": 1}", "{\"a\": 5", "[7]", deep->str,
          "{\"b\": 2}");
}

static void check_names(uint64_t tick, bool unfiltered, bool all_vcpus,
                        const char *first, const char *second)
{
    const char *const pieces[] = { first, second, NULL };
    struct btrail_trace *trace = trace_with(pieces);
    struct btrail_names *names;

    g_assert_cmpint(btrail_names_open(&names, trace), ==, 0);
    btrail_trace_close(trace);
    g_assert_cmpuint(btrail_names_tick(names), ==, tick);
    g_assert_true(btrail_names_unfiltered(names) == unfiltered);
    g_assert_true(btrail_names_all_vcpus(names) == all_vcpus);
    btrail_names_close(names);
}

/* What the library itself reads: members at the top, and the last ones */
static void test_names(void)
{
    check_names(1000000, true, true, "{\"privilege\": \"all\"}", NULL);
    check_names(5, true, true, "{\"privilege\": \"all\", \"tick_ns\": 7}",
                "{\"tick_ns\": 5}");
    check_names(1000000, true, true,
                "{\"x\": {\"tick_ns\": 5, \"cr3_filter\": [], "
                "\"vcpu_filter\": 1}, \"privilege\": \"all\"}", NULL);
    check_names(1000000, false, true, "{\"privilege\": \"all\"}",
                "{\"privilege\": \"user\"}");
    check_names(1000000, false, true,
                "{\"privilege\": \"all\", \"cr3_filter\": [\"1\"]}", NULL);
    check_names(1000000, false, true,
                "{\"privilege\": \"all\", \"processes\": [\"a\"]}", NULL);
    check_names(1000000, true, false,
                "{\"privilege\": \"all\", \"vcpu_filter\": \"0\"}", NULL);
    /* A piece that cannot be read may have had a filter. */
    check_names(1000000, false, false, "{\"privilege\": \"all\"}", "{");
    check_names(1000000, false, true, "{\"privilege\": 3}", NULL);
    check_names(1000000, false, true, "{\"tick_ns\": -1}", NULL);
    check_names(10000000000, false, true, "{\"tick_ns\": 99999999999}", NULL);
}

int main(int argc, char **argv)
{
    int ret;

    g_test_init(&argc, &argv, NULL);
    path = g_strdup_printf("%s/test-meta-%d.btrail", g_get_tmp_dir(),
                           g_test_rand_int());
    g_test_add_func("/meta/members", test_members);
    g_test_add_func("/meta/bad", test_bad);
    g_test_add_func("/meta/names", test_names);
    ret = g_test_run();
    g_unlink(path);
    g_free(path);
    return ret;
}
