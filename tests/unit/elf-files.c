/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of symbolize/elf-files.h: sysroots, build-ids, links out of a sysroot
 *
 * usage: elf-files SAMPLE
 */
#include <glib.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "symbolize/elf-files.h"
#include "scratch.h"

static const char *sample;
static char *folder;

/* Put a copy of the sample somewhere below the folder. */
static char *place(const char *name)
{
    g_autofree char *content = NULL;
    char *path = g_build_filename(folder, name, NULL);
    g_autofree char *parent = g_path_get_dirname(path);
    gsize size;

    g_assert_cmpint(g_mkdir_with_parents(parent, 0700), ==, 0);
    g_assert_true(g_file_get_contents(sample, &content, &size, NULL));
    g_assert_true(g_file_set_contents(path, content, size, NULL));
    return path;
}

static void link_to(const char *target, const char *name)
{
    g_autofree char *path = g_build_filename(folder, name, NULL);

    g_assert_cmpint(symlink(target, path), ==, 0);
}

static struct elf_files *files_new(const char *sysroot, const char *debug)
{
    g_autofree char *root = sysroot ? g_build_filename(folder, sysroot, NULL) :
                            NULL;
    g_autofree char *dir = debug ? g_build_filename(folder, debug, NULL) :
                           NULL;
    char *roots[] = { root, NULL }, *dirs[] = { dir, NULL };
    const struct elf_files_options options = { roots, dirs };

    return elf_files_new(&options);
}

static void test_sysroot(void)
{
    g_autofree char *one = place("root/usr/bin/one");
    g_autofree char *outside = place("outside");
    g_autofree char *fifo = g_build_filename(folder, "root/fifo", NULL);
    g_autofree char *huge = place("root/huge");
    struct elf_files *files;
    struct elf_file *f;

    g_assert_cmpint(truncate(huge, INT64_C(1) << 40), ==, 0);
    link_to("/proc/kmsg", "root/kernel");
    link_to("usr/bin", "root/bin");
    link_to("/usr/bin/one", "root/absolute");
    link_to("../../../../usr/bin/one", "root/usr/up");
    link_to("../outside", "root/escape");
    link_to(outside, "root/escape2");
    link_to("loop", "root/loop");
    g_assert_cmpint(mkfifo(fifo, 0600), ==, 0);
    files = files_new("root", NULL);
    f = elf_files_get(files, "/usr/bin/one", NULL);
    g_assert_nonnull(f);
    g_assert_cmpstr(elf_file_info(f)->path, ==, one);
    /* One file, whatever its name */
    g_assert_true(elf_files_get(files, "/bin/one", NULL) == f);
    g_assert_true(elf_files_get(files, "/absolute", NULL) == f);
    g_assert_true(elf_files_get(files, "/usr/up", NULL) == f);
    g_assert_true(elf_files_get(files, "/bin/../bin/./one", NULL) == f);
    g_assert_true(elf_files_get(files, "/usr/bin/one",
                                elf_file_info(f)->build_id) == f);
    /* Nothing outside, nothing else */
    g_assert_null(elf_files_get(files, "/escape", NULL));
    g_assert_null(elf_files_get(files, "/escape2", NULL));
    g_assert_null(elf_files_get(files, "/../outside", NULL));
    g_assert_null(elf_files_get(files, "/loop", NULL));
    g_assert_null(elf_files_get(files, "/fifo", NULL));
    g_assert_null(elf_files_get(files, "/huge", NULL));
    g_assert_null(elf_files_get(files, "/kernel", NULL));
    g_assert_null(elf_files_get(files, "/usr/bin", NULL));
    g_assert_null(elf_files_get(files, "/", NULL));
    g_assert_null(elf_files_get(files, "", NULL));
    g_assert_null(elf_files_get(files, "usr/bin/one", NULL));
    g_assert_null(elf_files_get(files, "/usr/bin/one", "0123"));
    g_assert_null(elf_files_get(files, NULL, NULL));
    g_assert_null(elf_files_get(files, "[vdso]", NULL));
    elf_files_free(files);
    /* The host's own files are not the guest's. */
    files = files_new(NULL, NULL);
    g_assert_null(elf_files_get(files, "/bin/sh", NULL));
    elf_files_free(files);
}

static void test_build_id(void)
{
    struct elf_file *f = elf_file_open(sample);
    g_autofree char *id = g_strdup(elf_file_info(f)->build_id);
    static const char *const forms[] = {
        "%s/executable", ".build-id/%.2s/%s", "%.2s/%s", "%s/debuginfo",
        ".build-id/%.2s/%s.debug",
    };
    unsigned i;

    elf_file_close(f);
    g_assert_nonnull(id);
    for (i = 0; i < G_N_ELEMENTS(forms); i++) {
        g_autofree char *dir = g_strdup_printf("cache%u", i);
        g_autofree char *name = strstr(forms[i], "%.2s") ?
            g_strdup_printf(forms[i], id, id + 2) :
            g_strdup_printf(forms[i], id);
        g_autofree char *path = g_build_filename(dir, name, NULL);
        g_autofree char *full = place(path);
        struct elf_files *files = files_new(NULL, dir);

        f = elf_files_get(files, "/any/where", id);
        g_assert_nonnull(f);
        g_assert_cmpstr(elf_file_info(f)->path, ==, full);
        g_assert_null(elf_files_get(files, NULL, "00112233"));
        g_assert_null(elf_files_get(files, NULL, "../../etc"));
        g_assert_null(elf_files_get(files, NULL, "a"));
        elf_files_free(files);
    }
}

/* A stripped file and what was stripped, in all places where that is kept */
static void test_debug(void)
{
    g_autofree char *full = place("stripped/usr/bin/two");
    g_autofree char *strip = g_strdup_printf("strip '%s'", full);
    g_autofree char *debug = NULL, *copy = NULL;
    struct elf_file *f = elf_file_open(sample);
    g_autofree char *id = g_strdup(elf_file_info(f)->build_id);
    g_autofree char *names[] = {
        g_strdup_printf("debug1/%s/debuginfo", id),
        g_strdup_printf("stripped/usr/lib/debug/.build-id/%.2s/%s.debug", id,
                        id + 2),
    };
    unsigned i;

    elf_file_close(f);
    if (!g_spawn_command_line_sync(strip, NULL, NULL, NULL, NULL)) {
        g_test_skip("there is no strip");
        g_free(names[1]);
        return;
    }
    for (i = 0; i < 3; i++) {
        struct elf_files *files = files_new("stripped", "debug1");
        g_autofree char *path = i ? place(names[i - 1]) : NULL;

        f = elf_files_get(files, "/usr/bin/two", NULL);
        g_assert_nonnull(f);
        g_assert_cmpint(elf_file_find(f, "sample_local") != NULL, ==, i > 0);
        elf_files_free(files);
        if (path) {
            g_unlink(path);
        }
    }
    g_free(names[1]);
}

int main(int argc, char **argv)
{
    int ret;

    g_test_init(&argc, &argv, NULL);
    g_assert_cmpint(argc, ==, 2);
    sample = argv[1];
    folder = scratch_new();
    g_setenv("DEBUGINFOD_CACHE_PATH", folder, TRUE);
    g_test_add_func("/elf-files/sysroot", test_sysroot);
    g_test_add_func("/elf-files/build-id", test_build_id);
    g_test_add_func("/elf-files/debug", test_debug);
    ret = g_test_run();
    scratch_remove(folder);
    return ret;
}
