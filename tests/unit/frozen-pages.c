/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Pages of code that records have executed: which are written, from when on
 */

#include <string.h>

#include "backtrail/code.h"
#include "pt/frozen-pages.h"
#include "trace-samples.h"

#define PAGE    BTRAIL_CODE_PAGE_SIZE
#define KERNEL  UINT64_C(0xffffffff81000000)

struct rig {
    char *path;
    struct btrail_store *store;
    struct output *output;
    struct frozen_pages *pages;
    struct btrail_trace *trace;
    struct btrail_code *code;
};

/* Each page has its number and its address space; one cannot be read. */
static enum pt_code_result read_code(void *opaque, uint64_t cr3,
                                     uint64_t address,
                                     const struct pt_moment *moment,
                                     struct pt_code *code)
{
    static uint8_t page[PAGE];
    unsigned *asked = opaque;

    ++*asked;
    if (address >> 12 == 0x666) {
        return PT_CODE_UNREADABLE;
    }
    memset(page, address >> 12 ^ (address >> 63 ? 0 : cr3 >> 12), PAGE);
    *code = (struct pt_code){
        .bytes = page + address % PAGE, .size = PAGE - address % PAGE,
        .tsc = UINT64_MAX, .records = UINT64_MAX,
    };
    return PT_CODE_READ;
}

static void begin(struct rig *r)
{
    struct btrail_store_options options = { 0 };

    r->path = sample_path();
    options.path = r->path;
    g_assert_cmpint(btrail_store_open(&r->store, &options), ==, 0);
    r->output = output_new(r->store, NULL, 1);
    r->pages = frozen_pages_new(r->output);
}

static void end(struct rig *r)
{
    frozen_pages_flush(r->pages);
    frozen_pages_free(r->pages);
    output_finish(r->output);
    output_free(r->output);
    g_assert_cmpint(btrail_store_close(r->store, NULL), ==, 0);
    g_assert_cmpint(btrail_trace_open(&r->trace, r->path), ==, 0);
    g_assert_cmpint(btrail_code_open(&r->code, r->trace), ==, 0);
}

static void clear(struct rig *r)
{
    btrail_code_close(r->code);
    btrail_trace_close(r->trace);
    sample_remove(r->path);
}

static void check(const struct rig *r, unsigned vcpu, uint64_t index,
                  uint64_t cr3, uint64_t address, int byte)
{
    uint8_t got = 0;
    int n = btrail_code_read(r->code, vcpu, index, cr3, address, &got, 1);

    g_assert_cmpint(n, ==, byte >= 0);
    if (byte >= 0) {
        g_assert_cmpuint(got, ==, byte);
    }
}

static void test_executed(void)
{
    struct rig r;
    struct frozen_pages_vcpu *v, *other;
    unsigned asked[2] = { 0 };

    begin(&r);
    v = frozen_pages_vcpu_new(r.pages, 0, read_code, &asked[0]);
    other = frozen_pages_vcpu_new(r.pages, 3, read_code, &asked[1]);
    /* Those of which no record comes are not written. */
    frozen_pages_read(v, 0x1000, 0x5000);
    frozen_pages_execute(v, 0x1000, 0x1000, 10, 0x10010, 0x10020);
    frozen_pages_execute(v, 0x1000, 0x1000, 11, 0x10030, 0x10040);
    g_assert_cmpuint(asked[0], ==, 1);
    /* Through three pages */
    frozen_pages_execute(v, 0x1000, 0x1000, 12, 0x20ff0, 0x22010);
    /* In another address space; its label has more than PIP has */
    frozen_pages_execute(v, 0x2000 | BTRAIL_CR3_PAE, 0x2000, 13, 0x10000,
                         0x10000);
    /* The kernel's is the same in both. */
    frozen_pages_execute(v, 0x1000, 0x1000, 14, KERNEL, KERNEL);
    frozen_pages_execute(v, 0x2000, 0x2000, 15, KERNEL + 5, KERNEL + 9);
    g_assert_cmpuint(asked[0], ==, 6);
    /* No code leads from there to here. */
    frozen_pages_execute(v, 0x1000, 0x1000, 16, 0x30000, 0x90000);
    frozen_pages_execute(v, 0x1000, 0x1000, 17, 0xa1000, 0xa0000);
    frozen_pages_execute(v, 0x1000, 0x1000, 18, UINT64_MAX - 5, 3);
    /* It cannot be read, and is asked for once. */
    frozen_pages_execute(v, 0x1000, 0x1000, 19, 0x666000, 0x666001);
    frozen_pages_execute(v, 0x1000, 0x1000, 20, 0x666000, 0x666001);
    g_assert_cmpuint(asked[0], ==, 10);
    frozen_pages_execute(other, 0x1000, 0x1000, 1, 0x10010, 0x10020);
    g_assert_cmpuint(asked[1], ==, 1);
    g_assert_cmpuint(frozen_pages_written(r.pages), ==, 10);
    g_assert_false(frozen_pages_more(r.pages));
    frozen_pages_vcpu_free(v);
    frozen_pages_vcpu_free(other);
    end(&r);
    check(&r, 0, 50, 0x1000, 0x5000, -1);
    check(&r, 0, 9, 0x1000, 0x10000, -1);
    check(&r, 0, 10, 0x1000, 0x10000, 0x11);
    check(&r, 0, 12, 0x1000, 0x20fff, 0x21);
    check(&r, 0, 12, 0x1000, 0x21000, 0x20);
    check(&r, 0, 12, 0x1000, 0x22fff, 0x23);
    check(&r, 0, 12, 0x1000, 0x23000, -1);
    check(&r, 0, 13, 0x2000 | BTRAIL_CR3_PAE, 0x10000, 0x12);
    check(&r, 0, 13, 0x2000, 0x10000, -1);
    check(&r, 0, 14, 0x7000, KERNEL + 1, 0);
    check(&r, 0, 50, 0x1000, 0x30000, -1);
    check(&r, 0, 16, 0x1000, 0x90000, 0x91);
    check(&r, 0, 50, 0x1000, 0xa1000, -1);
    check(&r, 0, 17, 0x1000, 0xa0000, 0xa1);
    check(&r, 0, 18, 0x1000, 0, 1);
    check(&r, 0, 50, 0x1000, 0x666000, -1);
    check(&r, 3, 1, 0x1000, 0x10000, 0x11);
    check(&r, 3, 50, 0x1000, 0x20000, -1);
    clear(&r);
}

/* A branch that begins in one page and ends in the next */
static void test_across(void)
{
    struct rig r;
    struct frozen_pages_vcpu *v;
    unsigned asked = 0;

    begin(&r);
    v = frozen_pages_vcpu_new(r.pages, 0, read_code, &asked);
    /* Nobody has read the next page for it. */
    frozen_pages_execute(v, 0x1000, 0x1000, 1, 0x10ff0, 0x10ffe);
    frozen_pages_read(v, 0x1000, 0x21000);
    frozen_pages_execute(v, 0x1000, 0x1000, 2, 0x20fe0, 0x20ff0);
    frozen_pages_read(v, 0x1000, 0x31000);
    frozen_pages_execute(v, 0x1000, 0x1000, 3, 0x30ff0, 0x30ff2);
    frozen_pages_vcpu_free(v);
    end(&r);
    check(&r, 0, 50, 0x1000, 0x11000, -1);
    check(&r, 0, 50, 0x1000, 0x21000, -1);
    check(&r, 0, 2, 0x1000, 0x31000, -1);
    check(&r, 0, 3, 0x1000, 0x31000, 0x30);
    clear(&r);
}

/* A page of a guest that runs, which changes */
static void test_changed(void)
{
    struct rig r;
    struct frozen_pages_vcpu *v;
    unsigned asked = 0;

    begin(&r);
    v = frozen_pages_vcpu_new(r.pages, 0, read_code, &asked);
    frozen_pages_execute(v, 0x1000, 0x1000, 1, 0x10000, 0x10000);
    frozen_pages_execute(v, 0x1000, 0x1000, 2, KERNEL, KERNEL);
    g_assert_cmpuint(asked, ==, 2);
    frozen_pages_change(v, 0x1000, 0x10123, 5);
    frozen_pages_change(v, 0x7000, KERNEL + 9, 4);
    /* Nobody knows whether these were before it. */
    frozen_pages_execute(v, 0x1000, 0x1000, 4, 0x10000, 0x10000);
    frozen_pages_execute(v, 0x1000, 0x1000, 4, 0x20000, 0x20000);
    g_assert_cmpuint(asked, ==, 2);
    frozen_pages_execute(v, 0x1000, 0x1000, 5, 0x10000, 0x10000);
    frozen_pages_execute(v, 0x1000, 0x1000, 6, KERNEL, KERNEL);
    frozen_pages_execute(v, 0x1000, 0x1000, 7, 0x20000, 0x20000);
    frozen_pages_execute(v, 0x1000, 0x1000, 8, 0x10000, 0x10000);
    g_assert_cmpuint(asked, ==, 5);
    frozen_pages_vcpu_free(v);
    end(&r);
    check(&r, 0, 6, 0x1000, 0x20000, -1);
    check(&r, 0, 7, 0x1000, 0x20000, 0x21);
    clear(&r);
}

/* More than one piece of sideband, and more than there is room for */
static void test_many(void)
{
    struct rig r;
    struct frozen_pages_vcpu *v;
    unsigned asked = 0;

    begin(&r);
    v = frozen_pages_vcpu_new(r.pages, 0, read_code, &asked);
    for (uint64_t i = 0; i < FROZEN_PAGES_MAX + 3; i++) {
        uint64_t page = (i + 0x1000) * PAGE;

        frozen_pages_execute(v, 0x1000, 0x1000, i, page, page);
    }
    g_assert_cmpuint(frozen_pages_written(r.pages), ==, FROZEN_PAGES_MAX);
    g_assert_true(frozen_pages_more(r.pages));
    frozen_pages_vcpu_free(v);
    end(&r);
    for (uint64_t i = 0; i < FROZEN_PAGES_MAX; i += 4099) {
        check(&r, 0, i, 0x1000, (i + 0x1000) * PAGE,
              (uint8_t)((i + 0x1000) ^ 1));
    }
    clear(&r);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/frozen-pages/executed", test_executed);
    g_test_add_func("/frozen-pages/across", test_across);
    g_test_add_func("/frozen-pages/changed", test_changed);
    g_test_add_func("/frozen-pages/many", test_many);
    return g_test_run();
}
