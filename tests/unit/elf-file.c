/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Against binutils, which share no code with elfutils
 *
 * usage: elf-file SAMPLE CXX-SAMPLE
 */
#include <elf.h>
#include <errno.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>

#include "symbolize/elf-file.h"

static const char *sample;
static const char *cxx_sample;

/* What a program prints, or NULL if it is not there */
static char *run(const char *command)
{
    g_autofree char *line = g_strdup_printf("%s '%s'", command, sample);
    char *out = NULL;
    int status;

    if (!g_spawn_command_line_sync(line, &out, NULL, &status, NULL) ||
        status || !*out) {
        g_free(out);
        g_test_skip("binutils are missing");
        return NULL;
    }
    return out;
}

static void test_symbols(void)
{
    g_autofree char *out = run("nm -S");
    g_auto(GStrv) lines = out ? g_strsplit(out, "\n", -1) : NULL;
    struct elf_file *f = elf_file_open(sample);
    const struct elf_symbol *s, *next;
    unsigned i, found = 0;

    g_assert_nonnull(f);
    g_assert_cmpuint(elf_file_info(f)->bits, ==, 64);
    g_assert_true(elf_file_has_symbols(f));
    g_assert_cmpstr(elf_file_info(f)->path, ==, sample);
    for (i = 0; lines && lines[i]; i++) {
        uint64_t address, size;
        char type, name[200];

        if (sscanf(lines[i], "%" G_GINT64_MODIFIER "x %" G_GINT64_MODIFIER
                   "x %c %199s", &address, &size, &type, name) != 4 ||
            !strchr("tTwW", type)) {
            continue;
        }
        s = elf_file_symbol(f, address);
        g_assert_nonnull(s);
        g_assert_cmphex(s->start, ==, address);
        g_assert_cmphex(s->end, ==, address + size);
        g_assert_true(elf_file_symbol(f, address + size - 1) == s);
        g_assert_true(elf_file_find(f, name) == s);
        found += !strcmp(name, s->name);
    }
    g_assert_true(!lines || found >= 4);

    s = elf_file_find(f, "sample_label");
    next = elf_file_find(f, "sample_next");
    g_assert_true(s && next);
    g_assert_cmphex(s->end, ==, s->start + 4);
    g_assert_cmphex(next->start, ==, s->end);
    g_assert_null(elf_file_find(f, "sample_data"));
    g_assert_null(elf_file_find(f, "nothing"));
    g_assert_null(elf_file_symbol(f, 0));
    g_assert_null(elf_file_symbol(f, UINT64_MAX));
    elf_file_close(f);
}

/* Some C++ has names of many thousand characters. */
static void test_long_name(void)
{
    g_autofree char *name = g_strnfill(60000, 'n'), *path = NULL;
    g_autofree char *line = NULL;
    int fd = g_file_open_tmp("backtrail-XXXXXX", &path, NULL), status;
    const struct elf_symbol *s;
    struct elf_file *f;

    line = g_strdup_printf("objcopy --redefine-sym sample_next=%s '%s' '%s'",
                           name, sample, path);
    if (!g_spawn_command_line_sync(line, NULL, NULL, &status, NULL) || status) {
        g_test_skip("binutils are missing");
    } else {
        f = elf_file_open(path);
        s = elf_file_find(f, name);
        g_assert_nonnull(s);
        g_assert_true(elf_file_symbol(f, s->start) == s);
        g_assert_nonnull(elf_file_find(f, "sample_local"));
        elf_file_close(f);
    }
    g_close(fd, NULL);
    g_unlink(path);
}

/* A name can be that of a function, and another name of others. */
static void test_aliases(void)
{
    g_autofree char *path = NULL, *line = NULL;
    int fd = g_file_open_tmp("backtrail-XXXXXX", &path, NULL), status;
    struct elf_file *f = elf_file_open(sample);
    uint64_t text = 0, leaf = elf_file_find(f, "sample_leaf")->start;
    uint64_t others[] = {
        elf_file_find(f, "main")->start, elf_file_find(f, "sample_local")->start,
    };
    g_autofree char *sections = run("readelf -SW");
    const char *at = sections ? strstr(sections, " .text ") : NULL;

    elf_file_close(f);
    if (at && sscanf(at, " .text PROGBITS %" G_GINT64_MODIFIER "x", &text)) {
        line = g_strdup_printf(
            "objcopy --add-symbol 'sample_leaf=.text:0x%" G_GINT64_MODIFIER
            "x,local,function' --add-symbol '_ZN4shop5afterEi=.text:0x%"
            G_GINT64_MODIFIER "x,local,function' --add-symbol "
            "'_ZN4shop5afterEc=.text:0x%" G_GINT64_MODIFIER
            "x,local,function' '%s' '%s'", others[0] - text, others[0] - text,
            others[1] - text, sample, path);
    }
    if (!line || !g_spawn_command_line_sync(line, NULL, NULL, &status, NULL) ||
        status) {
        g_test_skip("binutils are missing");
    } else {
        const struct elf_symbol *all;
        const GArray *found;
        unsigned sum = 0;
        size_t n;

        f = elf_file_open(path);
        all = elf_file_symbols(f, &n);
        found = elf_file_find_all(f, "sample_leaf");
        g_assert_cmpuint(found->len, ==, 2);
        for (unsigned i = 0; i < 2; i++) {
            uint64_t start = all[g_array_index(found, unsigned, i)].start;

            sum += start == leaf ? 1 : start == others[0] ? 2 : 4;
        }
        g_assert_cmpuint(sum, ==, 3);
        g_assert_cmpuint(elf_file_find_all(f, "shop::after")->len, ==, 2);
        found = elf_file_find_all(f, "shop::after(char)");
        g_assert_cmpuint(found->len, ==, 1);
        g_assert_cmphex(all[g_array_index(found, unsigned, 0)].start, ==,
                        others[1]);
        g_assert_cmpuint(elf_file_find_all(f, "main")->len, ==, 1);
        elf_file_close(f);
    }
    g_close(fd, NULL);
    g_unlink(path);
}

struct lines {
    uint64_t start;
    uint64_t end;
    unsigned leaf;
};

static void note_line(void *opaque, uint64_t start, uint64_t end,
                      const char *name, unsigned line)
{
    struct lines *l = opaque;

    if (line == 9 && g_str_has_suffix(name, "elf-sample.c")) {
        g_assert_cmphex(start, >=, l->start);
        g_assert_cmphex(end, <=, l->end);
        l->leaf++;
    }
}

static void test_lines(void)
{
    struct elf_file *f = elf_file_open(sample);
    const struct elf_symbol *s = elf_file_find(f, "sample_local");
    g_autoptr(GString) command = g_string_new("addr2line");
    g_autofree char *out = NULL;
    g_auto(GStrv) lines = NULL;
    struct lines l = { 0 };
    const char *name;
    unsigned line, i;
    uint64_t a;

    g_assert_true(elf_file_has_lines(f));
    for (a = s->start; a < s->end; a++) {
        g_string_append_printf(command, " 0x%" G_GINT64_MODIFIER "x", a);
    }
    g_string_append(command, " -e");
    out = run(command->str);
    lines = out ? g_strsplit(out, "\n", -1) : NULL;
    for (i = 0, a = s->start; lines && a < s->end; i++, a++) {
        g_autofree char *mine = NULL;

        g_assert_true(elf_file_line(f, a, &name, &line));
        mine = g_strdup_printf("%s:%u", name, line);
        *strchrnul(lines[i], ' ') = '\0';
        g_assert_cmpstr(mine, ==, lines[i]);
    }
    g_assert_false(elf_file_line(f, 0, &name, &line));
    g_assert_false(elf_file_line(f, elf_file_find(f, "_start")->start, &name,
                                 &line));
    s = elf_file_find(f, "sample_leaf");
    l.start = s->start;
    l.end = s->end;
    elf_file_lines(f, note_line, &l);
    g_assert_cmpuint(l.leaf, >=, 1);
    elf_file_close(f);
}

static void note_function(void *opaque, const struct elf_function *f)
{
    GString *all = opaque;

    g_assert_cmpuint(f->n_ranges, ==, 1);
    g_assert_cmphex(f->entry, ==, f->ranges->start);
    g_assert_cmphex(f->ranges->start, <, f->ranges->end);
    g_assert_true(g_str_has_suffix(f->source, "elf-sample.c"));
    g_string_append_printf(all, "%s:%u ", f->name, f->line);
}

/* Functions are where they are declared, not where their code begins. */
static void test_functions(void)
{
    struct elf_file *f = elf_file_open(sample);
    g_autoptr(GString) all = g_string_new(NULL);

    elf_file_functions(f, note_function, all);
    g_assert_nonnull(strstr(all->str, "sample_leaf:7 "));
    g_assert_nonnull(strstr(all->str, "sample_local:12 "));
    g_assert_nonnull(strstr(all->str, "main:21 "));
    elf_file_close(f);
}

/* The symbol of a function, as nm has it */
static void check_symbol(void *opaque, const struct elf_function *f)
{
    const char *symbols = opaque;
    g_autofree char *line = g_strdup_printf(
        "%016" G_GINT64_MODIFIER "x %s %s\n", f->entry,
        strstr(f->name, "_GLOBAL__N_") ? "t" : "T", f->name);

    if (!strcmp(f->name, "plain") || strstr(f->name, "5inner")) {
        g_assert_nonnull(strstr(symbols, line));
    }
    g_assert_cmpstr(f->name, !=, "inner");
}

/* Those of one name have names that tell them apart. */
static void test_anonymous(void)
{
    struct elf_file *f = elf_file_open(cxx_sample);
    g_autofree char *command = g_strdup_printf("nm '%s'", cxx_sample);
    g_autofree char *symbols = NULL;
    const char *first;

    if (!g_spawn_command_line_sync(command, &symbols, NULL, NULL, NULL)) {
        g_test_skip("binutils are missing");
        elf_file_close(f);
        return;
    }
    first = strstr(symbols, "_GLOBAL__N_15inner");
    g_assert_nonnull(first);
    g_assert_nonnull(strstr(first + 1, "_GLOBAL__N_15inner"));
    elf_file_functions(f, check_symbol, symbols);
    elf_file_close(f);
}

static void count_name(void *opaque, const struct elf_function *f)
{
    GHashTable *counts = opaque;
    unsigned n = GPOINTER_TO_UINT(g_hash_table_lookup(counts, f->name));

    g_hash_table_insert(counts, g_strdup(f->name), GUINT_TO_POINTER(n + 1));
}

/*
 * What is inlined everywhere has the name of its symbol, which it would have,
 * or none.
 */
static void test_inlined(void)
{
    static const char *const wanted[] = {
        "main", "plain", "within", "local",
    };
    struct elf_file *f = elf_file_open(cxx_sample);
    g_autoptr(GHashTable) counts = g_hash_table_new_full(
        g_str_hash, g_str_equal, g_free, NULL);
    GHashTableIter iter;
    gpointer name;

    elf_file_functions(f, count_name, counts);
    for (unsigned i = 0; i < G_N_ELEMENTS(wanted); i++) {
        g_assert_cmpuint(GPOINTER_TO_UINT(g_hash_table_lookup(
                             counts, wanted[i])), ==, 1);
    }
    g_hash_table_iter_init(&iter, counts);
    while (g_hash_table_iter_next(&iter, &name, NULL)) {
        if (!g_str_has_prefix(name, "_Z")) {
            g_assert_true(g_strv_contains(wanted, name));
        }
    }
    elf_file_close(f);
}

static void test_bytes(void)
{
    g_autofree char *content = NULL, *notes = run("readelf -n");
    struct elf_file *f = elf_file_open(sample);
    const struct elf_symbol *s = elf_file_find(f, "sample_label");
    uint64_t address, offset;
    uint8_t bytes[5];
    gsize size;

    g_assert_cmpuint(elf_file_read(f, s->start, bytes, 5), ==, 5);
    g_assert_cmpint(memcmp(bytes, "\x90\x90\x90\xc3\xc3", 5), ==, 0);
    g_assert_cmpuint(elf_file_read(f, 0, bytes, 0), ==, 0);
    g_assert_cmpuint(elf_file_read(f, UINT64_MAX, bytes, 5), ==, 0);
    g_assert_true(g_file_get_contents(sample, &content, &size, NULL));
    for (offset = 0; offset + 5 < size; offset++) {
        if (!memcmp(content + offset, bytes, 5) &&
            elf_file_address(f, offset, &address) && address == s->start) {
            break;
        }
    }
    g_assert_cmpuint(offset + 5, <, size);
    g_assert_false(elf_file_address(f, UINT64_MAX, &address));
    g_assert_true(elf_file_offset(f, s->start, &address));
    g_assert_cmpuint(address, ==, offset);
    g_assert_false(elf_file_offset(f, UINT64_MAX, &address));
    if (notes) {
        g_assert_nonnull(elf_file_info(f)->build_id);
        g_assert_nonnull(strstr(notes, elf_file_info(f)->build_id));
    }
    elf_file_close(f);
}

/* What was stripped comes from elsewhere. */
static void test_debug(void)
{
    g_autofree char *folder = g_dir_make_tmp("backtrail-XXXXXX", NULL);
    g_autofree char *bare = g_build_filename(folder, "bare", NULL);
    g_autofree char *debug = g_build_filename(folder, "debug", NULL);
    g_autofree char *one = g_strdup_printf("objcopy --only-keep-debug '%s' "
                                           "'%s'", sample, debug);
    g_autofree char *two = g_strdup_printf("strip -o '%s' '%s'", bare,
                                           sample);
    const struct elf_symbol *s;
    struct elf_file *f, *d;
    const char *name;
    uint64_t address;
    uint8_t byte;
    unsigned line;

    if (!g_spawn_command_line_sync(one, NULL, NULL, NULL, NULL) ||
        !g_spawn_command_line_sync(two, NULL, NULL, NULL, NULL)) {
        g_test_skip("binutils are missing");
        return;
    }
    f = elf_file_open(bare);
    d = elf_file_open(debug);
    g_assert_true(f && d);
    g_assert_false(elf_file_has_symbols(f));
    g_assert_null(elf_file_find(f, "sample_local"));
    s = elf_file_find(d, "sample_local");
    g_assert_nonnull(s);
    address = s->start;
    /* It has no bytes, whatever its program headers say. */
    g_assert_cmpuint(elf_file_read(d, address, &byte, 1), ==, 0);
    elf_file_set_debug(f, d);
    g_assert_cmpstr(elf_file_symbol(f, address)->name, ==, "sample_local");
    g_assert_true(elf_file_line(f, address, &name, &line));
    g_assert_cmpuint(elf_file_read(f, address, &byte, 1), ==, 1);
    elf_file_close(f);
    g_unlink(bare);
    g_unlink(debug);
    g_rmdir(folder);
}

static unsigned count_lines(const char *path)
{
    struct elf_file *f = elf_file_open(path);
    unsigned line, found = 0;
    const char *name;
    uint64_t address;

    g_assert_nonnull(f);
    for (address = 0; address < 0x4000; address += 0x10) {
        found += elf_file_line(f, address, &name, &line);
    }
    elf_file_close(f);
    return found;
}

/* A damaged file, in which the last name of a source file has no end */
static void test_endless_strings(void)
{
    g_autofree char *content = NULL, *path = NULL;
    const Elf64_Shdr *sections;
    const Elf64_Ehdr *header;
    unsigned i, damaged = 0;
    gsize size;
    int fd = g_file_open_tmp("backtrail-XXXXXX", &path, NULL);

    g_assert_cmpuint(count_lines(sample), >, 0);
    g_assert_true(g_file_get_contents(sample, &content, &size, NULL));
    header = (const Elf64_Ehdr *)content;
    sections = (const Elf64_Shdr *)(content + header->e_shoff);
    for (i = 0; i < header->e_shnum; i++) {
        const Elf64_Shdr *s = &sections[i];

        if (!strcmp(content + sections[header->e_shstrndx].sh_offset +
                    s->sh_name, ".debug_line_str")) {
            content[s->sh_offset + s->sh_size - 1] = 'x';
            damaged++;
        }
    }
    g_assert_cmpuint(damaged, ==, 1);
    g_assert_true(g_file_set_contents(path, content, size, NULL));
    g_assert_cmpuint(count_lines(path), ==, 0);
    g_close(fd, NULL);
    g_unlink(path);
}

/* Reads all that is said of a function. */
static void read_function(void *opaque, const struct elf_function *f)
{
    volatile size_t length = strlen(f->name) + strlen(f->source);

    for (size_t i = 0; i < f->n_ranges; i++) {
        length += f->ranges[i].end - f->ranges[i].start;
    }
}

/* Files that are none, and damaged ones */
static void test_hostile(void)
{
    g_autofree char *content = NULL, *path = NULL;
    const char *name;
    unsigned i, line;
    uint64_t address;
    uint8_t bytes[16];
    gsize size;
    size_t n;
    int fd = g_file_open_tmp("backtrail-XXXXXX", &path, NULL);

    g_assert_null(elf_file_open("/nonexistent"));
    g_assert_cmpint(errno, ==, ENOENT);
    g_assert_null(elf_file_open("/dev/null"));
    g_assert_cmpint(errno, ==, ENOEXEC);
    g_assert_null(elf_file_open(path));
    g_assert_cmpint(errno, ==, ENOEXEC);
    g_assert_true(g_file_get_contents(sample, &content, &size, NULL));
    for (i = 0; i < 300; i++) {
        g_autofree char *copy = g_memdup2(content, size);
        gsize cut = i % 3 ? size : (gsize)g_test_rand_int_range(0, size);
        struct elf_file *f;
        unsigned k;

        for (k = 0; k < 1u << i % 12; k++) {
            size_t where = g_test_rand_int_range(0, i % 2 ? 4096 : size);

            copy[where] = g_test_rand_int();
        }
        g_assert_true(g_file_set_contents(path, copy, cut, NULL));
        f = elf_file_open(path);
        if (!f) {
            continue;
        }
        elf_file_symbols(f, &n);
        elf_file_find(f, "main");
        elf_file_functions(f, read_function, NULL);
        for (k = 0; k < 0x4000; k += 0x40) {
            elf_file_symbol(f, k);
            elf_file_line(f, k, &name, &line);
            elf_file_read(f, k, bytes, sizeof(bytes));
            elf_file_address(f, k, &address);
        }
        elf_file_close(f);
    }
    g_close(fd, NULL);
    g_unlink(path);
    elf_file_close(NULL);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_assert_cmpint(argc, ==, 3);
    sample = argv[1];
    cxx_sample = argv[2];
    g_test_add_func("/elf-file/symbols", test_symbols);
    g_test_add_func("/elf-file/long-name", test_long_name);
    g_test_add_func("/elf-file/aliases", test_aliases);
    g_test_add_func("/elf-file/lines", test_lines);
    g_test_add_func("/elf-file/endless-strings", test_endless_strings);
    g_test_add_func("/elf-file/functions", test_functions);
    g_test_add_func("/elf-file/anonymous", test_anonymous);
    g_test_add_func("/elf-file/inlined", test_inlined);
    g_test_add_func("/elf-file/bytes", test_bytes);
    g_test_add_func("/elf-file/debug", test_debug);
    g_test_add_func("/elf-file/hostile", test_hostile);
    return g_test_run();
}
