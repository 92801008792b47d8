/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Page tables of four and five levels, with pages of all sizes
 */

#include <glib.h>
#include <string.h>

#include "guest-linux/page-walk.h"

#define PAGES   16
#define P       1u
#define PS      128u

static uint64_t memory[PAGES][512];

static struct guest_memory *tables(void)
{
    struct guest_memory *m = guest_memory_new();

    memset(memory, 0, sizeof(memory));
    g_assert_true(guest_memory_add_bytes(m, 0, sizeof(memory), memory));
    /* 5: 4: 3: 2: 1; and back from each level to a page of its size */
    memory[1][3] = 2 * 4096 | P;
    memory[2][511] = 3 * 4096 | P;
    memory[3][2] = 4 * 4096 | P;
    memory[3][5] = (1ull << 63) | PS | P | 0x1000;  /* 1 GiB at 0, PAT */
    memory[4][7] = 5 * 4096 | P;
    memory[4][8] = PS | P;                          /* 2 MiB at 0 */
    memory[5][1] = 6 * 4096 | P | PS;               /* PAT of a small page */
    memory[5][2] = 100 * 4096ull | P;               /* is no RAM */
    memory[5][3] = 7 * 4096;                        /* not present */
    memory[5][4] = 8 * 4096 | P;
    return m;
}

#define BASE4   (UINT64_C(0xffff) << 48 | UINT64_C(511) << 39)
#define LOW     (UINT64_C(2) << 30 | UINT64_C(7) << 21)

static void check(struct page_walk *w, uint64_t address, uint64_t physical)
{
    uint64_t found;
    unsigned i;

    /* The second time it comes from the TLB. */
    for (i = 0; i < 2; i++) {
        g_assert_true(page_walk(w, address, &found));
        g_assert_cmphex(found, ==, physical);
    }
}

static void check_none(struct page_walk *w, uint64_t address)
{
    uint64_t found;

    g_assert_false(page_walk(w, address, &found));
}

static void test_four(void)
{
    struct guest_memory *m = tables();
    struct page_walk w;

    page_walk_init(&w, m, 2 * 4096 | 0xfff, 4, 1000);
    check(&w, BASE4 | LOW | 0x1234, 6 * 4096 + 0x234);
    check(&w, BASE4 | 5ull << 30 | 0x5678, 0x5678);
    check(&w, BASE4 | 2ull << 30 | 8ull << 21 | 0xabcd, 0xabcd);
    check(&w, BASE4 | LOW | 0x2000, 100 * 4096);
    check_none(&w, BASE4 | LOW | 0x3000);
    check_none(&w, BASE4 | LOW);
    check_none(&w, BASE4);
    check_none(&w, 0);
    /* Not canonical */
    check_none(&w, (BASE4 | LOW | 0x1000) & ~(UINT64_C(1) << 63));
    check_none(&w, UINT64_C(511) << 39 | LOW | 0x1000);

    /* Changed behind our back: until it is flushed it is as it was. */
    memory[5][1] = 9 * 4096 | P;
    check(&w, BASE4 | LOW | 0x1000, 6 * 4096);
    page_walk_flush(&w);
    check(&w, BASE4 | LOW | 0x1000, 9 * 4096);
    /* The other pages of a large one are known with the first. */
    memory[4][8] = 0;
    memory[3][5] = 0;
    check_none(&w, BASE4 | 5ull << 30 | 1 << 21);
    page_walk_flush(&w);
    check_none(&w, BASE4 | 2ull << 30 | 8ull << 21 | 0x1000);
    memory[4][8] = PS | P;
    memory[3][5] = PS | P;
    check(&w, BASE4 | 2ull << 30 | 8ull << 21 | 0x1fffff, 0x1fffff);
    check(&w, BASE4 | 5ull << 30 | 3ull << 21 | 0x1fffff, 0x7fffff);
    memory[4][8] = 0;
    memory[3][5] = 0;
    check(&w, BASE4 | 2ull << 30 | 8ull << 21 | 0x5678, 0x5678);
    check(&w, BASE4 | 5ull << 30 | 3ull << 21 | 0x5678, 0x605678);
    page_walk_flush(&w);
    check_none(&w, BASE4 | 2ull << 30 | 8ull << 21 | 0x5678);
    check_none(&w, BASE4 | 5ull << 30 | 3ull << 21 | 0x5678);
    guest_memory_free(m);
}

static void test_five(void)
{
    struct guest_memory *m = tables();
    struct page_walk w;
    uint64_t base = UINT64_C(3) << 48 | UINT64_C(511) << 39;

    page_walk_init(&w, m, 1 * 4096, 5, 1000);
    check(&w, base | LOW | 0x1001, 6 * 4096 + 1);
    check_none(&w, base | UINT64_C(1) << 57);
    guest_memory_free(m);
}

static void test_pae(void)
{
    struct guest_memory *m = tables();
    struct page_walk w;

    /* Four entries, not at the beginning of their page */
    memory[1][4 + 3] = 2 * 4096 | P;
    memory[1][4 + 1] = 2 * 4096 | P | PS;           /* not a page of 1 GiB */
    memory[2][7] = 3 * 4096 | P;
    memory[2][8] = PS | P | 0x1000;                 /* 2 MiB at 0, PAT */
    memory[3][1] = 6 * 4096 | P;
    memory[3][2] = (1ull << 63) | 9 * 4096 | P;
    page_walk_init(&w, m, 1 * 4096 + 4 * 8 + 0x1f, 3, 1000);
    g_assert_cmpuint(page_walk_word(&w), ==, 4);
    check(&w, 0xc0000000 | 7 << 21 | 0x1234, 6 * 4096 + 0x234);
    check(&w, 0xc0000000 | 7 << 21 | 0x2fff, 9 * 4096 + 0xfff);
    check(&w, 0xc0000000 | 8 << 21 | 0xabcd, 0xabcd);
    check(&w, 0x40000000 | 7 << 21 | 0x1234, 6 * 4096 + 0x234);
    check_none(&w, 0x80000000 | 7 << 21 | 0x1234);
    check_none(&w, 0xc0000000 | 7 << 21);
    check_none(&w, 0x1c0000000 | 7 << 21 | 0x1234);
    check_none(&w, 0xffffffffc0000000 | 7 << 21 | 0x1234);
    guest_memory_free(m);
}

static void test_two(void)
{
    struct guest_memory *m = tables();
    uint32_t (*words)[1024] = (uint32_t (*)[1024])memory;
    struct page_walk w;
    uint64_t found;

    words[1][0x301] = 2 * 4096 | P;
    words[1][0x302] = PS | P | 0x1000;              /* 4 MiB at 0, PAT */
    words[1][0x303] = PS | P | 0x01402000;          /* at 0x101400000 */
    words[2][3] = 6 * 4096 | P | PS;                /* PAT of a small page */
    words[2][1023] = 9 * 4096 | P;
    page_walk_init(&w, m, 1 * 4096, 2, 1000);
    check(&w, 0xc0403123, 6 * 4096 + 0x123);
    check(&w, 0xc07fffff, 9 * 4096 + 0xfff);
    check(&w, 0xc0805678, 0x5678);
    /* Both halves of it */
    check(&w, 0xc0a05678, 0x205678);
    check(&w, 0xc0f05678, 0x101705678);
    check_none(&w, 0xc0404000);
    check_none(&w, 0xc0003123);
    g_assert_false(page_walk(&w, 0x1c0403123, &found));
    guest_memory_free(m);
}

static void test_read(void)
{
    struct guest_memory *m = tables();
    struct page_walk w;
    char buf[8192];
    uint64_t v;
    uint32_t u;

    memory[5][0] = 9 * 4096 | P;
    memory[9][511] = 0x1122334455667788;
    memory[6][0] = 0x99;
    page_walk_init(&w, m, 2 * 4096, 4, 1000);
    g_assert_true(page_walk_u64(&w, BASE4 | LOW | 0xff8, &v));
    g_assert_cmphex(v, ==, 0x1122334455667788);
    g_assert_true(page_walk_u64(&w, BASE4 | LOW | 0xffc, &v));
    g_assert_cmphex(v, ==, 0x9911223344);
    g_assert_true(page_walk_u32(&w, BASE4 | LOW | 0x1000, &u));
    g_assert_cmphex(u, ==, 0x99);
    /* The third page is no RAM. */
    g_assert_false(page_walk_read(&w, BASE4 | LOW | 0x1ffc, buf, 8));
    g_assert_cmpuint(page_walk_read_some(&w, BASE4 | LOW | 0x800, buf,
                                         sizeof(buf)), ==, 0x1800);
    g_assert_cmpuint(page_walk_read_some(&w, UINT64_MAX, buf, 2), ==, 0);

    /* Pages that follow each other, the last of which is no RAM */
    memory[5][16] = 13 * 4096 | P;
    memory[5][17] = 14 * 4096 | P;
    memory[5][18] = 15 * 4096 | P;
    memory[5][19] = 16 * 4096 | P;
    memory[13][511] = 0x1111111111111111;
    memory[14][0] = 0x2222222222222222;
    memory[15][511] = 0x3333333333333333;
    g_assert_true(page_walk_read(&w, BASE4 | LOW | 0x10ffc, buf, 8192));
    g_assert_cmpmem(buf, 8, "\x11\x11\x11\x11\x22\x22\x22\x22", 8);
    g_assert_cmpuint(page_walk_read_some(&w, BASE4 | LOW | 0x12ffc, buf,
                                         sizeof(buf)), ==, 4);
    g_assert_cmpmem(buf, 4, "\x33\x33\x33\x33", 4);
    g_assert_cmpuint(page_walk_read_some(&w, BASE4 | LOW | 0x12001, buf,
                                         sizeof(buf)), ==, 0xfff);
    guest_memory_free(m);
}

static void test_levels(void)
{
    uint64_t pg = 1ull << 31 | 1, pse = 1 << 4, pae = 1 << 5, la57 = 1 << 12;
    uint64_t lme = 1 << 8, lma = 1 << 10;

    g_assert_cmpuint(page_walk_levels(1, pae, lme), ==, 1);
    g_assert_cmpuint(page_walk_levels(pg, pse, 0), ==, 2);
    g_assert_cmpuint(page_walk_levels(pg, 0, 0), ==, 0);
    g_assert_cmpuint(page_walk_levels(pg, pae, lme), ==, 3);
    g_assert_cmpuint(page_walk_levels(pg, pae, lme | lma), ==, 4);
    g_assert_cmpuint(page_walk_levels(pg, pae | la57, lme | lma), ==, 5);
}

/* Tables that lead to themselves, and a budget */
static void test_hostile(void)
{
    struct guest_memory *m = tables();
    struct page_walk w;
    uint64_t found;
    unsigned i;

    for (i = 0; i < 512; i++) {
        memory[2][i] = 2 * 4096 | P;
    }
    page_walk_init(&w, m, 2 * 4096, 4, 3);
    g_assert_true(page_walk(&w, 0x123456789000, &found));
    g_assert_cmphex(found, ==, 2 * 4096);
    g_assert_true(page_walk(&w, 0x123456789000, &found));
    g_assert_true(page_walk(&w, 0x1000, &found));
    g_assert_false(page_walk(&w, 0x1000, &found));
    g_assert_false(page_walk_u64(&w, 0x1000, &found));
    page_walk_init(&w, m, UINT64_MAX, 5, 10);
    check_none(&w, 0);
    guest_memory_free(m);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/page-walk/four", test_four);
    g_test_add_func("/page-walk/five", test_five);
    g_test_add_func("/page-walk/pae", test_pae);
    g_test_add_func("/page-walk/two", test_two);
    g_test_add_func("/page-walk/read", test_read);
    g_test_add_func("/page-walk/levels", test_levels);
    g_test_add_func("/page-walk/hostile", test_hostile);
    return g_test_run();
}
