/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of symbolize/filter.h: what expressions choose, classes, errors
 */
#include <glib.h>
#include <string.h>

#include "symbolize/filter.h"

static struct module module = { .name = "libc.so.6", .path = "/lib/libc.so.6" };
static const struct function function = { .name = "do_sort",
                                          .symbol = "do_sort",
                                          .module = &module };
static const struct function other = { .name = "main", .symbol = "main",
                                       .module = &module };
static const struct place from = { .function = &function };
static const struct place to = { .function = &other };
static const struct process process = { .cr3 = 0x22f2000, .pid = 137,
                                        .tid = -1, .comm = "sh \"x\"" };
static const struct named_record record = {
    .vcpu = 3, .index = 100, .time = 1500000000, .from = 0xffffffff81000000,
    .to = 0x401000, .process = &process, .from_place = &from,
    .to_place = &to,
};

/* Any name of a function is it, with "==" and without. */
static void test_function_names(void)
{
    static const struct function sort = {
        .name = "shop::sort(int)", .symbol = "_ZN4shop4sortEi",
        .module = &module,
    };
    static const struct place place = { .function = &sort };
    static const char *const names[] = {
        "shop::sort", "shop::sort(int)", "_ZN4shop4sortEi", "sort",
    };
    struct named_record r = record;

    r.to_place = &place;
    for (unsigned i = 0; i < G_N_ELEMENTS(names); i++) {
        for (unsigned different = 0; different < 2; different++) {
            g_autofree char *text = g_strdup_printf(
                "sym_to %s '%s'", different ? "!=" : "==", names[i]);
            struct filter *f = filter_parse(text, NULL);

            g_test_message("%s", text);
            g_assert_cmpint(filter_matches(f, &r), ==, (i < 3) != different);
            filter_free(f);
        }
    }
}

static void test_fields(void)
{
    static const struct {
        const char *text;
        bool result;
    } known[] = {
        { "comm == \"sh \\\"x\\\"\"", true },
        { "comm == 'sh \"x\"'", true },
        { "process ~ ^sh", true },
        { "comm ~ '^sh$'", false },
        { "comm !~ '^sh$'", true },
        { "comm != sh", true },
        { "comm==sh", false },
        { "sym ~ \"^do_\"", true },
        { "sym=~sort", true },
        { "sym = do_sort", true },
        { "sym_from == do_sort && sym_to == main", true },
        { "symbol == main", false },
        { "function == do_sort", true },
        { "srcline == 'a.c:1'", false },
        { "srcline_to == ''", true },
        { "dso == libc.so.6", true },
        { "module == libc.so.6 && dso_from == 'libc.so.6'", true },
        { "dso_to ~ libc\\.so", true },
        { "dso_to ~ 'libc\\.so'", true },
        { "pid == 137", true },
        { "pid==0x89", true },
        { "pid > 137", false },
        { "pid >= 137", true },
        { "pid < 138", true },
        { "pid <= 136", false },
        { "tid == 137", false },
        { "tid != 137", true },
        { "tid < 137", false },
        { "tid > -2", false },
        { "tid == -1", true },
        { "cr3 == 0x22f2000", true },
        { "cr3 == 0x22f2fff", true },
        { "cr3 != 0x22f2000", false },
        { "cr3 < 0x22f3000 && cr3 > 0x22f1fff", true },
        { "cpu == 3", true },
        { "vcpu != 3", false },
        { "time > 1.4", true },
        { "time > 1.5", false },
        { "time >= 1500ms", true },
        { "time < 1500001us", true },
        { "time == 1500000000ns", true },
        { "time < 1min", true },
        { "index == 100", true },
        { "ip >= 0xffffffff81000000", true },
        { "ip > 0x401000", true },
        { "from < 0xffffffff81000000", false },
        { "addr == 0x401000 && to == 4198400", true },
        { "kernel", true },
        { "user", false },
        { "!user", true },
        { "! ( kernel )", false },
        { "kernel && !user || user", true },
        { "user || kernel && user", false },
        { "(user || kernel) && cpu == 3", true },
        { "user or kernel and cpu == 4", false },
        { "!cpu == 4", true },
        { "!!kernel", true },
        { "file == ''", true },
        { "line == 0", true },
    };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(known); i++) {
        g_autoptr(GError) error = NULL;
        struct filter *f = filter_parse(known[i].text, &error);

        g_assert_no_error(error);
        if (filter_matches(f, &record) != known[i].result) {
            g_test_message("%s", known[i].text);
            g_test_fail();
        }
        g_assert_cmpint(filter_chooses(f, filter_class(f, &record), &record),
                        ==, known[i].result);
        g_assert_cmpint(filter_uses_index(f), ==,
                        strstr(known[i].text, "index") != NULL);
        filter_free(f);
    }
    filter_free(NULL);
}

static bool restricted(const char *text, char *const *commands,
                       const bool *vcpus)
{
    g_autoptr(GError) error = NULL;
    struct filter *f = text ? filter_parse(text, &error) : NULL;
    bool result;

    g_assert_no_error(error);
    f = filter_restrict(f, commands, vcpus);
    g_assert_nonnull(f);
    result = filter_matches(f, &record);
    g_assert_cmpint(filter_may_choose(f, filter_class(f, &record)), ==,
                    result);
    filter_free(f);
    return result;
}

static void test_restrict(void)
{
    char name[] = "sh \"x\"", *mine[] = { name + 5, name, NULL };
    bool vcpus[BTRAIL_MAX_VCPUS] = { [2] = true, [3] = true };
    g_autoptr(GString) many = g_string_new("cpu == 3");

    g_assert_null(filter_restrict(NULL, NULL, NULL));
    g_assert_true(restricted(NULL, mine, NULL));
    g_assert_true(restricted(NULL, mine, vcpus));
    g_assert_true(restricted("cpu == 1 || pid == 137", mine, vcpus));
    g_assert_false(restricted("cpu == 1 || pid == 1", mine, vcpus));
    /* Not a part of a name */
    name[2] = 0;
    g_assert_false(restricted(NULL, mine, vcpus));
    g_assert_false(restricted("cpu == 3 || pid == 137", mine, NULL));
    vcpus[3] = false;
    g_assert_false(restricted(NULL, NULL, vcpus));
    /* As many comparisons as there may be */
    for (unsigned i = 1; i < FILTER_MAX_COMMON; i++) {
        g_string_append(many, " && cpu == 3");
    }
    g_assert_false(restricted(many->str, NULL, vcpus));
    vcpus[3] = true;
    g_assert_true(restricted(many->str, NULL, vcpus));
}

/* A set, together with an expression or without */
static void test_within(void)
{
    struct record_set *set = record_set_new();
    struct named_record r = record;

    record_set_add(set, 3, 90, 110);
    record_set_seal(set);
    for (unsigned i = 0; i < 2; i++) {
        struct filter *f = i ? filter_parse("index != 100", NULL) : NULL;

        f = filter_within(f, set);
        g_assert_true(filter_uses_index(f));
        for (r.index = 80; r.index < 120; r.index++) {
            bool in = r.index >= 90 && r.index < 110;

            uint64_t class;

            r.vcpu = 3;
            g_assert_cmpint(filter_matches(f, &r), ==,
                            in && !(i && r.index == 100));
            /* As if it were in the set */
            class = filter_class_within(f, filter_class(f, &r));
            g_assert_cmpint(filter_chooses(f, class, &r), ==,
                            !(i && r.index == 100));
            r.vcpu = 2;
            g_assert_false(filter_matches(f, &r));
        }
        filter_free(f);
    }
    record_set_free(set);
}

/* Up to there, the class stays what it is. */
static void test_until(void)
{
    static const char *const texts[] = {
        "cpu == 3", "index < 105", "index == 100 || index > 110",
        "index >= 0", "index != 18446744073709551615", "index <= 99",
        "comm == x && !(index == 101)",
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(texts); i++) {
        struct filter *f = filter_parse(texts[i], NULL);
        struct named_record r = record;
        uint64_t class = 0, until = 0;

        for (r.index = 90; r.index < 120; r.index++) {
            if (r.index >= until) {
                class = filter_class(f, &r);
                until = filter_until(f, &r);
                g_assert_cmpuint(until, >, r.index);
            }
            g_assert_cmpuint(filter_class(f, &r), ==, class);
        }
        g_assert_true(filter_uses_index(f) || until == UINT64_MAX);
        filter_free(f);
    }
}

/* Names have any bytes; what is not UTF-8 is U+FFFD. */
static void test_bytes(void)
{
    static const struct {
        const char *text;
        bool result;
    } known[] = {
        { "comm == 'a\n\x1b\\\xef\xbf\xbd\xef\xbf\xbd'", true },
        { "comm == 'a\n\x1b'", false },
        { "comm ~ '^a\\n\\x1b\\\\..$'", true },
        { "comm ~ '\\x{fffd}$'", true },
        { "comm ~ '[\xc3\xa4\xc3\xb6]'", false },
        { "comm !~ 'b$'", true },
    };
    const struct process p = { .comm = "a\n\x1b\\\xff\xf0" };
    struct named_record r = record;
    g_autoptr(GError) error = NULL;

    r.process = &p;
    for (unsigned i = 0; i < G_N_ELEMENTS(known); i++) {
        struct filter *f = filter_parse(known[i].text, &error);

        g_assert_no_error(error);
        g_test_message("%u", i);
        g_assert_cmpint(filter_matches(f, &r), ==, known[i].result);
        filter_free(f);
    }
    g_assert_null(filter_parse("comm ~ '\xf0'", &error));
    g_assert_nonnull(error);
}

/* The class has what records have in common, and nothing else. */
static void test_class(void)
{
    struct filter *f = filter_parse("cpu == 3 && sym == do_sort || "
                                    "time > 2 && sym == main", NULL);
    struct named_record r = record;
    const struct named_record edge = {
        .process = &process, .from_place = &to, .to_place = &to,
    };

    g_assert_cmphex(filter_class(f, &record), ==, 1);
    r.time = 3000000000;
    g_assert_cmphex(filter_class(f, &r), ==, 3);
    r.vcpu = 0;
    r.from_place = NULL;
    g_assert_cmphex(filter_class(f, &r), ==, 2);
    g_assert_true(filter_may_choose(f, 1));
    g_assert_true(filter_may_choose(f, 2));
    g_assert_false(filter_may_choose(f, 0));
    g_assert_true(filter_chooses(f, 2, &edge));
    g_assert_false(filter_chooses(f, 1, &edge));
    g_assert_true(filter_chooses(f, 1, &record));
    filter_free(f);
    f = filter_parse("!(cpu == 3 || kernel)", NULL);
    g_assert_false(filter_may_choose(f, 1));
    g_assert_true(filter_may_choose(f, 0));
    filter_free(f);
}

/* Each term is looked at once: a long expression takes no longer than its
 * length. */
static void test_long(void)
{
    static const char *const joints[] = { " && ", " || " };
    unsigned i, n;

    for (i = 0; i < G_N_ELEMENTS(joints); i++) {
        g_autoptr(GString) text = g_string_new("sym != main");
        struct filter *f;

        for (n = 1; n < 200; n++) {
            g_string_append_printf(text, "%ssym != main", joints[i]);
        }
        f = filter_parse(text->str, NULL);
        g_assert_nonnull(f);
        g_assert_true(filter_may_choose(f, filter_class(f, &record)));
        g_assert_true(filter_matches(f, &record));
        filter_free(f);
    }
}

static void test_errors(void)
{
    static const char *const bad[][2] = {
        { "", "name of a field" },
        { "foo == 1", "at 'foo == 1' of 'foo == 1'" },
        { "comm", "comparison is missing" },
        { "comm == ", "text expected" },
        { "comm == \"sh", "quote" },
        { "comm < sh", "compare text" },
        { "comm ~ '('", "at 'comm" },
        { "pid ~ 5", "~ is for text" },
        { "pid == x", "number expected" },
        { "pid == 5x", "this is not a number" },
        { "pid == 99999999999999999999", "too large" },
        { "time > 99999999999", "too long" },
        { "time > 5x", "not a number" },
        { "(cpu == 1", ") is missing" },
        { "cpu == 1)", "has ended before this" },
        { "cpu == 1 cpu == 2", "has ended before this" },
        { "cpu == 1 &&", "name of a field" },
        { "|| cpu == 1", "name of a field" },
        { "com == sh", "unknown field 'com' (did you mean 'comm'?)" },
        { "frobnicate", "the fields are comm process pid" },
        { "cpu == 1 || (", "name of a field" },
        { "comm == \xff", "UTF-8" },
        { "x\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4"
          "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4", "unknown field" },
    };
    g_autoptr(GString) deep = g_string_new(NULL);
    g_autoptr(GString) many = g_string_new("cpu == 0");
    g_autoptr(GError) error = NULL;
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_assert_null(filter_parse(bad[i][0], &error));
        g_assert_nonnull(error);
        g_assert_true(g_utf8_validate(error->message, -1, NULL));
        if (!strstr(error->message, bad[i][1])) {
            g_test_message("%s: %s", bad[i][0], error->message);
            g_test_fail();
        }
        g_clear_error(&error);
    }
    for (i = 0; i < 100000; i++) {
        g_string_append_c(deep, i % 2 ? '(' : '!');
        g_string_append(many, " || cpu == 0");
    }
    g_assert_null(filter_parse(deep->str, &error));
    g_assert_nonnull(strstr(error->message, "nested"));
    g_clear_error(&error);
    g_assert_null(filter_parse(many->str, &error));
    g_assert_nonnull(strstr(error->message, "too many"));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/filter/fields", test_fields);
    g_test_add_func("/filter/function-names", test_function_names);
    g_test_add_func("/filter/restrict", test_restrict);
    g_test_add_func("/filter/within", test_within);
    g_test_add_func("/filter/until", test_until);
    g_test_add_func("/filter/bytes", test_bytes);
    g_test_add_func("/filter/class", test_class);
    g_test_add_func("/filter/long", test_long);
    g_test_add_func("/filter/errors", test_errors);
    return g_test_run();
}
