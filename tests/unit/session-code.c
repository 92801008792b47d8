/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Code that a session gets: contents that some item refers to, in any order
 */

#include <glib/gstdio.h>
#include <string.h>

#include "backtrail/code.h"
#include "drain/session-code.h"
#include "trace-samples.h"

#define BUDGET  (UINT64_C(16) << 20)

struct rig {
    char *path;
    struct btrail_budget *budget;
    struct btrail_store *store;
    struct output *output;
    struct session_code *c;
    struct btrail_trace *trace;
};

static void begin(struct rig *r, bool chosen)
{
    struct btrail_store_options options = { 0 };

    r->path = sample_path();
    options.path = r->path;
    g_assert_cmpint(btrail_store_open(&r->store, &options), ==, 0);
    r->output = output_new(r->store, NULL, 1);
    r->budget = btrail_budget_new_fixed(BUDGET, 4);
    r->c = session_code_new(r->output, r->budget, chosen);
}

static void bytes(struct rig *r, uint64_t number)
{
    struct btrail_code_item item = {
        .type = BTRAIL_CODE_BYTES, .number = number,
    };
    uint8_t page[BTRAIL_CODE_PAGE_SIZE];

    memset(page, (int)number, sizeof(page));
    memcpy(page, &number, sizeof(number));
    session_code_item(r->c, 0, number, &item, page);
}

static void page(struct rig *r, uint64_t number)
{
    struct btrail_code_item item = {
        .type = BTRAIL_CODE_PAGE, .number = number, .cr3 = 0x1000,
        .linear = number * BTRAIL_CODE_PAGE_SIZE,
    };

    session_code_item(r->c, 0, number, &item, NULL);
}

static void end(struct rig *r, struct btrail_code **code)
{
    session_code_flush(r->c);
    session_code_free(r->c);
    g_assert_cmpuint(btrail_budget_left(r->budget), ==, BUDGET);
    btrail_budget_unref(r->budget);
    output_finish(r->output);
    output_free(r->output);
    g_assert_cmpint(btrail_store_close(r->store, NULL), ==, 0);
    g_assert_cmpint(btrail_trace_open(&r->trace, r->path), ==, 0);
    g_assert_cmpint(btrail_code_open(code, r->trace), ==, 0);
}

static bool has(struct btrail_code *code, uint64_t number)
{
    uint64_t got;
    int n = btrail_code_read(code, 0, 0, 0x1000,
                             number * BTRAIL_CODE_PAGE_SIZE, &got, 8);

    if (n > 0) {
        g_assert_cmpint(n, ==, 8);
        g_assert_cmpuint(got, ==, number);
    }
    return n > 0;
}

/* Contents without an item are not in the file, in whatever order they come. */
static void test_chosen(void)
{
    struct btrail_code *code;
    struct rig r;
    GStatBuf st;
    unsigned i;

    begin(&r, true);
    bytes(&r, 1);
    page(&r, 1);
    page(&r, 2);
    bytes(&r, 2);
    /* Reported again: it is there already. */
    page(&r, 1);
    page(&r, 2);
    /* Too many contents without an item: the oldest is dropped. */
    for (i = 10; i < 10 + 1025; i++) {
        bytes(&r, i);
    }
    page(&r, 10);
    page(&r, 11);
    end(&r, &code);
    g_assert_true(has(code, 1));
    g_assert_true(has(code, 2));
    g_assert_false(has(code, 10));
    g_assert_true(has(code, 11));
    g_assert_cmpuint(btrail_code_bad_pieces(code), ==, 0);
    btrail_code_close(code);
    btrail_trace_close(r.trace);
    g_assert_cmpint(g_stat(r.path, &st), ==, 0);
    g_assert_cmpint(st.st_size, <, 5000);
    sample_remove(r.path);
}

/* Items whose contents never come, without end */
static void test_never(void)
{
    struct btrail_code *code;
    struct rig r;

    begin(&r, true);
    page(&r, 1);
    for (unsigned i = 2; i < 500000; i++) {
        page(&r, i);
    }
    g_assert_cmpuint(btrail_budget_refused(r.budget), >, 100000);
    bytes(&r, 1);
    end(&r, &code);
    g_assert_true(has(code, 1));
    btrail_code_close(code);
    btrail_trace_close(r.trace);
    sample_remove(r.path);
}

static void test_all(void)
{
    struct btrail_code *code;
    struct rig r;
    unsigned i;

    begin(&r, false);
    for (i = 1; i <= 1000; i++) {
        bytes(&r, i);
    }
    for (i = 1; i <= 1000; i++) {
        page(&r, i);
    }
    end(&r, &code);
    for (i = 1; i <= 1000; i++) {
        g_assert_true(has(code, i));
    }
    btrail_code_close(code);
    btrail_trace_close(r.trace);
    sample_remove(r.path);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/session-code/chosen", test_chosen);
    g_test_add_func("/session-code/never", test_never);
    g_test_add_func("/session-code/all", test_all);
    return g_test_run();
}
