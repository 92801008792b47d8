/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of text for people: formats are those of printf(), and strings are
 * quoted
 */

#include <inttypes.h>
#include <string.h>

#include "cli/print.h"

static GString *printed;

static void G_GNUC_PRINTF(1, 2) take(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    g_string_vprintf(printed, format, args);
    va_end(args);
}

/* Prints with both, and compares. */
#define SAME(...)                                                       \
    do {                                                                \
        char *text = NULL;                                              \
        size_t size;                                                    \
        FILE *file = open_memstream(&text, &size);                      \
                                                                        \
        cli_fprintf(file, __VA_ARGS__);                                 \
        fclose(file);                                                   \
        take(__VA_ARGS__);                                              \
        g_assert_cmpstr(text, ==, printed->str);                        \
        free(text);                                                     \
    } while (0)

#define PRINTS(expected, ...)                                           \
    do {                                                                \
        char *text = NULL;                                              \
        size_t size;                                                    \
        FILE *file = open_memstream(&text, &size);                      \
                                                                        \
        cli_fprintf(file, __VA_ARGS__);                                 \
        fclose(file);                                                   \
        g_assert_cmpstr(text, ==, expected);                            \
        free(text);                                                     \
    } while (0)

static void test_numbers(void)
{
    printed = g_string_new(NULL);
    SAME("%s", "");
    SAME("plain\n\t100%%\n");
    SAME("%u %d %x %c|", 7u, -7, 0xffffffffu, 'c');
    SAME("%" PRIu64 " %" PRId64 " 0x%016" PRIx64, UINT64_MAX, INT64_MIN,
         (uint64_t)1 << 63);
    SAME("%llu %lld %zu", ~0ull, -1ll, (size_t)-1);
    SAME("%5u|%-5u|%05u|%*d|%-*d|", 12u, 12u, 12u, 6, -3, 6, -3);
    SAME("%7.2f%% %g %.0f %.3f %14.6f", 12.345, 1e-9, 2.5, 1e20, -0.5);
    SAME("%8s|%-8s|%-*s|%*s|%2s|", "ab", "cd", 5, "ef", 5, "gh", "longer");
    g_string_free(printed, TRUE);
}

static void test_strings(void)
{
    /* With a string that is quoted, all else is as printf() prints it. */
    PRINTS("\\t 7 -7 ffffffff c 100% 18446744073709551615 -1 0x00ff 00012 "
           "   5|5   | 12.35% 1e-09 2 -0.500000|",
           "%s %u %d %x %c 100%% %" PRIu64 " %lld 0x%04zx %05u %*d|%-*d| "
           "%.2f%% %g %.0f %9.6f|", "\t", 7u, -7, 0xffffffffu, 'c', UINT64_MAX,
           -1ll, (size_t)0xff, 12u, 4, 5, -4, 5, 12.35, 1e-9, 2.5, -0.5);
    PRINTS("a\n\\n\\x1b[m b\\\\\n", "a\n%s b%s\n", "\n\x1b[m", "\\");
    /* Widths are of what is seen, whatever it takes. */
    PRINTS("|\\x1b  |  \\x1b|\\x1b\\x1b|", "|%-6s|%6s|%-6s|", "\x1b", "\x1b",
           "\x1b\x1b");
    PRINTS("|\xc3\xa4 | \xc3\xa4|", "|%-2s|%2s|", "\xc3\xa4", "\xc3\xa4");
    g_assert_cmpint(cli_width("\x1b\xc3\xa4"), ==, 5);
}

/* A message is one line, with what is in it. */
/* A header comes with what follows it, or not at all. */
static void test_header(void)
{
    if (g_test_subprocess()) {
        cli_hold();
        cli_printf("# %s\n", "none");
        cli_held();
        cli_hold();
        cli_printf("# %s %u\n", "a\nb", 1u);
        cli_printf("#\n");
        cli_held();
        cli_printf("row\n");
        cli_hold();
        cli_printf("# dropped\n");
        cli_held();
        cli_drop_held();
        cli_printf("end\n");
        cli_hold();
        cli_printf("# last\n");
        cli_held();
        exit(0);
    }
    g_test_trap_subprocess(NULL, 0, 0);
    g_test_trap_assert_passed();
    g_test_trap_assert_stdout("*# a\\nb 1\n#\nrow\nend\n");
    g_test_trap_assert_stdout_unmatched("*none*");
    g_test_trap_assert_stdout_unmatched("*dropped*");
    g_test_trap_assert_stdout_unmatched("*last*");
}

static void test_error(void)
{
    if (g_test_subprocess()) {
        cli_error("%s: 100%% of %d", "\nbacktrail: forged\x1b]0;x\a", 5);
        return;
    }
    g_test_trap_subprocess(NULL, 0, 0);
    g_test_trap_assert_passed();
    g_test_trap_assert_stderr(
        "backtrail: \\nbacktrail: forged\\x1b]0;x\\a: 100% of 5\n");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/print/numbers", test_numbers);
    g_test_add_func("/print/strings", test_strings);
    g_test_add_func("/print/header", test_header);
    g_test_add_func("/print/error", test_error);
    return g_test_run();
}
