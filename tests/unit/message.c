/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Messages as bytes: in pieces of any size, and malformed ones
 */

#include <string.h>

#include "backtrail/transport.h"
#include "util/json.h"
#include "service/message.h"

static GByteArray *raw(uint32_t magic, unsigned version, unsigned type,
                       uint64_t value, const char *text, size_t n)
{
    struct btrail_msg head = {
        .magic = magic, .version = version, .type = type, .value = value,
    };
    GByteArray *bytes = g_byte_array_new();

    g_byte_array_append(bytes, (guint8 *)&head, sizeof(head));
    g_byte_array_append(bytes, (const guint8 *)text, n);
    return bytes;
}

static GByteArray *text(const char *t)
{
    return raw(BTRAIL_MSG_MAGIC, BTRAIL_TRANSPORT_VERSION, BTRAIL_MSG_JSON,
               strlen(t), t, strlen(t));
}

/* Give it pieces; NULL if it refuses. */
static JsonNode *take(GByteArray *bytes, size_t piece, GError **error)
{
    struct message_reader *r = message_reader_new();
    JsonNode *node = NULL;
    size_t at = 0;

    while (!node && at < bytes->len) {
        size_t n = MIN(MIN(piece, message_wants(r)), bytes->len - at);

        g_assert_cmpuint(n, >, 0);
        if (!message_take(r, bytes->data + at, n, &node, error)) {
            break;
        }
        at += n;
    }
    message_reader_free(r);
    return node;
}

static void test_good(void)
{
    g_autoptr(GByteArray) bytes = text("{\"a\": \"\\u0000é\"}");
    size_t piece;

    for (piece = 1; piece <= bytes->len; piece++) {
        g_autoptr(GError) error = NULL;
        g_autoptr(JsonNode) node = take(bytes, piece, &error);

        g_assert_no_error(error);
        g_assert_true(JSON_NODE_HOLDS_OBJECT(node));
    }
}

/* Two in a row, and what one has is not left to the other. */
static void test_row(void)
{
    struct message_reader *r = message_reader_new();
    const char *const texts[] = { "{\"a\": 1111111111}", "{\"a\": 2}",
                                  "{\"a\": 3}" };
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(texts); i++) {
        g_autoptr(GByteArray) bytes = text(texts[i]);
        g_autoptr(JsonNode) node = NULL;

        g_assert_cmpuint(message_wants(r), ==,
                         sizeof(struct btrail_msg));
        g_assert_true(message_take(r, bytes->data, 24, &node, NULL));
        g_assert_null(node);
        g_assert_cmpuint(message_wants(r), ==, strlen(texts[i]));
        g_assert_true(message_take(r, bytes->data + 24, bytes->len - 24,
                                   &node, NULL));
        g_assert_cmpint(btrail_json_int(json_node_get_object(node), "a", 0),
                        ==, i ? i + 1 : 1111111111);
    }
    message_reader_free(r);
}

static void refused(GByteArray *bytes)
{
    g_autoptr(GError) error = NULL;

    g_assert_null(take(bytes, 1000, &error));
    g_assert_error(error, SERVICE_ERROR, SERVICE_ERROR_PEER);
    g_byte_array_unref(bytes);
}

static void test_bad(void)
{
    const unsigned version = BTRAIL_TRANSPORT_VERSION, type = BTRAIL_MSG_JSON;
    g_autofree char *deep = g_strnfill(70, '[');

    refused(raw(1, version, type, 2, "{}", 2));
    refused(raw(BTRAIL_MSG_MAGIC, version + 1, type, 2, "{}", 2));
    refused(raw(BTRAIL_MSG_MAGIC, version, BTRAIL_MSG_HELLO, 2, "{}", 2));
    refused(raw(BTRAIL_MSG_MAGIC, version, type, 0, "", 0));
    refused(raw(BTRAIL_MSG_MAGIC, version, type, BTRAIL_JSON_MAX + 1, "{", 1));
    refused(raw(BTRAIL_MSG_MAGIC, version, type, UINT64_MAX, "{", 1));
    refused(raw(BTRAIL_MSG_MAGIC, version, type, 3, "{}\0", 3));
    refused(raw(BTRAIL_MSG_MAGIC, version, type, 4, "{}\0{", 4));
    refused(text("[]"));
    refused(text("{"));
    refused(text("1"));
    refused(text("{\"a\": \"\xff\"}"));
    refused(text(deep));
}

static void test_format(void)
{
    g_autoptr(JsonObject) object = json_object_new();
    g_autofree char *most = g_strnfill(BTRAIL_JSON_MAX, 'x');
    g_autoptr(GBytes) bytes = NULL;
    g_autoptr(GByteArray) array = NULL;
    g_autoptr(JsonNode) node = NULL;

    json_object_set_string_member(object, "a", "b\n\"\xc3\xa4\xff");
    bytes = message_format(object);
    array = g_byte_array_new();
    g_byte_array_append(array, g_bytes_get_data(bytes, NULL),
                        g_bytes_get_size(bytes));
    node = take(array, 7, NULL);
    g_assert_nonnull(node);
    g_assert_cmpstr(btrail_json_string(json_node_get_object(node), "a"), ==,
                    "b\n\"\xc3\xa4\xef\xbf\xbd");
    /* The longest one, and one that is longer */
    most[BTRAIL_JSON_MAX - strlen("{\"a\":\"\"}")] = '\0';
    json_object_set_string_member(object, "a", most);
    g_bytes_unref(bytes);
    bytes = message_format(object);
    g_assert_cmpuint(g_bytes_get_size(bytes), ==, 24 + BTRAIL_JSON_MAX);
    json_object_set_int_member(object, "b", 1);
    g_assert_null(message_format(object));
}

static void test_most_values(void)
{
    g_autoptr(JsonObject) object = json_object_new();
    JsonArray *array = json_array_new();
    GBytes *bytes;

    json_object_set_array_member(object, "a", array);
    /* The object and the array count, and all but the first in it. */
    for (unsigned i = 0; i < BTRAIL_JSON_MAX_VALUES - 1; i++) {
        json_array_add_int_element(array, 0);
    }
    bytes = message_format(object);
    g_assert_nonnull(bytes);
    g_bytes_unref(bytes);
    json_array_add_int_element(array, 0);
    g_assert_null(message_format(object));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/message/good", test_good);
    g_test_add_func("/message/row", test_row);
    g_test_add_func("/message/most-values", test_most_values);
    g_test_add_func("/message/bad", test_bad);
    g_test_add_func("/message/format", test_format);
    return g_test_run();
}
