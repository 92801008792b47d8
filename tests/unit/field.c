/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of symbolize/field.h: names, columns, texts and numbers
 */
#include <glib.h>
#include <string.h>

#include "symbolize/field.h"

static struct module module = { .name = "libc.so.6" };
static const struct function function = { .name = "do_sort",
                                          .module = &module };
static const struct function other = { .name = "main", .module = &module };
static const struct place from = { .function = &function };
static const struct place to = { .function = &other };
static const struct process process = { .cr3 = 0x22f2000, .pid = 137,
                                        .tid = -1, .comm = "sh" };
static const struct named_record record = {
    .vcpu = 3, .index = 100, .time = -1, .from = 0xffffffff81000000,
    .to = 0x401000, .process = &process, .from_place = &from,
    .to_place = &to,
};

/* Each name is that of one field, which has the type that it shows. */
static void test_names(void)
{
    g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);
    bool found[N_FIELDS] = { false };
    const char *name;

    for (unsigned i = 0; (name = field_name(i)); i++) {
        enum field f = field_find(name);

        g_assert_true(g_hash_table_add(seen, (char *)name));
        g_assert_cmpint(f, <, N_FIELDS);
        g_assert_true(!found[f] == !strcmp(field_json(f), name));
        found[f] = true;
    }
    for (enum field f = 0; f < N_FIELDS; f++) {
        g_assert_true(found[f]);
    }
    g_assert_cmpint(field_find("sym_from"), ==, FIELD_SYM);
    g_assert_cmpint(field_find("function"), ==, FIELD_SYM);
    g_assert_cmpint(field_find("addr"), ==, FIELD_TO);
    g_assert_cmpint(field_find("line"), ==, FIELD_LINE);
    g_assert_cmpint(field_find("Sym"), ==, N_FIELDS);
    g_assert_cmpint(field_find(""), ==, N_FIELDS);
}

static void test_columns(void)
{
    const char *name;
    unsigned i;

    for (i = 0; (name = field_column_name(i)); i++) {
        enum field f = field_find_column(name);

        g_assert_cmpint(f, <, N_FIELDS);
        g_assert_nonnull(field_title(f));
    }
    g_assert_cmpuint(i, >, 13);
    g_assert_cmpint(field_find_column("sym_to"), ==, FIELD_SYM_TO);
    g_assert_cmpint(field_find_column("line"), ==, FIELD_SRCLINE);
    g_assert_cmpint(field_find_column("file"), ==, FIELD_SRCLINE);
    for (const char *const *none = (const char *const []) {
            "time", "index", "user", "kernel", "edge", "", NULL };
         *none; none++) {
        g_assert_cmpint(field_find_column(*none), ==, N_FIELDS);
    }
}

static void test_text(void)
{
    static const struct {
        enum field field;
        const char *text;
        const char *without;    /* places */
    } known[] = {
        { FIELD_COMM, "sh", "sh" },
        { FIELD_PID, "137", "137" },
        { FIELD_TID, "?", "?" },
        { FIELD_CR3, "0x00000000022f2000", "0x00000000022f2000" },
        { FIELD_CPU, "3", "3" },
        { FIELD_DSO, "libc.so.6", NAME_UNKNOWN },
        { FIELD_DSO_TO, "libc.so.6", NAME_UNKNOWN },
        { FIELD_SYM, "do_sort", NAME_UNKNOWN },
        { FIELD_SYM_TO, "main", NAME_UNKNOWN },
        { FIELD_FROM, "0xffffffff81000000", "0xffffffff81000000" },
        { FIELD_TO, "0x0000000000401000", "0x0000000000401000" },
        { FIELD_SRCLINE, "", "" },
        { FIELD_SRCLINE_TO, "", "" },
        { FIELD_FILE, "", "" },
        { FIELD_LINE, "0", "0" },
    };
    struct named_record without = record;
    char buf[FIELD_TEXT];

    without.from_place = without.to_place = NULL;
    for (unsigned i = 0; i < G_N_ELEMENTS(known); i++) {
        g_assert_cmpstr(field_text(known[i].field, &record, buf), ==,
                        known[i].text);
        g_assert_cmpstr(field_text(known[i].field, &without, buf), ==,
                        known[i].without);
    }
}

static void test_number(void)
{
    struct named_record r = record;

    g_assert_cmpuint(field_number(FIELD_CPU, &r), ==, 3);
    g_assert_cmpuint(field_number(FIELD_INDEX, &r), ==, 100);
    g_assert_cmpint((int64_t)field_number(FIELD_TIME, &r), ==, -1);
    g_assert_cmpint((int64_t)field_number(FIELD_TID, &r), ==, -1);
    g_assert_cmphex(field_number(FIELD_CR3, &r), ==, 0x22f2000);
    g_assert_cmphex(field_number(FIELD_TO, &r), ==, 0x401000);
    g_assert_cmpuint(field_number(FIELD_KERNEL, &r), ==, 1);
    g_assert_cmpuint(field_number(FIELD_USER, &r), ==, 0);
    r.from = 0x401000;
    g_assert_cmpuint(field_number(FIELD_KERNEL, &r), ==, 0);
    g_assert_cmpuint(field_number(FIELD_USER, &r), ==, 1);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/field/names", test_names);
    g_test_add_func("/field/columns", test_columns);
    g_test_add_func("/field/text", test_text);
    g_test_add_func("/field/number", test_number);
    return g_test_run();
}
