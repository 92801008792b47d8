/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * VMCOREINFO, from a note and by searching memory
 */

#include <glib.h>
#include <string.h>

#include "guest-linux/vmcoreinfo.h"

static const char text[] =
    "OSRELEASE=6.1.0-test\n"
    "PAGESIZE=4096\n"
    "SYMBOL(_stext)=ffffffff81000000\n"
    "SYMBOL(zero)=\n"
    "SYMBOL(large)=10000000000000000\n"
    "SYMBOL(not)=12x\n"
    "NUMBER(phys_base)=-16777216\n"
    "NUMBER(last)=7";

static char memory[4 * GUEST_PAGE_SIZE];

static struct guest_memory *put(void)
{
    struct guest_memory *m = guest_memory_new();

    memset(memory, 0, sizeof(memory));
    g_assert_true(guest_memory_add_bytes(m, 0x10000, sizeof(memory), memory));
    return m;
}

static void check(const struct vmcoreinfo *v)
{
    g_autofree char *release = vmcoreinfo_string(v, "OSRELEASE");
    uint64_t symbol;
    int64_t number;

    g_assert_cmpstr(release, ==, "6.1.0-test");
    g_assert_null(vmcoreinfo_string(v, "OSRELEAS"));
    g_assert_null(vmcoreinfo_string(v, "SIZE"));
    g_assert_true(vmcoreinfo_symbol(v, "_stext", &symbol));
    g_assert_cmphex(symbol, ==, 0xffffffff81000000);
    g_assert_false(vmcoreinfo_symbol(v, "stext", &symbol));
    g_assert_false(vmcoreinfo_symbol(v, "zero", &symbol));
    g_assert_false(vmcoreinfo_symbol(v, "large", &symbol));
    g_assert_false(vmcoreinfo_symbol(v, "not", &symbol));
    g_assert_true(vmcoreinfo_number(v, "phys_base", &number));
    g_assert_cmpint(number, ==, -16777216);
    g_assert_true(vmcoreinfo_number(v, "last", &number));
    g_assert_cmpint(number, ==, 7);
}

static void test_find(void)
{
    struct guest_memory *m = put();
    struct vmcoreinfo v;
    uint64_t from = 0;

    strcpy(memory + GUEST_PAGE_SIZE + 1, text);
    g_assert_false(vmcoreinfo_find(&v, m, &from));
    strcpy(memory + GUEST_PAGE_SIZE, text);
    /* A page without an end */
    memset(memory + 3 * GUEST_PAGE_SIZE, 'x', GUEST_PAGE_SIZE);
    memcpy(memory + 3 * GUEST_PAGE_SIZE, "OSRELEASE=", 10);
    g_assert_true(vmcoreinfo_find(&v, m, &from));
    check(&v);
    g_assert_true(vmcoreinfo_find(&v, m, &from));
    g_assert_cmpuint(strlen(v.text), ==, GUEST_PAGE_SIZE);
    g_assert_false(vmcoreinfo_find(&v, m, &from));
    guest_memory_free(m);
}

static void test_note(void)
{
    struct guest_memory *m = put();
    struct vmcoreinfo v;
    uint32_t head[3] = { 11, sizeof(text) - 1, 0 };

    memcpy(memory, head, sizeof(head));
    memcpy(memory + 12, "VMCOREINFO\0", 12);
    memcpy(memory + 24, text, sizeof(text) - 1);
    memcpy(memory + 24 + sizeof(text) - 1, "garbage", 7);
    g_assert_true(vmcoreinfo_note(&v, m, 0x10000, 4096));
    check(&v);
    g_assert_true(vmcoreinfo_note(&v, m, 0x10000, 24 + sizeof(text) - 1));
    g_assert_false(vmcoreinfo_note(&v, m, 0x10000, 24 + sizeof(text) - 2));
    g_assert_false(vmcoreinfo_note(&v, m, 0x10000, 23));
    g_assert_false(vmcoreinfo_note(&v, m, 0x10004, 4096));
    g_assert_false(vmcoreinfo_note(&v, m, 0, 4096));
    g_assert_false(vmcoreinfo_note(&v, m, UINT64_MAX, UINT64_MAX));
    head[1] = UINT32_MAX;
    memcpy(memory, head, sizeof(head));
    g_assert_false(vmcoreinfo_note(&v, m, 0x10000, UINT64_MAX));
    guest_memory_free(m);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/vmcoreinfo/find", test_find);
    g_test_add_func("/vmcoreinfo/note", test_note);
    return g_test_run();
}
