/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Commands of gdb's monitor: how a line is split, and what comes back from a
 * search, also from one that was led astray
 */

#include <glib.h>
#include <string.h>

#include "gdb/monitor.h"

/* Text, what remains, and an error are in the argument: "TEXT|THEN|ERROR" */
static char *search(void *target, const char *argument, GError **error)
{
    g_auto(GStrv) parts = g_strsplit(argument, "|", 3);

    if (*parts[2]) {
        agent_fail(error, AGENT_ERROR_NAMES, "%s", parts[2]);
        return NULL;
    }
    *(char **)target = g_strdup(parts[1]);
    return g_strdup(parts[0]);
}

static void remains(void *target, GByteArray *then)
{
    char *text = *(char **)target;

    if (text) {
        g_byte_array_append(then, (void *)text, strlen(text));
        g_free(text);
    }
}

static char *run(void *target, const char *argument, GError **error)
{
    return g_strdup(argument);
}

static bool is_long(const char *argument)
{
    return strlen(argument) > 3;
}

static const struct monitor_command table[] = {
    { "both", "both LONG", run, search, is_long },
    { "find", "find WHAT", .search = search },
    { "finder", "finder", run },
    { NULL },
};

static void check_split(const char *line, const char *name, const char *rest)
{
    const char *argument;
    g_autofree char *got = monitor_split(line, &argument);

    g_assert_cmpstr(got, ==, name);
    g_assert_cmpstr(argument, ==, rest);
}

static void test_lines(void)
{
    g_autofree char *help = monitor_help(table);

    check_split("find", "find", "");
    check_split(" find \t a  b ", "find", "a  b");
    check_split("find ", "find", "");
    check_split("", "", "");
    check_split(" \t", "", "");
    g_assert_cmpstr(monitor_find(table, "find")->usage, ==, "find WHAT");
    g_assert_cmpstr(monitor_find(table, "finder")->usage, ==, "finder");
    g_assert_null(monitor_find(table, "fin"));
    g_assert_null(monitor_find(table, ""));
    g_assert_cmpstr(help, ==, "both         both LONG\n"
                    "find         find WHAT\nfinder       finder\n");
    g_assert_true(monitor_searches(&table[0], "long"));
    g_assert_false(monitor_searches(&table[0], "no"));
    g_assert_true(monitor_searches(&table[1], ""));
    g_assert_false(monitor_searches(&table[2], "long"));
}

static GByteArray *answer_of(const char *argument)
{
    GByteArray *answer = g_byte_array_new();
    char *then = NULL;
    struct monitor_search s = { &table[1], &then, argument, remains };

    monitor_search(&s, answer);
    return answer;
}

static void test_answers(void)
{
    g_autoptr(GByteArray) found = answer_of("text\n|what remains|");
    g_autoptr(GByteArray) nothing = answer_of("||");
    g_autoptr(GByteArray) failed = answer_of("||it is nowhere");
    g_autofree char *text = NULL, *empty = NULL;
    g_autoptr(GError) error = NULL;
    const void *then;
    size_t n;

    text = monitor_found(found, &then, &n, &error);
    g_assert_cmpstr(text, ==, "text\n");
    g_assert_cmpmem(then, n, "what remains", 12);
    empty = monitor_found(nothing, &then, &n, &error);
    g_assert_cmpstr(empty, ==, "");
    g_assert_cmpuint(n, ==, 0);
    g_assert_no_error(error);
    g_assert_null(monitor_found(failed, &then, &n, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_COMMAND);
    g_assert_cmpstr(error->message, ==, "it is nowhere");
}

static void require_none(const GByteArray *answer)
{
    g_autoptr(GError) error = NULL;
    const void *then;
    size_t n;

    g_assert_null(monitor_found(answer, &then, &n, &error));
    g_assert_cmpstr(error->message, ==,
                    "this takes too long, or too much memory");
    g_assert_cmpuint(n, ==, 0);
}

/* A search that ended early, or whose process has written anything */
static void test_damaged(void)
{
    g_autoptr(GByteArray) whole = answer_of("text|then|");

    require_none(NULL);
    for (unsigned n = 0; n < whole->len; n++) {
        g_autoptr(GByteArray) cut = g_byte_array_new();

        g_byte_array_append(cut, whole->data, n);
        require_none(cut);
    }
    for (unsigned i = 0; i < 8; i++) {
        g_autoptr(GByteArray) bad = g_byte_array_new();

        g_byte_array_append(bad, whole->data, whole->len);
        /* How much remains: the second word */
        memset(bad->data + 8 + i, 0xff, 8 - i);
        require_none(bad);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/monitor/lines", test_lines);
    g_test_add_func("/monitor/answers", test_answers);
    g_test_add_func("/monitor/damaged", test_damaged);
    return g_test_run();
}
