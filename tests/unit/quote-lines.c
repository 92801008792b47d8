/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Text of another program, for a terminal
 */

#include "util/quote-lines.h"

static void check(const char *text, size_t n, const char *want)
{
    g_autoptr(GString) out = g_string_new("before ");
    g_autofree char *all = g_strconcat("before ", want, NULL);

    quote_lines(out, text, n);
    g_assert_cmpstr(out->str, ==, all);
}

static void test_lines(void)
{
    static const char in[] = "a\tb\\x1b \\\\ \033[1m\xc3\xa4\xff\0c\n\nd";

    check(in, sizeof(in) - 1,
          "a\tb\\x1b \\\\ \\x1b[1m\xc3\xa4\\xff\\x00c\n\nd");
    check("", 0, "");
    check("\r\n", 2, "\\r\n");
    check("\\", 1, "\\");
    check("abc", 2, "ab");
}

/* What is quoted stays as it is. */
static void test_again(void)
{
    for (unsigned i = 0; i < 10000; i++) {
        g_autoptr(GString) once = g_string_new(NULL);
        g_autoptr(GString) twice = g_string_new(NULL);
        char bytes[20];

        for (unsigned k = 0; k < sizeof(bytes); k++) {
            bytes[k] = (char)g_test_rand_int();
        }
        quote_lines(once, bytes, sizeof(bytes));
        g_assert_true(g_utf8_validate(once->str, once->len, NULL));
        quote_lines(twice, once->str, once->len);
        g_assert_cmpstr(twice->str, ==, once->str);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/quote-lines/lines", test_lines);
    g_test_add_func("/quote-lines/again", test_again);
    return g_test_run();
}
