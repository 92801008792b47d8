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
    /* So can a function, in brackets, and a process. */
    check("p:f(int, char),do=stop", TRIGGER_START,
          "{\"at\":\"p:f(int, char)\",\"do\":\"stop\",\"hits\":1}");
    check("p:ns::f<A<int, 3>, B>::g(int,char) const,hits=2,do=stop",
          TRIGGER_START,
          "{\"at\":\"p:ns::f<A<int, 3>, B>::g(int,char) const\","
          "\"do\":\"stop\",\"hits\":2}");
    check("p:f(int, char)", TRIGGER_STOP,
          "{\"at\":\"p:f(int, char)\",\"do\":\"stop\",\"hits\":1}");
    check("p:A::operator,,do=stop", TRIGGER_START,
          "{\"at\":\"p:A::operator,\",\"do\":\"stop\",\"hits\":1}");
    check("a,b:main,do=stop", TRIGGER_START,
          "{\"at\":\"a,b:main\",\"do\":\"stop\",\"hits\":1}");
    check("p:kernel:ns::f::<u8, 3>,longer=1s", TRIGGER_START,
          "{\"at\":\"p:kernel:ns::f::<u8, 3>\",\"do\":\"start\","
          "\"hits\":1,\"longer\":1.0}");
    check("mark:a,once more,once", TRIGGER_START,
          "{\"at\":\"mark:a,once more\",\"do\":\"start\",\"hits\":1,"
          "\"once\":true}");
    check("p:f<once,once>,once,hits=2", TRIGGER_START,
          "{\"at\":\"p:f<once,once>\",\"do\":\"start\",\"hits\":2,"
          "\"once\":true}");
    /* So has the mark that ends a span. */
    check("mark:a,b,longer=2ms,until=mark:c, d,do=dump,hits=3", TRIGGER_START,
          "{\"at\":\"mark:a,b\",\"do\":\"dump\",\"hits\":3,"
          "\"longer\":0.002,\"until\":\"mark:c, d\"}");
    check("p:mark:a,until=mark:,longer=1s", TRIGGER_START,
          "{\"at\":\"p:mark:a\",\"do\":\"start\",\"hits\":1,"
          "\"until\":\"mark:\",\"longer\":1.0}");
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
        "hits=NUMBER, longer=TIME, until=mark:NAME or once", text, field);

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
    check_refused("a:b,until=c", "until=c");
    check_refused("a:b,once=1", "once=1");
    check_refused("mark:a,until=b", "until=b");
    check_refused("mark:a,until=mark:b,hits=0,do=stop", "hits=0");
    check_refused("a:b,,do=stop", "");
    check_refused("mark:a,do=fly", "do=fly");
    check_refused("p:f(int, char),hit=3", "hit=3");
    check_refused("p:f(int, char),do=stop,hit=3", "hit=3");
    check_refused("p:f(int, char),hit=3,do=stop", "hit=3");
    check_refused("a:b,", "");
    check_refused("a:b,do=stop,", "");
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
               "a:b,do=stop,hits=3");
    check_text("{\"at\": \"a:b\", \"do\": \"dump\", \"hits\": 1,"
               "\"longer\": 0.25, \"places\": 0}",
               "a:b,do=dump,hits=1,longer=0.25s: 0 places");
    check_text("{\"at\": \"a:b\", \"do\": \"dump\", \"hits\": 1,"
               "\"places\": 4096, \"capped\": true}",
               "a:b,do=dump,hits=1: 4096 places, not all");
    check_text("{\"at\": \"a:b\", \"do\": \"dump\", \"hits\": 1,"
               "\"once\": true, \"off\": true, \"places\": 1}",
               "a:b,do=dump,hits=1,once: 1 places, off");
    check_text("{\"at\": \"mark:a\", \"do\": \"dump\", \"hits\": 1,"
               "\"longer\": 0.25, \"until\": \"mark:b\", \"places\": 1,"
               "\"unmeasured\": 7}",
               "mark:a,do=dump,hits=1,longer=0.25s,until=mark:b: 1 places, "
               "7 not measured");
    check_text("{\"at\": 1, \"longer\": [], \"places\": \"x\"}",
               ",do=-,hits=0: 0 places");
}

/* What is printed means the same again. */
static void test_again(void)
{
    static const char *const places[] = {
        "a:b", "p:f(int, char)", "p:A::operator,", "a,b:f<1, 2>",
        "mark:a,b=5", "p:mark:x,y", "kernel:core::f::<':'>",
    };
    static const char *const options[] = {
        "", ",do=dump", ",hits=3", ",longer=1ms", ",longer=0.25s,hits=7",
        ",longer=31622399.999s,do=stop", ",longer=5ms,until=mark:c",
        ",once", ",hits=2,once",
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(places); i++) {
        for (unsigned k = 0; k < G_N_ELEMENTS(options); k++) {
            g_autofree char *text = g_strconcat(places[i], options[k], NULL);
            g_autoptr(JsonObject) trigger = trigger_parse(text, TRIGGER_STOP,
                                                          NULL);
            g_autofree char *again = trigger_text(trigger);
            g_autofree char *json = btrail_json_text(trigger, FALSE);

            g_test_message("%s", text);
            check(again, TRIGGER_START, json);
        }
    }
}

static void test_mark(void)
{
    g_assert_cmpstr(trigger_mark("mark:a"), ==, "mark:a");
    g_assert_cmpstr(trigger_mark("p:mark:a"), ==, "mark:a");
    g_assert_null(trigger_mark("bookmark:a"));
    g_assert_null(trigger_mark("kernel:mark"));
    g_assert_null(trigger_mark("p:ns::mark::f"));
    g_assert_null(trigger_mark("p:mark::f"));
    g_assert_null(trigger_mark("p:ns::mark:f"));
    g_assert_cmpstr(trigger_mark("p:mark::f:mark:a"), ==, "mark:a");
    g_assert_cmpstr(trigger_mark("mark::f"), ==, "mark::f");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/trigger-text/parse", test_parse);
    g_test_add_func("/trigger-text/refused", test_refused);
    g_test_add_func("/trigger-text/text", test_text);
    g_test_add_func("/trigger-text/again", test_again);
    g_test_add_func("/trigger-text/mark", test_mark);
    return g_test_run();
}
