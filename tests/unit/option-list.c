/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of option-list.c
 */

#include "replay/option-list.h"

static void check(const char *text, const char *implied, const char *again)
{
    g_autoptr(GPtrArray) list = option_list_parse(text, implied);
    g_autofree char *formatted = option_list_format(list, implied);

    g_assert_cmpstr(formatted, ==, again);
}

static void test_round(void)
{
    check("", NULL, "");
    check("pc,hpet=off", "type", "pc,hpet=off");
    check("type=pc,hpet=off", "type", "pc,hpet=off");
    check("file=a,,b,if=none", NULL, "file=a,,b,if=none");
    check("on,off", NULL, "on,off");
    check("a=,b", NULL, "a=,b");
    check("file=a,", NULL, "file=a");
    check("file=,,,,x=,y", NULL, "file=,,,,x=,y");
}

static void test_values(void)
{
    g_autoptr(GPtrArray) list = option_list_parse("q35,a=1,b,a=x,,y=z",
                                                  "type");
    g_autofree char *taken = NULL, *text = NULL;
    static const char *const some[] = { "type", "a", NULL };
    static const char *const all[] = { "type", "a", "b", NULL };

    g_assert_cmpstr(option_list_get(list, "type"), ==, "q35");
    g_assert_cmpstr(option_list_get(list, "a"), ==, "x,y=z");
    g_assert_cmpstr(option_list_get(list, "b"), ==, "on");
    g_assert_null(option_list_get(list, "c"));
    g_assert_cmpstr(option_list_unknown(list, some), ==, "b");
    g_assert_null(option_list_unknown(list, all));
    taken = option_list_take(list, "a");
    g_assert_cmpstr(taken, ==, "x,y=z");
    g_assert_null(option_list_take(list, "a"));
    option_list_set(list, "b", "2");
    text = option_list_format(list, "type");
    g_assert_cmpstr(text, ==, "q35,b=2");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/option-list/round", test_round);
    g_test_add_func("/option-list/values", test_values);
    return g_test_run();
}
