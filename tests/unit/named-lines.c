/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Test records with their instructions: from a straight piece of code of known
 * length
 */

#include <string.h>

#include "cli/named-lines.h"
#include "code-samples.h"
#include "trace-samples.h"
#include "util/json.h"

#define BEGIN   UINT64_C(0xffffffff81000000)
#define CR3     0x5000
#define PAGES   2
/* As many as are printed, says backtrail-script(1) */
#define LIMIT   4096

/* What is printed of the record at the end of @n instructions of one byte;
 * those from @hole on begin with a RET.  To be freed. */
static char *printed(unsigned n, unsigned hole, bool json)
{
    static uint8_t bytes[PAGES * BTRAIL_CODE_PAGE_SIZE];
    struct sample_code pages[PAGES];
    const struct btrail_record records[] = {
        { 0x1000, BEGIN, 0 }, { BEGIN + n - 1, 0x2000, 0 },
    };
    const struct btrail_slab slab = {
        .cr3 = CR3, .records = records, .n_records = G_N_ELEMENTS(records),
    };
    char *path = sample_path(), *text = NULL;
    struct analysis a = { NULL };
    struct named_lines_options options = {
        .in = &a, .insn = true, .json = json,
    };
    struct btrail_cursor *cursor;
    struct btrail_writer *w;
    struct btrail_batch b;
    struct named_lines *l;
    size_t size;

    memset(bytes, 0x90, sizeof(bytes));
    bytes[n - 1] = 0xc3;
    if (hole) {
        bytes[hole - 1] = 0xc3;
    }
    for (unsigned i = 0; i < PAGES; i++) {
        pages[i] = (struct sample_code) {
            .cr3 = CR3, .address = BEGIN + i * BTRAIL_CODE_PAGE_SIZE,
            .bytes = bytes + i * BTRAIL_CODE_PAGE_SIZE,
            .n = BTRAIL_CODE_PAGE_SIZE,
        };
    }
    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    sample_code(w, pages, PAGES);
    g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);

    g_assert_cmpint(btrail_trace_open(&a.trace.trace, path), ==, 0);
    a.names = sample_symbolizer(a.trace.trace, SAMPLE_KERNEL);
    options.out = open_memstream(&text, &size);
    l = named_lines_new(&options);
    g_assert_cmpint(btrail_cursor_open(&cursor, a.trace.trace, 0, 0), ==, 0);
    while (!btrail_cursor_next(cursor, &b)) {
        if (!b.event) {
            named_lines_records(l, 0, &b, 0, b.count);
        }
    }
    g_assert_cmpuint(named_lines_printed(l), ==, G_N_ELEMENTS(records));
    btrail_cursor_close(cursor);
    named_lines_free(l);
    fclose(options.out);
    symbolizer_free(a.names);
    btrail_trace_close(a.trace.trace);
    sample_remove(path);
    return text;
}

/* @n instructions and a line that says why there are no more, if it does */
static void check_text(const char *text, unsigned n, const char *why)
{
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    unsigned at = 1;            /* after the first record, which has none */

    for (unsigned i = 0; i < n; i++, at++) {
        g_autofree char *want = g_strdup_printf("\t0x%016" G_GINT64_MODIFIER
                                                "x  ", BEGIN + i);

        g_assert_true(g_str_has_prefix(lines[at], want));
    }
    if (why) {
        g_assert_cmpstr(lines[at++], ==, why);
    }
    g_assert_true(g_str_has_prefix(lines[at], "0 1 "));
    g_assert_cmpuint(g_strv_length(lines), ==, at + 2);
}

static void check_json(const char *text, unsigned n, const char *why)
{
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    g_autoptr(JsonNode) first = btrail_json_parse_object(lines[0]);
    g_autoptr(JsonNode) second = btrail_json_parse_object(lines[1]);
    JsonObject *record = json_node_get_object(second);
    JsonArray *code = btrail_json_array(record, "code");

    g_assert_cmpuint(json_array_get_length(btrail_json_array(
                         json_node_get_object(first), "code")), ==, 0);
    g_assert_cmpuint(json_array_get_length(code), ==, n);
    for (unsigned i = 0; i < n; i++) {
        g_autofree char *want = g_strdup_printf("0x%016" G_GINT64_MODIFIER "x",
                                                BEGIN + i);

        g_assert_cmpstr(btrail_json_string(json_array_get_object_element(
                            code, i), "address"), ==, want);
    }
    g_assert_cmpstr(btrail_json_string(record, "code_ends"), ==, why);
}

static void check(unsigned n, unsigned hole, unsigned want, const char *why,
                  const char *json_why)
{
    g_autofree char *text = printed(n, hole, false);
    g_autofree char *json = printed(n, hole, true);

    check_text(text, want, why);
    check_json(json, want, json_why);
}

static void test_whole(void)
{
    check(1, 0, 1, NULL, NULL);
    check(100, 0, 100, NULL, NULL);
    check(LIMIT, 0, LIMIT, NULL, NULL);
}

static void test_limit(void)
{
    check(LIMIT + 1, 0, LIMIT, "\t(what followed is more than is printed)",
          "limit");
    check(PAGES * BTRAIL_CODE_PAGE_SIZE, 0, LIMIT,
          "\t(what followed is more than is printed)", "limit");
}

static void test_hole(void)
{
    check(100, 50, 50, "\t(what followed is not in the trace)", "missing");
    check(LIMIT + 1, LIMIT, LIMIT, "\t(what followed is not in the trace)",
          "missing");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/named-lines/whole", test_whole);
    g_test_add_func("/named-lines/limit", test_limit);
    g_test_add_func("/named-lines/hole", test_hole);
    return g_test_run();
}
