/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The QEMUs that a user has recorded with: found by their hash, and nothing else
 */

#include <glib/gstdio.h>

#include "replay/known-qemu.h"
#include "scratch.h"

static char *scratch;

static void is_known(const char *hash, const char *path)
{
    g_autofree char *found = known_qemu_find(hash);

    g_assert_cmpstr(found, ==, path);
}

static void test_remembered(void)
{
    is_known("aa", NULL);
    known_qemu_add("aa", "/one/qemu");
    known_qemu_add("bb", "/two/qemu");
    is_known("aa", "/one/qemu");
    is_known("bb", "/two/qemu");
    is_known("cc", NULL);
    /* The same program may move. */
    known_qemu_add("aa", "/three/qemu");
    is_known("aa", "/three/qemu");
}

/* The folder cannot be made: nothing is known, and nothing fails. */
static void test_no_folder(void)
{
    g_autofree char *folder = g_build_filename(scratch, "backtrail", NULL);
    g_autofree char *moved = g_build_filename(scratch, "moved", NULL);

    known_qemu_add("aa", "/one/qemu");
    g_assert_cmpint(g_rename(folder, moved), ==, 0);
    g_assert_true(g_file_set_contents(folder, "", 0, NULL));
    known_qemu_add("aa", "/one/qemu");
    is_known("aa", NULL);
    g_assert_cmpint(g_unlink(folder), ==, 0);
}

int main(int argc, char **argv)
{
    int code;

    g_test_init(&argc, &argv, NULL);
    scratch = scratch_new();
    g_setenv("XDG_STATE_HOME", scratch, TRUE);
    g_test_add_func("/known-qemu/remembered", test_remembered);
    g_test_add_func("/known-qemu/no-folder", test_no_folder);
    code = g_test_run();
    scratch_remove(scratch);
    return code;
}
