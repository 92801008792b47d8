/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names of functions: what people mean by them
 */

#include <glib.h>
#include <string.h>

#include "util/demangle.h"
#include "util/function-name.h"

/* What compilers add does not matter; a part is another function. */
static const struct {
    const char *symbol;
    const char *plain;
} names[] = {
    { "copy.constprop.0.isra.3", "copy" },
    { "copy.llvm.1234567890123456789", "copy" },
    { "copy", "copy" },
    { "copy.cold", "copy.cold" },
    { "copy.part.0.isra.0", "copy.part.0" },
    { "main.request", "main.request" },
    { "a.b.isra.0", "a.b" },
};

static void test_is(void)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(names); i++) {
        for (unsigned j = 0; j < G_N_ELEMENTS(names); j++) {
            const char *name = names[j].plain;

            g_test_message("%s %s", names[i].symbol, name);
            g_assert_cmpint(function_name_is(names[i].symbol, name), ==,
                            !strcmp(names[i].symbol, name) ||
                            !strcmp(names[i].plain, name));
        }
    }
    g_assert_false(function_name_is("copy.isra.0", "cop"));
    g_assert_false(function_name_is("copy.isra.0", "copy.isra"));
    g_assert_false(function_name_is("copy", "copy.isra.0"));
    g_assert_false(function_name_is("copy.isra.1", "copy.isra.0"));
}

/* What people mean by a name of the source, and what not */
static const struct {
    const char *symbol, *name;
    bool is;
} meant[] = {
    { "_ZN4shop5afterEi", "shop::after", true },
    { "_ZN4shop5afterEi", "shop::after(int)", true },
    { "_ZN4shop5afterEi", "_ZN4shop5afterEi", true },
    { "_ZN4shop5afterEi", "after", false },
    { "_ZN4shop5afterEi", "shop::afte", false },
    { "_ZN4shop5afterEi", "shop", false },
    { "_ZN4shop5afterEi", "shop::after(char)", false },
    { "_ZN4shop5afterEi", "shop::after()", false },
    { "_ZN4shop5afterEic", "shop::after", true },
    { "_ZN4shop5afterEic", "shop::after(int)", false },
    { "_ZN4shop5afterEic", "shop::after(int, char)", true },
    { "_ZN4shop5afterEic", "shop::after(int,char)", true },
    { "_ZN4shop5afterEi.isra.0", "shop::after", true },
    { "_ZN4shop5afterEi.isra.0", "shop::after(int)", true },
    { "_ZN4shop5afterEi.isra.0", "shop::after(int) [clone .isra.0]", true },
    { "_ZN4shop5afterEi.isra.0", "_ZN4shop5afterEi", true },
    { "_ZN4shop5afterEi.cold", "shop::after", false },
    { "_ZN4shop5afterEi.cold", "shop::after(int)", false },
    { "_ZN4shop5afterEi.cold", "shop::after(int) [clone .cold]", true },
    { "_Z5afterv", "after", true },
    { "_Z5afterv", "afte", false },
    { "_ZNK4shop4Item3getEv", "shop::Item::get", true },
    { "_ZNK4shop4Item3getEv", "shop::Item::get() const", true },
    { "_ZN4shop7largestIiEET_S1_S1_", "shop::largest", true },
    { "_ZN4shop7largestIiEET_S1_S1_", "shop::largest<int>", true },
    { "_ZN4shop7largestIiEET_S1_S1_", "shop::largest<char>", false },
    { "_ZN4shop7largestIiEET_S1_S1_", "int shop::largest<int>(int, int)",
      true },
    { "_ZN4shop3BoxIsE3putEs", "shop::Box<short>::put", true },
    { "_ZN4shop3BoxIsE3putEs", "shop::Box::put", true },
    { "_ZN4shop3BoxIsE3putEs", "shop::Box", false },
    { "_ZNK1AptIiEEPS_v", "A::operator->", true },
    { "_ZltIiEbRKT_S1_", "operator<", true },
    { "_ZltIiEbRKT_S1_", "operator", false },
    { "_ZgtRK1AS1_", "operator>", true },
    { "_ZrsRK1AS1_", "operator>>", true },
    { "_ZrsRK1AS1_", "operator>", false },
    { "_ZNK1AptEv", "A::operator->", true },
    { "_ZNK1AptEv", "A::operator-", false },
    { "_ZN4shop5after17h0baa8f9076aa8b22E.llvm.77", "shop::after", true },
    { "_RNvNtCsbxQjNsTKZZh_4shop4cart5after.llvm.77", "shop::cart::after",
      true },
    { "_RINvNtCsbxQjNsTKZZh_4shop4cart7largestmEB4_", "shop::cart::largest",
      true },
    { "_RINvNtCsbxQjNsTKZZh_4shop4cart7largestmEB4_",
      "shop::cart::largest::<u32>", true },
    { "_RNvXNtCsbxQjNsTKZZh_4shop4cartINtB2_4ItemmENtB2_5Price5priceB4_",
      "<shop::cart::Item as shop::cart::Price>::price", true },
    { "_D4shop5afterFiZi", "shop.after", true },
    { "_D4shop5afterFiZi", "shop.after(int)", true },
    { "_D4shop5afterFiZi", "shop.after(char)", false },
    { "main.(*T).run", "main.(*T).run", true },
};

static void test_meant(void)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(meant); i++) {
        g_autofree char *known = demangle(meant[i].symbol, true);

        g_test_message("%s %s", meant[i].symbol, meant[i].name);
        g_assert_cmpint(function_name_is(meant[i].symbol, meant[i].name), ==,
                        meant[i].is);
        g_assert_cmpint(function_name_is_known(meant[i].symbol, known,
                                               meant[i].name), ==,
                        meant[i].is);
        g_assert_true(function_name_valid(meant[i].name));
    }
}

static void test_valid(void)
{
    static const struct {
        const char *text;
        bool valid;
    } texts[] = {
        { "main", true }, { "a.b$c_1", true }, { "~", false }, { "", false },
        { "1a", false }, { "a b", false }, { "a#1", false }, { "a-b", false },
        { "shop::Item::~Item()", true }, { "std::f[abi:cxx11](int)", true },
        { "net/http.(*conn).serve", true }, { "operator+", true },
        { "f(int):g", false }, { "/x", false }, { " f(int)", false },
        { "f\n(int)", false }, { "f(\xff)", false },
        { "shop::g\303\266", true },
        { "main::{lambda()#1}::operator()", true },
        { "<A as shop::B>::c", true }, { "shop::f::<':'>", true },
        { "f<(x)?(1) : (2)>", true }, { "f:(", false }, { "f(a:b", false },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(texts); i++) {
        g_test_message("%u", i);
        g_assert_cmpint(function_name_valid(texts[i].text), ==,
                        texts[i].valid);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/function-name/is", test_is);
    g_test_add_func("/function-name/meant", test_meant);
    g_test_add_func("/function-name/valid", test_valid);
    return g_test_run();
}
