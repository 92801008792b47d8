/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The identity of a process: what is compared, and what is not
 */

#include <string.h>

#include "lib/agent/identity.h"

static void test_each_member(void)
{
    const struct btrail_process p = {
        .pgd = 1, .user_pgd = 2, .mm = 3, .start_time = 4, .pid = 5,
    };
    struct btrail_process q = p;
    struct btrail_identity a = btrail_identity_of(&p);
    struct btrail_identity b = a;

    g_assert_true(btrail_identity_equal(&a, &b));
    g_assert_cmpuint(btrail_identity_hash(&a), ==, btrail_identity_hash(&b));
    b.pgd++;
    g_assert_false(btrail_identity_equal(&a, &b));
    b = a;
    b.user_pgd++;
    g_assert_false(btrail_identity_equal(&a, &b));
    b = a;
    b.mm++;
    g_assert_false(btrail_identity_equal(&a, &b));
    b = a;
    b.start_time++;
    g_assert_false(btrail_identity_equal(&a, &b));
    b = a;
    b.pid++;
    g_assert_false(btrail_identity_equal(&a, &b));

    /* What else a process has does not matter. */
    q.user_pgd++;
    q.first = 6;
    q.flags = BTRAIL_PROCESS_SEEN;
    b = btrail_identity_of(&q);
    g_assert_true(btrail_identity_equal(&a, &b));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/identity/each-member", test_each_member);
    return g_test_run();
}
