/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Test reading files whose place or content somebody else has chosen
 */

#include <fcntl.h>
#include <glib/gstdio.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/read-file.h"

#define MOST    (1u << 20)

static char *folder;

static char *path_of(const char *name)
{
    return g_build_filename(folder, name, NULL);
}

static void check(const char *path, bool any, const char *want,
                  const char *why)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *text = NULL;
    gint64 begin = g_get_monotonic_time();
    size_t size = 77;

    text = (any ? read_any : read_whole_file)(path, MOST, &size,
                                              &error);
    g_assert_cmpint(g_get_monotonic_time() - begin, <, 5 * G_TIME_SPAN_SECOND);
    if (want) {
        g_assert_no_error(error);
        g_assert_cmpstr(text, ==, want);
        g_assert_cmpuint(size, ==, strlen(want));
    } else {
        g_assert_null(text);
        g_assert_nonnull(strstr(error->message, why));
    }
}

static void test_files(void)
{
    g_autofree char *file = path_of("file"), *fifo = path_of("fifo");
    g_autofree char *huge = path_of("huge"), *loop = path_of("loop");
    g_autofree char *full = path_of("full"), *none = path_of("none");
    g_autofree char *text = g_strnfill(MOST, 'x');

    g_assert_true(g_file_set_contents(file, "a\nb", -1, NULL));
    g_assert_true(g_file_set_contents(full, text, MOST, NULL));
    g_assert_true(g_file_set_contents(huge, "", 0, NULL));
    g_assert_cmpint(truncate(huge, INT64_C(1) << 40), ==, 0);
    g_assert_cmpint(mkfifo(fifo, 0600), ==, 0);
    g_assert_cmpint(symlink("loop", loop), ==, 0);
    check(file, false, "a\nb", NULL);
    check(full, false, text, NULL);
    check(huge, false, NULL, "larger than 1 MiB");
    check(fifo, false, NULL, "not a regular file");
    check(folder, false, NULL, "not a regular file");
    check("/dev/zero", false, NULL, "not a regular file");
    check("/proc/self/status", false, "", NULL);
    check(loop, false, NULL, "symbolic links");
    check(none, false, NULL, "No such file");

    check(file, true, "a\nb", NULL);
    check(full, true, text, NULL);
    check(huge, true, NULL, "larger than 1 MiB");
    check("/dev/zero", true, NULL, "larger than 1 MiB");
    check("/dev/null", true, "", NULL);
    check(folder, true, NULL, "directory");
    check(loop, true, NULL, "symbolic links");
    g_unlink(file);
    g_unlink(full);
    g_unlink(huge);
    g_unlink(fifo);
    g_unlink(loop);
}

int main(int argc, char **argv)
{
    int result;

    g_test_init(&argc, &argv, NULL);
    folder = g_dir_make_tmp("backtrail-XXXXXX", NULL);
    g_test_add_func("/read-file/files", test_files);
    result = g_test_run();
    g_rmdir(folder);
    g_free(folder);
    return result;
}
