/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The parsers of numbers, sizes, times and ranges: what they accept, how they
 * round, and that a refused text changes nothing
 */

#include <glib.h>

#include "util/parse.h"

/* @rest: what follows the value; NULL if the text must be refused */
struct sample {
    const char *text;
    uint64_t value;
    const char *rest;
};

static void check(parse_text_fn *parse, const struct sample *samples,
                  unsigned n)
{
    for (; n--; samples++) {
        const char *end = NULL;
        uint64_t value = 1;

        g_test_message("'%s'", samples->text);
        g_assert_true(parse(samples->text, &end, &value) == !!samples->rest);
        g_assert_cmpstr(end, ==, samples->rest);
        g_assert_cmpuint(value, ==, samples->rest ? samples->value : 1);
        value = 1;
        if (samples->rest && !*samples->rest) {
            g_assert_true(parse(samples->text, NULL, &value));
            g_assert_cmpuint(value, ==, samples->value);
        } else {
            g_assert_false(parse(samples->text, NULL, &value));
            g_assert_cmpuint(value, ==, 1);
        }
    }
}

static void test_number(void)
{
    static const struct sample samples[] = {
        { "0", 0, "" }, { "4096", 4096, "" }, { "010", 10, "" },
        { "0x1000", 4096, "" }, { "0XfF", 255, "" },
        { "18446744073709551615", UINT64_MAX, "" },
        { "0xffffffffffffffff", UINT64_MAX, "" },
        { "1 ", 1, " " }, { "1x", 1, "x" }, { "3..7", 3, "..7" },
        { "0x", 0, "x" }, { "0xg", 0, "xg" }, { "0x-1", 0, "x-1" },
        { "0x 1", 0, "x 1" }, { "0x0x1", 0, "x1" },
        { "" }, { "ff" }, { "-1" }, { "+1" }, { " 1" },
        { "18446744073709551616" }, { "0x10000000000000000" },
    };

    check(parse_text_number, samples, G_N_ELEMENTS(samples));
}

static void test_size(void)
{
    static const struct sample samples[] = {
        { "4096", 4096, "" }, { "512k", 512 << 10, "" }, { "2M", 2 << 20, "" },
        { "1G", 1 << 30, "" }, { "3T", UINT64_C(3) << 40, "" },
        { "16777215T", UINT64_C(16777215) << 40, "" },
        { "1MB", 1 << 20, "B" }, { "1P", 1, "P" }, { "1 K", 1, " K" },
        { "M" }, { "" }, { "-1K" }, { "16777216T" },
    };

    check(parse_text_size, samples, G_N_ELEMENTS(samples));
}

static void test_time(void)
{
    static const struct sample samples[] = {
        { "3", 3000000000, "" }, { "2.5s", 2500000000, "" },
        { "500ms", 500000000, "" }, { "1.5us", 1500, "" },
        { "7ns", 7, "" }, { "1.9ns", 1, "" }, { "0.000000001", 1, "" },
        { "0.0000000019", 1, "" }, { "2min", 120000000000, "" },
        { "0.0001min", 6000000, "" }, { "1h", 3600000000000, "" },
        { "0.5h", 1800000000000, "" }, { "1000000000000ns", 1000000000000, "" },
        { "1.", 1000000000, "." }, { "1..2", 1000000000, "..2" },
        { "1 s", 1000000000, " s" }, { "1m", 1000000000, "m" },
        { "1e3", 1000000000, "e3" }, { "1ss", 1000000000, "s" },
        { ".5" }, { "-1" }, { "" }, { "99999999999999" },
        { "18446744072h" }, { "18446744073709551615ns" },
    };

    check(parse_text_time, samples, G_N_ELEMENTS(samples));
}

static void check_range(const char *text, parse_text_fn *parse,
                        uint64_t begin, uint64_t end)
{
    struct range r;

    g_assert_true(parse_text_range(text, parse, &r));
    g_assert_cmpuint(r.begin, ==, begin);
    g_assert_cmpuint(r.end, ==, end);
}

static void test_range(void)
{
    static const char *const bad[] = {
        "7..3", "7", "", ".", "1.2", "1..2x", "1...2", "a..b", "1..-2",
    };
    struct range r = { 1, 2 };
    unsigned i;

    check_range("3..7", parse_text_number, 3, 7);
    check_range("5..5", parse_text_number, 5, 5);
    check_range("..7", parse_text_number, 0, 7);
    check_range("3..", parse_text_number, 3, UINT64_MAX);
    check_range("..", parse_text_number, 0, UINT64_MAX);
    check_range("0x10..2M", parse_text_size, 16, 2 << 20);
    check_range("1.5..2", parse_text_time, 1500000000, 2000000000);
    check_range("1..2.000000001", parse_text_time, 1000000000, 2000000001);
    check_range("..250ms", parse_text_time, 0, 250000000);
    for (i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_assert_false(parse_text_range(bad[i], parse_text_number, &r));
        g_assert_cmpuint(r.begin, ==, 1);
        g_assert_cmpuint(r.end, ==, 2);
    }
}

static void test_list(void)
{
    static const char *const bad[] = {
        "", ",", "x", "1,", ",1", "1-", "3-1", "8", "0-8", "1 ", "-1", "1,,2",
        "18446744073709551616", "0-18446744073709551615",
    };
    bool set[8];
    unsigned i;

    g_assert_true(parse_text_list("0,2-3,3,0x7", set, 8));
    for (i = 0; i < 8; i++) {
        g_assert_cmpint(set[i], ==, i == 0 || i == 2 || i == 3 || i == 7);
    }
    for (i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_assert_false(parse_text_list(bad[i], set, 8));
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/parse/number", test_number);
    g_test_add_func("/parse/size", test_size);
    g_test_add_func("/parse/time", test_time);
    g_test_add_func("/parse/range", test_range);
    g_test_add_func("/parse/list", test_list);
    return g_test_run();
}
