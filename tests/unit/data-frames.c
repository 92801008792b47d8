/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory that is code and data: page tables of each kind
 */

#include <glib.h>
#include <string.h>

#include "pt/data-frames.h"

#define PAGE    GUEST_PAGE_SIZE
#define PAGES   16
#define NX      (UINT64_C(1) << 63)

static uint64_t memory[PAGES * PAGE / 8];

static void put(unsigned page, unsigned index, uint64_t entry)
{
    memory[page * (PAGE / 8) + index] = GUINT64_TO_LE(entry);
}

static void put32(unsigned page, unsigned index, uint32_t entry)
{
    ((uint32_t *)memory)[page * (PAGE / 4) + index] = GUINT32_TO_LE(entry);
}

static bool ask(unsigned levels, uint64_t root, uint64_t physical,
                uint64_t *budget)
{
    struct guest_memory *m = guest_memory_new();
    struct data_frames *d;
    bool have;

    g_assert_true(guest_memory_add_bytes(m, 0, sizeof(memory), memory));
    d = data_frames_new(m, root, levels, budget);
    have = data_frames_have(d, physical);
    data_frames_free(d);
    guest_memory_free(m);
    return have;
}

static void check(unsigned levels, uint64_t root, uint64_t physical, bool have)
{
    uint64_t budget = 1000;

    g_assert_cmpint(ask(levels, root, physical, &budget), ==, have);
}

static void test_long(void)
{
    uint64_t budget;

    memset(memory, 0, sizeof(memory));
    put(1, 0, 0x2000 | 7);
    put(1, 300, 0x5000 | 7);                    /* no address of user mode */
    put(2, 0, 0x3000 | 7);
    put(2, 1, 0x6000 | 7 | NX);                 /* nothing of it is code */
    put(3, 0, 0x4000 | 7);
    put(3, 1, 0x400000 | 5 | 0x80);             /* 2 MB of code */
    put(4, 0, 0x10000 | 5);                     /* code */
    put(4, 1, 0x11000 | 5);
    put(4, 2, 0x12000 | 5);
    put(4, 3, 0x13000 | 5);
    put(4, 4, 0x14000 | 5);
    put(4, 5, 0x10000 | 7 | NX);                /* can be written to, */
    put(4, 6, 0x11000 | 5 | 0x40 | NX);         /* and was */
    put(4, 7, 0x12000 | 3 | 0x40 | NX);         /* the kernel's */
    put(4, 8, 0x13000 | 6 | 0x40 | NX);         /* is not present */
    put(4, 9, 0x20000 | 7 | 0x40 | NX);         /* data alone */
    put(4, 10, 0x21000 | 7 | 0x40);             /* code that is written */
    put(4, 11, 0x22000 | 7);                    /* that could be */
    put(5, 0, 0x3000 | 7);
    put(6, 0, 0x7000 | 7);
    put(7, 0, 0x14000 | 7);
    put(7, 1, 0x403000 | 7 | 0x40);             /* 4 KiB of the 2 MB */
    check(4, 0x1000, 0x10000, true);
    check(4, 0x1000, 0x10fff, true);
    check(4, 0x1000, 0x11123, true);
    check(4, 0x1000, 0x12000, false);
    check(4, 0x1000, 0x13000, false);
    check(4, 0x1000, 0x14000, true);
    check(4, 0x1000, 0x20000, false);
    check(4, 0x1000, 0x21000, true);
    check(4, 0x1000, 0x22000, false);
    check(4, 0x1000, 0x402fff, false);
    check(4, 0x1000, 0x403000, true);
    check(4, 0x1000, 0x404000, false);
    /* A large page of data over 4 KiB of code */
    put(7, 1, 0);
    put(6, 1, 0x0 | 7 | 0x80 | 0x40 | NX);
    check(4, 0x1000, 0x12000, true);
    check(4, 0x1000, 0x402000, false);
    /* Tables that are not there, and in circles */
    check(4, 0x100000, 0x10000, false);
    put(8, 0, 0x8000 | 7 | 0x40);
    check(4, 0x8000, 0x8000, true);
    /* It is not known if there are too many. */
    budget = 4;
    g_assert_true(ask(4, 0x1000, 0x404000, &budget));
    g_assert_cmpuint(budget, ==, 0);
    budget = 10;
    g_assert_false(ask(4, 0x1000, 0x404000, &budget));
    g_assert_cmpuint(budget, ==, 0);
    put(9, 0, 0x1000 | 7);
    check(5, 0x9000, 0x10000, true);
    check(5, 0x9000, 0x404000, false);
}

static void test_32(void)
{
    memset(memory, 0, sizeof(memory));
    /* PAE: four entries, anywhere in a page, without bits but this */
    put(1, 4, 0x2000 | 1);
    put(1, 7, 0x3000 | 1);
    put(1, 8, 0x3000 | 1);
    put(2, 2, 0x4000 | 7);
    put(3, 0, 0x5000 | 7);
    put(4, 2, 0x10000 | 5);
    put(4, 3, 0x11000 | 5);
    put(5, 0, 0x10000 | 7 | 0x40 | NX);
    check(3, 0x1020, 0x10000, true);
    check(3, 0x1020, 0x11000, false);
    /* Without PAE all that can be read is code, so it must be dirty. */
    memset(memory, 0, sizeof(memory));
    put32(1, 1, 0x2000 | 7);
    put32(1, 1000, 0x3000 | 7);
    put32(2, 2, 0x10000 | 5);
    put32(2, 3, 0x11000 | 5);
    put32(3, 2, 0x10000 | 7 | 0x40);
    put32(3, 3, 0x11000 | 7);
    check(2, 0x1000, 0x10000, true);
    check(2, 0x1000, 0x11000, false);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/data-frames/long", test_long);
    g_test_add_func("/data-frames/32", test_32);
    return g_test_run();
}
