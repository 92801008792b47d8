/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The symbols of a guest's kernel as an ELF file: what gdb and nm find in it
 */

#include <glib/gstdio.h>
#include <string.h>

#include "gdb/symbol-file.h"
#include "scratch.h"
#include "symbol-samples.h"

#define K(n)    (UINT64_C(0xffffffff81000000) + (n))
#define M(n)    (UINT64_C(0xffffffffc0000000) + (n))

static char *folder;

static char *output_of(const char *const *argv)
{
    g_autoptr(GError) error = NULL;
    char *out;
    int status;

    g_spawn_sync(NULL, (char **)argv, NULL,
                 G_SPAWN_SEARCH_PATH | G_SPAWN_STDERR_TO_DEV_NULL, NULL,
                 NULL, &out, NULL, &status, &error);
    g_assert_no_error(error);
    g_assert_cmpint(status, ==, 0);
    return out;
}

static char *write_symbols(const struct btrail_symbol *symbols, unsigned n)
{
    char *path = g_build_filename(folder, "symbols", NULL);
    GArray *array = g_array_new(FALSE, FALSE, sizeof(*symbols));
    g_autoptr(GError) error = NULL;

    g_array_append_vals(array, symbols, n);
    g_assert_true(symbol_file_write(path, array, &error));
    g_assert_no_error(error);
    g_array_unref(array);
    return path;
}

static const struct btrail_symbol some[] = {
    { K(0), K(0x100), "_text", NULL, 'T' },
    { K(0), K(0x100), "startup", NULL, 't' },
    { K(0x100), K(0x180), "do_work", NULL, 'T' },
    { K(0x180), K(0x200), "weak", NULL, 'W' },
    { K(0x1000), K(0x2000), "numbers", NULL, 'D' },
    { K(0x2000), K(0x2008), "again", NULL, 't' },
    { M(0), M(0x20), "probe", "e1000", 't' },
    /* Without an end, as the last one of a table */
    { M(0x20), M(0x20), "remove", "e1000", 't' },
};

static void test_nm(void)
{
    g_autofree char *path = write_symbols(some, G_N_ELEMENTS(some));
    const char *argv[] = { "nm", "-n", path, NULL };
    g_autofree char *out = output_of(argv);

    g_assert_cmpstr(out, ==,
                    "ffffffff81000000 T _text\n"
                    "ffffffff81000000 T startup\n"
                    "ffffffff81000100 T do_work\n"
                    "ffffffff81000180 T weak\n"
                    "ffffffff81001000 B numbers\n"
                    "ffffffff81002000 T again\n"
                    "ffffffffc0000000 T probe\n"
                    "ffffffffc0000020 T remove\n");
}

/* Both ways; an address in between; and one that nothing has */
static void test_gdb(void)
{
    g_autofree char *path = write_symbols(some, G_N_ELEMENTS(some));
    const char *argv[] = {
        "gdb", "-nx", "-batch", "-ex", "info symbol 0xffffffff81000104",
        "-ex", "info symbol 0xffffffff81001000",
        "-ex", "info symbol 0xffffffff81002000",
        "-ex", "info symbol 0xffffffffc0000001",
        "-ex", "info symbol 0xffffffffc0000022",
        "-ex", "info symbol 0xffffffffb0000000",
        "-ex", "print do_work", "-ex", "print &numbers",
        "-ex", "info line *0xffffffff81000101", path, NULL,
    };
    g_autofree char *gdb = g_find_program_in_path("gdb");
    g_autofree char *out = NULL;

    if (!gdb) {
        g_test_skip("there is no gdb");
        return;
    }
    out = output_of(argv);
    g_assert_cmpstr(out, ==,
                    "do_work + 4 in section .text\n"
                    "numbers in section .data\n"
                    "again in section .text\n"
                    "probe + 1 in section .text\n"
                    "remove + 2 in section .text\n"
                    "No symbol matches 0xffffffffb0000000.\n"
                    "$1 = {<text variable, no debug info>} "
                    "0xffffffff81000100 <do_work>\n"
                    "$2 = (<data variable, no debug info> *) "
                    "0xffffffff81001000 <numbers>\n"
                    "No line number information available for address "
                    "0xffffffff81000101 <do_work+1>\n");
}

/* Whatever the guest's tables have: a file that tools can read */
static void test_hostile(void)
{
    const struct btrail_symbol odd[] = {
        { K(0), UINT64_MAX, "\x1b[2J\n", NULL, 't' },
        { K(1), K(0), "", NULL, '\0' },
        { UINT64_MAX - 1, UINT64_MAX, "almost", NULL, 'T' },
        { UINT64_MAX, UINT64_MAX, "last", NULL, 'T' },
    };
    g_autofree char *path = write_symbols(odd, G_N_ELEMENTS(odd));
    const char *argv[] = { "nm", "-n", path, NULL };
    g_autofree char *out = output_of(argv);

    g_assert_nonnull(strstr(out, "ffffffffffffffff T last\n"));
    g_assert_nonnull(strstr(out, "ffffffff81000000 T \\x1b[2J\\n\n"));
    g_assert_null(strchr(out, '\x1b'));
    g_free(path);
    path = write_symbols(odd, 0);
}

/* Code and data that change all the time: a bounded number of sections */
static void test_many(void)
{
    unsigned n = 20000;
    struct btrail_symbol *symbols = g_new0(struct btrail_symbol, n);
    g_autofree char *path = NULL, *out = NULL;
    g_auto(GStrv) lines = NULL;

    for (unsigned i = 0; i < n; i++) {
        symbols[i] = (struct btrail_symbol) {
            K(i * 16), K(i * 16 + 16), "s", NULL, i % 2 ? 't' : 'd',
        };
    }
    path = write_symbols(symbols, n);
    g_free(symbols);
    out = output_of((const char *[]) { "nm", "-n", path, NULL });
    lines = g_strsplit(out, "\n", -1);
    g_assert_cmpuint(g_strv_length(lines), ==, n + 1);
}

/* What has the place of something else at other times is not there. */
static void test_times(void)
{
    g_autofree char *path = g_build_filename(folder, "t.btrail", NULL);
    g_autoptr(GString) all = g_string_new(NULL);
    struct btrail_trace *trace;
    struct btrail_names *names;
    GArray *symbols;

    symbol_samples_write(path);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_assert_cmpint(btrail_names_open(&names, trace), ==, 0);
    symbols = symbol_file_symbols(names);
    for (unsigned i = 0; i < symbols->len; i++) {
        g_string_append_printf(all, "%s ", g_array_index(
            symbols, struct btrail_symbol, i).name);
    }
    g_assert_cmpstr(all->str, ==, "_text do_work _end stay dummy_setup ");
    g_array_unref(symbols);
    btrail_names_close(names);
    btrail_trace_close(trace);
}

int main(int argc, char **argv)
{
    int ret;

    g_test_init(&argc, &argv, NULL);
    folder = scratch_new();
    g_test_add_func("/symbol-file/nm", test_nm);
    g_test_add_func("/symbol-file/gdb", test_gdb);
    g_test_add_func("/symbol-file/hostile", test_hostile);
    g_test_add_func("/symbol-file/many", test_many);
    g_test_add_func("/symbol-file/times", test_times);
    ret = g_test_run();
    scratch_remove(folder);
    return ret;
}
