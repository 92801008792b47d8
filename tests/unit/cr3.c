/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of CR3 in backtrail/transport.h, and of util/cr3-pair.h
 */

#include <glib.h>
#include <stdbool.h>

#include "util/cr3-pair.h"

#define PAE BTRAIL_CR3_PAE
#define NESTED BTRAIL_CR3_NESTED
#define CODE16 BTRAIL_CR3_CODE16
#define CODE32 BTRAIL_CR3_CODE32

static void test_root(void)
{
    /* PCID, PWT, PCD and LAM do not count. */
    g_assert_cmphex(btrail_cr3_root(0x6ff0123456789fff), ==,
                    0x0000123456789000);
    g_assert_cmphex(btrail_cr3_root(0x00089abcdef01018), ==,
                    0x00089abcdef01000);
    /* A table of 32 bytes; only PWT and PCD do not count. */
    g_assert_cmphex(btrail_cr3_root(PAE | 0x13a10e0), ==, PAE | 0x13a10e0);
    g_assert_cmphex(btrail_cr3_root(PAE | 0xfffffff8), ==, PAE | 0xffffffe0);
    g_assert_cmphex(btrail_cr3_root(~NESTED), ==, PAE | 0xffffffe0);
    /* A nested guest's is another one. */
    g_assert_cmphex(btrail_cr3_root(NESTED | 0x10018), ==, NESTED | 0x10000);
    g_assert_cmphex(btrail_cr3_root(UINT64_MAX), ==,
                    PAE | NESTED | 0xffffffe0);
    /* Nor does the mode of the code count. */
    g_assert_cmphex(btrail_cr3_root(CODE16), ==, 0);
    g_assert_cmphex(btrail_cr3_root(CODE32 | 0x13a1018), ==, 0x13a1000);
    g_assert_cmphex(btrail_cr3_root(PAE | CODE32 | 0x13a10e8), ==,
                    PAE | 0x13a10e0);
    g_assert_cmphex(btrail_cr3_root(NESTED | CODE16), ==, NESTED);
    /* It is the same of itself. */
    g_assert_cmphex(btrail_cr3_root(btrail_cr3_root(PAE | 0x13a10f8)), ==,
                    PAE | 0x13a10e0);
}

static void test_is(void)
{
    static const struct {
        uint64_t cr3, named;
        bool is;
    } cases[] = {
        { 0x13a1018, 0x13a1000, true },
        { 0x13a1000, 0x13a1fff, true },
        { 0x13a1000, 0x13a2000, false },
        { 0x13a1000, PAE | 0x13a1000, false },
        { 0x100013a1000, 0x13a1000, false },
        { PAE | 0x13a10e0, 0x13a10e0, true },
        { PAE | 0x13a10e0, 0x13a10f8, true },
        { PAE | 0x13a10f8, 0x13a10e0, true },
        { PAE | 0x13a10e0, PAE | 0x13a10e0, true },
        { PAE | 0x13a10e0, 0x13a1000, false },
        { PAE | 0x13a10e0, 0x13a10c0, false },
        { PAE | 0x13a10e0, PAE | 0x13a10c0, false },
        { PAE | 0x13a10e0, 0x1013a10e0, false },
        { NESTED | 0x13a1000, 0x13a1000, false },
        { 0x13a1000, NESTED | 0x13a1000, false },
        { NESTED | 0x13a1018, NESTED | 0x13a1000, true },
        { PAE | NESTED | 0x13a10e0, NESTED | 0x13a10e0, true },
        { PAE | NESTED | 0x13a10e0, 0x13a10e0, false },
        { 0, 0, true },
        { 0, PAE, false },
        { PAE, 0, true },
        { CODE16, 0, true },
        { CODE16, CODE32, true },
        { CODE32 | 0x13a1018, 0x13a1000, true },
        { 0x13a1018, CODE32 | 0x13a1000, true },
        { CODE32 | 0x13a1018, 0x13a2000, false },
        { PAE | CODE32 | 0x13a10e0, 0x13a10e0, true },
        { PAE | CODE32 | 0x13a10e0, CODE32 | 0x13a10e0, true },
        { PAE | CODE32 | 0x13a10e0, CODE32 | 0x1013a10e0, false },
        { NESTED | CODE16, 0, false },
        { NESTED | CODE16, NESTED, true },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_test_message("%" G_GINT64_MODIFIER "x, %" G_GINT64_MODIFIER "x",
                       cases[i].cr3, cases[i].named);
        g_assert_cmpint(!!btrail_cr3_is(cases[i].cr3, cases[i].named), ==,
                        cases[i].is);
    }
}

static void test_code_bits(void)
{
    /* All that the register can have says nothing. */
    g_assert_cmpuint(btrail_cr3_code_bits(0), ==, 0);
    g_assert_cmpuint(btrail_cr3_code_bits(0x6000000000000fff), ==, 0);
    g_assert_cmpuint(btrail_cr3_code_bits(~(CODE16 | CODE32)), ==, 0);
    g_assert_cmpuint(btrail_cr3_code_bits(CODE16), ==, 16);
    g_assert_cmpuint(btrail_cr3_code_bits(CODE32 | 0x13a1018), ==, 32);
    g_assert_cmpuint(btrail_cr3_code_bits(PAE | NESTED | CODE32), ==, 32);
}

static void test_pair(void)
{
    g_assert_cmphex(cr3_pair(0x1003018), ==, 0x1002000);
    g_assert_cmphex(cr3_pair(0x1002fff), ==, 0x1002000);
    g_assert_cmphex(cr3_pair(0x1004000), ==, 0x1004000);
    /* With isolation a table of PAE has a page, and the other is the next. */
    g_assert_cmphex(cr3_pair(PAE | 0x1003000), ==, PAE | 0x1002000);
    g_assert_cmphex(cr3_pair(PAE | 0x1002000), ==, PAE | 0x1002000);
    g_assert_cmphex(cr3_pair(CODE32 | 0x1003000), ==, 0x1002000);
    /* These are two processes. */
    g_assert_cmphex(cr3_pair(PAE | 0x10030e0), ==, PAE | 0x10030e0);
    g_assert_cmphex(cr3_pair(PAE | 0x10020e0), ==, PAE | 0x10020e0);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/cr3/root", test_root);
    g_test_add_func("/cr3/is", test_is);
    g_test_add_func("/cr3/code-bits", test_code_bits);
    g_test_add_func("/cr3/pair", test_pair);
    return g_test_run();
}
