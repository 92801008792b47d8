/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of drain/kernel-places.h: functions of one name, what is loaded and
 * goes, and kernels with more of them than are taken
 */

#include <glib.h>
#include <string.h>

#include "drain/kernel-places.h"

#define K   UINT64_C(0xffffffff81000000)
#define M   UINT64_C(0xffffffffc0000000)

static void tell(struct kernel_places *p, uint16_t kernel, const char *text)
{
    kernel_places_symbols(&p, 1, kernel, text, strlen(text));
}

static bool has(struct kernel_places *p, uint64_t address)
{
    return kernel_places_has(p, address, NULL);
}

static const char text[] =
    "ffffffff81000000 T _text\n"
    "ffffffff81000010 t copy\n"
    "ffffffff81000020 t copy.isra.0\n"
    "ffffffff81000030 t copy\n"
    "ffffffff81000040 t copy.constprop.0.isra.3\n"
    "ffffffff81000050 t copy.cold\n"
    "ffffffff81000060 t copy.part.0\n"
    "ffffffff81000070 T copyx\n"
    "ffffffff81000080 D copy\n"
    "0000000000000000 T copy\n"
    "bad\n\n"
    "ffffffff81000090 t _RNvNtCsbxQjNsTKZZh_4shop4cart5after\n"
    "ffffffff810000a0 t _RNvNtCsbxQjNsTKZZh_4shop4cart5after.llvm.77\n"
    "ffffffff810000b0 t _RINvNtCsbxQjNsTKZZh_4shop4cart7largestmEB4_\n"
    "ffffffff810000c0 t "
    "_RNvXNtCsbxQjNsTKZZh_4shop4cartINtB2_4ItemmENtB2_5Price5priceB4_\n"
    "ffffffff810000d0 T alias\n"
    "ffffffff810000d0 t alias.isra.0\n"
    "ffffffff81000010 t copy";

/* All that somebody means by a name, and nothing else */
static void test_names(void)
{
    static const struct {
        const char *symbol;
        unsigned n;
        unsigned at[4];
    } names[] = {
        { "copy", 4, { 0x10, 0x20, 0x30, 0x40 } },
        { "copy.isra.0", 1, { 0x20 } },
        { "copy.cold", 1, { 0x50 } },
        { "copyx", 1, { 0x70 } },
        { "cop", 0, { 0 } },
        { "alias", 1, { 0xd0 } },
        { "shop::cart::after", 2, { 0x90, 0xa0 } },
        { "shop::cart::largest", 1, { 0xb0 } },
        { "shop::cart::largest::<u32>", 1, { 0xb0 } },
        { "<shop::cart::Item as shop::cart::Price>::price", 1, { 0xc0 } },
        { "_RNvNtCsbxQjNsTKZZh_4shop4cart5after", 2, { 0x90, 0xa0 } },
        { "after", 0, { 0 } },
        { "shop::cart::nowhere", 0, { 0 } },
    };
    struct kernel_places *all[G_N_ELEMENTS(names)];

    for (unsigned i = 0; i < G_N_ELEMENTS(names); i++) {
        all[i] = kernel_places_new(names[i].symbol);
        g_assert_cmpuint(kernel_places_count(all[i]), ==, 0);
        g_assert_false(has(all[i], 0));
    }
    kernel_places_symbols(all, G_N_ELEMENTS(all), 1, text, strlen(text));
    for (unsigned i = 0; i < G_N_ELEMENTS(names); i++) {
        unsigned found = 0;

        g_test_message("%s", names[i].symbol);
        g_assert_cmpuint(kernel_places_count(all[i]), ==, names[i].n);
        g_assert_false(kernel_places_capped(all[i]));
        for (unsigned k = 0; k < names[i].n; k++) {
            g_assert_true(has(all[i], K + names[i].at[k]));
        }
        for (unsigned k = 0; k < 0x100; k++) {
            found += has(all[i], K + k);
        }
        g_assert_cmpuint(found, ==, names[i].n);
        g_assert_false(has(all[i], 0));
        kernel_places_free(all[i]);
    }
}

static void sum(void *opaque, uint64_t address)
{
    *(uint64_t *)opaque += address;
}

/* The kernel's own, beside what it has loaded, which comes as a whole */
static void test_loaded(void)
{
    struct kernel_places *p = kernel_places_new("init");
    const uint16_t one = 1, two = 2;
    uint64_t total = 0;

    tell(p, 1, "ffffffff81000010 t init\nffffffff81000020 t init\n");
    tell(p, 1, "ffffffffc0000010 t init\t[a]\nffffffffc0000020 t init\t[b]\n");
    g_assert_cmpuint(kernel_places_count(p), ==, 4);
    g_assert_true(has(p, K + 0x10) && has(p, K + 0x20));
    g_assert_true(has(p, M + 0x10) && has(p, M + 0x20));
    kernel_places_each(p, sum, &total);
    g_assert_cmphex(total, ==, K * 2 + M * 2 + 0x60);
    tell(p, 1, "ffffffffc0000020 t init\t[b]\n");
    g_assert_cmpuint(kernel_places_count(p), ==, 3);
    g_assert_false(has(p, M + 0x10));
    tell(p, 1, "");
    g_assert_cmpuint(kernel_places_count(p), ==, 2);
    tell(p, 1, "ffffffffc0000030 t init\t[c]\n");
    g_assert_true(kernel_places_has(p, M + 0x30, &one));
    g_assert_false(kernel_places_has(p, M + 0x30, &two));
    g_assert_false(kernel_places_has(p, K + 0x10, &two));
    /* Another one has it elsewhere, or not at all, and has loaded nothing. */
    tell(p, 2, "ffffffff81000030 t init\n");
    g_assert_cmpuint(kernel_places_count(p), ==, 1);
    g_assert_true(kernel_places_has(p, K + 0x30, &two));
    g_assert_false(kernel_places_has(p, K + 0x30, &one));
    tell(p, 3, "ffffffff81000030 t exit\n");
    g_assert_cmpuint(kernel_places_count(p), ==, 0);
    kernel_places_free(p);
}

/* There is a limit, and it says so. */
static void test_capped(void)
{
    struct kernel_places *p = kernel_places_new("init");
    g_autoptr(GString) many = g_string_new(NULL);

    for (unsigned i = 0; i < KERNEL_PLACES_MAX; i++) {
        g_string_append_printf(many, "%" G_GINT64_MODIFIER "x t init\n",
                               K + i * 16);
    }
    tell(p, 1, many->str);
    g_assert_cmpuint(kernel_places_count(p), ==, KERNEL_PLACES_MAX);
    g_assert_false(kernel_places_capped(p));
    g_string_append_printf(many, "%" G_GINT64_MODIFIER "x t init\n", K + 8);
    tell(p, 1, many->str);
    g_assert_cmpuint(kernel_places_count(p), ==, KERNEL_PLACES_MAX);
    g_assert_true(kernel_places_capped(p));
    g_assert_false(has(p, K + 8));
    tell(p, 1, "ffffffff81000010 t init\n");
    g_assert_cmpuint(kernel_places_count(p), ==, 1);
    g_assert_false(kernel_places_capped(p));
    kernel_places_free(p);
}

/* A guest can have as many mangled names as it likes, which take their time. */
static void test_mangled(void)
{
    struct kernel_places *all[] = {
        kernel_places_new("shop::cart::after"), kernel_places_new("init"),
    };
    g_autoptr(GString) many = g_string_new(NULL);

    for (unsigned i = 0; i < 100000; i++) {
        g_string_append_printf(many, "%" G_GINT64_MODIFIER "x t "
                               "_RNvNtCsbxQjNsTKZZh_4shop4cart9rafter%03u\n",
                               K + i * 16, i % 1000);
    }
    g_string_append(many, "ffffffff80000000 t init\n");
    kernel_places_symbols(all, 2, 1, many->str, many->len);
    g_assert_cmpuint(kernel_places_count(all[0]), ==, 0);
    g_assert_true(kernel_places_capped(all[0]));
    /* What needs no such comparison is found. */
    g_assert_cmpuint(kernel_places_count(all[1]), ==, 1);
    g_assert_false(kernel_places_capped(all[1]));
    kernel_places_free(all[0]);
    kernel_places_free(all[1]);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/kernel-places/names", test_names);
    g_test_add_func("/kernel-places/loaded", test_loaded);
    g_test_add_func("/kernel-places/capped", test_capped);
    g_test_add_func("/kernel-places/mangled", test_mangled);
    return g_test_run();
}
