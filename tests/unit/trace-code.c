/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Code from a trace: which, where, and until which record
 */

#include <string.h>

#include "lib/agent/code-piece.h"
#include "pt/trace-code.h"
#include "trace-samples.h"

#define PAGE    BTRAIL_CODE_PAGE_SIZE
#define KERNEL  UINT64_C(0xffffffff81000000)

static void write_trace(const char *path)
{
    static const struct btrail_code_entry entries[] = {
        { 0, 0, 0, 0x5000, 0x400000, 0x1000, 1 },
        { 0, 1, 20, 0x5000, 0x400000, 0x1000, 2 },
        { 0, 2, 30, 0x5000, KERNEL, 0x2000, 3 },
        { 1, 0, 0, 0x5000, 0x400000, 0x1000, 3 },
    };
    struct btrail_sideband_info info = { .kind = BTRAIL_SIDEBAND_CODE };
    struct btrail_code_builder *b = btrail_code_builder_new();
    uint8_t page[PAGE];
    g_autofree uint8_t *data = NULL;
    struct btrail_writer *w;
    size_t size;

    for (unsigned i = 0; i < G_N_ELEMENTS(entries); i++) {
        btrail_code_builder_entry(b, &entries[i]);
    }
    for (unsigned i = 1; i <= 3; i++) {
        memset(page, i, PAGE);
        btrail_code_builder_content(b, i, page);
    }
    data = btrail_code_builder_take(b, &size);
    info.size = size;
    g_assert_cmpint(btrail_writer_open(&w, path, BTRAIL_WRITER_REPLACE), ==,
                    0);
    g_assert_cmpint(btrail_writer_sideband(w, &info, data), ==, 0);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    btrail_code_builder_free(b);
}

/* The stream has begun at record 5, and has lost 2. */
static uint64_t index_at(void *opaque, const struct pt_moment *m)
{
    g_assert_true(opaque == write_trace);
    return m->records + 7;
}

/* The first byte there, how many follow, and until which record */
static void check(struct trace_code *t, uint64_t cr3, uint64_t address,
                  uint64_t index, unsigned byte, uint64_t until)
{
    struct pt_moment m = { .records = index - 7 };
    struct pt_code code;
    enum pt_code_result result = trace_code_read(t, cr3, address, &m, &code);

    if (!byte) {
        g_assert_cmpint(result, ==, PT_CODE_UNREADABLE);
        return;
    }
    g_assert_cmpint(result, ==, PT_CODE_READ);
    g_assert_cmpuint(code.bytes[0], ==, byte);
    g_assert_cmpuint(code.size, ==, PAGE - address % PAGE);
    g_assert_cmpuint(code.bytes[code.size - 1], ==, byte);
    g_assert_cmpuint(code.tsc, ==, UINT64_MAX);
    g_assert_cmpuint(code.records, ==,
                     until == UINT64_MAX ? until : until - 7);
}

static void test_read(void)
{
    char *path = sample_path();
    struct btrail_trace *trace;
    struct btrail_code *code;

    write_trace(path);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_assert_cmpint(btrail_code_open(&code, trace), ==, 0);
    for (unsigned vcpu = 0; vcpu < 2; vcpu++) {
        struct trace_code *t = trace_code_new(code, vcpu, index_at,
                                              write_trace);

        if (vcpu) {
            check(t, 0x5000, 0x400010, 50, 3, UINT64_MAX);
            check(t, 0x5000, KERNEL, 50, 0, 0);
        } else {
            check(t, 0x5000, 0x400fff, 8, 1, 20);
            check(t, 0x5000, 0x400000, 19, 1, 20);
            check(t, 0x5000, 0x400001, 20, 2, UINT64_MAX);
            /* Back again, behind a gap */
            check(t, 0x5000, 0x400001, 10, 1, 20);
            check(t, 0x6000, 0x400000, 10, 0, 0);
            check(t, 0x5000, KERNEL + 5, 29, 0, 0);
            check(t, 0x5000, KERNEL + 5, 30, 3, UINT64_MAX);
            /* The kernel's is that of all address spaces. */
            check(t, 0x6000, KERNEL + 5, 31, 3, UINT64_MAX);
        }
        trace_code_free(t);
    }
    btrail_code_close(code);
    btrail_trace_close(trace);
    sample_remove(path);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/trace-code/read", test_read);
    return g_test_run();
}
