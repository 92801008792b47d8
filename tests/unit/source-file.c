/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Test files of source code whose places a guest chooses
 */

#include <glib/gstdio.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include "symbolize/source-file.h"

static char *top;

static char *make(const char *name, const char *text)
{
    char *path = g_build_filename(top, name, NULL);

    g_assert_true(g_file_set_contents(path, text, -1, NULL));
    return path;
}

static void check(char *folder, const char *file, const char *want)
{
    char none[] = "/nonexistent";
    char *const folders[] = { none, folder, NULL };
    g_auto(GStrv) lines = source_file_read(folders, file);
    g_autofree char *text = lines ? g_strjoinv("|", lines) : NULL;

    g_assert_cmpstr(text, ==, want);
}

static void test_files(void)
{
    g_autofree char *root = g_build_filename(top, "root", NULL);
    g_autofree char *fifo = g_build_filename(root, "fifo", NULL);
    g_autofree char *out = g_build_filename(root, "out", NULL);
    g_autofree char *up = g_build_filename(root, "up", NULL);
    g_autofree char *in = g_build_filename(root, "in", NULL);
    g_autofree char *loop = g_build_filename(root, "loop", NULL);
    g_autofree char *kernel = g_build_filename(root, "kernel", NULL);
    g_autofree char *secret = make("secret", "secret");
    g_autofree char *a = NULL, *huge = NULL;
    char host[] = "/";

    g_assert_cmpint(g_mkdir(root, 0700), ==, 0);
    a = make("root/a.c", "int\ta;\nint b;\n");
    huge = make("root/huge.c", "");
    g_assert_cmpint(truncate(huge, INT64_C(1) << 40), ==, 0);
    g_assert_cmpint(mkfifo(fifo, 0600), ==, 0);
    g_assert_cmpint(symlink(secret, out), ==, 0);
    g_assert_cmpint(symlink("../secret", up), ==, 0);
    g_assert_cmpint(symlink("/a.c", in), ==, 0);
    g_assert_cmpint(symlink("loop", loop), ==, 0);
    g_assert_cmpint(symlink("/proc/kmsg", kernel), ==, 0);
    check(root, "/a.c", "int        a;|int b;|");
    check(root, "in", "int        a;|int b;|");
    check(root, "/huge.c", NULL);
    check(root, "/fifo", NULL);
    check(root, "/out", NULL);
    check(root, "/up", NULL);
    check(root, "/../secret", NULL);
    check(root, "/loop", NULL);
    check(root, "/kernel", NULL);
    /* Of the host's own, what the kernel makes up has no lines. */
    check(host, "/proc/self/environ", "");
    check(host, "/dev/zero", NULL);
    check(host, secret, "secret");
    g_unlink(a);
    g_unlink(huge);
    g_unlink(fifo);
    g_unlink(out);
    g_unlink(up);
    g_unlink(in);
    g_unlink(loop);
    g_unlink(kernel);
    g_unlink(secret);
    g_rmdir(root);
}

int main(int argc, char **argv)
{
    int result;

    g_test_init(&argc, &argv, NULL);
    top = g_dir_make_tmp("backtrail-XXXXXX", NULL);
    g_test_add_func("/source-file/files", test_files);
    result = g_test_run();
    g_rmdir(top);
    g_free(top);
    return result;
}
