/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Code that programs have written is not known: page tables of each kind
 */

#include <glib.h>
#include <string.h>

#include "pt/written-code.h"

#define PAGE    GUEST_PAGE_SIZE
#define PAGES   16
#define KERNEL  UINT64_C(0xffffffff81000000)

static uint64_t memory[PAGES * PAGE / 8];

static enum pt_code_result read_code(void *opaque, uint64_t cr3,
                                     uint64_t address,
                                     const struct pt_moment *moment,
                                     struct pt_code *code)
{
    return address == 0x666000 ? PT_CODE_UNREADABLE : PT_CODE_READ;
}

static void put(unsigned page, unsigned index, uint64_t entry)
{
    memory[page * (PAGE / 8) + index] = GUINT64_TO_LE(entry);
}

static void put32(unsigned page, unsigned index, uint32_t entry)
{
    ((uint32_t *)memory)[page * (PAGE / 4) + index] = GUINT32_TO_LE(entry);
}

static enum pt_code_result ask(unsigned levels, uint64_t cr3, uint64_t address)
{
    struct guest_memory *m = guest_memory_new();
    const struct pt_moment moment = { 0 };
    enum pt_code_result first, second;
    struct written_code *w;
    struct pt_code code;

    g_assert_true(guest_memory_add_bytes(m, 0, sizeof(memory), memory));
    w = written_code_new(m, levels, read_code, NULL);
    first = written_code_read(w, cr3, address, &moment, &code);
    second = written_code_read(w, cr3, address ^ 1, &moment, &code);
    g_assert_cmpint(first, ==, second);
    written_code_free(w);
    guest_memory_free(m);
    return first;
}

static void check(unsigned levels, uint64_t cr3, uint64_t address, bool written)
{
    g_assert_cmpint(ask(levels, cr3, address), ==,
                    written ? PT_CODE_CHANGED : PT_CODE_READ);
}

static void test_long(void)
{
    memset(memory, 0, sizeof(memory));
    put(1, 0, 0x2000 | 7);
    put(2, 0, 0x3000 | 7);
    put(2, 1, 0x40000000 | 7 | 0x80 | 0x40);    /* 1 GB, written */
    put(3, 2, 0x4000 | 7);
    put(3, 3, 0x600000 | 7 | 0x80);             /* 2 MB */
    put(3, 4, 0x800000 | 7 | 0x80 | 0x40);
    put(4, 1, 0x5000 | 5);
    put(4, 2, 0x6000 | 7 | 0x40);
    put(4, 3, 0x6000 | 3 | 0x40);               /* the kernel's */
    put(4, 4, 0x6000 | 6 | 0x40);               /* not present */
    check(4, 0x1000, 0x401000, false);
    check(4, 0x1000, 0x402000, true);
    /* PCID and flags do not count, nor does what PIP has not. */
    check(4, 0x1fff, 0x402ff0, true);
    check(4, 0x1000, 0x403000, false);
    check(4, 0x1000, 0x404000, false);
    /* The same page of memory is there as data, too. */
    put(4, 5, 0x7000 | 7 | 0x40 | UINT64_C(1) << 63);
    check(4, 0x1000, 0x407000, false);
    put(4, 7, 0x7000 | 5);
    check(4, 0x1000, 0x407000, true);
    check(4, 0x1000, 0x401000, false);
    check(4, 0x1000, 0x612345, false);
    check(4, 0x1000, 0x812345, true);
    check(4, 0x1000, 0x7fffffff, true);
    check(4, 0x1000, 0x7fff00000000, false);
    check(4, 0x1000, KERNEL, false);
    /* Tables that are not there */
    check(4, 0x100000, 0x402000, false);
    check(1, 0x1000, 0x402000, false);
    check(0, 0x1000, 0x402000, false);
    put(7, 0, 0x1000 | 7);
    check(5, 0x7000, 0x402000, true);
    check(5, 0x7000, 0x401000, false);
}

static void test_32(void)
{
    memset(memory, 0, sizeof(memory));
    /* PAE: four entries, anywhere in a page, without bits but this */
    put(1, 4, 0x2000 | 1);
    put(1, 5, 0x3000 | 1 | 0x80 | 0x40);
    put(2, 2, 0x4000 | 7);
    put(3, 0, 0x4000 | 7);
    put(4, 2, 0x6000 | 7 | 0x40);
    check(3, 0x1020, 0x402000, true);
    check(3, 0x1020, 0x40002000, true);
    check(3, 0x1020, 0x40001000, false);
    memset(memory, 0, sizeof(memory));
    put32(1, 1, 0x2000 | 7);
    put32(1, 2, 0x800000 | 7 | 0x80 | 0x40);    /* 4 MB */
    put32(2, 2, 0x6000 | 7 | 0x40);
    put32(2, 3, 0x7000 | 7);
    put32(2, 4, 0x6000 | 5);
    check(2, 0x1000, 0x402000, true);
    check(2, 0x1000, 0x403000, false);
    check(2, 0x1000, 0x404000, true);
    check(2, 0x1000, 0xbfffff, true);
}

/* What cannot be read is not asked for further. */
static void test_unreadable(void)
{
    struct guest_memory *m = guest_memory_new();
    const struct pt_moment moment = { 0 };
    struct written_code *w;
    struct pt_code code;

    w = written_code_new(m, 4, read_code, NULL);
    g_assert_cmpint(written_code_read(w, 0x1000, 0x666000, &moment, &code), ==,
                    PT_CODE_UNREADABLE);
    written_code_free(w);
    written_code_free(NULL);
    guest_memory_free(m);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/written-code/long", test_long);
    g_test_add_func("/written-code/32", test_32);
    g_test_add_func("/written-code/unreadable", test_unreadable);
    return g_test_run();
}
