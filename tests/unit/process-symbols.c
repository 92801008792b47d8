/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Symbols of the process that runs: sets of files, for each place that a file
 * is mapped at, and whatever a guest calls it
 *
 * usage: process-symbols SAMPLE
 */

#include <glib.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "gdb/process-symbols.h"
#include "scratch.h"

#define BASE    UINT64_C(0x555500000000)
#define HIGH    UINT64_C(0x7f0000000000)
#define SETS    10000u

static char *content;           /* of the sample */
static gsize content_size;

/* A guest's files, and processes that have mapped them */
struct scene {
    char *folder;
    char *root;
    char *files;                /* for gdb */
    struct symbolizer *symbols;
    struct process_symbols *p;
};

static void put_file(const struct scene *s, const char *path)
{
    g_autofree char *where = g_build_filename(s->root, path, NULL);
    g_autofree char *folder = g_path_get_dirname(where);

    g_assert_cmpint(g_mkdir_with_parents(folder, 0700), ==, 0);
    g_assert_true(g_file_set_contents(where, content, (gssize)content_size,
                                      NULL));
}

static void scene_init(struct scene *s, const char *map)
{
    struct symbolizer_options options = { .map = NULL };
    g_autoptr(GError) error = NULL;
    g_autofree char *path = NULL;
    char *roots[2] = { NULL };

    s->folder = scratch_new();
    s->root = g_build_filename(s->folder, "root", NULL);
    s->files = g_build_filename(s->folder, "gdb", NULL);
    path = g_build_filename(s->folder, "names.map", NULL);
    roots[0] = s->root;
    options.map = path;
    options.files.sysroots = roots;
    put_file(s, "/bin/sample");
    put_file(s, "/lib/other.so");
    put_file(s, "/lib/a'b;c");
    g_assert_cmpint(g_mkdir(s->files, 0700), ==, 0);
    g_assert_true(g_file_set_contents(path, map, -1, NULL));
    s->symbols = symbolizer_new(&options, NULL, &error);
    g_assert_no_error(error);
    s->p = process_symbols_new(s->symbols, s->files, &error);
    g_assert_no_error(error);
}

static void scene_clear(struct scene *s)
{
    process_symbols_free(s->p);
    symbolizer_free(s->symbols);
    scratch_remove(s->folder);
    g_free(s->root);
    g_free(s->files);
}

static unsigned set_of(struct scene *s, uint64_t cr3)
{
    const struct symbolizer_where where = { .cr3 = cr3 };
    enum btrail_certainty certainty;

    return process_symbols_set(s->p, symbolizer_process(s->symbols, &where,
                                                        &certainty),
                               &where, BASE);
}

/* The lines of a file of a set, NULL if there is no such file */
static char **lines_of(const struct scene *s, unsigned set, const char *what)
{
    g_autofree char *path = g_strdup_printf("%s/symbols-%u-%s", s->files, set,
                                            what);
    g_autofree char *text = NULL;

    return g_file_get_contents(path, &text, NULL, NULL) ?
           g_strsplit(text, "\n", -1) : NULL;
}

/* A line adds a copy of the sample, which is called NAME at the end. */
static void check_add(const struct scene *s, const char *line,
                      const char *name, uint64_t bias)
{
    g_auto(GStrv) words = g_strsplit(line, " ", -1);
    g_autofree char *at = g_strdup_printf("0x%" G_GINT64_MODIFIER "x", bias);
    struct elf_file *copy, *sample;

    g_assert_cmpuint(g_strv_length(words), ==, 4);
    g_assert_cmpstr(words[0], ==, "add-symbol-file");
    g_assert_true(g_str_has_prefix(words[1], s->files));
    g_assert_true(g_str_has_suffix(words[1], name));
    g_assert_cmpuint(strcspn(words[1] + strlen(s->files) + 1, "/'\";"), ==,
                     strlen(words[1] + strlen(s->files) + 1));
    g_assert_cmpstr(words[2], ==, "-o");
    g_assert_cmpstr(words[3], ==, at);
    copy = elf_file_open(words[1]);
    g_assert_nonnull(copy);
    {
        g_autofree char *path = g_build_filename(s->root, "/bin/sample", NULL);

        sample = elf_file_open(path);
    }
    g_assert_cmphex(elf_file_find(copy, "sample_leaf")->start, ==,
                    elf_file_find(sample, "sample_leaf")->start);
    elf_file_close(copy);
    elf_file_close(sample);
}

/* What removes it says an address that it has, in what is mapped. */
static void check_remove(const char *line, uint64_t begin, uint64_t end)
{
    g_auto(GStrv) words = g_strsplit(line, " ", -1);
    uint64_t at;

    g_assert_cmpuint(g_strv_length(words), ==, 3);
    g_assert_cmpstr(words[0], ==, "remove-symbol-file");
    g_assert_cmpstr(words[1], ==, "-a");
    at = g_ascii_strtoull(words[2], NULL, 0);
    g_assert_cmphex(at, >=, begin);
    g_assert_cmphex(at, <, end);
}

static const char map[] =
    "cr3 1000 one\n"
    "555500000000-555500100000 r-xp 00000000 00:00 0 /bin/sample\n"
    "7f0000000000-7f0000100000 r-xp 00000000 00:00 0 /lib/other.so\n"
    "cr3 2000 same\n"
    "555500000000-555500100000 r-xp 00000000 00:00 0 /bin/sample\n"
    "7f0000000000-7f0000100000 r-xp 00000000 00:00 0 /lib/other.so\n"
    "cr3 3000 moved\n"
    "555500000000-555500100000 r-xp 00000000 00:00 0 /bin/sample\n"
    "7f1000000000-7f1000100000 r-xp 00000000 00:00 0 /lib/other.so\n"
    "cr3 4000 lost\n"
    "555500000000-555500100000 r-xp 00000000 00:00 0 /bin/lost\n"
    "cr3 5000 hostile\n"
    "555500000000-555500100000 r-xp 00000000 00:00 0 /lib/a'b;c\n"
    "cr3 6000 nothing\n"
    "cr3 7000 pieces\n"
    "555500000000-555500001000 r-xp 00000000 00:00 0 /bin/sample\n"
    "555500001000-555500001100 r-xp 00001000 00:00 0 /bin/sample\n"
    "555500001100-555500002000 r-xp 00001100 00:00 0 /bin/sample\n"
    "cr3 8000 headers\n"
    "555500000000-555500001000 r-xp 00000000 00:00 0 /bin/sample\n";

/* The same files at the same places are one set. */
static void test_sets(void)
{
    struct scene s;
    unsigned one, moved;

    scene_init(&s, map);
    g_assert_cmpuint(process_symbols_set(s.p, NULL, NULL, 0), ==, 0);
    g_assert_cmpuint(set_of(&s, 0x6000), ==, 0);
    g_assert_cmpuint(set_of(&s, 0x4000), ==, 0);
    one = set_of(&s, 0x1000);
    g_assert_cmpuint(one, !=, 0);
    g_assert_cmpuint(set_of(&s, 0x2000), ==, one);
    moved = set_of(&s, 0x3000);
    g_assert_cmpuint(moved, !=, 0);
    g_assert_cmpuint(moved, !=, one);
    g_assert_cmpuint(set_of(&s, 0x1000), ==, one);
    scene_clear(&s);
}

/* What gdb adds and removes */
static void test_files(void)
{
    static const struct {
        uint64_t cr3;
        uint64_t high;
    } cases[] = { { 0x1000, HIGH }, { 0x3000, HIGH + 0x1000000000 } };

    for (unsigned i = 0; i < 2; i++) {
        g_auto(GStrv) add = NULL;
        g_auto(GStrv) remove = NULL;
        struct scene s;
        unsigned set;

        scene_init(&s, map);
        set = set_of(&s, cases[i].cr3);
        add = lines_of(&s, set, "add");
        remove = lines_of(&s, set, "remove");
        g_assert_cmpuint(g_strv_length(add), ==, 3);
        g_assert_cmpuint(g_strv_length(remove), ==, 3);
        /* That of the place comes last, so gdb looks there. */
        check_add(&s, add[0], "-other.so", cases[i].high);
        check_remove(remove[0], cases[i].high, cases[i].high + 0x100000);
        check_add(&s, add[1], "-sample", BASE);
        check_remove(remove[1], BASE, BASE + 0x100000);
        scene_clear(&s);
    }
}

/* A file of several mappings comes once, and not for those without functions,
 * which gdb could not name. */
static void test_pieces(void)
{
    g_auto(GStrv) add = NULL;
    g_auto(GStrv) remove = NULL;
    struct scene s;
    unsigned set;

    scene_init(&s, map);
    set = set_of(&s, 0x7000);
    add = lines_of(&s, set, "add");
    remove = lines_of(&s, set, "remove");
    g_assert_cmpuint(g_strv_length(add), ==, 2);
    g_assert_cmpuint(g_strv_length(remove), ==, 2);
    check_add(&s, add[0], "-sample", BASE);
    check_remove(remove[0], BASE + 0x1000, BASE + 0x2000);
    g_assert_cmpuint(set_of(&s, 0x8000), ==, 0);
    scene_clear(&s);
}

/* What gdb would read as something else is no part of a name. */
static void test_hostile(void)
{
    g_auto(GStrv) add = NULL;
    struct scene s;

    scene_init(&s, map);
    add = lines_of(&s, set_of(&s, 0x5000), "add");
    g_assert_cmpuint(g_strv_length(add), ==, 2);
    check_add(&s, add[0], "-", BASE);
    scene_clear(&s);
}

static unsigned count_files(const struct scene *s)
{
    GDir *dir = g_dir_open(s->files, 0, NULL);
    unsigned n = 0;

    while (g_dir_read_name(dir)) {
        n++;
    }
    g_dir_close(dir);
    return n;
}

/* Each gdb's sets have numbers of their own, and go when it ends. */
static void test_owners(void)
{
    struct scene s;
    unsigned first, mine[2], files;

    scene_init(&s, map);
    files = count_files(&s);
    for (unsigned i = 0; i < 2; i++) {
        process_symbols_own(s.p, i + 1);
        mine[i] = set_of(&s, i ? 0x3000 : 0x1000);
        g_assert_cmpuint(mine[i] / SETS, ==, i + 1);
        g_assert_cmpuint(set_of(&s, 0x6000), ==, 0);
    }
    first = count_files(&s);
    process_symbols_forget(s.p, 2);
    g_assert_cmpuint(count_files(&s), ==, first - 2);
    g_assert_null(lines_of(&s, mine[1], "add"));
    process_symbols_forget(s.p, 3);
    {
        g_auto(GStrv) add = lines_of(&s, mine[0], "add");

        g_assert_nonnull(add);
        check_add(&s, add[1], "-sample", BASE);
    }
    process_symbols_forget(s.p, 1);
    g_assert_cmpuint(count_files(&s), ==, files);
    scene_clear(&s);
}

/* gdb is told where the files are. */
static void test_define(void)
{
    g_autoptr(GString) text = g_string_new(NULL);
    g_autofree char *line = NULL;
    struct scene s;

    scene_init(&s, map);
    process_symbols_define(s.p, text);
    line = g_strdup_printf("eval \"source %s/symbols-%%d-add\"", s.files);
    g_assert_nonnull(strstr(text->str, line));
    g_assert_nonnull(strstr(text->str, "define " PROCESS_SYMBOLS_COMMAND));
    scene_clear(&s);
}

static void test_no_folder(void)
{
    g_autoptr(GError) error = NULL;

    g_assert_null(process_symbols_new(NULL, "/nonexistent", &error));
    g_assert_nonnull(error);
    process_symbols_free(NULL);
}

int main(int argc, char **argv)
{
    int ret;

    g_test_init(&argc, &argv, NULL);
    g_assert_cmpint(argc, ==, 2);
    g_assert_true(g_file_get_contents(argv[1], &content, &content_size, NULL));
    g_test_add_func("/process-symbols/sets", test_sets);
    g_test_add_func("/process-symbols/files", test_files);
    g_test_add_func("/process-symbols/pieces", test_pieces);
    g_test_add_func("/process-symbols/hostile", test_hostile);
    g_test_add_func("/process-symbols/owners", test_owners);
    g_test_add_func("/process-symbols/define", test_define);
    g_test_add_func("/process-symbols/no-folder", test_no_folder);
    ret = g_test_run();
    g_free(content);
    return ret;
}
