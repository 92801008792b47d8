/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Symbols of the kernel over time: tables that differ, until when each holds,
 * where symbols end, and which one of several has an address
 */

#include <glib.h>
#include <string.h>

#include "lib/internal/kernel-symbols.h"

#define MODULE  0xffffffffc0562000

static const char kernel[] =
    "ffffffff81000000 T _text\n"
    "ffffffff81000100 T first\n"
    "ffffffff81000200 D data\n"
    "ffffffff81000300 T last\n"
    "ffffffff81001000 D _end\n";

static uint64_t add(struct btrail_kernel_symbols *ks, uint32_t k,
                    uint64_t time, const char *own, const char *modules)
{
    g_autofree char *text = g_strconcat(own, modules, NULL);

    return btrail_kernel_symbols_add(ks, k, time, text, strlen(text));
}

/* The symbol at an address: NAME+OFFSET/SIZE [MODULE], or - */
static void check(const struct btrail_kernel_symbols *ks, uint32_t k,
                  uint64_t time, uint64_t address, const char *want)
{
    struct btrail_symbol_era era;
    struct btrail_symbol s;
    g_autofree char *got = NULL;

    btrail_kernel_symbols_era(ks, k, time, &era);
    g_assert_cmpuint(era.kernel, ==, k);
    g_assert_cmpuint(era.from, <=, time);
    g_assert_cmpuint(era.last, >=, time);
    if (btrail_kernel_symbols_find(ks, era.number, address, &s)) {
        got = g_strdup("-");
    } else {
        got = g_strdup_printf("%s+%x/%x%s%s", s.name,
                              (unsigned)(address - s.address),
                              (unsigned)(s.end - s.address),
                              s.module ? " " : "", s.module ?: "");
    }
    g_assert_cmpstr(got, ==, want);
}

/* All symbols, with when they are there */
static void check_all(const struct btrail_kernel_symbols *ks, const char *want)
{
    g_autoptr(GString) got = g_string_new(NULL);
    struct btrail_symbol_era era;
    struct btrail_symbol s;

    for (size_t i = 0; !btrail_kernel_symbols_get(ks, i, &s, &era); i++) {
        g_string_append_printf(got, "%s %u:%" G_GINT64_MODIFIER "u-", s.name,
                               era.kernel, era.from);
        if (era.last != UINT64_MAX) {
            g_string_append_printf(got, "%" G_GINT64_MODIFIER "u", era.last);
        }
        g_string_append_c(got, '\n');
    }
    g_assert_cmpstr(got->str, ==, want);
}

static const char dummy[] =
    "ffffffffc0562000 t dummy_xmit\t[dummy]\n"
    "ffffffffc0562100 t dummy_setup\t[dummy]\n"
    "ffffffffc0563000 d dummy_ops\t[dummy]\n";
static const char tun[] =
    "ffffffffc0562000 t tun_get\t[tun]\n"
    "ffffffffc0562080 t tun_put\t[tun]\n";
static const char stays[] =
    "ffffffffc0500000 t stay\t[stays]\n"
    "ffffffffc0500010 t stay_on\t[stays]\n";

/* One module takes the address of another one. */
static void test_reload(void)
{
    struct btrail_kernel_symbols *ks = btrail_kernel_symbols_new();
    g_autofree char *one = g_strconcat(stays, dummy, NULL);
    g_autofree char *two = g_strconcat(stays, tun, NULL);

    g_assert_false(btrail_kernel_symbols_any(ks));
    add(ks, 0, 1000, kernel, one);
    add(ks, 0, 2000, kernel, two);
    btrail_kernel_symbols_complete(ks, 10, UINT64_MAX);
    g_assert_true(btrail_kernel_symbols_any(ks));
    check(ks, 0, 1500, MODULE + 0x90, "dummy_xmit+90/100 dummy");
    check(ks, 0, 1999, MODULE + 0x110, "dummy_setup+10/f00 dummy");
    check(ks, 0, 2000, MODULE + 0x90, "tun_put+10/f80 tun");
    check(ks, 0, UINT64_MAX, MODULE, "tun_get+0/80 tun");
    /* Nobody knows what modules were there before. */
    check(ks, 0, 999, MODULE + 0x90, "-");
    check(ks, 0, 0, 0xffffffffc0500010, "-");
    /* The kernel itself was. */
    check(ks, 0, 0, 0xffffffff81000110, "first+10/100");
    /* Of another kernel nothing is known. */
    check(ks, 1, 1500, 0xffffffff81000110, "-");
    check_all(ks, "_text 0:0-\nfirst 0:0-\ndata 0:0-\nlast 0:0-\n_end 0:0-\n"
              "stay 0:1000-\nstay_on 0:1000-\n"
              "dummy_xmit 0:1000-1999\ndummy_setup 0:1000-1999\n"
              "dummy_ops 0:1000-1999\n"
              "tun_get 0:2000-\ntun_put 0:2000-\n");
    g_assert_cmpuint(btrail_kernel_symbols_owns(ks), ==, 1);
    btrail_kernel_symbols_free(ks);
}

/* Between the last time at which a table held and the next one */
static void test_held(void)
{
    struct btrail_kernel_symbols *ks = btrail_kernel_symbols_new();
    g_autofree char *one = g_strconcat(stays, dummy, NULL);
    g_autofree char *two = g_strconcat(stays, tun, NULL);

    add(ks, 0, 1000, kernel, one);
    btrail_kernel_symbols_held(ks, 0, 1300);
    btrail_kernel_symbols_held(ks, 0, 1500);
    btrail_kernel_symbols_held(ks, 0, 1400);
    /* Symbols of another kernel do not matter. */
    btrail_kernel_symbols_held(ks, 3, 1800);
    add(ks, 0, 2000, kernel, two);
    btrail_kernel_symbols_held(ks, 0, 2500);
    btrail_kernel_symbols_complete(ks, 10, UINT64_MAX);
    check(ks, 0, 1490, MODULE + 0x90, "dummy_xmit+90/100 dummy");
    /* A record of this time can be from a tick later. */
    for (uint64_t time = 1491; time < 2000; time += 508) {
        check(ks, 0, time, MODULE + 0x90, "-");
        check(ks, 0, time, 0xffffffffc0500008, "stay+8/10 stays");
        check(ks, 0, time, 0xffffffff81000308, "last+8/d00");
    }
    check(ks, 0, 2000, MODULE + 0x90, "tun_put+10/f80 tun");
    /* The last one has no tick: nothing is known to be another. */
    check(ks, 0, 2500, MODULE + 0x90, "tun_put+10/f80 tun");
    check(ks, 0, 2501, MODULE + 0x90, "-");
    check(ks, 0, 2501, 0xffffffffc0500008, "-");
    check(ks, 0, 2501, 0xffffffff81000308, "last+8/d00");
    check_all(ks, "_text 0:0-\nfirst 0:0-\ndata 0:0-\nlast 0:0-\n_end 0:0-\n"
              "stay 0:1000-2500\nstay_on 0:1000-2500\n"
              "dummy_xmit 0:1000-1490\ndummy_setup 0:1000-1490\n"
              "dummy_ops 0:1000-1490\n"
              "tun_get 0:2000-2500\ntun_put 0:2000-2500\n");
    btrail_kernel_symbols_free(ks);
}

/* The kernel itself in one table, and what modules have in tables of their own,
 * as they come and go */
static void test_modules_only(void)
{
    struct btrail_kernel_symbols *ks = btrail_kernel_symbols_new();
    uint64_t first, again;

    add(ks, 0, 1000, kernel, "");
    first = add(ks, 0, 1000, "", dummy);
    btrail_kernel_symbols_held(ks, 0, 1500);
    add(ks, 0, 2000, "", "");
    btrail_kernel_symbols_held(ks, 0, 2500);
    again = add(ks, 0, 3000, "", dummy);
    btrail_kernel_symbols_complete(ks, 0, UINT64_MAX);
    g_assert_cmpuint(again, <, first);
    check(ks, 0, 1000, MODULE + 0x90, "dummy_xmit+90/100 dummy");
    check(ks, 0, 1501, MODULE + 0x90, "-");
    check(ks, 0, 2100, MODULE + 0x90, "-");
    check(ks, 0, 2999, MODULE + 0x90, "-");
    check(ks, 0, 3000, MODULE + 0x90, "dummy_xmit+90/100 dummy");
    for (uint64_t time = 0; time < 4000; time += 499) {
        check(ks, 0, time, 0xffffffff81000308, "last+8/d00");
    }
    btrail_kernel_symbols_free(ks);
}

/* Tables of one kernel do not cut the functions of another one. */
static void test_kexec(void)
{
    static const char next[] =
        "ffffffff80ffff00 T _text\n"
        "ffffffff81000080 T other\n"
        "ffffffff81000800 D _end\n";
    static const char far[] =
        "ffffffff8d000000 T far\n"
        "ffffffff8d000020 T far_away\n"
        "ffffffff8d0000a0 D far_end\n";
    struct btrail_kernel_symbols *ks = btrail_kernel_symbols_new();

    add(ks, 0, 1000, kernel, "");
    btrail_kernel_symbols_held(ks, 0, 1500);
    add(ks, 0, 2000, next, "");
    btrail_kernel_symbols_complete(ks, 0, UINT64_MAX);
    check(ks, 0, 1500, 0xffffffff81000110, "first+10/100");
    check(ks, 0, 1501, 0xffffffff81000110, "-");
    check(ks, 0, 2000, 0xffffffff81000110, "other+90/780");
    check(ks, 0, 2000, 0xffffffff81000210, "other+190/780");
    g_assert_cmpuint(btrail_kernel_symbols_owns(ks), ==, 2);
    btrail_kernel_symbols_free(ks);

    /* Where only one of them is, it is known who ran. */
    ks = btrail_kernel_symbols_new();
    add(ks, 0, 1000, kernel, dummy);
    btrail_kernel_symbols_held(ks, 0, 1500);
    add(ks, 0, 2000, far, "");
    btrail_kernel_symbols_complete(ks, 0, UINT64_MAX);
    for (uint64_t time = 1000; time < 3000; time += 501) {
        check(ks, 0, time, 0xffffffff8d000020, "far_away+0/80");
    }
    check(ks, 0, 1000, 0xffffffff81000110, "first+10/100");
    check(ks, 0, 1501, 0xffffffff81000110, "first+10/100");
    check(ks, 0, 1999, 0xffffffff81000110, "first+10/100");
    check(ks, 0, 2000, 0xffffffff81000110, "-");
    check(ks, 0, 1501, MODULE + 0x10, "-");
    check_all(ks, "_text 0:0-1500\nfirst 0:0-1500\ndata 0:0-1500\n"
              "last 0:0-1500\n_end 0:0-1500\n"
              "dummy_xmit 0:1000-1500\ndummy_setup 0:1000-1500\n"
              "dummy_ops 0:1000-1500\n"
              "far 0:0-\nfar_away 0:0-\nfar_end 0:0-\n");
    btrail_kernel_symbols_free(ks);

    /* What modules of the former one have is not where the next one was. */
    ks = btrail_kernel_symbols_new();
    add(ks, 0, 1000, kernel, "ffffffff8d000010 t loaded\t[dummy]\n");
    btrail_kernel_symbols_held(ks, 0, 1500);
    add(ks, 0, 1600, kernel, "ffffffff8d000010 t loaded\t[dummy]\n");
    btrail_kernel_symbols_held(ks, 0, 1700);
    add(ks, 0, 2000, far, "");
    btrail_kernel_symbols_complete(ks, 0, UINT64_MAX);
    check(ks, 0, 900, 0xffffffff8d000020, "-");
    check(ks, 0, 1000, 0xffffffff8d000020, "loaded+10/ff0 dummy");
    check(ks, 0, 1550, 0xffffffff8d000020, "loaded+10/ff0 dummy");
    check(ks, 0, 1701, 0xffffffff8d000020, "-");
    check(ks, 0, 2000, 0xffffffff8d000020, "far_away+0/80");
    check_all(ks, "_text 0:0-1700\nfirst 0:0-1700\ndata 0:0-1700\n"
              "last 0:0-1700\n_end 0:0-1700\n"
              "loaded 0:1000-1700\n"
              "far 0:2000-\nfar_away 0:2000-\nfar_end 0:2000-\n");
    btrail_kernel_symbols_free(ks);

    /* With numbers, each is known all the time. */
    ks = btrail_kernel_symbols_new();
    add(ks, 2, 1000, kernel, dummy);
    add(ks, 1, 1500, next, "");
    add(ks, 2, 2000, kernel, "");
    btrail_kernel_symbols_complete(ks, 0, UINT64_MAX);
    check(ks, 2, 500, 0xffffffff81000110, "first+10/100");
    check(ks, 2, 1700, MODULE + 0x110, "dummy_setup+10/f00 dummy");
    check(ks, 2, 2000, MODULE + 0x110, "-");
    check(ks, 1, 500, 0xffffffff81000110, "other+90/780");
    check(ks, 1, 2500, 0xffffffff81000110, "other+90/780");
    /* Where nobody says which one runs, it is the one that was found last. */
    check(ks, 0, 500, 0xffffffff81000110, "first+10/100");
    check(ks, 0, 1499, 0xffffffff81000110, "first+10/100");
    check(ks, 0, 1500, 0xffffffff81000110, "other+90/780");
    check(ks, 0, 1999, 0xffffffff81000110, "other+90/780");
    /* The first one has come back, as when the guest is restored. */
    check(ks, 0, 2000, 0xffffffff81000110, "first+10/100");
    check(ks, 0, 2500, 0xffffffff81000110, "first+10/100");
    check(ks, 3, 1500, 0xffffffff81000110, "-");
    check_all(ks, "_text 1:0-\nother 1:0-\n_end 1:0-\n"
              "_text 2:0-\nfirst 2:0-\ndata 2:0-\nlast 2:0-\n_end 2:0-\n"
              "dummy_xmit 2:1000-1999\ndummy_setup 2:1000-1999\n"
              "dummy_ops 2:1000-1999\n");
    btrail_kernel_symbols_free(ks);
}

/* A kernel of 32 bits is below 4 GiB; another one has no symbols there. */
static void test_32(void)
{
    static const char own[] =
        "00000000 A constant\n"
        "dd000000 T _stext\n"
        "dd000100 T first\n"
        "dd000200 e .end\n";
    static const char own_64[] =
        "0000000000030000 A cpu_data\n"
        "00000000c1000000 A constant\n"
        "ffffffff81000000 T _stext\n";
    struct btrail_kernel_symbols *ks = btrail_kernel_symbols_new();

    add(ks, 1, 0, own, "f7c00000 t load\t[mod]\n");
    add(ks, 2, 50, own_64, "");
    btrail_kernel_symbols_complete(ks, 0, UINT64_MAX);
    check(ks, 1, 10, 0x10, "-");
    check(ks, 1, 10, 0xdd000010, "_stext+10/100");
    check(ks, 1, 10, 0xdd0001ff, "first+ff/100");
    check(ks, 1, 10, 0xdd000200, "-");
    check(ks, 1, 10, 0xf7c00000, "load+0/100000 mod");
    check(ks, 1, 10, 0xffffffffdd000010, "-");
    check(ks, 2, 60, 0xdd000010, "-");
    check(ks, 2, 60, 0xc1000000, "-");
    check(ks, 2, 60, 0x30000, "-");
    check(ks, 2, 60, 0xffffffff81000001, "_stext+1/1000");
    btrail_kernel_symbols_free(ks);
}

/* Where symbols end: at the next one, an end line, or with their page */
static void test_ends(void)
{
    static const char without[] =
        "ffffffffc0100000 t a_begin\t[a]\n"
        "ffffffffc0100f00 t a_end\t[a]\n"
        "ffffffffc0102010 t a_tail\t[a]\n"
        "ffffffffc0104000 d a_data\t[a]\n"
        "ffffffffc0120000 t b_only\t[b]\n";
    static const char with[] =
        "ffffffffc0100000 t a_begin\t[a]\n"
        "ffffffffc0100f00 t a_end\t[a]\n"
        "ffffffffc0101234 e .end\t[a]\n"
        "ffffffffc0102010 t a_tail\t[a]\n"
        "ffffffffc0102020 e .end\t[a]\n"
        "ffffffffc0120000 e .end\t[a]\n"
        "ffffffffc0120000 t b_only\t[b]\n"
        "ffffffffc0122000 e .end\t[b]\n"
        "ffffffffffffff00 t c\t[c]\n";
    struct btrail_kernel_symbols *ks = btrail_kernel_symbols_new();

    add(ks, 0, 0, kernel, without);
    add(ks, 0, 100, kernel, with);
    btrail_kernel_symbols_complete(ks, 0, UINT64_MAX);
    check(ks, 0, 50, 0xffffffffc0100f10, "a_end+10/1110 a");
    check(ks, 0, 50, 0xffffffffc0102fff, "a_tail+fef/ff0 a");
    check(ks, 0, 50, 0xffffffffc0103000, "-");
    check(ks, 0, 50, 0xffffffffc0120fff, "b_only+fff/1000 b");
    check(ks, 0, 50, 0xffffffffc0121000, "-");
    check(ks, 0, 50, 0xffffffff81001fff, "_end+fff/1000");
    check(ks, 0, 50, 0xffffffff81002000, "-");
    check(ks, 0, 100, 0xffffffffc0101233, "a_end+333/334 a");
    check(ks, 0, 100, 0xffffffffc0101234, "-");
    check(ks, 0, 100, 0xffffffffc0102010, "a_tail+0/10 a");
    check(ks, 0, 100, 0xffffffffc0102020, "-");
    check(ks, 0, 100, 0xffffffffc0121fff, "b_only+1fff/2000 b");
    check(ks, 0, 100, 0xffffffffc0122000, "-");
    check(ks, 0, 100, 0xffffffffffffff10, "c+10/ff c");
    check(ks, 0, 100, UINT64_MAX, "-");
    /* End lines are no symbols. */
    check_all(ks, "_text 0:0-\nfirst 0:0-\ndata 0:0-\nlast 0:0-\n_end 0:0-\n"
              "a_begin 0:0-99\na_end 0:0-99\na_tail 0:0-99\na_data 0:0-99\n"
              "b_only 0:0-99\n"
              "a_begin 0:100-\na_end 0:100-\na_tail 0:100-\nb_only 0:100-\n"
              "c 0:100-\n");
    btrail_kernel_symbols_free(ks);
}

/* The first one of the table, and of the kernel before modules */
static void test_aliases(void)
{
    static const char text[] =
        "ffffffff81000000 T __x86_indirect_thunk_array\n"
        "ffffffff81000000 T __softirqentry_text_end\n"
        "ffffffff81000000 T __a_later_one\n"
        "ffffffff81000040 T next\n"
        "ffffffff81000040 t of_module\t[m]\n"
        "ffffffffc0000000 t z_first\t[m]\n"
        "ffffffffc0000000 t a_second\t[m]\n";
    struct btrail_kernel_symbols *ks = btrail_kernel_symbols_new();

    add(ks, 0, 0, text, "");
    btrail_kernel_symbols_complete(ks, 0, UINT64_MAX);
    check(ks, 0, 0, 0xffffffff81000000,
          "__x86_indirect_thunk_array+0/40");
    check(ks, 0, 0, 0xffffffff8100003f,
          "__x86_indirect_thunk_array+3f/40");
    check(ks, 0, 0, 0xffffffff81000041, "next+1/fc0");
    check(ks, 0, 0, 0xffffffffc0000001, "z_first+1/1000 m");
    btrail_kernel_symbols_free(ks);
}

/* Tables that cannot be read, or are too many */
static void test_lost(void)
{
    struct btrail_kernel_symbols *ks = btrail_kernel_symbols_new();

    btrail_kernel_symbols_lost(ks, 0, 500);
    add(ks, 0, 1000, kernel, dummy);
    btrail_kernel_symbols_lost(ks, 0, 1500);
    add(ks, 0, 2000, kernel, tun);
    btrail_kernel_symbols_complete(ks, 0, 3000);
    check(ks, 0, 1499, MODULE + 0x90, "dummy_xmit+90/100 dummy");
    check(ks, 0, 1500, MODULE + 0x90, "-");
    check(ks, 0, 1500, 0xffffffff81000110, "first+10/100");
    check(ks, 0, 2999, MODULE + 0x90, "tun_put+10/f80 tun");
    check(ks, 0, 3000, MODULE + 0x90, "-");
    check(ks, 0, 3000, 0xffffffff81000110, "-");
    btrail_kernel_symbols_free(ks);

    ks = btrail_kernel_symbols_new();
    btrail_kernel_symbols_complete(ks, 0, 0);
    check(ks, 0, 0, 0xffffffff81000110, "-");
    check_all(ks, "");
    btrail_kernel_symbols_free(ks);
}

/* A table with more modules than Linux has */
static void test_many(void)
{
    struct btrail_kernel_symbols *ks = btrail_kernel_symbols_new();
    g_autoptr(GString) text = g_string_new(NULL);

    for (unsigned i = 0; i < 6000; i++) {
        g_string_append_printf(text, "ffffffff%08x t f%u\t[m%u]\n",
                               0xc0000000 + i * 16, i, i);
    }
    add(ks, 0, 0, kernel, text->str);
    btrail_kernel_symbols_complete(ks, 0, UINT64_MAX);
    check(ks, 0, 0, 0xffffffffc0000008, "f0+8/10 m0");
    check(ks, 0, 0, 0xffffffffc0000000 + 4095 * 16, "f4095+0/10 m4095");
    check(ks, 0, 0, 0xffffffffc0000000 + 5000 * 16, "f5000+0/10 m5000");
    btrail_kernel_symbols_free(ks);
}

/* Tables that differ in one module take little. */
static void test_memory(void)
{
    struct btrail_kernel_symbols *ks = btrail_kernel_symbols_new();
    g_autoptr(GString) own = g_string_new(NULL);
    uint64_t first = 0, others = 0;

    for (unsigned i = 0; i < 20000; i++) {
        g_string_append_printf(own, "ffffffff%08x T function_%u\n",
                               0x81000000 + i * 16, i);
    }
    for (unsigned i = 0; i < 100; i++) {
        g_autofree char *module = g_strdup_printf(
            "%sffffffffc0600000 t f%u\t[m%u]\n", stays, i, i);
        uint64_t memory = add(ks, 0, i * 10, own->str, module);

        first = first ?: memory;
        others += i ? memory : 0;
    }
    btrail_kernel_symbols_complete(ks, 0, UINT64_MAX);
    g_assert_cmpuint(others, <, first / 4);
    check(ks, 0, 555, 0xffffffffc0600008, "f55+8/1000 m55");
    check(ks, 0, 999, 0xffffffffc0600008, "f99+8/1000 m99");
    check(ks, 0, 555, 0xffffffffc0500008, "stay+8/10 stays");
    btrail_kernel_symbols_free(ks);
}

/* Tables at random, and what the rules say of them line by line */

#define LINES   14
#define TABLES  6
#define AT      0xffffffffc0000000
#define TICK    3

/* @module: 0: the kernel itself; @name: 0: an end line */
struct line {
    uint64_t address;
    unsigned module;
    unsigned name;
    bool data;
};

/* Lines of the kernel itself come first.  @held: 0: up to the next one */
struct table {
    uint64_t time;
    uint64_t held;
    unsigned own;
    unsigned n;
    struct line lines[LINES];
};

static struct line make_line(unsigned module)
{
    return (struct line) {
        AT + 0x400 * g_test_rand_int_range(0, 16), module,
        g_test_rand_int_range(1, 4), !g_test_rand_int_range(0, 4),
    };
}

/* @before: the table that has the same symbols of the kernel itself; or NULL */
static void make_table(struct table *t, const struct table *before)
{
    bool ends = g_test_rand_bit();

    t->own = before ? before->own : (unsigned)g_test_rand_int_range(1, 6);
    t->n = g_test_rand_int_range(t->own, LINES + 1);
    for (unsigned i = 0; i < t->n; i++) {
        struct line *l = &t->lines[i];

        if (i < t->own && before) {
            *l = before->lines[i];
            continue;
        }
        *l = make_line(i < t->own ? 0 : g_test_rand_int_range(1, 3));
        l->data &= i > 0;
        l->name = i && ends && !g_test_rand_int_range(0, 4) ? 0 : l->name;
    }
}

static void add_table(struct btrail_kernel_symbols *ks, const struct table *t,
                      bool own)
{
    g_autoptr(GString) text = g_string_new(NULL);

    for (unsigned i = own ? 0 : t->own; i < t->n; i++) {
        const struct line *l = &t->lines[i];
        g_autofree char *name = l->name ? g_strdup_printf("f%u", l->name) :
                                g_strdup(".end");
        g_autofree char *module = l->module ?
            g_strdup_printf("\t[m%u]", l->module) : g_strdup("");

        g_string_append_printf(text, "%" G_GINT64_MODIFIER "x %c %s%s\n",
                               l->address, !l->name ? 'e' : l->data ? 'd' :
                               't', name, module);
    }
    btrail_kernel_symbols_add(ks, 0, t->time, text->str, text->len);
    if (t->held) {
        btrail_kernel_symbols_held(ks, 0, t->held);
    }
}

/* What a table has at an address, and where it ends; false if nothing */
static bool look(const struct table *t, bool own_only, uint64_t address,
                 struct line *found, uint64_t *end)
{
    const struct line *best = NULL, *next = NULL;
    unsigned n = own_only ? t->own : t->n;
    bool ends = false;

    for (unsigned i = 0; i < t->n; i++) {
        const struct line *l = &t->lines[i];

        ends |= !l->name;
        if (i < n && l->name && l->address <= address &&
            (!best || l->address > best->address)) {
            best = l;
        }
    }
    if (!best) {
        return false;
    }
    *found = *best;
    *end = best->address + (1 << 20);
    for (unsigned i = 0; i < n; i++) {
        const struct line *l = &t->lines[i];

        if (l->address <= best->address) {
            continue;
        }
        *end = MIN(*end, l->address);
        if (l->name && (!next || l->address < next->address)) {
            next = l;
        }
    }
    if (!ends && (!next || next->module != best->module ||
                  (best->module && next->data))) {
        *end = MIN(*end, (best->address | 4095) + 1);
    }
    return address < *end;
}

static bool same_own(const struct table *a, const struct table *b)
{
    return a->own == b->own &&
           !memcmp(a->lines, b->lines, a->own * sizeof(*a->lines));
}

/* The same of all tables at a time */
static bool look_at(const struct table *all, uint64_t time, uint64_t address,
                    struct line *found, uint64_t *end)
{
    const struct table *t = NULL, *next = NULL;
    struct line other;
    uint64_t other_end, sure;

    for (unsigned i = TABLES; i-- && !t;) {
        t = all[i].time <= time ? &all[i] : NULL;
        next = t && i + 1 < TABLES ? t + 1 : NULL;
    }
    if (!t) {
        return look(all, true, address, found, end);
    }
    sure = !t->held ? UINT64_MAX : next ? t->held - MIN(t->held, TICK) :
           t->held;
    if (time <= sure) {
        return look(t, false, address, found, end);
    }
    if (!next) {
        return look(t, true, address, found, end);
    }
    if (!look(t, false, address, found, end) ||
        !look(next, false, address, &other, &other_end) ||
        found->address != other.address || found->name != other.name ||
        found->module != other.module) {
        return false;
    }
    if (!found->module && same_own(t, next)) {
        *end = MIN(*end, other_end);
    }
    return *end == other_end || (!found->module && same_own(t, next));
}

static void check_random(const struct btrail_kernel_symbols *ks,
                         const struct table *all)
{
    for (unsigned i = 0; i < 300; i++) {
        uint64_t time = g_test_rand_int_range(0, 100 * TABLES + 100);
        uint64_t address = AT + g_test_rand_int_range(0, 0x6000);
        g_autofree char *want = NULL;
        struct line line;
        uint64_t end;

        if (!look_at(all, time, address, &line, &end)) {
            check(ks, 0, time, address, "-");
            continue;
        }
        want = line.module ?
            g_strdup_printf("f%u+%x/%x m%u", line.name,
                            (unsigned)(address - line.address),
                            (unsigned)(end - line.address), line.module) :
            g_strdup_printf("f%u+%x/%x", line.name,
                            (unsigned)(address - line.address),
                            (unsigned)(end - line.address));
        check(ks, 0, time, address, want);
    }
}

static void test_random(void)
{
    for (unsigned round = 0; round < 500; round++) {
        struct btrail_kernel_symbols *ks = btrail_kernel_symbols_new();
        struct table all[TABLES];

        for (unsigned i = 0; i < TABLES; i++) {
            bool own = !i || !g_test_rand_int_range(0, 3);

            memset(&all[i], 0, sizeof(all[i]));
            make_table(&all[i], own ? NULL : &all[i - 1]);
            all[i].time = 100 * i + g_test_rand_int_range(1, 90);
            if (g_test_rand_bit()) {
                all[i].held = all[i].time + g_test_rand_int_range(0, 10);
            }
            add_table(ks, &all[i], own || g_test_rand_bit());
        }
        btrail_kernel_symbols_complete(ks, TICK, UINT64_MAX);
        check_random(ks, all);
        btrail_kernel_symbols_free(ks);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/kernel-symbols/reload", test_reload);
    g_test_add_func("/kernel-symbols/held", test_held);
    g_test_add_func("/kernel-symbols/modules-only", test_modules_only);
    g_test_add_func("/kernel-symbols/kexec", test_kexec);
    g_test_add_func("/kernel-symbols/32", test_32);
    g_test_add_func("/kernel-symbols/ends", test_ends);
    g_test_add_func("/kernel-symbols/aliases", test_aliases);
    g_test_add_func("/kernel-symbols/lost", test_lost);
    g_test_add_func("/kernel-symbols/many", test_many);
    g_test_add_func("/kernel-symbols/memory", test_memory);
    g_test_add_func("/kernel-symbols/random", test_random);
    return g_test_run();
}
