/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of unquote.c: what quote.c prints is read as what it was, and nothing
 * is read past its end
 */

#include <string.h>

#include "util/quote.h"
#include "util/unquote.h"

static void check(const char *text, const char *bytes, size_t n,
                  const char *rest)
{
    const char *end;
    size_t got;
    g_autofree char *read = unquote(text, &end, &got);

    g_assert_nonnull(read);
    g_assert_cmpmem(read, got, bytes, n);
    g_assert_cmpstr(end, ==, rest);
}

static void test_escapes(void)
{
    check("\"login:\"", "login:", 6, "");
    check("\"a b\"#3", "a b", 3, "#3");
    check("\"\"", "", 0, "");
    check("\"\\a\\b\\e\\f\\n\\r\\t\\v\\\\\\\"\\'\"",
          "\a\b\033\f\n\r\t\v\\\"'", 11, "");
    check("\"\\0\\x00\\xfF1\"", "\0\0\xff" "1", 4, "");
    check("\"\\u00e9\\U0001f427\"", "\xc3\xa9\xf0\x9f\x90\xa7", 6, "");
}

static void test_wrong(void)
{
    static const char *const wrong[] = {
        "", "a", "\"", "\"a", "\"\\", "\"\\\"", "\"\\q\"", "\"\\x\"",
        "\"\\x1\"", "\"\\xg0\"", "\"\\u123\"", "\"\\ud800\"",
        "\"\\U00110000\"", "\"\\U0001\"", "'a'",
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(wrong); i++) {
        /* Nothing follows it in memory. */
        g_autofree char *text = g_memdup2(wrong[i], strlen(wrong[i]) + 1);
        const char *end;
        size_t n;

        if (unquote(text, &end, &n)) {
            g_error("%s is taken", text);
        }
    }
}

/* Any bytes that a string can have */
static void test_quoted(void)
{
    for (unsigned round = 0; round < 2000; round++) {
        g_autofree char *quoted = NULL, *text = NULL;
        char bytes[17] = "";
        unsigned n = g_test_rand_int_range(0, sizeof(bytes));

        for (unsigned i = 0; i < n; i++) {
            bytes[i] = g_test_rand_int_range(1, 256);
        }
        quoted = btrail_quote(bytes, BTRAIL_QUOTE_STRING);
        text = g_strdup_printf("\"%s\"", quoted);
        check(text, bytes, n, "");
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/unquote/escapes", test_escapes);
    g_test_add_func("/unquote/wrong", test_wrong);
    g_test_add_func("/unquote/quoted", test_quoted);
    return g_test_run();
}
