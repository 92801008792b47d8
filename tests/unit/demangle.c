/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names as they are in the source
 *
 * Names of C++ are those that a compiler has made of a program whose source
 * says what they are.
 */

#include <glib.h>
#include <string.h>

#include "symbolize/elf-file.h"
#include "util/demangle.h"

static const char *program, *source;

static void add_name(GHashTable *names, const char *name)
{
    g_hash_table_add(names, g_strdup(name));
}

static GHashTable *new_names(void)
{
    return g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
}

/* Those that follow "//= " in the source */
static GHashTable *names_of_source(void)
{
    GHashTable *names = new_names();
    g_autofree char *text = NULL;
    g_auto(GStrv) lines = NULL;

    g_assert_true(g_file_get_contents(source, &text, NULL, NULL));
    lines = g_strsplit(text, "\n", -1);
    for (unsigned i = 0; lines[i]; i++) {
        const char *name = strstr(lines[i], "//= ");

        if (name) {
            add_name(names, name + strlen("//= "));
        }
    }
    return names;
}

/* All functions of C++ have the names of the source, and no others. */
static void test_cxx(void)
{
    GHashTable *want = names_of_source(), *got = new_names();
    struct elf_file *f = elf_file_open(program);
    const struct elf_symbol *all;
    GHashTableIter iter;
    gpointer name;
    size_t n;

    g_assert_nonnull(f);
    all = elf_file_symbols(f, &n);
    for (size_t i = 0; i < n; i++) {
        g_autofree char *text = demangle(all[i].name, true);

        g_assert_cmpint(!text, ==, !g_str_has_prefix(all[i].name, "_Z"));
        if (text) {
            g_assert_true(g_hash_table_contains(want, text));
            add_name(got, text);
        }
    }
    g_hash_table_iter_init(&iter, want);
    while (g_hash_table_iter_next(&iter, &name, NULL)) {
        if (!g_hash_table_contains(got, name)) {
            g_error("there is no %s", (char *)name);
        }
    }
    elf_file_close(f);
    g_hash_table_unref(want);
    g_hash_table_unref(got);
}

/*
 * Names of Rust are those that rustc 1.95 has made of the functions after,
 * largest, gödel and price of a module cart of a program shop, in both of its
 * ways; those of D follow the specification of its ABI.
 */
static const struct {
    const char *symbol, *whole, *some;
} stored[] = {
    { "_ZN4shop4cart5after17h0baa8f9076aa8b22E", "shop::cart::after",
      "shop::cart::after" },
    { "_ZN4shop4cart5after17h0baa8f9076aa8b22E.llvm.77",
      "shop::cart::after [clone .llvm.77]", "shop::cart::after" },
    { "_ZN63_$LT$shop..cart..Item$LT$T$GT$$u20$as$u20$shop..cart..Price$GT$5"
      "price17hbbc96bb334e99950E",
      "<shop::cart::Item<T> as shop::cart::Price>::price",
      "<shop::cart::Item<T> as shop::cart::Price>::price" },
    { "_RNvNtCsbxQjNsTKZZh_4shop4cart5after", "shop::cart::after",
      "shop::cart::after" },
    { "_RNvNtCsbxQjNsTKZZh_4shop4cart5after.llvm.77",
      "shop::cart::after [clone .llvm.77]", "shop::cart::after" },
    { "_RINvNtCsbxQjNsTKZZh_4shop4cart7largestmEB4_",
      "shop::cart::largest::<u32>", "shop::cart::largest::<u32>" },
    { "_RNvNtCsbxQjNsTKZZh_4shop4cartu8gdel_5qa", "shop::cart::g\303\266del",
      "shop::cart::g\303\266del" },
    { "_RNvXNtCsbxQjNsTKZZh_4shop4cartINtB2_4ItemmENtB2_5Price5priceB4_",
      "<shop::cart::Item<u32> as shop::cart::Price>::price",
      "<shop::cart::Item<u32> as shop::cart::Price>::price" },
    { "_D4shop5afterFiZi", "shop.after(int)", "shop.after" },
    { "_D4shop5afterFPFiZiZi", "shop.after(int(int) function)", "shop.after" },
    { "_D4shop__T7largestTiZQlFiiZi", "shop.largest!(int).largest(int, int)",
      "shop.largest!(int).largest" },
    { "_Dmain", "D main", "D main" },
    { "_ZN4shop5afterEi.cold", "shop::after(int) [clone .cold]",
      "shop::after" },
    { "_ZN4shop5afterEic", "shop::after(int, char)", "shop::after" },
    { "_Z7largestIiET_S0_S0_", "int largest<int>(int, int)", "largest<int>" },
    /* No names of these languages */
    { "", NULL, NULL }, { "_", NULL, NULL }, { "main", NULL, NULL },
    { "main.(*T).run", NULL, NULL }, { "_Reset", NULL, NULL },
    { "_Zebra", NULL, NULL }, { "_Destroy", NULL, NULL },
    { "_Z5shor", NULL, NULL }, { "_RNvC4shop5aft", NULL, NULL },
    { "_D4shop5aft", NULL, NULL }, { "__do_sys_read", NULL, NULL },
};

static void test_stored(void)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(stored); i++) {
        g_autofree char *whole = demangle(stored[i].symbol, true);
        g_autofree char *some = demangle(stored[i].symbol, false);

        g_test_message("%s", stored[i].symbol);
        g_assert_cmpstr(whole, ==, stored[i].whole);
        if (whole) {
            g_assert_cmpstr(some, ==, stored[i].some);
        }
    }
}

/* That of a function of Rust, of @size bytes; @n: of its name */
static char *long_name(unsigned size, unsigned *n)
{
    g_autofree char *name = NULL;

    *n = size - strlen("_RNvC1a1234");
    name = g_strnfill(*n, 'a');
    return g_strdup_printf("_RNvC1a%u%s", *n, name);
}

static void test_length(void)
{
    for (unsigned i = 0; i < 2; i++) {
        unsigned size = DEMANGLE_MANGLED_MAX - 1 + i, n;
        g_autofree char *symbol = long_name(size, &n);
        g_autofree char *name = demangle(symbol, true);

        g_assert_cmpuint(strlen(symbol), ==, size);
        g_assert_cmpuint(name ? strlen(name) : 0, ==, i ? 0 : 3 + n);
    }
}

/* A number as Rust has it in a reference */
static void put_base_62(GString *s, unsigned number)
{
    static const char digits[] = G_CSET_DIGITS G_CSET_a_2_z G_CSET_A_2_Z;

    if (number >= 62) {
        put_base_62(s, number / 62);
    }
    g_string_append_c(s, digits[number % 62]);
}

/* Each type is a pair of the one before. */
static void put_cxx(GString *s, unsigned levels)
{
    g_string_append(s, "_Z1f1A");
    for (unsigned i = 0; i < levels; i++) {
        /* A type of a function and the pointer to that have a number each. */
        g_autofree char *last = i ? g_strdup_printf("S%c_", "0123456789"
            G_CSET_A_2_Z[2 * i - 1]) : g_strdup("S_");

        g_string_append_printf(s, "PFv%s%sE", last, last);
    }
}

static void put_rust(GString *s, unsigned levels)
{
    unsigned at, next;

    g_string_append(s, "_RINvC1a1f");
    at = s->len - 2;
    g_string_append(s, "TmmE");
    for (unsigned i = 0; i < levels; i++) {
        next = s->len - 2;
        g_string_append_c(s, 'T');
        for (unsigned k = 0; k < 2; k++) {
            g_string_append_c(s, 'B');
            put_base_62(s, at - 1);
            g_string_append_c(s, '_');
        }
        g_string_append_c(s, 'E');
        at = next;
    }
    g_string_append_c(s, 'E');
}

static void put_d(GString *s, unsigned levels)
{
    unsigned at, next;

    g_string_append(s, "_D1a1fF");
    at = s->len;
    g_string_append(s, "Hii");
    for (unsigned i = 0; i < levels; i++) {
        next = s->len;
        g_string_append_c(s, 'H');
        g_string_append_printf(s, "Q%c", 'a' + (int)(s->len - at));
        g_string_append_printf(s, "Q%c", 'a' + (int)(s->len - at));
        at = next;
    }
    g_string_append(s, "Zv");
}

/* Short symbols can stand for names that fill all memory. */
static void test_expanded(void)
{
    static void (*const put[])(GString *, unsigned) = {
        put_cxx, put_rust, put_d,
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(put); i++) {
        unsigned last = 0;

        for (unsigned levels = 1; levels < 17; levels++) {
            g_autoptr(GString) s = g_string_new(NULL);
            g_autofree char *name = NULL;

            put[i](s, levels);
            name = demangle(s->str, true);
            g_test_message("%s: %s", s->str, name);
            /* They double, until they are too long. */
            g_assert_true(levels > 5 || name);
            g_assert_true(levels < 15 || !name);
            g_assert_true(!name || strlen(name) > 3 * last / 2);
            last = name ? strlen(name) : last;
        }
    }
    for (unsigned i = 1; i < G_N_ELEMENTS(put); i++) {
        g_autoptr(GString) s = g_string_new(NULL);

        put[i](s, 300);
        g_assert_null(demangle(s->str, true));
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_assert_cmpint(argc, ==, 3);
    program = argv[1];
    source = argv[2];
    g_test_add_func("/demangle/cxx", test_cxx);
    g_test_add_func("/demangle/stored", test_stored);
    g_test_add_func("/demangle/length", test_length);
    g_test_add_func("/demangle/expanded", test_expanded);
    return g_test_run();
}
