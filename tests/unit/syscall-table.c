/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of lib/internal/syscall-table.h: what text says, and what is no line
 */
#include <glib.h>
#include <string.h>

#include "lib/internal/syscall-table.h"

static GPtrArray *tables;

static void add_of(uint32_t kernel, uint64_t time, const char *text)
{
    btrail_syscall_tables_add(tables, kernel, time, text, strlen(text));
    btrail_syscall_tables_complete(tables);
}

static void add(uint64_t time, const char *text)
{
    add_of(0, time, text);
}

static void check_of(uint32_t kernel, uint64_t time, uint64_t address,
                     unsigned bits, unsigned number, unsigned numbers)
{
    struct btrail_syscall s;
    int ret = btrail_syscall_tables_find(tables, kernel, time, address, &s);

    g_assert_cmpint(ret, ==, bits ? 0 : -BTRAIL_ERR_END);
    if (bits) {
        g_assert_cmpuint(s.bits, ==, bits);
        g_assert_cmpuint(s.number, ==, number);
        g_assert_cmpuint(s.numbers, ==, numbers);
    }
}

static void check(uint64_t time, uint64_t address, unsigned bits,
                  unsigned number, unsigned numbers)
{
    check_of(0, time, address, bits, number, numbers);
}

static void test_find(void)
{
    tables = btrail_syscall_tables_new();
    check(0, 0x1000, 0, 0, 0);
    add(100, "64 1 ffffffff81000020\n64 0 ffffffff81000010\n"
             "32 3 ffffffff81000010\n32 4 ffffffff81000030\n"
             "64 7 ffffffff81000040\n64 8 ffffffff81000040\n"
             "64 9 ffffffff81000040\n");
    check(0, 0xffffffff81000010, 64, 0, 1);
    check(100, 0xffffffff81000020, 64, 1, 1);
    check(100, 0xffffffff81000030, 32, 4, 1);
    check(100, 0xffffffff81000040, 64, 7, 3);
    check(100, 0xffffffff81000011, 0, 0, 0);
    check(100, 0, 0, 0, 0);
    check(100, UINT64_MAX, 0, 0, 0);
    /* Another kernel has been booted. */
    add(200, "64 5 ffffffff81000010\n");
    check(199, 0xffffffff81000010, 64, 0, 1);
    check(200, 0xffffffff81000010, 64, 5, 1);
    check(200, 0xffffffff81000020, 0, 0, 0);
    g_ptr_array_unref(tables);
}

/* What was read last is not of the kernel that runs. */
static void test_kernels(void)
{
    tables = btrail_syscall_tables_new();
    add_of(2, 200, "64 20 ffffffff81000010\n");
    add_of(1, 100, "64 10 ffffffff81000010\n64 11 ffffffff81000020\n");
    add_of(1, 300, "64 12 ffffffff81000010\n");
    check_of(1, 99, 0xffffffff81000010, 64, 10, 1);
    check_of(1, 250, 0xffffffff81000010, 64, 10, 1);
    check_of(1, 300, 0xffffffff81000010, 64, 12, 1);
    check_of(2, 0, 0xffffffff81000010, 64, 20, 1);
    check_of(2, 400, 0xffffffff81000010, 64, 20, 1);
    check_of(2, 250, 0xffffffff81000020, 0, 0, 0);
    check_of(0, 200, 0xffffffff81000010, 0, 0, 0);
    check_of(3, 200, 0xffffffff81000010, 0, 0, 0);
    check_of(UINT32_MAX, 200, 0xffffffff81000010, 0, 0, 0);
    /* Of several that were read at one time the last counts. */
    add_of(2, 200, "64 21 ffffffff81000010\n");
    check_of(2, 200, 0xffffffff81000010, 64, 21, 1);
    g_ptr_array_unref(tables);
}

static void test_bad(void)
{
    g_autoptr(GString) many = g_string_new(NULL);

    tables = btrail_syscall_tables_new();
    add(1, "");
    add(1, "\n\n64\n64 \n64 1\n64 1 \n 64 1 10\n64  1 10\n64 1 10 \n63 1 10\n"
           "-64 1 10\n64 -1 10\n64 4294967296 10\n64 1 x\n64 1 10g\n64 1 10");
    check(1, 0x10, 0, 0, 0);
    add(1, "64 1 10\n64 2 18446744073709551616\n");
    check(1, 0x10, 64, 1, 1);
    /* More than there can be are left out. */
    for (unsigned i = 0; i < 10000; i++) {
        g_string_append_printf(many, "64 %u %x\n", i, 0x100 + i);
    }
    add(2, many->str);
    check(2, 0x100, 64, 0, 1);
    check(2, 0x100 + 9999, 0, 0, 0);
    g_ptr_array_unref(tables);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/syscall-table/find", test_find);
    g_test_add_func("/syscall-table/kernels", test_kernels);
    g_test_add_func("/syscall-table/bad", test_bad);
    return g_test_run();
}
