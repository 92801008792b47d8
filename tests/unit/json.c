/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of JSON from untrusted sources
 */

#include <string.h>

#include "util/json.h"

static void test_parse(void)
{
    JsonNode *node = btrail_json_parse_object(
        "{\"s\": \"x\", \"i\": 7, \"d\": 1.5, \"o\": {\"n\": null}, "
        "\"a\": [], \"t\": true, \"f\": false}");
    JsonObject *o;

    g_assert_nonnull(node);
    o = json_node_get_object(node);
    g_assert_cmpstr(btrail_json_string(o, "s"), ==, "x");
    g_assert_null(btrail_json_string(o, "i"));
    g_assert_null(btrail_json_string(o, "o"));
    g_assert_null(btrail_json_string(o, "a"));
    g_assert_null(btrail_json_string(o, "none"));
    g_assert_cmpint(btrail_json_int(o, "i", -1), ==, 7);
    g_assert_cmpint(btrail_json_int(o, "s", -1), ==, -1);
    g_assert_cmpint(btrail_json_int(o, "d", -1), ==, -1);
    g_assert_cmpint(btrail_json_int(o, "none", -1), ==, -1);
    g_assert_true(btrail_json_is_true(o, "t"));
    g_assert_false(btrail_json_is_true(o, "f"));
    g_assert_false(btrail_json_is_true(o, "i"));
    g_assert_false(btrail_json_is_true(o, "o"));
    g_assert_false(btrail_json_is_true(o, "none"));
    g_assert_nonnull(btrail_json_object(o, "o"));
    g_assert_null(btrail_json_object(o, "a"));
    g_assert_null(btrail_json_string(btrail_json_object(o, "o"), "n"));
    json_node_unref(node);
}

static void test_garbage(void)
{
    static const char *const texts[] = {
        "", " ", "x", "1", "null", "[]", "\"{}\"", "{", "}", "{]", "{\"a\"",
        "{\"a\":", "{\"a\":\"", "{\"a\":\"\\", "\xff", "{\"a\": \"\xc3\"}",
        "{\"a\": \"\n\"}", "{\"a\": 'b'}", "{\"a\": 1} // b", "# a\n{}",
        "{\"a\": \"\\x\"}", "{\"a\": \"\\u12g4\"}", "{\"a\": \"\\u12\"}",
        "{\"a\": \"\\udc00\"}", "{\"a\": \"\\ud800\"}",
        "{\"a\": \"\\ud800\\u0020\"}", "{\"a\": \"\\ud800\\ud800\"}",
    };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(texts); i++) {
        g_assert_null(btrail_json_parse_object(texts[i]));
    }
}

/* Depth that would be the end of a parser that recurses */
static void test_depth(void)
{
    static const struct {
        const char *open, *close;
        unsigned depth;
        gboolean ok;
    } cases[] = {
        { "[", "]", 60, TRUE },
        { "[", "]", 100, FALSE },
        { "[", "]", 1000000, FALSE },
        { "{\"a\":", "}", 60, FALSE }, /* and nothing inside */
        { "{\"a\":", "}", 1000000, FALSE },
        { "[", "", 1000000, FALSE },
    };
    unsigned i, j;
    JsonNode *node;

    for (i = 0; i < G_N_ELEMENTS(cases); i++) {
        GString *text = g_string_new("{\"x\":");

        for (j = 0; j < cases[i].depth; j++) {
            g_string_append(text, cases[i].open);
        }
        for (j = 0; j < cases[i].depth; j++) {
            g_string_append(text, cases[i].close);
        }
        g_string_append_c(text, '}');
        node = btrail_json_parse_object(text->str);
        g_assert_true(!node == !cases[i].ok);
        g_clear_pointer(&node, json_node_unref);
        g_string_free(text, TRUE);
    }
    /* Brackets in strings have no depth. */
    node = btrail_json_parse_object(
        "{\"x\": \"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
        "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\\\"[[[[[[[[[[[[[[[[[[[[[[[[\"}");
    g_assert_nonnull(node);
    json_node_unref(node);
}

/* Neither what strings have nor how many values there are is depth. */
static void test_brackets(void)
{
    GString *text = g_string_new("{\"x\":[\"");
    JsonNode *node;
    JsonArray *array;
    unsigned i;

    for (i = 0; i < 100000; i++) {
        g_string_append_c(text, "[{"[i % 2]);
    }
    g_string_append_c(text, '"');
    for (i = 0; i < 100000; i++) {
        g_string_append(text, i % 2 ? ",[]" : ",{}");
    }
    g_string_append(text, "]}");
    node = btrail_json_parse_object(text->str);
    g_assert_nonnull(node);
    array = btrail_json_array(json_node_get_object(node), "x");
    g_assert_cmpuint(json_array_get_length(array), ==, 100001);
    g_assert_cmpuint(strlen(json_array_get_string_element(array, 0)), ==,
                     100000);
    json_node_unref(node);
    g_string_free(text, TRUE);
}

static void test_escapes(void)
{
    JsonNode *node = btrail_json_parse_object(
        "{\"a\": \"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e4\\ud83d\\ude00\"}");

    g_assert_nonnull(node);
    g_assert_cmpstr(btrail_json_string(json_node_get_object(node), "a"), ==,
                    "\"\\/\b\f\n\r\t\xc3\xa4\xf0\x9f\x98\x80");
    json_node_unref(node);
}

/* What json-glib takes for a string or a comment may hide brackets. */
static void test_hidden_depth(void)
{
    static const char *const texts[] = {
        "/*\"*/{\"a\":", "{\"b\": '\"', \"a\":", "{\"\\u1\" \":",
        "{\"\\ud800\" \":", "//\"\n{\"a\":", "#\"\n{\"a\":",
    };
    unsigned i, j;

    for (i = 0; i < G_N_ELEMENTS(texts); i++) {
        GString *text = g_string_new(texts[i]);

        for (j = 0; j < 1000000; j++) {
            g_string_append_c(text, '[');
        }
        g_assert_null(btrail_json_parse_object(text->str));
        g_string_free(text, TRUE);
    }
}

static const char *time_of(JsonObject *json, gint64 seconds)
{
    json_object_remove_member(json, "t");
    btrail_json_set_time(json, "t", seconds);
    return btrail_json_string(json, "t");
}

static void test_time(void)
{
    g_autoptr(JsonObject) json = json_object_new();

    g_setenv("TZ", "Asia/Kolkata", TRUE);
    g_assert_cmpstr(time_of(json, 0), ==, "1970-01-01T00:00:00Z");
    g_assert_cmpstr(time_of(json, 1709251199), ==, "2024-02-29T23:59:59Z");
    g_assert_cmpstr(time_of(json, 253402300799), ==, "9999-12-31T23:59:59Z");
    g_assert_cmpstr(time_of(json, 253402300800), ==, NULL);
    g_assert_cmpstr(time_of(json, G_MAXINT64), ==, NULL);
    g_assert_cmpstr(time_of(json, G_MININT64), ==, NULL);
}

static void test_members(void)
{
    g_autoptr(JsonObject) json = btrail_json_new("s:text", "x", "S:none", NULL,
                                                 "u:small", UINT_MAX,
                                                 "X:hex", G_MAXUINT64, NULL);
    g_autoptr(JsonNode) node = NULL;
    g_autofree char *text = NULL;

    btrail_json_add(json, "U:large", G_MAXINT64, "b:yes", TRUE, "d:part", 0.5,
                    "o:object", json_object_new(), "a:array", json_array_new(),
                    NULL);
    node = json_node_init_object(json_node_alloc(), json);
    text = json_to_string(node, FALSE);
    g_assert_cmpstr(text, ==,
                    "{\"text\":\"x\",\"small\":4294967295,"
                    "\"hex\":\"0xffffffffffffffff\","
                    "\"large\":9223372036854775807,\"yes\":true,"
                    "\"part\":0.5,\"object\":{},\"array\":[]}");
}

/* Whatever is in an object, its text is JSON, and means the same. */
static void test_text(void)
{
    g_autoptr(JsonObject) o = btrail_json_new(
        "s:a\n\xc2\x9b", "\x1f\"\\\xe2\x80\xae\xff", "d:big", 1e308,
        "d:inf", 1 / 0., "d:nan", 0 / 0., "d:one", 1., "d:half", 0.5,
        "d:small", -5e-324, "U:int", G_MININT64, "b:yes", TRUE,
        "o:none", json_object_new(), "a:list", json_array_new(), NULL);
    static const char expected[] =
        "{\"a\\n\\u009b\":\"\\u001f\\\"\\\\\\u202e\xef\xbf\xbd\","
        "\"big\":1e+308,\"inf\":null,\"nan\":null,\"one\":1.0,\"half\":0.5,"
        "\"small\":-4.9406564584124654e-324,\"int\":-9223372036854775808,"
        "\"yes\":true,\"none\":{},\"list\":[]}";
    g_autofree char *text = NULL, *pretty = NULL, *again = NULL;
    g_autoptr(JsonNode) node = NULL;

    text = btrail_json_text(o, FALSE);
    g_assert_cmpstr(text, ==, expected);
    json_array_add_int_element(btrail_json_array(o, "list"), 1);
    json_array_add_null_element(btrail_json_array(o, "list"));
    pretty = btrail_json_text(o, TRUE);
    g_assert_true(g_str_has_suffix(
        pretty, ",\n  \"none\" : {},\n  \"list\" : [\n    1,\n    null\n  ]"
        "\n}"));
    node = btrail_json_parse_object(pretty);
    g_assert_nonnull(node);
    again = btrail_json_text(json_node_get_object(node), TRUE);
    g_assert_cmpstr(again, ==, pretty);
}

/* Integers are what they are, or none. */
static void test_numbers(void)
{
    static const struct {
        const char *text;
        gint64 value;
        gboolean other;         /* it is a number of another type */
    } cases[] = {
        { "0", 0 }, { "-0", 0 }, { "7", 7 }, { "-1", -1 },
        { "1000000000000000000", G_GINT64_CONSTANT(1000000000000000000) },
        { "9223372036854775806", G_MAXINT64 - 1 },
        { "9223372036854775807", G_MAXINT64 },
        { "9223372036854775808", 0, TRUE },
        { "9999999999999999999", 0, TRUE },
        { "18446744073709551615", 0, TRUE },
        { "18446744073709551616", 0, TRUE },
        { "18446744073709551623", 0, TRUE },
        { "100000000000000000000000000000000007", 0, TRUE },
        { "-9223372036854775807", -G_MAXINT64 },
        { "-9223372036854775808", G_MININT64 },
        { "-9223372036854775809", 0, TRUE },
        { "-18446744073709551616", 0, TRUE },
        { "-100000000000000000000000000000000007", 0, TRUE },
        { "1.5", 0, TRUE }, { "0.0", 0, TRUE }, { "0e5", 0, TRUE },
        { "1e3", 0, TRUE },
        { "9223372036854775808.0", 0, TRUE },
        { "9223372036854775808e0", 0, TRUE },
        { "1e-300", 0, TRUE },
        { "0.18446744073709551616", 0, TRUE },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        const char *t = cases[i].text;
        g_autofree char *text = g_strdup_printf(
            "{\"a\":%s,\"\\\"%s\":\"%s\",\"l\":[%s,5, %s ,{\"b\":\n%s}]}",
            t, t, t, t, t, t);
        g_autofree char *name = g_strdup_printf("\"%s", t);
        g_autoptr(JsonNode) node = btrail_json_parse_object(text);
        gint64 want = cases[i].other ? 42 : cases[i].value;
        double exact = g_ascii_strtod(t, NULL);
        JsonObject *o, *b;
        JsonArray *list;

        g_test_message("%s", text);
        g_assert_nonnull(node);
        o = json_node_get_object(node);
        list = btrail_json_array(o, "l");
        b = json_array_get_object_element(list, 3);
        g_assert_cmpint(btrail_json_int(o, "a", 42), ==, want);
        g_assert_cmpint(btrail_json_int(b, "b", 42), ==, want);
        g_assert_cmpint(btrail_json_element(list, 0, 42), ==, want);
        g_assert_cmpint(btrail_json_element(list, 1, 42), ==, 5);
        g_assert_cmpint(btrail_json_element(list, 2, 42), ==, want);
        g_assert_cmpint(btrail_json_element(list, 3, 42), ==, 42);
        /* What is in strings stays. */
        g_assert_cmpstr(btrail_json_string(o, name), ==, t);
        g_assert_cmpfloat(json_object_get_double_member(o, "a"), ==, exact);
    }
}

/* Numbers that json-glib reads and JSON does not have */
static void test_no_numbers(void)
{
    static const char *const texts[] = {
        "0x10", "0xffffffffffffffff", "-0x1", "010", "00", "-01",
        "01777777777777777777777", "0b1", "--1", "1-1", "+1",
        "--9223372036854775808", "1a",
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(texts); i++) {
        g_autofree char *text = g_strdup_printf("{\"a\":%s}", texts[i]);
        g_autofree char *list = g_strdup_printf("{\"a\":[0,%s]}", texts[i]);
        g_autoptr(JsonNode) one = btrail_json_parse_object(text);
        g_autoptr(JsonNode) two = btrail_json_parse_object(list);

        g_test_message("%s", text);
        g_assert_null(one);
        g_assert_null(two);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/json/parse", test_parse);
    g_test_add_func("/json/garbage", test_garbage);
    g_test_add_func("/json/depth", test_depth);
    g_test_add_func("/json/brackets", test_brackets);
    g_test_add_func("/json/escapes", test_escapes);
    g_test_add_func("/json/hidden-depth", test_hidden_depth);
    g_test_add_func("/json/time", test_time);
    g_test_add_func("/json/members", test_members);
    g_test_add_func("/json/text", test_text);
    g_test_add_func("/json/numbers", test_numbers);
    g_test_add_func("/json/no-numbers", test_no_numbers);
    return g_test_run();
}
