/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of replace-file.c: a file that is new, one that is replaced, and what
 * stays where that fails.
 */

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "scratch.h"
#include "service/replace-file.h"

static bool replace(const char *folder, const char *text, GError **error)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok;

    g_assert_cmpint(fd, >=, 0);
    ok = replace_file(fd, "file", ".next", 0600, text, error);
    close(fd);
    return ok;
}

static void check(const char *path, const char *expected)
{
    g_autofree char *text = NULL;

    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    g_assert_cmpstr(text, ==, expected);
}

struct fixture {
    char *folder, *path, *next;
};

static void set_up(struct fixture *f, gconstpointer data)
{
    f->folder = scratch_new();
    f->path = g_build_filename(f->folder, "file", NULL);
    f->next = g_build_filename(f->folder, ".next", NULL);
    g_assert_true(replace(f->folder, "first", NULL));
}

static void tear_down(struct fixture *f, gconstpointer data)
{
    scratch_remove(f->folder);
    g_free(f->path);
    g_free(f->next);
}

static void test_new(struct fixture *f, gconstpointer data)
{
    struct stat st;

    check(f->path, "first");
    g_assert_false(stat(f->path, &st));
    g_assert_cmpuint(st.st_mode & 07777, ==, 0600);
}

/* Also where one that was being written was left, or is a link to another */
static void test_replaced(struct fixture *f, gconstpointer data)
{
    struct stat st;

    g_assert_false(symlink(f->path, f->next));
    g_assert_true(replace(f->folder, "second", NULL));
    check(f->path, "second");
    g_assert_true(lstat(f->next, &st));
}

static void test_failed(struct fixture *f, gconstpointer data)
{
    g_autoptr(GError) error = NULL;

    g_assert_false(mkdir(f->next, 0700));
    g_assert_false(replace(f->folder, "second", &error));
    g_assert_error(error, SERVICE_ERROR, SERVICE_ERROR_SYSTEM);
    check(f->path, "first");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add("/replace-file/new", struct fixture, NULL, set_up, test_new,
               tear_down);
    g_test_add("/replace-file/replaced", struct fixture, NULL, set_up,
               test_replaced, tear_down);
    g_test_add("/replace-file/failed", struct fixture, NULL, set_up,
               test_failed, tear_down);
    return g_test_run();
}
