/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Lines in the form of /proc/kallsyms: good ones, and those that are skipped
 */

#include <glib.h>
#include <string.h>

#include "util/kallsyms-line.h"

static void check(const char *line, uint64_t address, char type,
                  const char *name, const char *module)
{
    /* No byte after the line is read: sanitizers would see it. */
    g_autofree char *copy = g_memdup2(line, strlen(line));
    struct btrail_kallsyms_line s;

    g_assert_true(btrail_kallsyms_parse(copy, strlen(line), &s));
    g_assert_cmpuint(s.address, ==, address);
    g_assert_cmpint(s.type, ==, type);
    g_assert_cmpmem(s.name, s.name_size, name, strlen(name));
    if (module) {
        g_assert_cmpmem(s.module, s.module_size, module, strlen(module));
    } else {
        g_assert_null(s.module);
    }
}

static void test_good(void)
{
    check("ffffffff81000000 T _text", UINT64_C(0xffffffff81000000), 'T',
          "_text", NULL);
    check("ffffffffc0000010 t f\t[mod]", UINT64_C(0xffffffffc0000010), 't',
          "f", "mod");
    check("0xff d x [m] ", 0xff, 'd', "x", "m");
    check("0 A fixed_percpu_data", 0, 'A', "fixed_percpu_data", NULL);
    check("00000000000000000001 ? a", 1, '?', "a", NULL);
}

static void test_bad(void)
{
    static const char *const lines[] = {
        "", "1", "1 ", "1 T", "1 T ", " 1 T a", "x T a", "1-2 T a", "1 TT a",
        "1  T a", "1\tT a", "1 T a b", "1 T a [", "1 T a []", "1 T a m]",
        "10000000000000000 T a", "1 T a\t[m", "1 T  \t ",
    };
    struct btrail_kallsyms_line s;
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(lines); i++) {
        size_t size = strlen(lines[i]);
        g_autofree char *copy = g_memdup2(lines[i], size);

        g_assert_false(btrail_kallsyms_parse(copy, size, &s));
    }
}

static void test_next(void)
{
    static const char lines[] = "1 T a\n\nnothing\n2 T b\t[m]\n3 T c";
    const char *text = lines, *end = lines + strlen(lines);
    struct btrail_kallsyms_line s;
    uint64_t n;

    for (n = 1; n <= 3; n++) {
        g_assert_true(btrail_kallsyms_next(&text, end, &s));
        g_assert_cmpuint(s.address, ==, n);
    }
    g_assert_false(btrail_kallsyms_next(&text, end, &s));
    g_assert_true(text == end);
}

static void test_end(void)
{
    static const struct {
        const char *line;
        bool end;
    } lines[] = {
        { "ffffffffc0001000 e .end\t[mod]", true },
        { "ffffffff82000000 e .end", true },
        { "ffffffff82000000 t .end", false },
        { "ffffffff82000000 e .ends", false },
        { "ffffffff82000000 e end", false },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(lines); i++) {
        struct btrail_kallsyms_line s;

        g_assert_true(btrail_kallsyms_parse(lines[i].line,
                                            strlen(lines[i].line), &s));
        g_assert_true(btrail_kallsyms_is_end(&s) == lines[i].end);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/kallsyms-line/good", test_good);
    g_test_add_func("/kallsyms-line/bad", test_bad);
    g_test_add_func("/kallsyms-line/next", test_next);
    g_test_add_func("/kallsyms-line/end", test_end);
    return g_test_run();
}
