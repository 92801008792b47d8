/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of quoting: no text controls a terminal or makes a line, and what was
 * quoted can be told from everything else
 *
 * What may not leave is written down here by number, from Unicode's own tables
 * of format characters, and not by asking GLib.
 */

#include <json-glib/json-glib.h>
#include <string.h>

#include "util/quote.h"

/* Pairs of a first and a last one: Cc, Cf, Zl, Zp and what is no character */
static const gunichar forbidden[][2] = {
    { 0x00, 0x1f }, { 0x7f, 0x9f }, { 0xad, 0xad }, { 0x600, 0x605 },
    { 0x61c, 0x61c }, { 0x6dd, 0x6dd }, { 0x70f, 0x70f }, { 0x8e2, 0x8e2 },
    { 0x180e, 0x180e }, { 0x200b, 0x200f }, { 0x2028, 0x202e },
    { 0x2060, 0x2064 }, { 0x2066, 0x206f }, { 0xfdd0, 0xfdef },
    { 0xfeff, 0xfeff }, { 0xfff9, 0xfffb }, { 0xfffe, 0xffff },
    { 0x110bd, 0x110bd }, { 0x1bca0, 0x1bca3 }, { 0x1d173, 0x1d17a },
    { 0x1fffe, 0x1ffff }, { 0xe0001, 0xe0001 }, { 0xe0020, 0xe007f },
    { 0x10fffe, 0x10ffff },
};

/* Letters and other signs of many kinds, which stay as they are */
static const char *const normal[] = {
    "", "nginx: worker process", "[vdso]", "~/.local/bin/x'y\"z", "a b",
    "<anonymous>::operator()(int, char const*)", "100%s", "\xc2\xa0",
    "Käse", "Ελλάδα", "программа", "日本語", "עברית", "العربية", "हिन्दी",
    "\xf0\x9f\x90\xa7", "\xef\xbf\xbd",
};

static gboolean is_forbidden(gunichar c)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(forbidden); i++) {
        if (c >= forbidden[i][0] && c <= forbidden[i][1]) {
            return TRUE;
        }
    }
    return FALSE;
}

static void check_clean(const char *text)
{
    g_assert_true(g_utf8_validate(text, -1, NULL));
    for (const char *p = text; *p; p = g_utf8_next_char(p)) {
        g_assert_false(is_forbidden(g_utf8_get_char(p)));
    }
}

/* What an escape stands for, by the rules of C; a byte that is not UTF-8 is
 * itself. */
static char *unquote(const char *text)
{
    GString *out = g_string_new(NULL);

    while (*text) {
        static const char letters[] = "abtnvfr\\\"";
        const char *l;
        char kind, hex[9] = "";
        size_t digits;

        if (*text != '\\') {
            g_string_append_c(out, *text++);
            continue;
        }
        kind = text[1];
        text += 2;
        l = strchr(letters, kind);
        if (l) {
            g_string_append_c(out, "\a\b\t\n\v\f\r\\\""[l - letters]);
            continue;
        }
        digits = kind == 'x' ? 2 : kind == 'u' ? 4 : 8;
        g_assert_true(strchr("xuU", kind) && strlen(text) >= digits);
        memcpy(hex, text, digits);
        g_assert_cmpuint(strspn(hex, "0123456789abcdef"), ==, digits);
        if (kind == 'x') {
            g_string_append_c(out, strtoul(hex, NULL, 16));
        } else {
            g_string_append_unichar(out, strtoul(hex, NULL, 16));
        }
        text += digits;
    }
    return g_string_free(out, FALSE);
}

static char *quote_json(const char *text)
{
    GString *out = g_string_new("\"");

    btrail_quote_json(out, text, BTRAIL_QUOTE_STRING);
    g_string_append_c(out, '"');
    return g_string_free(out, FALSE);
}

/* Quotes as text and as JSON, and reads both. */
static void check(const char *text)
{
    g_autofree char *quoted = btrail_quote(text, "");
    g_autofree char *back = unquote(quoted);
    g_autofree char *json = quote_json(text);
    g_autofree char *valid = g_utf8_make_valid(text, -1);
    g_autoptr(JsonNode) node = json_from_string(json, NULL);

    check_clean(quoted);
    g_assert_cmpstr(back, ==, text);
    check_clean(json);
    g_assert_nonnull(node);
    g_assert_cmpstr(json_node_get_string(node), ==, valid);
}

/* Every character of Unicode, alone and between others */
static void test_characters(void)
{
    for (gunichar c = 1; c <= 0x10ffff; c++) {
        char text[16] = { 'a' };
        int n = 1;

        if (c >= 0xd800 && c < 0xe000) {
            continue;
        }
        n += g_unichar_to_utf8(c, text + 1);
        text[n] = 'f';
        /* Some thousands at a time take minutes with a sanitizer. */
        if (c < 0x3000 || is_forbidden(c) || c % 61 == 0) {
            check(text);
        } else {
            g_autofree char *quoted = btrail_quote(text, "");

            check_clean(quoted);
        }
    }
}

/* Every pair of bytes, valid or not, and cut-off and overlong sequences */
static void test_bytes(void)
{
    static const char *const broken[] = {
        "\xe2\x80", "\xe2\x80\xe2\x80\xae", "\xc0\x9b", "\xe0\x80\x9b",
        "\xed\xa0\x80", "\xed\xb0\x80", "\xf4\x90\x80\x80",
        "\xf8\x88\x80\x80\x80", "\xff\xfe", "\xc2", "\xc2\x1b[31m",
        "\xf0\x9f\x90", "\x9b\x33\x31m", "\xf0\x80\x80\x9b",
    };

    for (unsigned a = 1; a < 256; a++) {
        for (unsigned b = 0; b < 256; b++) {
            const char text[] = { a, b, 'c', 0 };

            check(text);
        }
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(broken); i++) {
        check(broken[i]);
    }
}

static void test_normal(void)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(normal); i++) {
        g_autofree char *quoted = btrail_quote(normal[i], "");

        g_assert_cmpstr(quoted, ==, normal[i]);
        check(normal[i]);
    }
}

static void test_escapes(void)
{
    static const char *const cases[][2] = {
        { "\x1b[31m", "\\x1b[31m" }, { "a\nb\r\t\a", "a\\nb\\r\\t\\a" },
        { "\xc2\x9b", "\\u009b" }, { "\x9b", "\\x9b" },
        { "\xe2\x80\xae", "\\u202e" }, { "\xf3\xa0\x80\x81", "\\U000e0001" },
        { "\\x1b", "\\\\x1b" }, { "\x7f", "\\x7f" },
    };
    g_autofree char *also = btrail_quote("a;b,c d\\", ";, ");
    g_autofree char *json = quote_json("\"\\\n\x1f\x7f\xff\xf3\xa0\x80\x81");
    g_autoptr(GString) whole = g_string_new(NULL);

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *quoted = btrail_quote(cases[i][0], "");

        g_assert_cmpstr(quoted, ==, cases[i][1]);
    }
    g_assert_cmpstr(also, ==, "a\\x3bb\\x2cc\\x20d\\\\");
    g_assert_cmpstr(json, ==, "\"\\\"\\\\\\n\\u001f\\u007f\xef\xbf\xbd"
                    "\\udb40\\udc01\"");
    btrail_quote_json(whole, "{\"a\":\"\\n\xc2\x9b\"}", "");
    g_assert_cmpstr(whole->str, ==, "{\"a\":\"\\n\\u009b\"}");
}

/* The length of a text costs no more than itself. */
static void test_long(void)
{
    g_autofree char *text = g_strnfill(8 << 20, '\x1b');
    g_autofree char *quoted = btrail_quote(text, "");

    g_assert_cmpuint(strlen(quoted), ==, 4 * (8 << 20));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/quote/characters", test_characters);
    g_test_add_func("/quote/bytes", test_bytes);
    g_test_add_func("/quote/normal", test_normal);
    g_test_add_func("/quote/escapes", test_escapes);
    g_test_add_func("/quote/long", test_long);
    return g_test_run();
}
