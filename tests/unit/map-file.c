/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of symbolize/map-file.h: lines of a map, and errors
 */
#include <glib.h>
#include <glib/gstdio.h>
#include <string.h>

#include "backtrail/transport.h"
#include "symbolize/map-file.h"

static struct map_file *parse(const char *text, GError **error)
{
    g_autofree char *copy = g_strdup(text);

    return map_file_parse(copy, "names.map", error);
}

static void check_name(struct address_space *as, uint64_t address,
                       const char *name)
{
    struct symbol s;

    g_assert_true(address_space_symbol(as, address, &s));
    g_assert_cmpstr(s.name, ==, name);
}

static void check_functions(const struct map_file *map, unsigned i,
                            uint32_t pid, const char *first, guint n)
{
    const struct map_functions *f = map_file_functions(map, i);
    const struct compiled_function *all =
        (const struct compiled_function *)f->all->data;

    g_assert_cmpuint(f->pid, ==, pid);
    g_assert_cmpuint(f->all->len, ==, n);
    g_assert_cmpstr(f->names->str + all[0].name, ==, first);
    g_assert_cmphex(all[0].end - all[0].start, ==, 0x40);
}

/* A perf-PID.map, and its lines in another file */
static void test_functions(void)
{
    static const char lines[] = "7f0000001000 40 JS:*leaf a.js:1\r\n"
                                "7f0000002000 0 nothing\n"
                                "0x7f0000003000 0x10 plain\n";
    g_autofree char *file = g_strconcat(
        "cr3 1000 pid=5 x\npid 137\n", lines, "pid 138\n", lines,
        "cr3 *\nffffffff81000000 T _text\npid 137\n"
        "7f0000009000 1 more\n", NULL);
    g_autofree char *alone = g_strdup(lines);
    g_autoptr(GError) error = NULL;
    struct map_file *map = parse(file, &error);

    g_assert_no_error(error);
    check_functions(map, 0, 137, "JS:*leaf a.js:1", 3);
    check_functions(map, 1, 138, "JS:*leaf a.js:1", 2);
    g_assert_null(map_file_functions(map, 2));
    check_name(map_file_shared(map), 0xffffffff81000000, "_text");
    map_file_free(map);
    map = map_file_parse(alone, "some/perf-77.map", &error);
    g_assert_no_error(error);
    check_functions(map, 0, 77, "JS:*leaf a.js:1", 2);
    map_file_free(map);
}

static void test_good(void)
{
    g_autoptr(GError) error = NULL;
    struct map_file *map = parse(
        "# the kernel\n"
        "ffffffff81000000 T _text\n"
        "\n"
        "cr3 0x22f2fff pid=137 sorter one\n"
        "00400000-00401000 r--p 00000000 fe:01 12   /bin/sorter one\n"
        "00401000-004a0000 r-xp 00001000 fe:01 12   /bin/sorter one\r\n"
        "7ffc0000-7ffd0000 rw-p 00000000 00:00 0\n"
        "  401786 t main\n"
        "cr3 2460000\n"
        "cr3 *\n"
        "ffffffff81000100 t second", &error);
    struct map_process *p;

    g_assert_no_error(error);
    check_name(map_file_shared(map), 0xffffffff81000180, "second");
    check_name(map_file_shared(map), 0xffffffff81000000, "_text");
    p = map_file_process(map, 0x60000000022f2000);
    g_assert_cmpstr(p->name, ==, "sorter one");
    g_assert_cmpint(p->pid, ==, 137);
    g_assert_cmpstr(address_space_find(p->space, 0x401000)->path, ==,
                    "/bin/sorter one");
    g_assert_cmphex(address_space_find(p->space, 0x401000)->offset, ==,
                    0x1000);
    g_assert_true(address_space_find(p->space, 0x401000)->code);
    g_assert_false(address_space_find(p->space, 0x400000)->code);
    g_assert_cmpstr(address_space_find(p->space, 0x7ffc0000)->path, ==, "");
    check_name(p->space, 0x401800, "main");
    p = map_file_process(map, 0x2460000);
    g_assert_null(p->name);
    g_assert_cmpint(p->pid, ==, -1);
    g_assert_null(map_file_process(map, 0x1000));
    map_file_free(map);
}

/* The address is one of PAE, too, unless it is too high or says which. */
static void test_pae(void)
{
    struct map_file *map = parse(
        "cr3 22f2020 pid=1 one\n"
        "1000-2000 r-xp 0 00:00 0 /one\n"
        "cr3 22f2040 pid=2 two\n"
        "1000-2000 r-xp 0 00:00 0 /two\n"
        "cr3 80000000022f2060 three\n"
        "cr3 1022f2060 four\n", NULL);
    struct map_process *p = map_file_process(map, BTRAIL_CR3_PAE | 0x22f2038);

    g_assert_cmpstr(p->name, ==, "one");
    g_assert_cmpint(p->pid, ==, 1);
    g_assert_cmpstr(address_space_find(p->space, 0x1000)->path, ==, "/one");
    p = map_file_process(map, BTRAIL_CR3_PAE | 0x22f2040);
    g_assert_cmpstr(p->name, ==, "two");
    g_assert_cmpstr(address_space_find(p->space, 0x1000)->path, ==, "/two");
    p = map_file_process(map, BTRAIL_CR3_PAE | 0x22f2060);
    g_assert_cmpstr(p->name, ==, "three");
    g_assert_null(map_file_process(map, BTRAIL_CR3_PAE | 0x22f2000));
    g_assert_cmpstr(map_file_process(map, 0x22f2000)->name, ==, "two");
    g_assert_cmpstr(map_file_process(map, 0x1022f2000)->name, ==, "four");
    map_file_free(map);
}

static void test_bad_functions(void)
{
    static const char *const bad[] = {
        "1000 x", "1000 10", "1000 10 ", "x 10 y", "-1 10 y",
        "ffffffff81000000 T _text", "1000-2000 r-xp 0 00:00 0",
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autofree char *text = g_strconcat("pid 1\n", bad[i], NULL);
        g_autoptr(GError) error = NULL;

        g_assert_null(parse(text, &error));
        g_assert_true(g_str_has_prefix(error->message, "names.map:2: not a "
                                       "line as in perf-PID.map"));
    }
}

static void test_bad(void)
{
    static const char *const bad[] = {
        "pid", "pid ", "pid x", "pid 1 x", "pid 4294967296",
        "x", "cr3 ", "cr3", "cr3 zz", "cr3 * name", "cr3 0x1000 pid=x y",
        "cr3 0x1000 pid=99999999999 y", "cr3 10000000000000000000 y",
        "1000-0 r-xp 0 00:00 0", "1000-2000", "1000-2000 r-xp",
        "1000-2000 r-xp zz 00:00 0 /a", "1000- r-xp 0 00:00 0",
        "1000-2000 r-xp 0 00:00", "1000", "1000 T", "1000 T ", "1000 5 a",
        "1000 T \xff\xfe", "cr3 1000 \xff", "- T a",
    };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autoptr(GError) error = NULL;
        g_autofree char *text = g_strdup_printf("# x\n%s\n", bad[i]);

        if (parse(text, &error)) {
            g_test_message("accepted: %s", bad[i]);
            g_test_fail();
        } else {
            g_assert_true(g_str_has_prefix(error->message, "names.map:2: "));
        }
    }
}

static void test_read(void)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *path = g_build_filename(g_get_tmp_dir(),
                                             "backtrail-XXXXXX", NULL);
    int fd = g_mkstemp(path);

    g_assert_cmpint(fd, >=, 0);
    g_close(fd, NULL);
    map_file_free(map_file_read(path, &error));
    g_assert_no_error(error);
    g_assert_true(g_file_set_contents(path, "# \0 #", 5, NULL));
    g_assert_null(map_file_read(path, &error));
    g_assert_nonnull(strstr(error->message, "not a text"));
    g_clear_error(&error);
    g_unlink(path);
    g_assert_null(map_file_read(path, &error));
    g_assert_error(error, G_FILE_ERROR, G_FILE_ERROR_NOENT);
    map_file_free(NULL);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/map-file/good", test_good);
    g_test_add_func("/map-file/pae", test_pae);
    g_test_add_func("/map-file/functions", test_functions);
    g_test_add_func("/map-file/bad", test_bad);
    g_test_add_func("/map-file/bad-functions", test_bad_functions);
    g_test_add_func("/map-file/read", test_read);
    return g_test_run();
}
