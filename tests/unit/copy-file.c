/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of replay/copy-file.h: random files with holes, and what is no file
 */

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "replay/copy-file.h"
#include "scratch.h"

#define BLOCK   4096u

static char *folder;

static char *path_of(const char *name)
{
    return g_build_filename(folder, name, NULL);
}

/* Blocks of bytes and of nothing, up to a size that ends in either */
static void make_file(const char *path, unsigned blocks, unsigned more)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    char bytes[BLOCK];

    g_assert_cmpint(fd, >=, 0);
    for (unsigned i = 0; i < blocks; i++) {
        if (g_test_rand_bit()) {
            memset(bytes, g_test_rand_int_range(1, 256), sizeof(bytes));
            g_assert_cmpint(pwrite(fd, bytes, sizeof(bytes),
                                   (off_t)i * BLOCK), ==, sizeof(bytes));
        }
    }
    g_assert_cmpint(ftruncate(fd, (off_t)blocks * BLOCK + more), ==, 0);
    close(fd);
}

static void check_same(const char *from, const char *to)
{
    g_autofree char *a = NULL, *b = NULL;
    gsize n, m;

    g_assert_true(g_file_get_contents(from, &a, &n, NULL));
    g_assert_true(g_file_get_contents(to, &b, &m, NULL));
    g_assert_cmpmem(a, n, b, m);
}

static off_t blocks_of(const char *path)
{
    GStatBuf st;

    g_assert_cmpint(g_stat(path, &st), ==, 0);
    return st.st_blocks;
}

static void test_random(void)
{
    g_autofree char *from = path_of("from"), *to = path_of("to");

    for (unsigned round = 0; round < 60; round++) {
        g_autoptr(GError) error = NULL;
        GStatBuf st;

        /* Some are larger than what is copied at once. */
        make_file(from, g_test_rand_int_range(0, round % 10 ? 20 : 700),
                  g_test_rand_bit() ? g_test_rand_int_range(0, BLOCK) : 0);
        g_assert_true(copy_file(from, to, &error));
        g_assert_no_error(error);
        check_same(from, to);
        g_assert_cmpint(blocks_of(to), <=, blocks_of(from));
        /* It is this user's alone, whatever the other one was. */
        g_assert_cmpint(g_stat(to, &st), ==, 0);
        g_assert_cmpint(st.st_mode & 0777, ==, 0600);
        g_assert_cmpint(g_unlink(to), ==, 0);
    }
    g_unlink(from);
}

/* Of a hole alone, and of nothing, nothing is stored. */
static void test_holes(void)
{
    static const off_t sizes[] = { 0, 1, BLOCK, (off_t)1 << 32 };
    g_autofree char *from = path_of("from"), *to = path_of("to");

    for (unsigned i = 0; i < G_N_ELEMENTS(sizes); i++) {
        g_autoptr(GError) error = NULL;
        GStatBuf st;

        make_file(from, 0, 0);
        g_assert_cmpint(truncate(from, sizes[i]), ==, 0);
        g_assert_true(copy_file(from, to, &error));
        g_assert_no_error(error);
        g_assert_cmpint(g_stat(to, &st), ==, 0);
        g_assert_cmpint(st.st_size, ==, sizes[i]);
        g_assert_cmpint(blocks_of(to), ==, blocks_of(from));
        g_assert_cmpint(g_unlink(to), ==, 0);
    }
    g_unlink(from);
}

static void check_refused(const char *from, const char *to, const char *why)
{
    g_autoptr(GError) error = NULL;

    g_assert_false(copy_file(from, to, &error));
    g_assert_nonnull(error);
    g_assert_nonnull(strstr(error->message, why));
}

/* What is there already stays as it is; what is no file is not waited for. */
static void test_refused(void)
{
    g_autofree char *from = path_of("from"), *to = path_of("to");
    g_autofree char *fifo = path_of("fifo"), *link = path_of("link");
    g_autofree char *text = NULL;

    make_file(from, 3, 1);
    g_assert_true(g_file_set_contents(to, "mine", -1, NULL));
    check_refused(from, to, g_strerror(EEXIST));
    g_assert_true(g_file_get_contents(to, &text, NULL, NULL));
    g_assert_cmpstr(text, ==, "mine");
    g_assert_cmpint(g_unlink(to), ==, 0);
    /* Nor is a link followed, to where nothing is yet. */
    g_assert_cmpint(symlink(to, link), ==, 0);
    check_refused(from, link, g_strerror(EEXIST));

    g_assert_cmpint(mkfifo(fifo, 0600), ==, 0);
    check_refused(fifo, to, "it is not a file");
    check_refused(folder, to, "it is not a file");
    check_refused("/dev/null", to, "it is not a file");
    g_assert_cmpint(g_unlink(from), ==, 0);
    check_refused(from, to, g_strerror(ENOENT));
    g_assert_false(g_file_test(to, G_FILE_TEST_EXISTS));
    g_unlink(fifo);
    g_unlink(link);
}

int main(int argc, char **argv)
{
    int ret;

    g_test_init(&argc, &argv, NULL);
    folder = scratch_new();
    g_test_add_func("/copy-file/random", test_random);
    g_test_add_func("/copy-file/holes", test_holes);
    g_test_add_func("/copy-file/refused", test_refused);
    ret = g_test_run();
    scratch_remove(folder);
    return ret;
}
