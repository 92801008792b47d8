/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Symbols of the process that runs: lists of files, for each place that a file
 * is mapped at, and whatever a guest calls it
 *
 * usage: process-symbols SAMPLE
 */

#include <glib.h>
#include <glib/gstdio.h>
#include <libxml/parser.h>
#include <string.h>
#include <unistd.h>

#include "gdb/process-symbols.h"
#include "scratch.h"

#define BASE    UINT64_C(0x555500000000)
#define HIGH    UINT64_C(0x7f0000000000)

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
    s->p = process_symbols_new(s->symbols, s->files);
}

static void scene_clear(struct scene *s)
{
    process_symbols_free(s->p);
    symbolizer_free(s->symbols);
    scratch_remove(s->folder);
    g_free(s->root);
    g_free(s->files);
}

static unsigned list_of(struct scene *s, uint64_t cr3)
{
    const struct symbolizer_where where = { .cr3 = cr3 };
    enum btrail_certainty certainty;

    return process_symbols_list(s->p, symbolizer_process(s->symbols, &where,
                                                         &certainty),
                                &where, BASE);
}

/* The same as process_symbols_has() of the list that there would be */
static bool maps(struct scene *s, uint64_t cr3, unsigned home)
{
    const struct symbolizer_where where = { .cr3 = cr3 };
    enum btrail_certainty certainty;

    return process_symbols_maps(s->p, symbolizer_process(s->symbols, &where,
                                                         &certainty),
                                &where, BASE, home);
}

/* What gdb reads: each library's name and address, one after the other */
static char **read_list(const struct scene *s, unsigned list)
{
    g_autofree char *xml = process_symbols_xml(s->p, list);
    g_autoptr(GStrvBuilder) words = g_strv_builder_new();
    xmlDoc *doc = xmlReadMemory(xml, (int)strlen(xml), NULL, NULL, 0);
    xmlNode *root = xmlDocGetRootElement(doc);

    g_assert_cmpstr((const char *)root->name, ==, "library-list");
    for (xmlNode *n = root->children; n; n = n->next) {
        xmlChar *name = xmlGetProp(n, BAD_CAST "name");
        xmlChar *at = xmlGetProp(n->children, BAD_CAST "address");

        g_assert_cmpstr((const char *)n->name, ==, "library");
        g_assert_cmpstr((const char *)n->children->name, ==, "segment");
        g_assert_null(n->children->next);
        g_strv_builder_add(words, (const char *)name);
        g_strv_builder_add(words, (const char *)at);
        xmlFree(name);
        xmlFree(at);
    }
    xmlFreeDoc(doc);
    return g_strv_builder_end(words);
}

/* A library is a copy of the sample, which is called NAME at the end. */
static void check_library(const struct scene *s, char *const *library,
                          const char *name, uint64_t bias)
{
    g_autofree char *path = g_build_filename(s->files, library[0], NULL);
    g_autofree char *from = g_build_filename(s->root, "/bin/sample", NULL);
    struct elf_file *copy = elf_file_open(path);
    struct elf_file *sample = elf_file_open(from);
    uint64_t first;

    g_assert_cmpuint(strcspn(library[0], "/'\";&<"), ==, strlen(library[0]));
    g_assert_true(g_str_has_suffix(library[0], name));
    g_assert_nonnull(copy);
    g_assert_cmphex(elf_file_find(copy, "sample_leaf")->start, ==,
                    elf_file_find(sample, "sample_leaf")->start);
    /* Its first section is in its first page. */
    first = g_ascii_strtoull(library[1], NULL, 0);
    g_assert_cmphex(first, >, bias);
    g_assert_cmphex(first, <, bias + 0x1000);
    elf_file_close(copy);
    elf_file_close(sample);
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

/* The same files at the same places are one list. */
static void test_lists(void)
{
    struct scene s;
    unsigned one, moved;

    scene_init(&s, map);
    g_assert_cmpuint(process_symbols_list(s.p, NULL, NULL, 0), ==, 0);
    g_assert_cmpuint(list_of(&s, 0x6000), ==, 0);
    g_assert_cmpuint(list_of(&s, 0x4000), ==, 0);
    one = list_of(&s, 0x1000);
    g_assert_cmpuint(one, !=, 0);
    g_assert_cmpuint(list_of(&s, 0x2000), ==, one);
    moved = list_of(&s, 0x3000);
    g_assert_cmpuint(moved, !=, 0);
    g_assert_cmpuint(moved, !=, one);
    g_assert_cmpuint(list_of(&s, 0x1000), ==, one);
    scene_clear(&s);
}

/* One file at two places is two libraries: gdb tells them apart by name. */
static void test_files(void)
{
    g_auto(GStrv) one = NULL, moved = NULL, none = NULL;
    struct scene s;

    scene_init(&s, map);
    one = read_list(&s, list_of(&s, 0x1000));
    moved = read_list(&s, list_of(&s, 0x3000));
    none = read_list(&s, 0);
    g_assert_cmpuint(g_strv_length(one), ==, 4);
    g_assert_cmpuint(g_strv_length(moved), ==, 4);
    g_assert_cmpuint(g_strv_length(none), ==, 0);
    /* That of the place comes last, so gdb looks there. */
    check_library(&s, &one[0], "-other.so", HIGH);
    check_library(&s, &one[2], "-sample", BASE);
    check_library(&s, &moved[0], "-other.so", HIGH + 0x1000000000);
    check_library(&s, &moved[2], "-sample", BASE);
    g_assert_cmpstr(one[0], !=, moved[0]);
    g_assert_cmpstr(one[2], ==, moved[2]);
    scene_clear(&s);
}

/* A file of several mappings comes once. */
static void test_pieces(void)
{
    g_auto(GStrv) libraries = NULL;
    struct scene s;

    scene_init(&s, map);
    libraries = read_list(&s, list_of(&s, 0x7000));
    g_assert_cmpuint(g_strv_length(libraries), ==, 2);
    check_library(&s, libraries, "-sample", BASE);
    scene_clear(&s);
}

/* What is a part of XML, or a path, is no part of a name. */
static void test_hostile(void)
{
    g_auto(GStrv) libraries = NULL;
    struct scene s;

    scene_init(&s, map);
    libraries = read_list(&s, list_of(&s, 0x5000));
    g_assert_cmpuint(g_strv_length(libraries), ==, 2);
    check_library(&s, libraries, "-", BASE);
    scene_clear(&s);
}

/* Whose file an address is in, and whether a process has that file there */
static void test_homes(void)
{
    unsigned one, moved, pieces, sample, other;
    struct scene s;

    scene_init(&s, map);
    one = list_of(&s, 0x1000);
    moved = list_of(&s, 0x3000);
    pieces = list_of(&s, 0x7000);
    sample = process_symbols_home(s.p, one, BASE);
    other = process_symbols_home(s.p, one, HIGH + 0xfffff);
    g_assert_cmpuint(sample, !=, 0);
    g_assert_cmpuint(other, !=, 0);
    g_assert_cmpuint(sample, !=, other);
    g_assert_cmpuint(process_symbols_home(s.p, one, BASE - 1), ==, 0);
    g_assert_cmpuint(process_symbols_home(s.p, one, HIGH + 0x100000), ==, 0);
    g_assert_cmpuint(process_symbols_home(s.p, 0, BASE), ==, 0);
    g_assert_cmpuint(process_symbols_home(s.p, moved, BASE), ==, sample);
    g_assert_cmpuint(process_symbols_home(s.p, pieces, BASE + 0x10ff), ==,
                     sample);
    g_assert_true(process_symbols_has(s.p, one, other));
    g_assert_true(process_symbols_has(s.p, moved, sample));
    g_assert_false(process_symbols_has(s.p, moved, other));
    g_assert_false(process_symbols_has(s.p, 0, sample));
    g_assert_true(maps(&s, 0x1000, other));
    g_assert_true(maps(&s, 0x3000, sample));
    g_assert_false(maps(&s, 0x3000, other));
    g_assert_false(maps(&s, 0x4000, sample));
    g_assert_false(process_symbols_maps(s.p, NULL, NULL, BASE, sample));
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

/* Each gdb's files are its own, and go when it ends. */
static void test_owners(void)
{
    g_auto(GStrv) libraries = NULL;
    struct scene s;
    unsigned mine;

    scene_init(&s, map);
    process_symbols_own(s.p, 1);
    mine = list_of(&s, 0x1000);
    g_assert_cmpuint(count_files(&s), ==, 2);
    process_symbols_own(s.p, 12);
    list_of(&s, 0x3000);
    g_assert_cmpuint(count_files(&s), ==, 3);
    process_symbols_forget(s.p, 12);
    g_assert_cmpuint(count_files(&s), ==, 2);
    process_symbols_forget(s.p, 3);
    libraries = read_list(&s, mine);
    check_library(&s, &libraries[2], "-sample", BASE);
    process_symbols_forget(s.p, 1);
    g_assert_cmpuint(count_files(&s), ==, 0);
    scene_clear(&s);
}

int main(int argc, char **argv)
{
    int ret;

    g_test_init(&argc, &argv, NULL);
    g_assert_cmpint(argc, ==, 2);
    g_assert_true(g_file_get_contents(argv[1], &content, &content_size, NULL));
    g_test_add_func("/process-symbols/lists", test_lists);
    g_test_add_func("/process-symbols/files", test_files);
    g_test_add_func("/process-symbols/pieces", test_pieces);
    g_test_add_func("/process-symbols/hostile", test_hostile);
    g_test_add_func("/process-symbols/homes", test_homes);
    g_test_add_func("/process-symbols/owners", test_owners);
    ret = g_test_run();
    g_free(content);
    return ret;
}
