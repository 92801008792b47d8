/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Functions of guests' programs in files of the host: by path, by build-id, and
 * files that are not the guest's
 *
 * usage: user-symbols SAMPLE CXX-SAMPLE
 */

#include <glib.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "symbolize/elf-file.h"
#include "scratch.h"
#include "service/user-symbols.h"

static const char *sample;
static const char *cxx_sample;
static char *folder;

static void put_file(const char *name, const char *file)
{
    g_autofree char *content = NULL;
    g_autofree char *path = g_build_filename(folder, name, NULL);
    g_autofree char *parent = g_path_get_dirname(path);
    gsize size;

    g_assert_cmpint(g_mkdir_with_parents(parent, 0700), ==, 0);
    g_assert_true(g_file_get_contents(file, &content, &size, NULL));
    g_assert_true(g_file_set_contents(path, content, size, NULL));
}

static void put(const char *name)
{
    put_file(name, sample);
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
    g_autoptr(GArray) offsets = g_array_new(FALSE, FALSE, sizeof(uint64_t));

    g_assert_cmpint(user_symbols_find(u, path, id, id ? 20 : 0,
                                      "sample_label", offsets), ==, answer);
    g_assert_cmpuint(offsets->len, ==, answer == SYMBOL_FOUND);
    if (answer == SYMBOL_FOUND) {
        uint64_t offset = g_array_index(offsets, uint64_t, 0);
        g_autofree char *content = NULL;
        gsize size;

        /* What tests/unit/elf-sample.c has there */
        g_assert_true(g_file_get_contents(sample, &content, &size, NULL));
        g_assert_cmpuint(offset + 5, <=, size);
        g_assert_cmpint(memcmp(content + offset, "\x90\x90\x90\xc3\xc3", 5),
                        ==, 0);
        g_assert_cmpint(user_symbols_find(u, path, id, id ? 20 : 0,
                                          "sample_nowhere", offsets),
                        ==, SYMBOL_NONE);
        g_assert_cmpuint(offsets->len, ==, 1);
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

/* Folders that a session names are its own, and come before the others. */
static void test_below(void)
{
    struct user_symbols *u = user_symbols_new(), *own;
    g_autofree char *group = g_strdup_printf("sysroots=%s/root", folder);
    g_autofree char *place = g_strdup_printf("%s/own", folder);
    const char *const folders[] = { place, NULL };
    g_autoptr(GError) error = NULL;
    unsigned n = 1;

    put("root/bin/both");
    put("own/bin/mine");
    put_file("own/bin/both", cxx_sample);
    own = user_symbols_below(u, folders, &error);
    g_assert_nonnull(own);
    want(own, "/bin/mine", NULL, SYMBOL_FOUND);
    want(own, "/bin/both", NULL, SYMBOL_NONE);
    want(u, "/bin/mine", NULL, SYMBOL_NO_FILE);
    configure(u, group);
    want(u, "/bin/both", NULL, SYMBOL_FOUND);
    want(own, "/bin/both", NULL, SYMBOL_NONE);
    want(own, "/bin/sample", NULL, SYMBOL_FOUND);
    g_assert_true(user_symbols_below(u, folders, &error) == own);
    configure(u, "sysroots=");
    want(own, "/bin/sample", NULL, SYMBOL_NO_FILE);
    want(own, "/bin/mine", NULL, SYMBOL_FOUND);
    for (own = u; own; n++) {
        g_autofree char *other = g_strdup_printf("/%u", n);

        own = user_symbols_below(u, (const char *const[]) { other, NULL },
                                 &error);
    }
    g_assert_nonnull(error);
    g_assert_cmpuint(n, ==, 65);
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

/* Where nm says that the functions are whose names match */
static GArray *offsets_of(const char *pattern)
{
    g_autofree char *command = g_strdup_printf("nm '%s'", cxx_sample);
    g_autoptr(GRegex) regex = g_regex_new(pattern, 0, 0, NULL);
    GArray *offsets = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    struct elf_file *f = elf_file_open(cxx_sample);
    g_autofree char *out = NULL;
    g_auto(GStrv) lines = NULL;

    g_assert_true(g_spawn_command_line_sync(command, &out, NULL, NULL, NULL));
    lines = g_strsplit(out, "\n", -1);
    for (unsigned i = 0; lines[i]; i++) {
        uint64_t address = g_ascii_strtoull(lines[i], NULL, 16), offset;

        if (strlen(lines[i]) > 19 && g_regex_match(regex, lines[i] + 19, 0,
                                                   NULL)) {
            g_assert_true(elf_file_offset(f, address, &offset));
            g_array_append_val(offsets, offset);
        }
    }
    elf_file_close(f);
    return offsets;
}

static gint compare_offsets(gconstpointer a, gconstpointer b)
{
    const uint64_t *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

/* Each function that a name stands for; what a constructor has is one. */
static void test_several(void)
{
    static const struct {
        const char *name, *pattern;
        unsigned n;
    } names[] = {
        { "shop::after", "^_ZN4shop5after", 3 },
        { "shop::after(int)", "^_ZN4shop5afterEi$", 1 },
        { "shop::after(int,char)", "^_ZN4shop5afterEic$", 1 },
        { "_ZN4shop5afterEic", "^_ZN4shop5afterEic$", 1 },
        { "shop::largest", "^_ZN4shop7largest", 2 },
        { "shop::largest<char>", "^_ZN4shop7largestIc", 1 },
        { "shop::Item::operator<", "^_ZNK4shop4ItemltERKS0_$", 1 },
        { "shop::Item::Item(int)", "^_ZN4shop4ItemC2Ei$", 1 },
        { "plain", "^plain$", 1 },
        { "after", "^after$", 0 },
    };
    struct user_symbols *u = user_symbols_new();
    g_autofree char *group = g_strdup_printf("sysroots=%s/root", folder);

    put_file("root/bin/cxx", cxx_sample);
    configure(u, group);
    for (unsigned i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autoptr(GArray) expected = offsets_of(names[i].pattern);
        g_autoptr(GArray) offsets = g_array_new(FALSE, FALSE,
                                                sizeof(uint64_t));

        g_test_message("%s", names[i].name);
        g_assert_cmpint(user_symbols_find(u, "/bin/cxx", NULL, 0,
                                          names[i].name, offsets), ==,
                        names[i].n ? SYMBOL_FOUND : SYMBOL_NONE);
        g_array_sort(offsets, compare_offsets);
        g_array_sort(expected, compare_offsets);
        g_assert_cmpuint(expected->len, ==, names[i].n);
        g_assert_cmpmem(offsets->data, offsets->len * sizeof(uint64_t),
                        expected->data, expected->len * sizeof(uint64_t));
    }
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
    g_assert_cmpint(argc, ==, 3);
    sample = argv[1];
    cxx_sample = argv[2];
    folder = scratch_new();
    g_setenv("DEBUGINFOD_CACHE_PATH", folder, TRUE);
    g_test_add_func("/user-symbols/sysroots", test_sysroots);
    g_test_add_func("/user-symbols/below", test_below);
    g_test_add_func("/user-symbols/debug-dirs", test_debug_dirs);
    g_test_add_func("/user-symbols/several", test_several);
    g_test_add_func("/user-symbols/many", test_many);
    ret = g_test_run();
    scratch_remove(folder);
    return ret;
}
