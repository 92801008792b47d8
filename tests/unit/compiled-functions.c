/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of util/compiled-functions.h: lines that a guest writes, and which
 * functions are left of those that overlap, by comparing all of them
 */

#include <elf.h>
#include <string.h>

#include "util/compiled-functions.h"

#define BASE    UINT64_C(0x7f0000000000)

static enum compiled_line parse(const char *line, struct compiled_function *f,
                                const char **name)
{
    return compiled_functions_parse(line, strlen(line), f, name);
}

static void test_lines(void)
{
    static const char *const bad[] = {
        "", " ", "1000", "1000 ", "1000 20", "1000 20 ", "x 20 f", "-1 20 f",
        "1000 -20 f", "1000  20 f", " 1000 20 f", "1000\t20 f", "1000 20\tf",
        "10000000000000000 20 f", "1000 10000000000000000 f",
    };
    static const char *const nothing[] = {
        "1000 0 f", "ffffffff81000000 20 f", "800000000000 1 f",
        "7fffffffffff 2 f", "1 ffffffffffffffff f", "0 800000000001 f",
    };
    g_autofree char *longest = g_strnfill(4095, 'n');
    g_autofree char *line = g_strconcat("1000 20 ", longest, NULL);
    g_autofree char *longer = g_strconcat(line, "n", NULL);
    struct compiled_function f;
    const char *name;

    for (unsigned i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_assert_cmpint(parse(bad[i], &f, &name), ==, COMPILED_LINE_BAD);
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(nothing); i++) {
        g_assert_cmpint(parse(nothing[i], &f, &name), ==,
                        COMPILED_LINE_NOTHING);
    }
    g_assert_cmpint(parse("0x1000 0x20 a b", &f, &name), ==,
                    COMPILED_LINE_FUNCTION);
    g_assert_cmphex(f.start, ==, 0x1000);
    g_assert_cmphex(f.end, ==, 0x1020);
    g_assert_cmpstr(name, ==, "a b");
    g_assert_cmpint(parse("7fffffffffff 1 f", &f, &name), ==,
                    COMPILED_LINE_FUNCTION);
    g_assert_cmphex(f.end, ==, UINT64_C(1) << 47);
    g_assert_cmpint(parse(line, &f, &name), ==, COMPILED_LINE_FUNCTION);
    g_assert_cmpint(parse(longer, &f, &name), ==, COMPILED_LINE_BAD);
    /* The name ends with the line, which other bytes follow. */
    g_assert_cmpint(compiled_functions_parse("1000 20 f", 8, &f, &name), ==,
                    COMPILED_LINE_BAD);
    g_assert_cmpint(compiled_functions_parse("1000 20 f", 9, &f, &name), ==,
                    COMPILED_LINE_FUNCTION);
}

static void test_paths(void)
{
    static const char *const bad[] = {
        "", "/tmp/perf-.map", "/tmp/perf-1.ma", "/tmp/perf-1.map.old",
        "/tmp/perf-+1.map", "/tmp/perf- 1.map", "/tmp/perf-2147483648.map",
        "/tmp/perf-99999999999999999999.map", "/tmp/perf-1.map/", "perf-x.map",
    };
    char path[COMPILED_FUNCTIONS_PATH];
    uint32_t pid;

    compiled_functions_path(path, UINT32_MAX);
    g_assert_cmpstr(path, ==, "/tmp/perf-4294967295.map");
    compiled_functions_path(path, 123);
    g_assert_true(compiled_functions_is_path(path, &pid));
    g_assert_cmpuint(pid, ==, 123);
    g_assert_true(compiled_functions_is_path("perf-2147483647.map", &pid));
    g_assert_cmpuint(pid, ==, INT32_MAX);
    for (unsigned i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_assert_false(compiled_functions_is_path(bad[i], &pid));
    }
}

/* Functions of an ELF file: their names by where they start */
static GHashTable *functions_of(const GByteArray *file)
{
    GHashTable *found = g_hash_table_new_full(g_int64_hash, g_int64_equal,
                                              g_free, g_free);
    const Elf64_Ehdr *h = (const void *)file->data;
    const uint8_t *sections = file->data + h->e_shoff;

    for (unsigned i = 0; i < h->e_shnum; i++) {
        Elf64_Shdr s, texts;
        Elf64_Sym symbol;

        /* Nothing of it has to be aligned. */
        memcpy(&s, sections + i * sizeof(s), sizeof(s));
        for (unsigned k = 0; s.sh_type == SHT_SYMTAB &&
                             k < s.sh_size / sizeof(symbol); k++) {
            memcpy(&symbol, file->data + s.sh_offset + k * sizeof(symbol),
                   sizeof(symbol));
            memcpy(&texts, sections + s.sh_link * sizeof(s), sizeof(s));
            if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC) {
                g_hash_table_insert(found, g_memdup2(&symbol.st_value, 8),
                                    g_strdup_printf("%s %u",
                                                    (const char *)file->data +
                                                    texts.sh_offset +
                                                    symbol.st_name, (unsigned)
                                                    symbol.st_size));
            }
        }
    }
    return found;
}

/* Where a process compiles anew, code is overwritten: what was there before has
 * ended, whatever has come after that. */
static void check_overlaps(unsigned n, unsigned space)
{
    static const uint8_t id[COMPILED_FUNCTIONS_ID] = { 1 };
    g_autofree struct compiled_function *all =
        g_new0(struct compiled_function, n);
    g_autoptr(GString) names = g_string_new(NULL);
    g_autoptr(GByteArray) file = NULL;
    g_autoptr(GHashTable) found = NULL;
    unsigned left = 0;

    for (unsigned i = 0; i < n; i++) {
        all[i].start = BASE + g_test_rand_int_range(0, space);
        all[i].end = all[i].start + g_test_rand_int_range(1, 40);
        all[i].number = 7 + 3 * i;
        all[i].name = names->len;
        g_string_append_printf(names, "f%u", i);
        g_string_append_c(names, '\0');
    }
    file = compiled_functions_file(all, n, names->str, 1u << 20, id);
    g_assert_nonnull(file);
    found = functions_of(file);
    for (unsigned i = 0; i < n; i++) {
        g_autofree char *want = g_strdup_printf(
            "f%u %u", i, (unsigned)(all[i].end - all[i].start));
        const char *has = g_hash_table_lookup(found, &all[i].start);
        bool over = false;

        for (unsigned k = i + 1; k < n; k++) {
            over |= all[k].start < all[i].end && all[i].start < all[k].end;
        }
        left += !over;
        if (!over) {
            g_assert_cmpstr(has, ==, want);
        } else {
            g_assert_true(!has || strcmp(has, want));
        }
    }
    g_assert_cmpuint(g_hash_table_size(found), ==, left);
}

static void test_overlaps(void)
{
    for (unsigned i = 0; i < 2000; i++) {
        check_overlaps(g_test_rand_int_range(1, 12), 120);
    }
    for (unsigned i = 0; i < 20; i++) {
        check_overlaps(400, i % 2 ? 4000 : 100000);
    }
}

/* A later one is over two; and one of those was over a third, which ends. */
static void test_gone(void)
{
    static const uint8_t id[COMPILED_FUNCTIONS_ID] = { 1 };
    static const struct compiled_function all[] = {
        { BASE + 40, BASE + 60, 1, 0 }, { BASE + 5, BASE + 50, 2, 6 },
        { BASE, BASE + 10, 3, 13 },
    };
    g_autoptr(GByteArray) file = compiled_functions_file(
        all, 3, "first\0second\0third", 1u << 20, id);
    g_autoptr(GHashTable) found = functions_of(file);

    g_assert_cmpuint(g_hash_table_size(found), ==, 1);
    g_assert_cmpstr(g_hash_table_lookup(found, &all[2].start), ==,
                    "third 10");
}

/* Without functions there is no file; and what has no room is left out. */
static void test_room(void)
{
    enum { N = 2000, MOST = 32 << 10 };
    static const uint8_t id[COMPILED_FUNCTIONS_ID] = { 1 };
    struct compiled_function all[N];
    g_autoptr(GByteArray) file = NULL;
    g_autoptr(GHashTable) found = NULL;

    g_assert_null(compiled_functions_file(NULL, 0, "", MOST, id));
    for (unsigned i = 0; i < N; i++) {
        all[i] = (struct compiled_function) {
            BASE + 16 * i, BASE + 16 * i + 16, i, 0,
        };
    }
    file = compiled_functions_file(all, N, "function", MOST, id);
    g_assert_cmpuint(file->len, <=, MOST);
    found = functions_of(file);
    g_assert_cmpuint(g_hash_table_size(found), >, 100);
    for (unsigned i = 0; i < N; i++) {
        g_assert_cmpint(g_hash_table_contains(found, &all[i].start), ==,
                        i < g_hash_table_size(found));
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/compiled-functions/lines", test_lines);
    g_test_add_func("/compiled-functions/paths", test_paths);
    g_test_add_func("/compiled-functions/overlaps", test_overlaps);
    g_test_add_func("/compiled-functions/gone", test_gone);
    g_test_add_func("/compiled-functions/room", test_room);
    return g_test_run();
}
