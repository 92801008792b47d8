/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Test functions of guest-names/name-functions.h, by what elfutils makes of the
 * file
 */

#include <gelf.h>
#include <glib.h>
#include <string.h>

#include "allocated.h"
#include "guest-names/name-functions.h"

/* What the file's table of symbols has: a line for each */
static struct btrail_budget *budget;

static char *list(const struct name_functions *f)
{
    GByteArray *file = name_functions_file(f);
    GString *out = g_string_new(NULL);
    Elf_Scn *section = NULL;
    GElf_Shdr shdr;
    Elf *elf;

    if (!file) {
        return g_string_free(out, FALSE);
    }
    elf_version(EV_CURRENT);
    elf = elf_memory((char *)file->data, file->len);
    g_assert_nonnull(elf);
    while ((section = elf_nextscn(elf, section))) {
        g_assert_nonnull(gelf_getshdr(section, &shdr));
        for (size_t i = 1; shdr.sh_type == SHT_SYMTAB &&
             i < shdr.sh_size / shdr.sh_entsize; i++) {
            GElf_Sym s;

            g_assert_nonnull(gelf_getsym(elf_getdata(section, NULL), (int)i,
                                         &s));
            g_string_append_printf(out, "%lx+%lx %s\n", s.st_value, s.st_size,
                                   elf_strptr(elf, shdr.sh_link, s.st_name));
        }
    }
    elf_end(elf);
    g_byte_array_unref(file);
    return g_string_free(out, FALSE);
}

static void check(const char *lines, const char *want)
{
    struct name_functions *f = name_functions_new(budget, 7);
    g_autofree char *got = NULL;

    g_assert_cmpuint(name_functions_take(f, lines), ==, 0);
    got = list(f);
    g_assert_cmpstr(got, ==, want);
    name_functions_free(f);
}

static void test_lines(void)
{
    check("", "");
    check("2000 10 b\n1000 20 a b  c\n0x3000 0x8 c",
          "1000+20 a b  c\n2000+10 b\n3000+8 c\n");
    /* Not a line of a map */
    check("x 10 a\n1000 a\n1000 0 a\n1000 10\n1000 10 \n-1 10 a\n\n"
          "ffffffff81000000 10 kernel\n7fffffffffff 2 end\n"
          "11111111111111111 10 a\n 1000 10 a\n", "");
}

static void test_overlaps(void)
{
    /* The same again, another one in its place, one over two, a part of one */
    check("1000 10 a\n1000 10 a\n", "1000+10 a\n");
    check("1000 10 a\n1000 20 b\n", "1000+20 b\n");
    check("1000 10 a\n1010 10 b\n1008 10 c\n", "1008+10 c\n");
    check("1000 100 a\n1010 10 b\n", "1010+10 b\n");
    check("1010 10 b\n1000 100 a\n", "1000+100 a\n");
    check("1000 10 a\n1010 10 b\n", "1000+10 a\n1010+10 b\n");
}

static void test_limits(void)
{
    struct name_functions *f = name_functions_new(budget, 7);
    g_autofree char *long_name = g_strnfill(5000, 'x');
    g_autofree char *line = g_strdup_printf("1000 10 %s\n", long_name);
    GByteArray *file;

    g_assert_cmpuint(name_functions_take(f, line), ==, 0);
    g_assert_cmpuint(f->all.len, ==, 0);
    for (unsigned i = 1; i < 100000; i++) {
        g_autofree char *next = g_strdup_printf("%x 8 a_function_%060u\n",
                                                16 * i, i);

        g_assert_cmpuint(name_functions_take(f, next), ==, 0);
    }
    file = name_functions_file(f);
    g_assert_cmpuint(file->len, <=, 4 << 20);
    g_assert_cmpuint(file->len, >, 3 << 20);
    g_byte_array_unref(file);
    name_functions_clear(f);
    g_assert_null(name_functions_file(f));
    name_functions_free(f);
    g_assert_cmpuint(btrail_budget_left(budget), ==, BTRAIL_BUDGET_GUEST);
}

/* Without end */
static void test_budget(void)
{
    struct btrail_budget *small = btrail_budget_new_fixed(1 << 20, 4);
    struct name_functions *f = name_functions_new(small, 7);
    int64_t before = allocated();
    unsigned left_out = 0;

    for (unsigned i = 1; i < 100000; i++) {
        g_autofree char *next = g_strdup_printf("%x 8 f%u\n", 16 * i, i);

        left_out += name_functions_take(f, next);
    }
    g_assert_cmpuint(left_out, >, 50000);
    g_assert_cmpuint(f->all.len, ==, 99999 - left_out);
    g_assert_cmpint(allocated() - before, <=, 1 << 20);
    name_functions_free(f);
    g_assert_cmpuint(btrail_budget_left(small), ==, 1 << 20);
    g_assert_false(btrail_budget_take(small, 1 << 20) &&
                   name_functions_new(small, 7));
    btrail_budget_unref(small);
}

/* A file each time there are half as many more, and at the end */
static void test_due(void)
{
    struct name_functions *f = name_functions_new(budget, 7);

    g_assert_false(name_functions_due(f, true));
    name_functions_take(f, "1 1 a\n2 1 b\n3 1 c\n4 1 d\n");
    g_assert_true(name_functions_due(f, false));
    f->sent = 4;
    name_functions_take(f, "5 1 e\n6 1 f\n");
    g_assert_false(name_functions_due(f, false));
    g_assert_true(name_functions_due(f, true));
    name_functions_take(f, "7 1 g\n");
    g_assert_true(name_functions_due(f, false));
    name_functions_free(f);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    budget = btrail_budget_new_fixed(BTRAIL_BUDGET_GUEST, 4);
    g_test_add_func("/name-functions/lines", test_lines);
    g_test_add_func("/name-functions/overlaps", test_overlaps);
    g_test_add_func("/name-functions/limits", test_limits);
    g_test_add_func("/name-functions/budget", test_budget);
    g_test_add_func("/name-functions/due", test_due);
    return g_test_run();
}
