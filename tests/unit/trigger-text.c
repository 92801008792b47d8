/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of client/trigger-text.h: triggers as people write and read them
 */

#include <string.h>

#include "client/trigger-text.h"
#include "util/json.h"
#include "util/session-words.h"

static void check(const char *text, unsigned action, const char *expected)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(JsonObject) trigger = trigger_parse(text, action, &error);
    g_autofree char *json = NULL;

    g_assert_no_error(error);
    json = btrail_json_text(trigger, FALSE);
    g_assert_cmpstr(json, ==, expected);
}

static void test_parse(void)
{
    check("nginx:foo", TRIGGER_START,
          "{\"at\":\"nginx:foo\",\"do\":\"start\",\"hits\":1}");
    check("kernel:panic", TRIGGER_DUMP,
          "{\"at\":\"kernel:panic\",\"do\":\"dump\",\"hits\":1}");
    check("a:b,longer=500ms,do=stop,hits=0x10", TRIGGER_START,
          "{\"at\":\"a:b\",\"do\":\"stop\",\"hits\":16,\"longer\":0.5}");
    /* A mark can have commas, and what looks like a field. */
    check("mark:a,b=5,do=stop", TRIGGER_START,
          "{\"at\":\"mark:a,b=5\",\"do\":\"stop\",\"hits\":1}");
    check("p:mark:do=x,y", TRIGGER_START,
          "{\"at\":\"p:mark:do=x,y\",\"do\":\"start\",\"hits\":1}");
    check("mark:", TRIGGER_START,
          "{\"at\":\"mark:\",\"do\":\"start\",\"hits\":1}");
    check("", TRIGGER_START,
          "{\"at\":\"\",\"do\":\"start\",\"hits\":1}");
}

static void check_refused(const char *text, const char *field)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *expected = g_strdup_printf(
        "--trigger: '%s': '%s' is not do=ACTION (start, stop or dump), "
        "hits=NUMBER or longer=TIME", text, field);

    g_assert_null(trigger_parse(text, TRIGGER_START, &error));
    g_assert_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE);
    g_assert_cmpstr(error->message, ==, expected);
}

static void test_refused(void)
{
    check_refused("a:b,do=fly", "do=fly");
    check_refused("a:b,do=", "do=");
    check_refused("a:b,hits=0", "hits=0");
    check_refused("a:b,hits=-1", "hits=-1");
    check_refused("a:b,hits=9223372036854775808", "hits=9223372036854775808");
    check_refused("a:b,longer=0", "longer=0");
    check_refused("a:b,longer=x", "longer=x");
    check_refused("a:b,hit=3", "hit=3");
    check_refused("a:b,,do=stop", "");
    check_refused("mark:a,do=fly", "do=fly");
}

static void check_text(const char *json, const char *expected)
{
    g_autoptr(JsonNode) node = btrail_json_parse_object(json);
    g_autofree char *text = trigger_text(json_node_get_object(node));

    g_assert_cmpstr(text, ==, expected);
}

static void test_text(void)
{
    check_text("{\"at\": \"a:b\", \"do\": \"stop\", \"hits\": 3}",
               "a:b, stop, hits 3");
    check_text("{\"at\": \"a:b\", \"do\": \"dump\", \"hits\": 1,"
               "\"longer\": 0.25, \"places\": 0}",
               "a:b, longer than 0.25 s, dump, hits 1: 0 places");
    check_text("{\"at\": 1, \"longer\": [], \"places\": \"x\"}",
               ", -, hits 0: 0 places");
}

static void test_mark(void)
{
    g_assert_cmpstr(trigger_mark("mark:a"), ==, "mark:a");
    g_assert_cmpstr(trigger_mark("p:mark:a"), ==, "mark:a");
    g_assert_null(trigger_mark("bookmark:a"));
    g_assert_null(trigger_mark("kernel:mark"));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/trigger-text/parse", test_parse);
    g_test_add_func("/trigger-text/refused", test_refused);
    g_test_add_func("/trigger-text/text", test_text);
    g_test_add_func("/trigger-text/mark", test_mark);
    return g_test_run();
}
