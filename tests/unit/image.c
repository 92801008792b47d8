/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of image.c, with heads of images as QEMU's qcow2.txt describes them
 */

#include <string.h>

#include "replay/image.h"
#include "scratch.h"

struct fixture {
    char *folder, *path;
    uint8_t head[104];
};

static void set_up(struct fixture *f, gconstpointer data)
{
    f->folder = scratch_new();
    f->path = g_build_filename(f->folder, "image", NULL);
    memset(f->head, 0, sizeof(f->head));
    memcpy(f->head, "QFI\xfb\0\0\0\3", 8);
}

static void tear_down(struct fixture *f, gconstpointer data)
{
    scratch_remove(f->folder);
    g_free(f->path);
}

static const char *format(struct fixture *f, size_t size, const char *given,
                          const char *why)
{
    g_autoptr(GError) error = NULL;
    const char *found;

    g_assert_true(g_file_set_contents(f->path, (char *)f->head, size, NULL));
    found = image_format(f->path, given, &error);
    g_assert_true(!found == !!error);
    if (why) {
        g_assert_error(error, AGENT_ERROR, AGENT_ERROR_COMMAND);
        g_assert_nonnull(strstr(error->message, why));
    } else {
        g_assert_no_error(error);
    }
    return found;
}

static void test_formats(struct fixture *f, gconstpointer data)
{
    g_assert_cmpstr(format(f, 104, NULL, NULL), ==, "qcow2");
    g_assert_cmpstr(format(f, 104, "qcow2", NULL), ==, "qcow2");
    /* Whoever says so has a guest that sees the head. */
    g_assert_cmpstr(format(f, 104, "raw", NULL), ==, "raw");
    g_assert_null(format(f, 104, "vmdk", "only raw and qcow2"));
    f->head[0] = 'x';
    g_assert_cmpstr(format(f, 104, NULL, NULL), ==, "raw");
    g_assert_cmpstr(format(f, 0, NULL, NULL), ==, "raw");
    g_assert_null(format(f, 104, "qcow2", "not a qcow2 image"));
    g_assert_null(format(f, 0, "qcow2", "not a qcow2 image"));
}

static void test_others(struct fixture *f, gconstpointer data)
{
    f->head[15] = 200;
    g_assert_null(format(f, 104, NULL, "backing file"));
    g_assert_null(format(f, 104, "qcow2", "backing file"));
    f->head[15] = 0;
    f->head[35] = 1;
    g_assert_null(format(f, 104, NULL, "encrypted"));
    f->head[35] = 0;
    f->head[79] = 4;
    g_assert_null(format(f, 104, NULL, "another file"));
    /* Version 2 has no flags there. */
    f->head[7] = 2;
    g_assert_cmpstr(format(f, 104, NULL, NULL), ==, "qcow2");
}

static void test_missing(struct fixture *f, gconstpointer data)
{
    g_autoptr(GError) error = NULL;

    g_assert_null(image_format("/nowhere/image", NULL, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_SYSTEM);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add("/image/formats", struct fixture, NULL, set_up, test_formats,
               tear_down);
    g_test_add("/image/others", struct fixture, NULL, set_up, test_others,
               tear_down);
    g_test_add("/image/missing", struct fixture, NULL, set_up, test_missing,
               tear_down);
    return g_test_run();
}
