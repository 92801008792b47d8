/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Strings that are kept once each: against those that were put in
 */

#include <glib.h>
#include <string.h>

#include "lib/agent/strings.h"

static void test_equal(void)
{
    struct btrail_strings *s = btrail_strings_new();
    const char *empty = btrail_strings_keep(s, NULL, 0);
    const char *one = btrail_strings_keep(s, "one", 3);
    const char *other = btrail_strings_keep(s, "one\0two", 7);

    g_assert_cmpstr(empty, ==, "");
    g_assert_cmpstr(one, ==, "one");
    g_assert_true(btrail_strings_keep(s, "", 0) == empty);
    g_assert_true(btrail_strings_keep(s, "one more", 3) == one);
    g_assert_true(other != one);
    g_assert_cmpmem(other, 8, "one\0two", 8);
    g_assert_true(btrail_strings_keep(s, "one\0two", 7) == other);
    btrail_strings_free(s);
    btrail_strings_free(NULL);
}

/* Equal ones are at one place, and take memory once; others do not move. */
static void test_many(void)
{
    enum { N = 20000 };
    struct btrail_strings *s = btrail_strings_new();
    g_autofree const char **kept = g_new(const char *, N);
    uint64_t memory = 0;

    for (unsigned pass = 0; pass < 2; pass++) {
        for (unsigned i = 0; i < N; i++) {
            g_autofree char *text = g_strdup_printf("%*u", i % 100, i);
            const char *place = btrail_strings_keep(s, text, strlen(text));

            g_assert_cmpstr(place, ==, text);
            g_assert_true(!pass || place == kept[i]);
            kept[i] = place;
        }
        if (!pass) {
            memory = btrail_strings_memory(s);
            g_assert_cmpuint(memory, >, N * 50);
        }
    }
    g_assert_cmpuint(btrail_strings_memory(s), ==, memory);
    btrail_strings_free(s);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/strings/equal", test_equal);
    g_test_add_func("/strings/many", test_many);
    return g_test_run();
}
