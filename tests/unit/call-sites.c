/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of drain/call-sites.h: where calls come from
 */

#include "drain/call-sites.h"

#define FROM    UINT64_C(0xffffffff81001000)

static void test_returns(void)
{
    struct call_sites *s = call_sites_new();
    uint64_t now = 7;

    g_assert_false(call_sites_may_return(s, FROM + 5));
    g_assert_false(call_sites_return(s, FROM + 5));
    g_assert_false(call_sites_has_returned(s, FROM));
    g_assert_true(call_sites_add(s, FROM, &now));
    g_assert_cmpuint(now, ==, 8);
    g_assert_true(call_sites_add(s, FROM, &now));
    g_assert_cmpuint(now, ==, 8);
    g_assert_cmpuint(call_sites_known_since(s, FROM), ==, 8);
    for (unsigned i = 0; i <= CALL_SITES_SIZE + 1; i++) {
        bool is = i >= 1 && i <= CALL_SITES_SIZE;

        g_assert_true(call_sites_return(s, FROM + i) == is);
        g_assert_true(call_sites_may_return(s, FROM + i) == is);
        g_assert_true(call_sites_match(FROM, FROM + i) == is);
    }
    /* An address with the same lower bits can be one, but is none. */
    g_assert_true(call_sites_may_return(s, FROM + 0x30000 + 5));
    g_assert_false(call_sites_return(s, FROM + 0x30000 + 5));
    call_sites_set_returned(s, FROM);
    g_assert_true(call_sites_has_returned(s, FROM));
    g_assert_false(call_sites_has_returned(s, FROM + 1));
    call_sites_free(s);
}

/* The guest chooses how many there are. */
static void test_many(void)
{
    struct call_sites *s = call_sites_new();
    uint64_t now = 0;

    for (unsigned i = 0; i < CALL_SITES_MAX; i++) {
        g_assert_true(call_sites_add(s, FROM + 16 * i, &now));
    }
    g_assert_false(call_sites_add(s, FROM - 16, &now));
    g_assert_true(call_sites_add(s, FROM, &now));
    g_assert_false(call_sites_return(s, FROM - 11));
    g_assert_cmpuint(now, ==, CALL_SITES_MAX);
    call_sites_free(s);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/call-sites/returns", test_returns);
    g_test_add_func("/call-sites/many", test_many);
    return g_test_run();
}
