/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of symbolize/address-space.h: overlapping mappings, symbols, kallsyms
 */
#include <glib.h>
#include <string.h>

#include "symbolize/address-space.h"

static void map(struct address_space *as, uint64_t start, uint64_t end,
                const char *path)
{
    const struct mapping m = { start, end, start * 2, path, "ab12" };

    address_space_map(as, &m);
}

static void test_mappings(void)
{
    struct address_space *as = address_space_new();
    struct mapping *m;
    size_t n;

    g_assert_null(address_space_find(as, 0));
    map(as, 0x1000, 0x5000, "/a");
    map(as, 0x7000, 0x8000, NULL);
    map(as, 0x8000, 0x8000, "/empty");
    g_assert_null(address_space_find(as, 0xfff));
    g_assert_cmpstr(address_space_find(as, 0x1000)->path, ==, "/a");
    g_assert_cmpstr(address_space_find(as, 0x4fff)->build_id, ==, "ab12");
    g_assert_null(address_space_find(as, 0x5000));
    g_assert_cmpstr(address_space_find(as, 0x7000)->path, ==, "");

    /* Into the middle */
    map(as, 0x2000, 0x3000, "/b");
    address_space_mappings(as, &n);
    g_assert_cmpuint(n, ==, 4);
    m = address_space_find(as, 0x3000);
    g_assert_cmpstr(m->path, ==, "/a");
    g_assert_cmphex(m->offset, ==, 0x2000 + 0x2000);
    g_assert_cmphex(m->end, ==, 0x5000);
    g_assert_cmphex(address_space_find(as, 0x1000)->end, ==, 0x2000);
    /* Over the ends of two, and all that is between */
    map(as, 0x1800, 0x7800, "/c");
    address_space_mappings(as, &n);
    g_assert_cmpuint(n, ==, 3);
    g_assert_cmphex(address_space_find(as, 0x17ff)->end, ==, 0x1800);
    g_assert_cmphex(address_space_find(as, 0x7800)->start, ==, 0x7800);
    g_assert_cmphex(address_space_find(as, 0x7800)->offset, ==, 0xe800);
    address_space_free(as);
}

static void check_equal(const struct mapping *got,
                        const struct mapping *want, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        g_assert_cmphex(got[i].start, ==, want[i].start);
        g_assert_cmphex(got[i].end, ==, want[i].end);
        g_assert_cmphex(got[i].offset, ==, want[i].offset);
        g_assert_cmpstr(got[i].path, ==, want[i].path);
        g_assert_true(got[i].code == want[i].code);
    }
}

/* Against a table of pages */
static void test_random(void)
{
    enum { PAGES = 64 };
    struct address_space *as = address_space_new();
    int pages[PAGES] = { 0 };
    unsigned i, k;

    for (i = 1; i < 2000; i++) {
        unsigned start = g_test_rand_int_range(0, PAGES);
        unsigned end = g_test_rand_int_range(start, PAGES) + 1;
        g_autofree char *name = g_strdup_printf("%u", i);
        const struct mapping m = { start, end, 1000 * i + start, name };

        address_space_map(as, &m);
        for (k = start; k < end; k++) {
            pages[k] = i;
        }
        for (k = 0; k < PAGES; k++) {
            const struct mapping *found = address_space_find(as, k);

            g_assert_cmpint(found != NULL, ==, pages[k] != 0);
            if (found) {
                g_assert_cmpint(atoi(found->path), ==, pages[k]);
                g_assert_cmpuint(found->offset + k - found->start, ==,
                                 1000 * pages[k] + k);
            }
        }
    }
    address_space_free(as);
}

/* Many ranges at once, against one by one; or all as they are */
static void test_all(void)
{
    enum { PAGES = 64 };

    for (unsigned i = 0; i < 3000; i++) {
        struct address_space *as = address_space_new();
        struct address_space *want = address_space_new();
        struct mapping added[2 * PAGES];
        size_t n_want, n_got;

        for (unsigned k = 0; k < 4; k++) {
            unsigned at = g_test_rand_int_range(0, 8);
            bool same = k && g_test_rand_bit();
            const struct mapping *got;
            size_t n = 0;

            while (!same && at < PAGES && g_test_rand_int_range(0, 20)) {
                unsigned end = g_test_rand_int_range(at, PAGES) / 8 + at + 1;

                added[n++] = (struct mapping) {
                    at, end, 100 * at, g_test_rand_bit() ? "/a" : "/b",
                    .code = g_test_rand_bit(),
                };
                at = end + g_test_rand_int_range(0, 3);
            }
            if (same) {
                got = address_space_mappings(as, &n);
                g_assert_cmpuint(n, <=, G_N_ELEMENTS(added));
                for (size_t j = 0; j < n; j++) {
                    added[j] = got[j];
                }
            }
            for (size_t j = 0; j < n; j++) {
                const struct mapping *old = address_space_find(
                    want, added[j].start);

                if (!old || old->start != added[j].start ||
                    old->end != added[j].end ||
                    old->offset != added[j].offset ||
                    old->code != added[j].code ||
                    strcmp(old->path, added[j].path)) {
                    g_assert_false(same);
                    address_space_map(want, &added[j]);
                }
            }
            g_assert_true(!(same || !n) ||
                          !address_space_map_all(as, added, n));
            address_space_map_all(as, added, n);
            g_assert_false(address_space_map_all(as, added, n));
        }
        address_space_mappings(want, &n_want);
        address_space_mappings(as, &n_got);
        g_assert_cmpuint(n_got, ==, n_want);
        check_equal(address_space_mappings(as, &n_got),
                    address_space_mappings(want, &n_want), n_want);
        address_space_free(as);
        address_space_free(want);
    }
}

/* The name of the code at an address, NULL if there is none */
static const char *name_at(struct address_space *as, uint64_t address)
{
    struct symbol s;

    return address_space_symbol(as, address, &s) ? s.name : NULL;
}

static void test_symbols(void)
{
    struct address_space *as = address_space_new();
    static const char *const lines[] = {
        "ffffffff81000100 T second",
        "ffffffff81000000 T _text",
        "ffffffff81000000 T a_later_alias",
        "ffffffff81000200 d data",
        "ffffffff81000300 t tail",
        "ffffffff81000380 e .end",
        "0000000000000000 A absolute",
        "ffffffffc0000000 t in_module\t[e1000]",
    };
    static const char *const bad[] = {
        "no symbol", "12 t x trailing", "12 tt x", "", "12 t \xff",
    };
    struct symbol s;
    uint64_t address;
    unsigned i;

    g_assert_null(name_at(as, 5));
    for (i = 0; i < G_N_ELEMENTS(lines); i++) {
        g_assert_true(address_space_kallsyms_line(as, lines[i]));
    }
    for (i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_assert_false(address_space_kallsyms_line(as, bad[i]));
    }
    g_assert_cmpstr(name_at(as, 0xffffffff810000ff), ==, "_text");
    g_assert_true(address_space_symbol(as, 0xffffffff81000000, &s));
    g_assert_cmpstr(s.name, ==, "_text");
    g_assert_cmphex(s.end, ==, 0xffffffff81000100);
    g_assert_cmpstr(name_at(as, 0xffffffff81000100), ==, "second");
    /* Data is no function, and ends one. */
    g_assert_null(name_at(as, 0xffffffff81000200));
    g_assert_null(name_at(as, 0x1000));
    /* Nothing with a name is after an end line. */
    g_assert_cmpstr(name_at(as, 0xffffffff8100037f), ==, "tail");
    g_assert_null(name_at(as, 0xffffffff81000380));
    g_assert_true(address_space_symbol(as, 0xffffffffc0000010, &s));
    g_assert_cmpstr(s.module, ==, "[e1000]");
    g_assert_cmphex(s.end, ==, UINT64_MAX);
    g_assert_true(address_space_symbol_find(as, "second", &address));
    g_assert_cmphex(address, ==, 0xffffffff81000100);
    g_assert_false(address_space_symbol_find(as, "third", &address));
    /* One that is added later */
    g_assert_true(address_space_kallsyms_line(as, "ffffffff81000080 t new"));
    g_assert_cmpstr(name_at(as, 0xffffffff810000ff), ==, "new");
    address_space_free(as);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/address-space/mappings", test_mappings);
    g_test_add_func("/address-space/random", test_random);
    g_test_add_func("/address-space/all", test_all);
    g_test_add_func("/address-space/symbols", test_symbols);
    return g_test_run();
}
