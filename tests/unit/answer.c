/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of client/answer.h: what is in answers of the service, which can be of
 * anybody
 */

#include "client/answer.h"
#include "util/json.h"

static JsonObject *parse(const char *text)
{
    g_autoptr(JsonNode) node = btrail_json_parse_object(text);

    g_assert_nonnull(node);
    return json_node_dup_object(node);
}

#define STATUS                                                              \
    "{\"sessions\": ["                                                      \
    "{\"session\": \"a\", \"owner\": \"me\", \"ended\": \"now\","           \
    " \"file\": \"1\"},"                                                    \
    "{\"session\": \"a\", \"owner\": \"me\", \"ended\": null,"              \
    " \"file\": \"2\"},"                                                    \
    "{\"session\": \"b\", \"owner\": \"you\", \"file\": \"3\"},"            \
    "7, {\"session\": 7}, {}],"                                             \
    "\"dumps\": {\"session\": \"a\"}}"

static void test_last(void)
{
    g_autoptr(JsonObject) status = parse(STATUS);
    const struct {
        const char *array, *session, *file, *found;
    } wants[] = {
        { ANSWER_SESSIONS, "a", NULL, "2" },
        { ANSWER_SESSIONS, "a", "1", "1" },
        { ANSWER_SESSIONS, NULL, "3", "3" },
        { ANSWER_SESSIONS, "c", NULL, NULL },
        { ANSWER_SESSIONS, "a", "3", NULL },
        { ANSWER_DUMPS, "a", NULL, NULL },
        { "others", "a", NULL, NULL },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(wants); i++) {
        JsonObject *last = answer_last(status, wants[i].array,
                                       wants[i].session, wants[i].file);

        g_assert_cmpstr(last ? btrail_json_string(last, "file") : NULL, ==,
                        wants[i].found);
    }
}

static void test_active(void)
{
    g_autoptr(JsonObject) status = parse(STATUS);
    g_auto(GStrv) mine = answer_active(status, "me");
    g_auto(GStrv) all = answer_active(status, NULL);
    g_auto(GStrv) none = answer_active(status, "nobody");
    g_autofree char *list = g_strjoinv(",", all);

    g_assert_cmpstr(mine[0], ==, "a");
    g_assert_null(mine[1]);
    g_assert_cmpstr(list, ==, "a,b");
    g_assert_null(none[0]);
}

static void test_states(void)
{
    g_autoptr(JsonObject) writing = parse("{\"state\": \"writing\"}");
    g_autoptr(JsonObject) failed = parse("{\"state\": \"failed\","
                                         "\"why\": \"full\"}");
    g_autoptr(JsonObject) strange = parse("{\"state\": 1, \"why\": \"\"}");

    g_assert_false(answer_is_written(writing));
    g_assert_true(answer_is_written(failed));
    g_assert_true(answer_has_failed(failed));
    g_assert_false(answer_has_failed(writing));
    g_assert_cmpstr(answer_why(failed), ==, "full");
    g_assert_null(answer_why(writing));
    g_assert_null(answer_why(strange));
    g_assert_false(answer_has_failed(strange));
}

static void test_numbers(void)
{
    g_autoptr(JsonObject) object = parse(
        "{\"records\": 12, \"bytes\": -1, \"lost\": \"x\", \"d\": 0.5,"
        "\"paused-ns\": 3, \"record-bytes\": 1536, \"text\": \"5\","
        "\"most\": 9223372036854775807}");
    struct progress p = answer_progress(object);
    g_autofree char *bytes = answer_size_text(object, "records");
    g_autofree char *kilobytes = answer_size_text(object, "record-bytes");
    g_autofree char *most = answer_size_text(object, "most");

    g_assert_cmpuint(p.records, ==, 12);
    g_assert_cmpuint(p.bytes, ==, 0);
    g_assert_cmpuint(p.lost, ==, 0);
    g_assert_cmpuint(p.record_bytes, ==, 1536);
    g_assert_cmpuint(p.paused_ns, ==, 3);
    g_assert_cmpfloat(answer_double(object, "d"), ==, 0.5);
    g_assert_cmpfloat(answer_double(object, "records"), ==, 12);
    g_assert_cmpfloat(answer_double(object, "text"), ==, 0);
    g_assert_cmpfloat(answer_double(object, "none"), ==, 0);
    g_assert_cmpstr(bytes, ==, "12.000 B");
    g_assert_cmpstr(kilobytes, ==, "1.500 KiB");
    g_assert_cmpstr(most, ==, "8.000 EiB");
}

static void test_texts(void)
{
    g_autoptr(JsonObject) session = parse(
        "{\"folder\": \"/traces\", \"file\": \"x.btrail\","
        "\"not-found\": [\"a:b\", 7, null, {}, [\"x\"], \"c\"]}");
    g_autoptr(JsonObject) bare = parse(
        "{\"file\": \"x.btrail\", \"not-found\": [7]}");
    g_autofree char *path = answer_path(session);
    g_autofree char *name = answer_path(bare);
    g_autofree char *missing = answer_missing(session);

    g_assert_cmpstr(path, ==, "/traces/x.btrail");
    g_assert_cmpstr(name, ==, "x.btrail");
    g_assert_cmpstr(missing, ==, "a:b, c");
    g_assert_null(answer_missing(bare));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/answer/last", test_last);
    g_test_add_func("/answer/active", test_active);
    g_test_add_func("/answer/states", test_states);
    g_test_add_func("/answer/numbers", test_numbers);
    g_test_add_func("/answer/texts", test_texts);
    return g_test_run();
}
