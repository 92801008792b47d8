/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of remove-folder.c
 */

#include <glib.h>
#include <unistd.h>

#include "replay/remove-folder.h"
#include "scratch.h"

static void test_remove(void)
{
    char *outside = scratch_new();
    g_autofree char *kept = g_build_filename(outside, "kept", NULL);
    g_autofree char *folder = g_build_filename(outside, "folder", NULL);
    g_autofree char *inner = g_build_filename(folder, "a", "b", NULL);
    g_autofree char *file = g_build_filename(inner, "file", NULL);
    g_autofree char *link = g_build_filename(folder, "link", NULL);

    g_assert_cmpint(g_mkdir_with_parents(inner, 0700), ==, 0);
    g_assert_true(g_file_set_contents(file, "x", 1, NULL));
    g_assert_true(g_file_set_contents(kept, "x", 1, NULL));
    g_assert_cmpint(symlink(outside, link), ==, 0);
    remove_folder(folder);
    g_assert_false(g_file_test(folder, G_FILE_TEST_EXISTS));
    g_assert_true(g_file_test(kept, G_FILE_TEST_EXISTS));
    remove_folder(folder);
    scratch_remove(outside);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/remove-folder", test_remove);
    return g_test_run();
}
