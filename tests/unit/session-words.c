/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of util/session-words.h
 */

#include <glib.h>

#include "backtrail/words.h"
#include "util/session-words.h"

/* All functions of words for which WORD_VALUES has to be enough */
static word_fn *const all[] = {
    session_mode_name, trigger_action_name,
    names_wanted_name, btrail_overflow_name, btrail_privilege_name,
};

static void test_find(void)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(all); i++) {
        unsigned value = 0, n = 0;

        for (unsigned k = 0; k < 100; k++) {
            if (all[i](k)) {
                n++;
                g_assert_true(word_find(all[i], all[i](k), &value));
                g_assert_cmpuint(value, ==, k);
            }
        }
        g_assert_cmpuint(n, >, 1);
        g_assert_false(word_find(all[i], "", &value));
        g_assert_false(word_find(all[i], NULL, &value));
    }
}

static void check(word_fn *name, const char *quote,
                  const char *expected)
{
    g_autofree char *list = word_list(name, quote);

    g_assert_cmpstr(list, ==, expected);
}

static void test_list(void)
{
    check(session_mode_name, "", "continuous or last");
    check(names_wanted_name, "'", "'off', 'auto' or 'all'");
    /* It has no value 0. */
    check(trigger_action_name, "", "start, stop or dump");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/session-words/find", test_find);
    g_test_add_func("/session-words/list", test_list);
    return g_test_run();
}
