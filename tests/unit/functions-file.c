/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of util/functions-file.h: what readelf of binutils reads of such a file
 */

#include <glib.h>
#include <glib/gstdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/functions-file.h"

#define BASE    UINT64_C(0x400000)
#define AREA    0x10000
#define SEGMENT 0x1000

static char *readelf(const GByteArray *file, const char *option)
{
    g_autofree char *path = NULL, *errors = NULL;
    g_autoptr(GError) error = NULL;
    char *text = NULL;
    int status, fd = g_file_open_tmp("backtrail-XXXXXX", &path, NULL);
    const char *argv[] = { "readelf", "-W", option, path, NULL };

    g_assert_true(g_close(fd, NULL));
    g_assert_true(g_file_set_contents(path, (const char *)file->data,
                                      file->len, NULL));
    g_spawn_sync(NULL, (char **)argv, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL,
                 &text, &errors, &status, &error);
    g_assert_no_error(error);
    g_assert_cmpint(status, ==, 0);
    g_assert_cmpstr(errors, ==, "");
    g_unlink(path);
    return text;
}

/* The lines that match, with single spaces */
static GPtrArray *lines(const char *text, const char *pattern)
{
    GPtrArray *found = g_ptr_array_new_with_free_func(g_free);
    g_auto(GStrv) all = g_strsplit(text, "\n", -1);
    g_autoptr(GRegex) regex = g_regex_new(pattern, 0, 0, NULL);
    g_autoptr(GRegex) spaces = g_regex_new(" +", 0, 0, NULL);

    for (char **l = all; *l; l++) {
        if (g_regex_match(regex, *l, 0, NULL)) {
            g_ptr_array_add(found, g_strstrip(g_regex_replace_literal(
                spaces, *l, -1, 0, " ", 0, NULL)));
        }
    }
    return found;
}

static void add_function(struct functions_file *f, unsigned i, unsigned area)
{
    const Elf64_Sym symbol = {
        .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
        .st_value = BASE + (uint64_t)area * AREA + 16u * i, .st_size = i + 1,
    };
    g_autofree char *name = g_strdup_printf("function_%u", i);

    functions_file_add(f, area, &symbol, name);
}

static struct functions_file *make(unsigned segments, unsigned areas,
                                   unsigned functions)
{
    struct functions_file *f = functions_file_new(ET_DYN, ELFOSABI_GNU);

    for (unsigned i = 0; i < segments; i++) {
        const Elf64_Phdr load = {
            .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_align = SEGMENT,
            .p_offset = (uint64_t)i * SEGMENT,
            .p_vaddr = BASE + (uint64_t)i * SEGMENT,
            .p_paddr = BASE + (uint64_t)i * SEGMENT,
            .p_memsz = SEGMENT, .p_filesz = SEGMENT,
        };

        functions_file_segment(f, &load);
    }
    for (unsigned i = 0; i < areas; i++) {
        functions_file_area(f, BASE + (uint64_t)i * AREA, AREA,
                            i ? ".text.of.a.name.that.is.long" : ".text");
    }
    for (unsigned i = 0; i < functions; i++) {
        add_function(f, i, i % areas);
    }
    return f;
}

/* Number, value, size, kind and section of each */
static void check_symbols(const GByteArray *file, unsigned areas,
                          unsigned functions)
{
    g_autofree char *text = readelf(file, "-s");
    g_autoptr(GPtrArray) found = lines(text, "function_");

    g_assert_cmpuint(found->len, ==, functions);
    for (unsigned i = 0; i < functions; i++) {
        unsigned area = i % areas;
        g_autofree char *want = g_strdup_printf(
            "%u: %016" G_GINT64_MODIFIER "x %u FUNC GLOBAL DEFAULT %u "
            "function_%u", i + 1, BASE + (uint64_t)area * AREA + 16u * i,
            i + 1, area + 2, i);

        g_assert_cmpstr(found->pdata[i], ==, want);
    }
}

static void test_file(void)
{
    static const uint8_t id[] = { 0xab, 0, 0x12, 0xff, 0x7f };
    static const unsigned sizes[][3] = {
        { 1, 1, 0 }, { 1, 1, 1 }, { 3, 2, 100 },
        { FUNCTIONS_FILE_SEGMENTS + 5, FUNCTIONS_FILE_AREAS + 5, 32 },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(sizes); i++) {
        unsigned segments = sizes[i][0], areas = sizes[i][1], n = sizes[i][2];
        struct functions_file *f = make(segments, areas, n);
        g_autoptr(GByteArray) file = functions_file_make(f, id, sizeof(id));
        g_autofree char *header = readelf(file, "-h");
        g_autofree char *notes = readelf(file, "-n");
        g_autofree char *loads = readelf(file, "-l");
        g_autofree char *sections = readelf(file, "-S");
        g_autoptr(GPtrArray) load = lines(loads, "^ *LOAD");
        g_autoptr(GPtrArray) code = lines(sections, "NOBITS");

        g_assert_nonnull(strstr(header, "DYN ("));
        g_assert_nonnull(strstr(header, "UNIX - GNU"));
        g_assert_nonnull(strstr(notes, "Build ID: ab0012ff7f"));
        g_assert_cmpuint(load->len, ==, MIN(segments,
                                            FUNCTIONS_FILE_SEGMENTS));
        g_assert_cmpuint(code->len, ==, MIN(areas, FUNCTIONS_FILE_AREAS));
        check_symbols(file, areas, n);
        g_assert_cmpuint(functions_file_count(f), ==, n);
        g_assert_cmpuint(file->len, <=, functions_file_size(f) +
                                        FUNCTIONS_FILE_REST);
        functions_file_free(f);
    }
    functions_file_free(NULL);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/functions-file/file", test_file);
    return g_test_run();
}
