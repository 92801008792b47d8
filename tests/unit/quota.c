/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The limits of guests: what each refuses, and what ends sessions
 */

#include <string.h>

#include "service/quota.h"

static const struct config config = {
    .each = { .sessions = 2, .disk = 100, .memory = 50 },
    .all = { .sessions = 3, .disk = 150, .memory = 70 },
    .keep_free = 10,
};

static void admitted_user(struct usage guest, struct usage user,
                          struct usage all, uint64_t memory,
                          uint64_t space, const char *why)
{
    g_autoptr(GError) error = NULL;
    bool ok = quota_admit(&config, &guest, &user, &all, memory,
                          space, &error);

    g_assert_true(ok == !why);
    if (why) {
        g_assert_error(error, SERVICE_ERROR, SERVICE_ERROR_LIMIT);
        g_test_message("%s", error->message);
        g_assert_nonnull(strstr(error->message, why));
    }
}

static void admitted(struct usage guest, struct usage all,
                     uint64_t memory, uint64_t space, const char *why)
{
    admitted_user(guest, guest, all, memory, space, why);
}

#define USAGE(s, d, m) (struct usage) { s, d, m }

static void test_admit(void)
{
    admitted(USAGE(1, 99, 0), USAGE(2, 149, 0), 50, 11, NULL);
    admitted(USAGE(2, 0, 0), USAGE(2, 0, 0), 1, 11, "this guest may have 2");
    admitted(USAGE(0, 0, 0), USAGE(3, 0, 0), 1, 11, "all guests together");
    admitted(USAGE(0, 100, 0), USAGE(0, 100, 0), 1, 11, "remove some");
    admitted(USAGE(0, 0, 0), USAGE(0, 150, 0), 1, 11, "remove some");
    admitted(USAGE(0, 0, 0), USAGE(0, 0, 0), 51, 11,
             "raise 'memory' in [each-guest]");
    admitted(USAGE(1, 0, 50), USAGE(1, 0, 50), 1, 11, "memory");
    admitted(USAGE(1, 0, UINT64_MAX), USAGE(1, 0, 0), 1, 11, "memory");
    admitted(USAGE(0, 0, 0), USAGE(1, 0, 30), 41, 11, "all guests together");
    admitted(USAGE(0, 0, 0), USAGE(1, 0, 0), UINT64_MAX, 11, "memory");
    admitted(USAGE(0, 0, 0), USAGE(0, 0, 0), 1, 10, "stay free");
}

/* One user leaves something for others. */
static void test_share(void)
{
    g_assert_cmpuint(quota_share(0), ==, 0);
    g_assert_cmpuint(quota_share(1), ==, 1);
    g_assert_cmpuint(quota_share(256), ==, 192);
    g_assert_cmpuint(quota_share(UINT64_MAX), <, UINT64_MAX);
    admitted_user(USAGE(0, 0, 0), USAGE(2, 0, 0), USAGE(2, 0, 0), 1, 11, NULL);
    admitted_user(USAGE(0, 0, 0), USAGE(3, 0, 0), USAGE(2, 0, 0), 1, 11,
                  "the guests of one user may have 3 sessions");
    admitted_user(USAGE(0, 0, 0), USAGE(1, 0, 43), USAGE(1, 0, 43), 10, 11,
                  NULL);
    admitted_user(USAGE(0, 0, 0), USAGE(1, 0, 44), USAGE(1, 0, 44), 10, 11,
                  "the guests of one user would take 54 bytes");
}

/* No limits except what is kept free */
static void test_none(void)
{
    const struct config none = { NULL };
    const struct usage much = { UINT64_MAX, UINT64_MAX, UINT64_MAX };

    g_assert_true(quota_admit(&none, &much, &much, &much,
                              UINT64_MAX, 1, NULL));
    g_assert_null(quota_guest_exceeded(&none, &much));
    g_assert_null(quota_all_exceeded(&none, &much, 0));
}

static void test_exceeded(void)
{
    g_assert_null(quota_guest_exceeded(&config, &USAGE(9, 100, 999)));
    g_assert_nonnull(quota_guest_exceeded(&config, &USAGE(1, 101, 0)));
    g_assert_null(quota_all_exceeded(&config, &USAGE(9, 150, 9), 10));
    g_assert_nonnull(quota_all_exceeded(&config, &USAGE(1, 151, 0),
                                        10));
    g_assert_nonnull(quota_all_exceeded(&config, &USAGE(1, 0, 0), 9));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/quota/admit", test_admit);
    g_test_add_func("/quota/share", test_share);
    g_test_add_func("/quota/none", test_none);
    g_test_add_func("/quota/exceeded", test_exceeded);
    return g_test_run();
}
