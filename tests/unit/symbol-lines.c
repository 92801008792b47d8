/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Symbols as lines of text: guest-linux/symbol-lines.h
 */

#include <glib.h>

#include "guest-linux/symbol-lines.h"

static void test_line(void)
{
    g_autoptr(GString) text = g_string_new(NULL);

    linux_symbol_line(text, UINT64_C(0xffffffff81234567), 'T', "name", NULL);
    linux_symbol_line(text, 16, 'd', "other", "mod");
    linux_end_line(text, 32, "mod");
    g_assert_cmpstr(text->str, ==, "ffffffff81234567 T name\n"
                    "0000000000000010 d other\t[mod]\n"
                    "0000000000000020 e .end\t[mod]\n");
}

static void test_most(void)
{
    g_autoptr(GString) text = g_string_new(NULL);
    g_autofree char *name = g_strnfill(1 << 20, 'x');

    for (unsigned i = 0; i < 20; i++) {
        linux_symbol_line(text, i, 't', name, NULL);
    }
    g_assert_cmpuint(text->len, ==, 15 * ((1 << 20) + 20));
    g_assert_cmpint(text->str[text->len - 1], ==, '\n');
}

static void test_names(void)
{
    g_assert_true(linux_is_name("a.b$c\xff"));
    g_assert_false(linux_is_name(""));
    g_assert_false(linux_is_name("a b"));
    g_assert_false(linux_is_name("a\n"));
    g_assert_false(linux_is_name("a\x7f"));
    g_assert_true(linux_is_code('t'));
    g_assert_true(linux_is_code('W'));
    g_assert_false(linux_is_code('d'));
    g_assert_false(linux_is_code('\0'));
}

static void test_ends(void)
{
    static const struct linux_code codes[] = {
        { 0x300, 0x310, false },
        { 0x100, 0x180, false },
        { 0x120, 0x130, false },    /* in the one before */
        { 0x18f, 0x200, true },     /* after padding; to the next one */
        { 0x1f0, 0x200, false },
        { 0x310, 0x400, true },     /* to the end */
    };
    g_autoptr(GString) text = g_string_new(NULL);
    g_autoptr(GArray) array = g_array_new(FALSE, FALSE, sizeof(codes[0]));

    linux_end_lines(text, array, 16, NULL);
    g_assert_cmpstr(text->str, ==, "");
    g_array_append_vals(array, codes, G_N_ELEMENTS(codes));
    linux_end_lines(text, array, 16, NULL);
    g_assert_cmpstr(text->str, ==, "0000000000000200 e .end\n"
                    "0000000000000400 e .end\n");
    g_string_truncate(text, 0);
    linux_end_lines(text, array, 1, "m");
    g_assert_cmpstr(text->str, ==, "0000000000000180 e .end\t[m]\n"
                    "0000000000000200 e .end\t[m]\n"
                    "0000000000000400 e .end\t[m]\n");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/symbol-lines/line", test_line);
    g_test_add_func("/symbol-lines/most", test_most);
    g_test_add_func("/symbol-lines/names", test_names);
    g_test_add_func("/symbol-lines/ends", test_ends);
    return g_test_run();
}
