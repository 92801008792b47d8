/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Numbers of kernels, and whose they are
 */

#include <glib.h>
#include <string.h>

#include "guest-linux/kernel-numbers.h"

static struct linux_kernel *kernel(const char *release, uint64_t root,
                                   uint64_t banner)
{
    static struct linux_kernel k;

    k = (struct linux_kernel) { .root = root, .banner = banner };
    strcpy(k.release, release);
    return &k;
}

static void test_numbers(void)
{
    struct kernel_numbers *n = kernel_numbers_new();
    uint64_t held = 0, before;
    char **list;

    g_assert_null(kernel_numbers_list(n));
    g_assert_cmpuint(kernel_numbers_take(n, kernel("6.1", 1, 2), 0, n, &held,
                                         &before), ==, 1);
    g_assert_cmpuint(kernel_numbers_take(n, kernel("6.1", 2, 2), 0, n, &held,
                                         &before), ==, 2);
    g_assert_cmpuint(kernel_numbers_take(n, kernel("6.1", 1, 1), 0, n, &held,
                                         &before), ==, 3);
    g_assert_cmpuint(kernel_numbers_take(n, kernel("6.2", 1, 2), 0, n, &held,
                                         &before), ==, 4);
    /* The kernel of a nested guest, and of another one with the same image */
    g_assert_cmpuint(kernel_numbers_take(n, kernel("6.1", 1, 2), 5, n, &held,
                                         &before), ==, 5);
    g_assert_cmpuint(kernel_numbers_take(n, kernel("6.1", 1, 2), 6, n, &held,
                                         &before), ==, 6);
    g_assert_cmpuint(kernel_numbers_take(n, kernel("6.1", 1, 2), 0, n, &held,
                                         &before), ==, 1);
    list = kernel_numbers_list(n);
    g_assert_cmpuint(g_strv_length(list), ==, 6);
    g_assert_cmpstr(list[3], ==, "6.2");
    g_strfreev(list);
    kernel_numbers_unref(n);
}

static void test_many(void)
{
    struct kernel_numbers *n = kernel_numbers_new();
    uint64_t held = 0, before;

    for (unsigned i = 1; i <= KERNEL_NUMBERS_MAX; i++) {
        g_assert_cmpuint(kernel_numbers_take(n, kernel("6.1", i, 0), 0, n,
                                             &held, &before), ==, i);
    }
    g_assert_cmpuint(kernel_numbers_take(n, kernel("6.1", 1000, 0), 0, n,
                                         &held, &before), ==, 0);
    g_assert_cmpuint(kernel_numbers_take(n, kernel("6.1", 7, 0), 0, n, &held,
                                         &before), ==, 7);
    kernel_numbers_unref(n);
}

/* The last one to find a kernel has it, and what was held before. */
static void test_owners(void)
{
    struct kernel_numbers *n = kernel_numbers_new();
    uint64_t held[2] = { 11, 12 }, before;

    g_assert_cmpuint(kernel_numbers_users(n), ==, 1);
    kernel_numbers_ref(n);
    g_assert_cmpuint(kernel_numbers_users(n), ==, 2);
    g_assert_false(kernel_numbers_is_of(n, 0, &held[0]));
    g_assert_false(kernel_numbers_is_of(n, 1, &held[0]));
    kernel_numbers_take(n, kernel("6.1", 1, 2), 3, &held[0], &held[0],
                        &before);
    g_assert_cmpuint(before, ==, 0);
    kernel_numbers_take(n, kernel("6.1", 1, 2), 3, &held[0], &held[0],
                        &before);
    g_assert_cmpuint(before, ==, 0);
    g_assert_true(kernel_numbers_is_of(n, 1, &held[0]));
    kernel_numbers_take(n, kernel("6.1", 1, 2), 3, &held[1], &held[1],
                        &before);
    g_assert_cmpuint(before, ==, 11);
    g_assert_cmpuint(held[0], ==, 0);
    g_assert_false(kernel_numbers_is_of(n, 1, &held[0]));
    g_assert_true(kernel_numbers_is_of(n, 1, &held[1]));
    /* One that has lost it leaves nothing of another's. */
    kernel_numbers_leave(n, &held[0]);
    g_assert_true(kernel_numbers_is_of(n, 1, &held[1]));
    kernel_numbers_leave(n, &held[1]);
    g_assert_false(kernel_numbers_is_of(n, 1, &held[1]));
    kernel_numbers_take(n, kernel("6.1", 1, 2), 3, &held[0], &held[0],
                        &before);
    g_assert_cmpuint(before, ==, 0);
    g_assert_cmpuint(held[1], ==, 12);
    kernel_numbers_unref(n);
    g_assert_cmpuint(kernel_numbers_users(n), ==, 1);
    kernel_numbers_unref(n);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/kernel-numbers/numbers", test_numbers);
    g_test_add_func("/kernel-numbers/many", test_many);
    g_test_add_func("/kernel-numbers/owners", test_owners);
    return g_test_run();
}
