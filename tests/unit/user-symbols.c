/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Functions of guests' programs in files of the host: by path, by build-id, and
 * files that are not the guest's
 *
 * usage: user-symbols SAMPLE
 */

#include <glib.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "symbolize/elf-file.h"
#include "scratch.h"
#include "service/user-symbols.h"

static const char *sample;
static char *folder;

static void put(const char *name)
{
    g_autofree char *content = NULL;
    g_autofree char *path = g_build_filename(folder, name, NULL);
    g_autofree char *parent = g_path_get_dirname(path);
    gsize size;

    g_assert_cmpint(g_mkdir_with_parents(parent, 0700), ==, 0);
    g_assert_true(g_file_get_contents(sample, &content, &size, NULL));
    g_assert_true(g_file_set_contents(path, content, size, NULL));
}

/* In digits, from the sample */
static char *sample_id(uint8_t id[20])
{
    struct elf_file *f = elf_file_open(sample);
    char *text = g_strdup(elf_file_info(f)->build_id);
    unsigned i;

    g_assert_cmpuint(strlen(text), ==, 40);
    for (i = 0; i < 20; i++) {
        id[i] = g_ascii_xdigit_value(text[2 * i]) << 4 |
                g_ascii_xdigit_value(text[2 * i + 1]);
    }
    elf_file_close(f);
    return text;
}

static void configure(struct user_symbols *u, const char *group)
{
    g_autofree char *text = g_strdup_printf("[guests]\n%s\n", group);
    struct config *c = config_parse(text, "f", NULL);

    g_assert_nonnull(c);
    user_symbols_set(u, c);
    config_free(c);
}

static void want(struct user_symbols *u, const char *path,
                 const uint8_t *id, enum symbol_answer answer)
{
    uint64_t offset;

    g_assert_cmpint(user_symbols_find(u, path, id, id ? 20 : 0,
                                      "sample_label", &offset), ==,
                    answer);
    if (answer == SYMBOL_FOUND) {
        g_autofree char *content = NULL;
        gsize size;

        /* What tests/unit/elf-sample.c has there */
        g_assert_true(g_file_get_contents(sample, &content, &size, NULL));
        g_assert_cmpuint(offset + 5, <=, size);
        g_assert_cmpint(memcmp(content + offset, "\x90\x90\x90\xc3\xc3", 5),
                        ==, 0);
        g_assert_cmpint(user_symbols_find(u, path, id, id ? 20 : 0,
                                          "sample_nowhere", &offset),
                        ==, SYMBOL_NONE);
    }
}

static void test_sysroots(void)
{
    struct user_symbols *u = user_symbols_new();
    g_autofree char *group = g_strdup_printf("sysroots=%s/none;%s/root",
                                             folder, folder);
    uint8_t id[20], other[20] = { 1 };
    g_autofree char *text = sample_id(id);

    put("root/bin/sample");
    want(u, "/bin/sample", NULL, SYMBOL_NO_FILE);
    /* The host's own files are not the guest's. */
    want(u, sample, NULL, SYMBOL_NO_FILE);
    configure(u, group);
    want(u, "/bin/sample", NULL, SYMBOL_FOUND);
    want(u, "/bin/sample", id, SYMBOL_FOUND);
    want(u, "/bin/sample", other, SYMBOL_NO_FILE);
    want(u, "/bin/other", NULL, SYMBOL_NO_FILE);
    /* What comes later is there once the configuration is read again. */
    put("root/bin/other");
    configure(u, group);
    want(u, "/bin/other", NULL, SYMBOL_FOUND);
    configure(u, "sysroots=");
    want(u, "/bin/sample", NULL, SYMBOL_NO_FILE);
    user_symbols_free(u);
}

static void test_debug_dirs(void)
{
    struct user_symbols *u = user_symbols_new();
    g_autofree char *group = g_strdup_printf("debug-dirs=%s/debug", folder);
    uint8_t id[20];
    g_autofree char *text = sample_id(id);
    g_autofree char *name = g_strdup_printf("debug/.build-id/%.2s/%s.debug",
                                            text, text + 2);

    put(name);
    configure(u, group);
    want(u, "/bin/renamed", id, SYMBOL_FOUND);
    want(u, "/bin/renamed", NULL, SYMBOL_NO_FILE);
    user_symbols_free(u);
}

/* A guest may ask for anything. */
static void test_many(void)
{
    struct user_symbols *u = user_symbols_new();
    g_autofree char *group = g_strdup_printf("sysroots=%s/root", folder);
    unsigned i;

    put("root/bin/sample");
    configure(u, group);
    for (i = 0; i < 3000; i++) {
        g_autofree char *path = g_strdup_printf("/bin/%u", i);

        want(u, path, NULL, SYMBOL_NO_FILE);
        if (i % 100 == 0) {
            want(u, "/bin/sample", NULL, SYMBOL_FOUND);
        }
    }
    want(u, "/../../../bin/sh", NULL, SYMBOL_NO_FILE);
    want(u, "", NULL, SYMBOL_NO_FILE);
    user_symbols_free(u);
}

int main(int argc, char **argv)
{
    int ret;

    g_test_init(&argc, &argv, NULL);
    g_assert_cmpint(argc, ==, 2);
    sample = argv[1];
    folder = scratch_new();
    g_setenv("DEBUGINFOD_CACHE_PATH", folder, TRUE);
    g_test_add_func("/user-symbols/sysroots", test_sysroots);
    g_test_add_func("/user-symbols/debug-dirs", test_debug_dirs);
    g_test_add_func("/user-symbols/many", test_many);
    ret = g_test_run();
    scratch_remove(folder);
    return ret;
}
