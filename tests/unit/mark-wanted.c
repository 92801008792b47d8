/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Marks as people name them: names with any character, conditions
 */

#include <glib.h>

#include "util/mark-wanted.h"

static void test_parse(void)
{
    static const struct {
        const char *text;
        const char *name;
        enum mark_condition condition;
        uint64_t value;
        bool is_signed;
    } cases[] = {
        { "mark:", "" },
        { "mark:build begins", "build begins" },
        { "mark:a=5", "a", MARK_EQUAL, 5 },
        { "mark:a!=5", "a", MARK_NOT_EQUAL, 5 },
        { "mark:a<5", "a", MARK_BELOW, 5 },
        { "mark:a<=5", "a", MARK_AT_MOST, 5 },
        { "mark:a>0xff", "a", MARK_ABOVE, 255 },
        { "mark:a>=5", "a", MARK_AT_LEAST, 5 },
        { "mark:a=-1", "a", MARK_EQUAL, UINT64_MAX, true },
        { "mark:a<+0", "a", MARK_BELOW, 0, true },
        { "mark:a>-0x10", "a", MARK_ABOVE, -UINT64_C(16), true },
        { "mark:=5", "", MARK_EQUAL, 5 },
        { "mark:!=5", "", MARK_NOT_EQUAL, 5 },
        /* What is no condition belongs to the name. */
        { "mark:a=b", "a=b" }, { "mark:a=", "a=" }, { "mark:a<=", "a<=" },
        { "mark:a!5", "a!5" }, { "mark:a=5 ", "a=5 " },
        { "mark:a= 5", "a= 5" }, { "mark:a=+-5", "a=+-5" },
        { "mark:a=18446744073709551616", "a=18446744073709551616" },
        { "mark:a=b=7", "a=b", MARK_EQUAL, 7 },
        { "mark:a=5>7", "a=5", MARK_ABOVE, 7 },
        { "mark:a>=<=7", "a>=", MARK_AT_MOST, 7 },
        { "mark:a==7", "a=", MARK_EQUAL, 7 },
        { "mark:a=>7", "a=", MARK_ABOVE, 7 },
        { "mark:mark:a<7", "mark:a", MARK_BELOW, 7 },
    };
    struct mark_wanted wanted, copy;

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_assert_true(mark_wanted_parse(cases[i].text, &wanted));
        mark_wanted_copy(&copy, &wanted);
        mark_wanted_clear(&wanted);
        g_assert_cmpstr(copy.name, ==, cases[i].name);
        g_assert_cmpint(copy.condition, ==, cases[i].condition);
        g_assert_cmpint(copy.is_signed, ==, cases[i].is_signed);
        if (copy.condition) {
            g_assert_cmphex(copy.value, ==, cases[i].value);
        }
        mark_wanted_clear(&copy);
    }
    g_assert_false(mark_wanted_parse("", &wanted));
    g_assert_false(mark_wanted_parse("mark", &wanted));
    g_assert_false(mark_wanted_parse("marks:a", &wanted));
    g_assert_null(wanted.name);
}

static bool meets(const char *text, uint64_t value)
{
    struct mark_wanted wanted;
    bool ok;

    g_assert_true(mark_wanted_parse(text, &wanted));
    ok = mark_wanted_has_value(&wanted, value);
    mark_wanted_clear(&wanted);
    return ok;
}

/* Each operator just below, at and just above the value */
static void check_around(const char *value)
{
    static const struct {
        const char *operator;
        bool on[3];
    } rows[] = {
        { "=", { false, true, false } }, { "!=", { true, false, true } },
        { "<", { true, false, false } }, { "<=", { true, true, false } },
        { ">", { false, false, true } }, { ">=", { false, true, true } },
    };
    gint64 n = g_ascii_strtoll(value, NULL, 10);

    for (unsigned i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autofree char *text = g_strdup_printf("mark:x%s%s",
                                                rows[i].operator, value);

        for (int k = -1; k <= 1; k++) {
            g_assert_cmpint(meets(text, (uint64_t)n + k), ==,
                            rows[i].on[k + 1]);
        }
    }
}

static void test_values(void)
{
    check_around("5");
    check_around("-5");
    check_around("+0");
    /* Without a sign, what is below 0 is large. */
    g_assert_false(meets("mark:x<0", UINT64_MAX));
    g_assert_true(meets("mark:x>5", UINT64_MAX));
    g_assert_true(meets("mark:x<+5", UINT64_MAX));
    g_assert_false(meets("mark:x>-5", UINT64_C(1) << 63));
    g_assert_true(meets("mark:x>-5", UINT64_MAX >> 1));
    g_assert_true(meets("mark:x", 7));
}

static void test_names(void)
{
    struct mark_wanted wanted;

    mark_wanted_parse("mark:a", &wanted);
    g_assert_true(mark_wanted_has_name(&wanted, "a"));
    g_assert_false(mark_wanted_has_name(&wanted, "ab"));
    g_assert_false(mark_wanted_has_name(&wanted, ""));
    mark_wanted_clear(&wanted);
    mark_wanted_parse("mark:", &wanted);
    g_assert_true(mark_wanted_has_name(&wanted, "ab"));
    mark_wanted_clear(&wanted);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/mark-wanted/parse", test_parse);
    g_test_add_func("/mark-wanted/values", test_values);
    g_test_add_func("/mark-wanted/names", test_names);
    return g_test_run();
}
