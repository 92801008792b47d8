/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of private-folder.c
 */

#include <glib/gstdio.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "replay/private-folder.h"
#include "scratch.h"

static char *make(const char *top, int *lock)
{
    g_autoptr(GError) error = NULL;
    char *folder = private_folder_new(top, lock, &error);

    g_assert_no_error(error);
    return folder;
}

static void put(const char *folder, const char *name)
{
    g_autofree char *path = g_build_filename(folder, name, NULL);

    g_assert_true(g_file_set_contents(path, "x", 1, NULL));
}

static bool exists(const char *path)
{
    return g_file_test(path, G_FILE_TEST_IS_DIR);
}

static void test_removed(void)
{
    char *top = scratch_new();
    int lock;
    g_autofree char *folder = make(top, &lock);

    g_assert_true(exists(folder));
    put(folder, "file");
    private_folder_remove(folder, lock);
    g_assert_false(exists(folder));
    scratch_remove(top);
}

/* Its owner ends without removing it; another process keeps the lock. */
static void test_left(void)
{
    char *top = scratch_new();
    int one, two, three;
    g_autofree char *left = make(top, &one);
    g_autofree char *second = NULL, *third = NULL;
    pid_t child;

    put(left, "file");
    child = fork();
    if (!child) {
        pause();
        _exit(0);
    }
    close(one);
    second = make(top, &two);
    g_assert_true(exists(left));
    kill(child, SIGKILL);
    g_assert_cmpint(waitpid(child, NULL, 0), ==, child);
    third = make(top, &three);
    g_assert_false(exists(left));
    g_assert_true(exists(second));
    private_folder_remove(second, two);
    private_folder_remove(third, three);
    scratch_remove(top);
}

/* What others have there, by the same name */
static void test_others(void)
{
    char *top = scratch_new();
    g_autofree char *inside = g_build_filename(top, "else", NULL);
    g_autofree char *link = g_build_filename(top, "backtrail-rr-link", NULL);
    g_autofree char *empty = g_build_filename(top, "backtrail-rr-new", NULL);
    g_autofree char *folder = NULL;
    int lock;

    g_assert_cmpint(g_mkdir(inside, 0700), ==, 0);
    g_assert_cmpint(g_mkdir(empty, 0700), ==, 0);
    put(inside, "lock");
    put(empty, "lock.new");
    g_assert_cmpint(symlink(inside, link), ==, 0);
    folder = make(top, &lock);
    g_assert_true(exists(inside));
    g_assert_true(exists(empty));
    private_folder_remove(folder, lock);
    scratch_remove(top);
}

static void test_no_top(void)
{
    g_autoptr(GError) error = NULL;
    int lock;

    g_assert_null(private_folder_new("/nowhere", &lock, &error));
    g_assert_nonnull(error);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/private-folder/removed", test_removed);
    g_test_add_func("/private-folder/left", test_left);
    g_test_add_func("/private-folder/others", test_others);
    g_test_add_func("/private-folder/no-top", test_no_top);
    return g_test_run();
}
