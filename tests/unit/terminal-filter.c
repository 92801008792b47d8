/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a guest writes to a terminal, without what is more than writing
 */

#include <string.h>

#include "cli/terminal-filter.h"

#define ROUNDS  20000

static char *filter_in(const char *bytes, size_t n, size_t piece)
{
    struct terminal_filter f = { 0 };
    GString *out = g_string_new(NULL);

    for (size_t i = 0; i < n; i += piece) {
        terminal_filter(&f, bytes + i, MIN(piece, n - i), out);
    }
    return g_string_free(out, FALSE);
}

static void check(const char *bytes, const char *want)
{
    for (size_t piece = 1; piece < 5; piece++) {
        g_autofree char *got = filter_in(bytes, strlen(bytes), piece);

        g_assert_cmpstr(got, ==, want);
    }
}

static void test_passes(void)
{
    const char *const all[] = {
        "text\r\n\ttab\b\a", "\303\244\342\202\254\360\237\220\202",
        "\033[m", "\033[1;31;48:2:1:2:3mred\033[0m", "\033[H\033[2J\033[K",
        "\033[12;40H\033[3A\033[10C\033[6n", "\033[?25l\033[?1049h\033[?1;7h",
        "\0337\033[5;20r\0338\033M\033(0lqk\033(B\033=\033>",
        terminal_filter_end,
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(all); i++) {
        check(all[i], all[i]);
    }
}

static void test_left_out(void)
{
    static const struct {
        const char *bytes;
        const char *want;
    } all[] = {
        { "a\033]0;title\ab", "ab" },
        { "a\033]52;c;cm0gLXJmIH4=\033\\b", "ab" },
        { "a\033]52;c;x\033]y\ab", "ab" },
        { "a\033P$q\"p\033\\b", "ab" },
        { "a\033_apc\033\\b\033^pm\033\\c\033Xsos\033\\d", "abcd" },
        { "a\033ktitle\033\\b", "ab" },
        { "a\033[21tb\033[c\033[>c\033[5n\033[?6n\033[x\033[0qd", "abd" },
        { "a\033[?1000hb\033[?2004h\033[?1;1000h\033[?1004h", "ab" },
        { "a\033[20hb\033[!p\033c\033[4;20h\033[$yd\033[1 q", "abd" },
        { "a\033[99999999bb\033[=1;2u", "ab" },
        { "a\005\016\017\177b", "ab" },
        { "a\2331mb\302\2331mc\2350;x\a", "a?1mb?1mc?0;x\a" },
        { "a\377\300\200\355\240\200b", "a????b" },
        { "a\033", "a" },
        { "a\033[31", "a" },
        { "a\033[3\n1mb", "a\n1mb" },
        { "a\033\033[1mb", "a\033[1mb" },
        { "a\033#8b\033%Gc\033 Fd", "a8bGcFd" },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(all); i++) {
        check(all[i].bytes, all[i].want);
    }
}

/* A sequence of any length keeps nothing, and ends. */
static void test_long(void)
{
    g_autofree char *digits = g_strnfill(100000, '1');
    g_autofree char *bytes = g_strconcat("a\033[", digits, "mb", NULL);
    g_autofree char *text = g_strconcat("a\033]", digits, "\ab", NULL);

    check(bytes, "ab");
    check(text, "ab");
}

/* What passes would pass again, and has no control that is not known. */
static void test_random(void)
{
    static const char bytes[] = "\033\033\033[[]P?;0123456789hlmnqtcHJ\a\\(B"
                                "\233\302\x9d\n x";

    for (unsigned i = 0; i < ROUNDS; i++) {
        g_autofree char *once = NULL, *twice = NULL;
        char in[60];

        for (unsigned k = 0; k < sizeof(in); k++) {
            in[k] = bytes[g_test_rand_int_range(0, sizeof(bytes) - 1)];
        }
        once = filter_in(in, sizeof(in), 7);
        twice = filter_in(once, strlen(once), 3);
        g_assert_cmpstr(twice, ==, once);
        g_assert_true(g_utf8_validate(once, -1, NULL));
        g_assert_null(strstr(once, "\033]"));
        g_assert_null(strstr(once, "\033P"));
        g_assert_null(strstr(once, "\302\x9d"));
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/terminal-filter/passes", test_passes);
    g_test_add_func("/terminal-filter/left-out", test_left_out);
    g_test_add_func("/terminal-filter/long", test_long);
    g_test_add_func("/terminal-filter/random", test_random);
    return g_test_run();
}
