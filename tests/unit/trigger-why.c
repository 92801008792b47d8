/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of service/trigger-why.h: why a trigger has acted
 */

#include <glib.h>

#include "service/trigger-why.h"

static void check(const char *until, uint64_t ns, bool lasts, bool unsure,
                  const char *expected)
{
    const struct trigger_hit hit = {
        .took = { ns, lasts }, .unsure = unsure,
    };
    g_autofree char *why = trigger_why("p:x", until, &hit);

    g_assert_cmpstr(why, ==, expected);
}

static void test_words(void)
{
    check(NULL, 0, false, false, "trigger p:x");
    check(NULL, 7213400, false, false,
          "trigger p:x, which took at least 7.213 ms");
    check(NULL, 7000000, true, false,
          "trigger p:x, which had taken at least 7.000 ms and had not ended");
    check("mark:b", 7000000, false, false,
          "trigger p:x, at least 7.000 ms until mark:b");
    check("mark:b", 7000000, true, true,
          "trigger p:x, at least 7.000 ms without mark:b, if no mark was "
          "missed: the code of some was forgotten");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/trigger-why/words", test_words);
    return g_test_run();
}
