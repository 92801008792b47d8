/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of monitor/qmp-message.h
 */

#include "monitor/qmp-message.h"
#include "util/json.h"

static void check_format(JsonObject *arguments, gint64 id,
                         const char *expected)
{
    g_autofree char *text = qmp_format("stop", arguments, id);

    g_assert_cmpstr(text, ==, expected);
}

static void test_format(void)
{
    check_format(NULL, 0, "{\"execute\":\"stop\"}");
    check_format(btrail_json_new("s:a", "b\n", NULL), 7,
                 "{\"execute\":\"stop\",\"arguments\":{\"a\":\"b\\n\"},"
                 "\"id\":7}");
}

static JsonNode *result(const char *text, GError **error)
{
    g_autoptr(JsonNode) node = btrail_json_parse_object(text);

    return qmp_result(json_node_get_object(node), error);
}

static void check_error(const char *text, int code, const char *message)
{
    g_autoptr(GError) error = NULL;

    g_assert_null(result(text, &error));
    g_assert_error(error, AGENT_ERROR, code);
    g_assert_cmpstr(error->message, ==, message);
}

static void test_result(void)
{
    g_autoptr(JsonNode) node = result("{\"return\": [1]}", NULL);

    g_assert_true(JSON_NODE_HOLDS_ARRAY(node));
    check_error("{\"error\": {\"class\": \"CommandNotFound\", "
                "\"desc\": \"no\"}}", AGENT_ERROR_NO_COMMAND, "no");
    check_error("{\"error\": {\"class\": \"DeviceNotFound\", "
                "\"desc\": \"no\"}, \"return\": {}}",
                AGENT_ERROR_NO_DEVICE, "no");
    check_error("{\"error\": {\"class\": 1}}", AGENT_ERROR_COMMAND,
                "failed without a reason");
    check_error("{\"error\": 1}", AGENT_ERROR_PROTOCOL,
                "QEMU's reply has no result");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/qmp-message/format", test_format);
    g_test_add_func("/qmp-message/result", test_result);
    return g_test_run();
}
