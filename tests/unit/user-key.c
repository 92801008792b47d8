/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of user-key.c: a key that only this user has
 */

#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "replay/user-key.h"
#include "scratch.h"

static char *scratch, *path;

static void is_refused(enum agent_error code)
{
    g_autoptr(GError) error = NULL;
    uint8_t key[USER_KEY_SIZE];

    g_assert_false(user_key_get(key, false, &error));
    g_assert_error(error, AGENT_ERROR, (int)code);
}

static void test_key(void)
{
    uint8_t key[USER_KEY_SIZE], same[USER_KEY_SIZE];
    struct stat st;

    is_refused(AGENT_ERROR_SYSTEM);
    g_assert_true(user_key_get(key, true, NULL));
    g_assert_true(user_key_get(same, true, NULL));
    g_assert_cmpmem(key, sizeof(key), same, sizeof(same));
    g_assert_cmpint(stat(path, &st), ==, 0);
    g_assert_cmpuint(st.st_mode & 0777, ==, 0600);
    /* Another one is made, and is another one. */
    g_assert_cmpint(g_unlink(path), ==, 0);
    g_assert_true(user_key_get(same, true, NULL));
    g_assert_cmpint(memcmp(key, same, sizeof(key)), !=, 0);
}

/* One that others can read, that is too short, or that is a link */
static void test_refused(void)
{
    g_autofree char *moved = g_strconcat(path, ".moved", NULL);
    uint8_t key[USER_KEY_SIZE];

    g_assert_true(user_key_get(key, true, NULL));
    g_assert_cmpint(chmod(path, 0640), ==, 0);
    is_refused(AGENT_ERROR_PROTOCOL);
    g_assert_cmpint(chmod(path, 0600), ==, 0);
    g_assert_true(user_key_get(key, false, NULL));
    g_assert_cmpint(truncate(path, sizeof(key) - 1), ==, 0);
    is_refused(AGENT_ERROR_PROTOCOL);
    g_assert_cmpint(g_rename(path, moved), ==, 0);
    g_assert_cmpint(symlink(moved, path), ==, 0);
    is_refused(AGENT_ERROR_SYSTEM);
}

int main(int argc, char **argv)
{
    int code;

    g_test_init(&argc, &argv, NULL);
    scratch = scratch_new();
    path = g_build_filename(scratch, "backtrail", "key", NULL);
    g_setenv("XDG_STATE_HOME", scratch, TRUE);
    g_test_add_func("/user-key/key", test_key);
    g_test_add_func("/user-key/refused", test_refused);
    code = g_test_run();
    scratch_remove(scratch);
    g_free(path);
    return code;
}
