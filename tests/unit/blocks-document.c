/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of the device's blocks-document.c: the XML that GDB reads, in any pieces
 */

#include "qemu/osdep.h"
#include <glib.h>
#include <inttypes.h>

#include "blocks-document.h"

static const BranchTraceBlock blocks[] = {
    { UINT64_C(0xffffffff81000000), UINT64_C(0xffffffff8100000f) },
    { 0, UINT64_MAX },
    { 1, 0 },
};

/* As printf makes it */
static GString *expected(size_t n)
{
    GString *text = g_string_new("<!DOCTYPE btrace SYSTEM \"btrace.dtd\">\n"
                                 "<btrace version=\"1.0\">\n");

    for (size_t i = 0; i < n; i++) {
        g_string_append_printf(text, "<block begin=\"0x%016" PRIx64 "\" "
                               "end=\"0x%016" PRIx64 "\"/>\n",
                               blocks[i].begin, blocks[i].end);
    }
    return g_string_append(text, "</btrace>\n");
}

static void test_pieces(void)
{
    for (size_t n = 0; n <= G_N_ELEMENTS(blocks); n++) {
        GString *want = expected(n);

        g_assert_cmpuint(branch_trace_document_size(n), ==, want->len);
        for (size_t size = 1; size <= want->len + 1; size++) {
            g_autofree char *piece = g_malloc(size);

            for (size_t at = 0; at <= want->len; at++) {
                size_t got = branch_trace_document_read(blocks, n, at, piece,
                                                        size);

                g_assert_cmpmem(piece, got, want->str + at,
                                MIN(size, want->len - at));
            }
        }
        g_string_free(want, TRUE);
    }
}

static void test_after(void)
{
    char text[8];
    uint64_t offsets[] = { 1000, UINT32_MAX, UINT64_MAX - 1, UINT64_MAX };

    for (unsigned i = 0; i < G_N_ELEMENTS(offsets); i++) {
        g_assert_cmpuint(branch_trace_document_read(blocks, 1, offsets[i],
                                                    text, sizeof(text)),
                         ==, 0);
    }
    g_assert_cmpuint(branch_trace_document_read(NULL, 0, 0, text, 0), ==, 0);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/blocks-document/pieces", test_pieces);
    g_test_add_func("/blocks-document/after", test_after);
    return g_test_run();
}
