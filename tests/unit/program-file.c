/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What gdb needs of a program's file
 *
 * usage: program-file ELF-SAMPLE
 *
 * binutils and gdb say what is in the copy.
 */

#include <elf.h>
#include <fcntl.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gdb/program-file.h"
#include "scratch.h"

#define MUTATIONS   300

static const char *sample;
static char *folder;
static uint64_t start;          /* of the last copy */

static char *path_of(const char *name)
{
    return g_build_filename(folder, name, NULL);
}

static bool have(const char *program)
{
    g_autofree char *path = g_find_program_in_path(program);

    if (!path) {
        g_test_skip("a program of binutils or gdb is missing");
    }
    return path;
}

/* What a command prints; it must succeed. */
static char *run(const char *format, ...) G_GNUC_PRINTF(1, 2);

static char *run(const char *format, ...)
{
    g_autofree char *line = NULL;
    g_autoptr(GError) error = NULL;
    char *out = NULL;
    va_list args;
    int status;

    va_start(args, format);
    line = g_strdup_vprintf(format, args);
    va_end(args);
    g_spawn_command_line_sync(line, &out, NULL, &status, &error);
    g_assert_no_error(error);
    g_assert_cmpint(status, ==, 0);
    return out;
}

static size_t size_of(const char *path)
{
    struct stat st;

    g_assert_cmpint(stat(path, &st), ==, 0);
    return st.st_size;
}

static void check_symbols(const char *from, const char *to)
{
    g_autofree char *want = run("nm %s", from), *got = run("nm %s", to);

    g_assert_true(strstr(got, "sample_local"));
    g_assert_cmpuint(strlen(want), ==, strlen(got));
    for (size_t i = 0; want[i]; i++) {
        /* It is another one if the section has no contents. */
        bool kind = i && want[i - 1] == ' ' && want[i + 1] == ' ';

        g_assert_true(kind || want[i] == got[i]);
    }
}

/* As gdb sees it: where a library of one segment is that begins at its start */
static void check_start(const char *from, const char *copy)
{
    g_autofree char *sections = run("readelf -SW %s", from);
    g_autofree char *segments = run("readelf -lW %s", copy);
    g_autofree char *want = g_strdup_printf("0x%016" G_GINT64_MODIFIER "x",
                                            start);
    g_auto(GStrv) lines = g_strsplit(sections, "\n", -1);
    uint64_t first = UINT64_MAX;

    for (char **line = lines; *line; line++) {
        g_auto(GStrv) words = g_strsplit_set(g_strstrip(*line + strcspn(
            *line, "]") + (strchr(*line, ']') ? 1 : 0)), " ", -1);
        unsigned n = 0;
        char *word[12] = { NULL };

        for (char **w = words; *w && n < 12; w++) {
            if (**w) {
                word[n++] = *w;
            }
        }
        /* Name, type, address, offset, size, -, flags */
        if (n >= 10 && strchr(word[6], 'A')) {
            first = MIN(first, g_ascii_strtoull(word[2], NULL, 16));
        }
    }
    g_assert_cmphex(start, ==, first);
    g_assert_nonnull(strstr(segments, want));
    g_assert_nonnull(strstr(segments, "LOAD"));
}

static void test_whole(void)
{
    g_autofree char *copy = path_of("copy"), *contents = NULL, *want = NULL;
    g_autofree char *got = NULL, *code = NULL, *text = NULL;
    g_autofree char *gdb = g_find_program_in_path("gdb");
    gsize n, of_code;

    if (!have("nm") || !have("objcopy") || !have("addr2line")) {
        return;
    }
    g_assert_true(program_file_copy(sample, copy, &start));
    check_symbols(sample, copy);
    check_start(sample, copy);
    /* No byte of the code */
    code = path_of("code");
    g_free(run("objcopy -O binary -j .text %s %s", sample, code));
    g_assert_true(g_file_get_contents(code, &text, &of_code, NULL));
    g_assert_true(g_file_get_contents(copy, &contents, &n, NULL));
    g_assert_cmpuint(of_code, >, 64);
    g_assert_null(memmem(contents, n, text, 64));
    g_assert_cmpuint(n, <, size_of(sample));
    if (gdb) {
        static const char *const asked =
            "gdb -nx -batch -ex 'info line sample_leaf' "
            "-ex 'info line sample_local' -ex 'info scope sample_leaf' %s";

        want = run(asked, sample);
        got = run(asked, copy);
        g_assert_nonnull(strstr(want, "elf-sample.c"));
        g_assert_cmpstr(got, ==, want);
    }
}

static unsigned sections_of(const char *path, const char *name)
{
    g_autofree char *all = run("readelf -SW %s", path);
    unsigned n = 0;

    for (const char *c = all; (c = strstr(c, name)); c++) {
        n++;
    }
    return n;
}

/* What would have gdb run something, or open another file */
static void test_hostile(void)
{
    static const char *const names[] = {
        ".debug_gdb_scripts", ".gnu_debuglink", ".gnu_debugaltlink",
        ".gdb_index", ".gnu_debugdata", ".debug_names", ".debug_macro",
        ".debug_sup", ".comment", ".note.stapsdt",
    };
    g_autofree char *bad = path_of("bad"), *copy = path_of("copy");
    g_autofree char *what = path_of("what");

    if (!have("objcopy") || !have("readelf")) {
        return;
    }
    g_assert_true(g_file_set_contents(what, "\1/tmp/x.py", -1, NULL));
    g_free(run("cp %s %s", sample, bad));
    for (unsigned i = 0; i < G_N_ELEMENTS(names); i++) {
        g_free(run("objcopy -R %s --add-section %s=%s %s", names[i], names[i],
                   what, bad));
        g_assert_cmpuint(sections_of(bad, names[i]), ==, 1);
    }
    g_assert_true(program_file_copy(bad, copy, &start));
    for (unsigned i = 0; i < G_N_ELEMENTS(names); i++) {
        g_assert_cmpuint(sections_of(copy, names[i]), ==, 0);
    }
    check_symbols(bad, copy);
}

static Elf64_Shdr *section_called(char *contents, const char *name)
{
    const Elf64_Ehdr *head = (void *)contents;
    Elf64_Shdr *all = (void *)(contents + head->e_shoff);

    for (unsigned i = 0; i < head->e_shnum; i++) {
        if (!strcmp(contents + all[head->e_shstrndx].sh_offset +
                    all[i].sh_name, name)) {
            return &all[i];
        }
    }
    g_assert_not_reached();
}

/* A little that becomes much */
static void test_packed(void)
{
    g_autofree char *packed = path_of("packed"), *copy = path_of("copy");
    g_autofree char *contents = NULL;
    Elf64_Chdr *head;
    gsize n;

    if (!have("objcopy") || !have("readelf")) {
        return;
    }
    g_free(run("objcopy --compress-debug-sections=zlib-gabi %s %s", sample,
               packed));
    g_assert_true(program_file_copy(packed, copy, &start));
    g_assert_cmpuint(sections_of(copy, ".debug_info"), ==, 1);
    g_assert_true(g_file_get_contents(packed, &contents, &n, NULL));
    head = (void *)(contents + section_called(contents,
                                              ".debug_info")->sh_offset);
    head->ch_size = UINT64_C(1) << 40;
    g_assert_true(g_file_set_contents(packed, contents, n, NULL));
    g_assert_true(program_file_copy(packed, copy, &start));
    g_assert_cmpuint(sections_of(copy, ".debug_info"), ==, 0);
    check_symbols(packed, copy);
}

static void test_no_program(void)
{
    g_autofree char *copy = path_of("none"), *fifo = path_of("fifo");
    g_autofree char *hole = path_of("hole");
    const char *const paths[] = {
        "/dev/zero", "/dev/null", folder, fifo, hole, "/nowhere", __FILE__,
    };
    int fd = open(hole, O_WRONLY | O_CREAT, 0600);

    g_assert_cmpint(mkfifo(fifo, 0600), ==, 0);
    g_assert_cmpint(ftruncate(fd, INT64_C(1) << 40), ==, 0);
    close(fd);
    for (unsigned i = 0; i < G_N_ELEMENTS(paths); i++) {
        g_assert_false(program_file_copy(paths[i], copy, &start));
        g_assert_false(g_file_test(copy, G_FILE_TEST_EXISTS));
    }
}

/* It ends, and no copy is larger than it may be. */
static void test_mutated(void)
{
    g_autofree char *bad = path_of("bad"), *copy = path_of("copy");
    g_autofree char *contents = NULL;
    const Elf64_Ehdr *head;
    unsigned copied = 0;
    gsize n;

    g_assert_true(g_file_get_contents(sample, &contents, &n, NULL));
    head = (void *)contents;
    for (unsigned i = 0; i < MUTATIONS; i++) {
        g_autofree char *other = g_memdup2(contents, n);
        /* Headers, most of the time */
        gsize begin = i % 3 ? head->e_shoff : 0;
        gsize end = i % 3 == 2 ? n : i % 3 ? begin + head->e_shnum *
                                             sizeof(Elf64_Shdr) : 64;
        gsize cut = i % 10 ? n : (gsize)g_test_rand_int_range(1, (gint32)n);

        for (unsigned k = 0; k < 4; k++) {
            other[g_test_rand_int_range((gint32)begin, (gint32)end)] =
                (char)g_test_rand_int();
        }
        g_assert_true(g_file_set_contents(bad, other, cut, NULL));
        if (program_file_copy(bad, copy, &start)) {
            copied++;
            g_assert_cmpuint(size_of(copy), <, 300u << 20);
        }
    }
    g_assert_cmpuint(copied, >, MUTATIONS / 20);
}

int main(int argc, char **argv)
{
    int ret;

    g_test_init(&argc, &argv, NULL);
    sample = argv[1];
    folder = scratch_new();
    g_test_add_func("/program-file/whole", test_whole);
    g_test_add_func("/program-file/hostile", test_hostile);
    g_test_add_func("/program-file/packed", test_packed);
    g_test_add_func("/program-file/no-program", test_no_program);
    g_test_add_func("/program-file/mutated", test_mutated);
    ret = g_test_run();
    scratch_remove(folder);
    return ret;
}
