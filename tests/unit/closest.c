/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What somebody may have meant, by hand
 */

#include <glib.h>

#include "util/closest.h"

static const char *const words[] = {
    "record", "report", "repair", "rr", "script", "cpu", "comm", "flamegraph",
};

static void check(const char *word, const char *want)
{
    struct closest c = closest_to(word);

    for (unsigned i = 0; i < G_N_ELEMENTS(words); i++) {
        closest_offer(&c, words[i]);
    }
    g_assert_cmpstr(c.found, ==, want);
}

static void test_found(void)
{
    check("recrod", "record");      /* two are swapped */
    check("reprot", "report");
    check("rpair", "repair");       /* one is missing */
    check("reportt", "report");     /* one is too many */
    check("scripd", "script");      /* one is another */
    check("com", "comm");
    check("cpi", "cpu");
    check("flmegrph", "flamegraph");
    check("record", "record");
}

static void test_none(void)
{
    check("", NULL);
    check("r", NULL);
    check("xy", NULL);
    check("frobnicate", NULL);
    check("graph", NULL);
}

static void test_closest(void)
{
    struct closest c = closest_to("panik");

    closest_offer(&c, "manic");
    g_assert_null(c.found);
    closest_offer(&c, "panic");
    closest_offer(&c, "tanik");
    /* The first of those that are as close */
    g_assert_cmpstr(c.found, ==, "panic");
    g_assert_cmpuint(c.distance, ==, 1);
    closest_offer(&c, "panik");
    g_assert_cmpstr(c.found, ==, "panik");
    g_assert_cmpuint(c.distance, ==, 0);
}

static void test_long(void)
{
    g_autofree char *word = g_strnfill(65, 'a');
    struct closest c = closest_to(word);

    closest_offer(&c, word);
    g_assert_null(c.found);
    c = closest_to(word + 1);
    closest_offer(&c, word);
    g_assert_null(c.found);
    closest_offer(&c, word + 2);
    g_assert_true(c.found == word + 2);
}

static void test_hint(void)
{
    struct closest c = closest_to("recrod");
    g_autofree char *none = closest_hint(&c), *hint = NULL;

    g_assert_cmpstr(none, ==, "");
    closest_offer(&c, "record");
    hint = closest_hint(&c);
    g_assert_cmpstr(hint, ==, " (did you mean 'record'?)");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/closest/found", test_found);
    g_test_add_func("/closest/none", test_none);
    g_test_add_func("/closest/closest", test_closest);
    g_test_add_func("/closest/long", test_long);
    g_test_add_func("/closest/hint", test_hint);
    return g_test_run();
}
