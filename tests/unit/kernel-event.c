/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Kernels, as KERNEL events name them
 */

#include <glib.h>
#include <string.h>

#include "backtrail/trace.h"

static struct btrail_kernel read_event(uint16_t flags, uint64_t number,
                                       uint64_t root)
{
    const struct btrail_event e = {
        .type = BTRAIL_EVENT_KERNEL, .reason = flags,
        .data = { number, root },
    };
    struct btrail_kernel kernel;

    memset(&kernel, 0xff, sizeof(kernel));
    g_assert_cmpint(btrail_event_kernel(&e, &kernel), ==, 0);
    return kernel;
}

static void test_numbers(void)
{
    struct btrail_kernel k = read_event(0, 7, 0);

    g_assert_true(k.known && !k.nested);
    g_assert_cmpuint(k.number, ==, 7);
    g_assert_cmpuint(read_event(0, UINT16_MAX, 0).number, ==, UINT16_MAX);
    /* Sideband cannot have these: they must not become others. */
    k = read_event(0, UINT16_MAX + 2, 0);
    g_assert_true(k.known);
    g_assert_cmpuint(k.number, ==, 0);
    g_assert_cmpuint(read_event(0, UINT64_MAX, 0).number, ==, 0);
}

static void test_nested(void)
{
    struct btrail_kernel k = read_event(BTRAIL_KERNEL_NESTED, 3, 0x7000);

    g_assert_true(k.known && k.nested);
    g_assert_cmpuint(k.number, ==, 3);
    g_assert_cmphex(k.nested_root, ==, 0x7000);
}

static void test_unknown(void)
{
    struct btrail_kernel k = read_event(BTRAIL_KERNEL_UNKNOWN |
                                        BTRAIL_KERNEL_NESTED, 3, 0x7000);

    g_assert_false(k.known || k.nested || k.number || k.nested_root);
}

static void test_errors(void)
{
    struct btrail_event e = { .type = BTRAIL_EVENT_TASK };
    struct btrail_kernel k;

    g_assert_cmpint(btrail_event_kernel(&e, &k), ==, -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_event_kernel(NULL, &k), ==, -BTRAIL_ERR_ARGUMENT);
    e.type = BTRAIL_EVENT_KERNEL;
    g_assert_cmpint(btrail_event_kernel(&e, NULL), ==, -BTRAIL_ERR_ARGUMENT);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/kernel-event/numbers", test_numbers);
    g_test_add_func("/kernel-event/nested", test_nested);
    g_test_add_func("/kernel-event/unknown", test_unknown);
    g_test_add_func("/kernel-event/errors", test_errors);
    return g_test_run();
}
