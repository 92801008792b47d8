/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Test which folders are this user's alone
 */

#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/own-folder.h"

static void check(const char *path, const char *why)
{
    g_autoptr(GError) error = NULL;
    bool ok = own_folder(path, &error);

    g_assert_true(ok == !why);
    if (why) {
        g_test_message("%s", error->message);
        g_assert_nonnull(strstr(error->message, why));
        g_assert_nonnull(strstr(error->message, path));
    }
}

static void test_folders(void)
{
    g_autofree char *top = g_dir_make_tmp("backtrail-XXXXXX", NULL);
    g_autofree char *own = g_build_filename(top, "own", NULL);
    g_autofree char *link = g_build_filename(top, "link", NULL);
    g_autofree char *file = g_build_filename(top, "file", NULL);

    check(own, "No such file");
    g_assert_cmpint(g_mkdir(own, 0700), ==, 0);
    check(own, NULL);
    g_assert_cmpint(g_chmod(own, 0755), ==, 0);
    check(own, NULL);
    g_assert_cmpint(g_chmod(own, 0770), ==, 0);
    check(own, "others may write");
    g_assert_cmpint(g_chmod(own, 0707), ==, 0);
    check(own, "others may write");
    g_assert_cmpint(g_chmod(own, 0700), ==, 0);
    g_assert_cmpint(symlink("own", link), ==, 0);
    check(link, "is not a folder");
    g_assert_true(g_file_set_contents(file, "", 0, NULL));
    check(file, "is not a folder");
    /* A place where everybody may rename everything, and one like /tmp */
    g_assert_cmpint(g_chmod(top, 0777), ==, 0);
    check(own, "others may replace");
    g_assert_cmpint(g_chmod(top, 01777), ==, 0);
    check(own, NULL);
    if (!geteuid()) {
        g_assert_cmpint(chown(own, 65534, 65534), ==, 0);
        check(own, "belongs to another user");
    } else {
        check("/proc", "belongs to another user");
    }
    g_unlink(link);
    g_unlink(file);
    g_rmdir(own);
    g_rmdir(top);
}

static void check_made(const char *path, const char *why)
{
    g_autoptr(GError) error = NULL;
    bool ok = own_folder_make(path, "your own tests", &error);

    g_assert_true(ok == !why);
    if (why) {
        g_test_message("%s", error->message);
        g_assert_nonnull(strstr(error->message, why));
        g_assert_nonnull(strstr(error->message, path));
    }
}

static void test_make(void)
{
    g_autofree char *top = g_dir_make_tmp("backtrail-XXXXXX", NULL);
    g_autofree char *above = g_build_filename(top, "above", NULL);
    g_autofree char *own = g_build_filename(above, "own", NULL);
    g_autofree char *file = g_build_filename(top, "file", NULL);
    g_autofree char *below = g_build_filename(file, "below", NULL);
    struct stat st;

    check_made(own, NULL);
    g_assert_cmpint(stat(own, &st), ==, 0);
    g_assert_cmphex(st.st_mode & 07777, ==, 0700);
    g_assert_cmpint(stat(above, &st), ==, 0);
    g_assert_cmphex(st.st_mode & 07777, ==, 0700);
    check_made(own, NULL);
    /* One that is there is not made better. */
    g_assert_cmpint(g_chmod(own, 0770), ==, 0);
    check_made(own, "the folder of your own tests cannot be trusted: remove "
               "it, or set XDG_RUNTIME_DIR to a folder that only you may write "
               "to: others may write");
    g_assert_cmpint(stat(own, &st), ==, 0);
    g_assert_cmphex(st.st_mode & 07777, ==, 0770);
    g_assert_true(g_file_set_contents(file, "", 0, NULL));
    check_made(below, "Not a directory");
    g_unlink(file);
    g_rmdir(own);
    g_rmdir(above);
    g_rmdir(top);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/own-folder/folders", test_folders);
    g_test_add_func("/own-folder/make", test_make);
    return g_test_run();
}
