/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of cli/result.h: an output file is complete or does not appear
 */
#include <glib.h>
#include <glib/gstdio.h>
#include <string.h>

#include "count-files.h"
#include "cli/result.h"

static char *folder;

static void test_result(void)
{
    g_autofree char *path = g_build_filename(folder, "out", NULL);
    g_autofree char *text = NULL;
    struct result r;

    g_assert_true(result_open(&r, path));
    fputs("one", r.file);
    /* It is not there before it is whole. */
    g_assert_false(g_file_test(path, G_FILE_TEST_EXISTS));
    g_assert_true(result_close(&r));
    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    g_assert_cmpstr(text, ==, "one");
    g_assert_cmpuint(count_files(folder), ==, 1);
    /* A device is written to, and may be full. */
    g_assert_true(result_open(&r, "/dev/null"));
    fputs("two", r.file);
    g_assert_true(result_close(&r));
    g_assert_true(result_open(&r, "/dev/full"));
    fputs("three", r.file);
    g_assert_false(result_close(&r));
    g_assert_false(result_open(&r, "/nonexistent/x"));
    g_assert_true(result_open(&r, NULL));
    g_assert_true(r.file == stdout);
    g_assert_true(result_close(&r));
    g_assert_true(result_open(&r, path));
    fputs("four", r.file);
    result_discard(&r);
    g_free(text);
    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    g_assert_cmpstr(text, ==, "one");
    g_assert_cmpuint(count_files(folder), ==, 1);
    g_unlink(path);
}

int main(int argc, char **argv)
{
    int ret;

    g_test_init(&argc, &argv, NULL);
    folder = g_dir_make_tmp("backtrail-XXXXXX", NULL);
    g_test_add_func("/result/result", test_result);
    ret = g_test_run();
    g_rmdir(folder);
    g_free(folder);
    return ret;
}
