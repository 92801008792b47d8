/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Errors that a function returns false with
 */

#include "util/fail.h"

static void test_message(void)
{
    GQuark domain = g_quark_from_static_string("test");
    GError *error = NULL;

    g_assert_false(fail_with(&error, domain, 3, "%s of %u", "some", 7u));
    g_assert_error(error, domain, 3);
    g_assert_cmpstr(error->message, ==, "some of 7");
    g_error_free(error);
}

static void test_nobody(void)
{
    g_assert_false(fail_with(NULL, 0, 0, "nobody asks for %s", "it"));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/message", test_message);
    g_test_add_func("/nobody", test_nobody);
    return g_test_run();
}
