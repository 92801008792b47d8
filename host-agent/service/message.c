/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The bytes of messages of a control connection: see message.h
 */

#include <string.h>

#include "backtrail/transport.h"
#include "service/message.h"
#include "util/json.h"

/* Of a reply, around what it returns */
#define REPLY_BYTES     1024
#define REPLY_VALUES    16

struct message_reader {
    struct btrail_msg head;
    size_t got;                 /* bytes of head and text */
    char *text;                 /* once head is whole; with room for a NUL */
};

struct message_reader *message_reader_new(void)
{
    return g_new0(struct message_reader, 1);
}

void message_reader_free(struct message_reader *r)
{
    if (r) {
        g_free(r->text);
        g_free(r);
    }
}

size_t message_wants(const struct message_reader *r)
{
    return sizeof(r->head) + (r->text ? r->head.value : 0) - r->got;
}

static bool refuse_message(GError **error, const char *what)
{
    return service_fail(error, SERVICE_ERROR_PEER,
                        "the device broke the protocol: %s", what);
}

static bool check_head(const struct btrail_msg *head, GError **error)
{
    if (head->magic != BTRAIL_MSG_MAGIC) {
        return refuse_message(error, "this is not a message");
    }
    if (head->version != BTRAIL_TRANSPORT_VERSION) {
        return refuse_message(error, "unknown version; QEMU and backtraild "
                              "do not match");
    }
    if (head->type != BTRAIL_MSG_JSON) {
        return refuse_message(error, "a message of another type on a control "
                              "connection");
    }
    if (!head->value || head->value > BTRAIL_JSON_MAX) {
        return refuse_message(error, "a message of a length that is not "
                              "allowed");
    }
    return true;
}

bool message_take(struct message_reader *r, const void *bytes,
                  size_t n, JsonNode **message, GError **error)
{
    *message = NULL;
    g_assert(n <= message_wants(r));
    if (!r->text) {
        memcpy((char *)&r->head + r->got, bytes, n);
        r->got += n;
        if (r->got == sizeof(r->head)) {
            if (!check_head(&r->head, error)) {
                return false;
            }
            r->text = g_malloc(r->head.value + 1);
        }
        return true;
    }
    memcpy(r->text + (r->got - sizeof(r->head)), bytes, n);
    r->got += n;
    if (message_wants(r)) {
        return true;
    }
    r->text[r->head.value] = '\0';
    if (strlen(r->text) == r->head.value) {
        *message = btrail_json_parse_object(r->text);
    }
    g_clear_pointer(&r->text, g_free);
    r->got = 0;
    return *message || refuse_message(error, "not a JSON object");
}

/* As the device counts them */
static size_t count_values(const char *text)
{
    size_t n = 0;

    for (; *text; text++) {
        n += *text == ',' || *text == '[' || *text == '{';
    }
    return n;
}

void message_room_init(struct message_room *room)
{
    room->bytes = BTRAIL_JSON_MAX - REPLY_BYTES;
    room->values = BTRAIL_JSON_MAX_VALUES - REPLY_VALUES;
}

bool message_room_take(struct message_room *room,
                       JsonObject *object)
{
    g_autofree char *text = btrail_json_text(object, FALSE);
    /* With the comma after it */
    size_t bytes = strlen(text) + 1, values = count_values(text) + 1;

    if (bytes > room->bytes || values > room->values) {
        return false;
    }
    room->bytes -= bytes;
    room->values -= values;
    return true;
}

GBytes *message_format(JsonObject *message)
{
    g_autoptr(GByteArray) bytes = g_byte_array_new();
    g_autofree char *text = btrail_json_text(message, FALSE);
    struct btrail_msg head = {
        .magic = BTRAIL_MSG_MAGIC,
        .version = BTRAIL_TRANSPORT_VERSION,
        .type = BTRAIL_MSG_JSON,
    };

    head.value = strlen(text);
    if (head.value > BTRAIL_JSON_MAX ||
        count_values(text) > BTRAIL_JSON_MAX_VALUES) {
        return NULL;
    }
    g_byte_array_append(bytes, (guint8 *)&head, sizeof(head));
    g_byte_array_append(bytes, (guint8 *)text, head.value);
    return g_byte_array_free_to_bytes(g_steal_pointer(&bytes));
}
