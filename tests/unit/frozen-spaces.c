/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Address spaces of a stream: which are seen, and which never decoded
 */

#include <glib.h>

#include "pt/frozen-spaces.h"

static void check(const struct frozen_spaces *s, uint64_t seen, uint64_t never,
                  bool more)
{
    const struct frozen_spaces_count c = frozen_spaces_counted(s);

    g_assert_cmpuint(c.seen, ==, seen);
    g_assert_cmpuint(c.never, ==, never);
    g_assert_cmpint(c.more, ==, more);
}

static void test_count(void)
{
    struct frozen_spaces *s = frozen_spaces_new(), *t = frozen_spaces_new();

    check(s, 0, 0, false);
    /* Only the kernel runs in it: nothing of it fails. */
    frozen_spaces_see(s, 0x1000);
    check(s, 1, 0, false);
    frozen_spaces_fail(s, 0x2000);
    frozen_spaces_fail(s, 0x2000);
    check(s, 2, 1, false);
    /* It is decoded at another time. */
    frozen_spaces_read(s, 0x3000);
    frozen_spaces_decode(s, 0x3000);
    frozen_spaces_fail(s, 0x3000);
    check(s, 3, 1, false);
    /* Of code that was read, nothing came; what came was of none. */
    frozen_spaces_read(s, 0x2000);
    frozen_spaces_fail(t, 0x4000);
    check(s, 3, 1, false);
    frozen_spaces_decode(t, 0x4000);
    check(t, 1, 1, false);
    frozen_spaces_decode(t, 0x2000);
    frozen_spaces_see(t, 0x1000);
    check(t, 3, 1, false);
    /* One vCPU could decode it, and another one could not. */
    frozen_spaces_add(s, t);
    check(s, 4, 1, false);
    frozen_spaces_free(s);
    frozen_spaces_free(t);
    frozen_spaces_free(NULL);
}

/* A guest can load anything into CR3. */
static void test_many(void)
{
    struct frozen_spaces *s = frozen_spaces_new(), *t = frozen_spaces_new();

    for (uint64_t i = 0; i < FROZEN_SPACES_MAX; i++) {
        frozen_spaces_fail(s, i << 12);
    }
    check(s, FROZEN_SPACES_MAX, FROZEN_SPACES_MAX, false);
    for (uint64_t i = 0; i < 3; i++) {
        frozen_spaces_see(s, (FROZEN_SPACES_MAX + i) << 12);
        frozen_spaces_read(s, i << 12);
        frozen_spaces_decode(s, i << 12);
    }
    check(s, FROZEN_SPACES_MAX, FROZEN_SPACES_MAX - 3, true);
    frozen_spaces_add(t, s);
    check(t, FROZEN_SPACES_MAX, FROZEN_SPACES_MAX - 3, true);
    frozen_spaces_free(s);
    frozen_spaces_free(t);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/frozen-spaces/count", test_count);
    g_test_add_func("/frozen-spaces/many", test_many);
    return g_test_run();
}
