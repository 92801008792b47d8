/* SPDX-License-Identifier: GPL-2.0-or-later */
/* usage: symbolizer SAMPLE */
#include <gio/gio.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <string.h>

#include "symbolizer.h"

static const char *sample;
static char *folder;

#define BASE        UINT64_C(0x555500000000)
#define KERNEL      UINT64_C(0xffffffff81000000)

static char *write_map(const char *text)
{
    char *path = g_build_filename(folder, "names.map", NULL);

    g_assert_true(g_file_set_contents(path, text, -1, NULL));
    return path;
}

/* The sample is mapped as a whole: an address is its offset in the file. */
static void test_names(void)
{
    g_autofree char *map = write_map(
        "ffffffff81000000 T _text\n"
        "ffffffff81000100 T do_work\n"
        "ffffffffc0000000 t probe\t[e1000]\n"
        "cr3 1000 pid=7 sorter\n"
        "555500000000-555500100000 r-xp 00000000 00:00 0 /bin/sample\n"
        "7f0000000000-7f0000001000 r-xp 00002000 00:00 0 /lib/lost.so\n"
        "10000 T jitted\n"
        "10100 T jitted2\n"
        "cr3 2000\n");
    g_autofree char *bin = g_build_filename(folder, "bin", NULL);
    g_autofree char *copy = g_build_filename(bin, "sample", NULL);
    g_autofree char *content = NULL;
    char *roots[] = { folder, NULL };
    const struct symbolizer_options options = {
        .map = map, .files.sysroots = roots,
    };
    g_autoptr(GError) error = NULL;
    const struct symbolizer_where where = { 0 };
    const struct process *sorter, *second, *third;
    const struct elf_symbol *leaf, *label;
    struct symbolizer *s;
    struct place place, again;
    struct elf_file *f = elf_file_open(sample);
    uint8_t bytes[4];
    const char *file;
    unsigned line;
    gsize size;

    g_assert_cmpint(g_mkdir_with_parents(bin, 0700), ==, 0);
    g_assert_true(g_file_get_contents(sample, &content, &size, NULL));
    g_assert_true(g_file_set_contents(copy, content, size, NULL));
    s = symbolizer_new(&options, NULL, &error);
    g_assert_no_error(error);
    g_assert_true(symbolizer_has_names(s));

    sorter = symbolizer_process(s, 5, 0x8000000000001018);
    g_assert_cmpstr(sorter->comm, ==, "sorter");
    g_assert_cmpint(sorter->pid, ==, 7);
    g_assert_true(sorter->known);
    second = symbolizer_process(s, 5, 0x2000);
    g_assert_cmpstr(second->comm, ==, "cr3:0x2000");
    g_assert_false(second->known);
    third = symbolizer_process(s, 5, 0x3000);
    g_assert_cmpstr(third->comm, ==, "cr3:0x3000");
    g_assert_true(symbolizer_process(s, 6, 0x1000) == sorter);

    /* ELF: the sample's code lies at the same offset and address. */
    leaf = elf_file_find(f, "sample_leaf");
    label = elf_file_find(f, "sample_label");
    symbolizer_place(s, sorter, BASE + leaf->start + 1, &place);
    g_assert_cmpstr(place.function->name, ==, "sample_leaf");
    g_assert_cmpstr(place.function->module->name, ==, "sample");
    g_assert_cmpstr(place.function->module->path, ==, "/bin/sample");
    g_assert_cmphex(place.offset, ==, 1);
    g_assert_true(symbolizer_line(s, &place, &file, &line));
    g_assert_true(g_str_has_suffix(file, "elf-sample.c"));
    g_assert_cmpuint(symbolizer_code(s, sorter, &where, BASE + label->start,
                                     bytes, 4), ==, 4);
    g_assert_cmpint(memcmp(bytes, "\x90\x90\x90\xc3", 4), ==, 0);
    g_assert_cmpuint(symbolizer_bits(s, sorter, BASE), ==, 64);
    symbolizer_place(s, sorter, BASE + leaf->start + 2, &again);
    g_assert_true(again.function == place.function);

    /* Elsewhere it is not known, or something else. */
    symbolizer_place(s, second, BASE + leaf->start, &place);
    g_assert_false(place.function->known);
    g_assert_cmpstr(place.function->name, ==, NAME_UNKNOWN);
    g_assert_cmpuint(symbolizer_code(s, second, &where, BASE + leaf->start,
                                     bytes, 4), ==, 0);
    symbolizer_place(s, sorter, 0x7f0000000123, &place);
    g_assert_cmpstr(place.function->module->name, ==, "lost.so");
    g_assert_cmphex(place.offset, ==, 0x2123);
    g_assert_false(symbolizer_line(s, &place, &file, &line));
    symbolizer_place(s, sorter, 0x10080, &place);
    g_assert_cmpstr(place.function->name, ==, "jitted");
    symbolizer_place(s, sorter, 0x10101, &place);
    g_assert_cmpstr(place.function->name, ==, "jitted2");
    symbolizer_place(s, sorter, 0x10000000, &place);
    g_assert_cmpstr(place.function->name, ==, NAME_UNKNOWN);

    /* The kernel is the same for all. */
    symbolizer_place(s, third, KERNEL + 0x104, &place);
    symbolizer_place(s, sorter, KERNEL + 0x108, &again);
    g_assert_true(place.function == again.function);
    g_assert_cmpstr(place.function->name, ==, "do_work");
    g_assert_cmpstr(place.function->module->name, ==, NAME_KERNEL);
    g_assert_true(place.function->module->kernel);
    symbolizer_place(s, sorter, 0xffffffffc0000001, &place);
    g_assert_cmpstr(place.function->module->name, ==, "[e1000]");
    symbolizer_place(s, sorter, UINT64_MAX, &place);
    g_assert_false(place.function->known);
    symbolizer_free(s);
    elf_file_close(f);
}

/* A kernel that is elsewhere than its file says */
static void test_vmlinux(void)
{
    struct elf_file *f = elf_file_open(sample);
    uint64_t start = elf_file_find(f, "sample_leaf")->start;
    g_autofree char *text = g_strdup_printf(
        "%" G_GINT64_MODIFIER "x T _text\n%" G_GINT64_MODIFIER
        "x t probe\t[e1000]\n", KERNEL, UINT64_C(0xffffffffc0000000));
    g_autofree char *map = write_map(text);
    struct symbolizer_options options = { .map = map, .vmlinux = sample };
    const struct symbolizer_where where = { 0 };
    const struct process *p;
    g_autoptr(GError) error = NULL;
    struct symbolizer *s = symbolizer_new(&options, NULL, &error);
    uint64_t bias = KERNEL - elf_file_find(f, "_text")->start;
    struct place place;
    uint8_t bytes[4];
    const char *file;
    unsigned line;

    g_assert_no_error(error);
    p = symbolizer_process(s, 0, 0);
    symbolizer_place(s, p, bias + start, &place);
    g_assert_cmpstr(place.function->name, ==, "sample_leaf");
    g_assert_cmpstr(place.function->module->name, ==, NAME_KERNEL);
    g_assert_true(symbolizer_line(s, &place, &file, &line));
    g_assert_cmpuint(symbolizer_code(s, p, &where, bias + start, bytes, 4),
                     ==, 4);
    symbolizer_place(s, p, 0xffffffffc0000010, &place);
    g_assert_cmpstr(place.function->name, ==, "probe");
    symbolizer_free(s);
    elf_file_close(f);

    options.vmlinux = "/nonexistent";
    g_assert_null(symbolizer_new(&options, NULL, &error));
    g_assert_nonnull(error);
    g_clear_error(&error);
    options.vmlinux = map;
    g_assert_null(symbolizer_new(&options, NULL, &error));
    g_assert_nonnull(strstr(error->message, "no ELF file"));
    g_clear_error(&error);
    options.map = "/nonexistent";
    g_assert_null(symbolizer_new(&options, NULL, &error));
}

/* Without any names nothing fails, however many address spaces there are. */
static void test_nothing(void)
{
    const struct symbolizer_options options = { 0 };
    struct symbolizer *s = symbolizer_new(&options, NULL, NULL);
    const struct process *p = NULL;
    struct place place;
    unsigned i;

    g_assert_false(symbolizer_has_names(s));
    for (i = 0; i < 70000; i++) {
        p = symbolizer_process(s, 0, (uint64_t)i << 12);
    }
    g_assert_cmpstr(p->comm, ==, "[others]");
    g_assert_cmpstr(symbolizer_process(s, 0, 0)->comm, ==, "cr3:0x0");
    symbolizer_place(s, p, 0x1234, &place);
    g_assert_cmpstr(place.function->name, ==, NAME_UNKNOWN);
    g_assert_cmpstr(place.function->module->name, ==, NAME_UNKNOWN);
    g_assert_cmphex(place.offset, ==, 0x1234);
    symbolizer_place(s, p, KERNEL, &place);
    g_assert_cmpstr(place.function->module->name, ==, NAME_KERNEL);
    g_assert_cmpuint(symbolizer_bits(s, p, 5), ==, 64);
    symbolizer_free(s);
    symbolizer_free(NULL);
}

int main(int argc, char **argv)
{
    g_autofree char *clean = NULL;
    int ret;

    g_test_init(&argc, &argv, NULL);
    g_assert_cmpint(argc, ==, 2);
    sample = argv[1];
    folder = g_dir_make_tmp("backtrail-XXXXXX", NULL);
    g_test_add_func("/symbolizer/names", test_names);
    g_test_add_func("/symbolizer/vmlinux", test_vmlinux);
    g_test_add_func("/symbolizer/nothing", test_nothing);
    ret = g_test_run();
    clean = g_strdup_printf("rm -rf '%s'", folder);
    g_assert_true(g_spawn_command_line_sync(clean, NULL, NULL, NULL, NULL));
    g_free(folder);
    return ret;
}
