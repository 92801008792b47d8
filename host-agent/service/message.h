/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The bytes of messages of a control connection; see transport.h
 */

#ifndef BTRAIL_MESSAGE_H
#define BTRAIL_MESSAGE_H

#include <json-glib/json-glib.h>
#include <stdbool.h>

#include "service/service-error.h"

struct message_reader;

struct message_reader *message_reader_new(void);
void message_reader_free(struct message_reader *r);

/* How many bytes to read next, at least 1: up to the end of one message */
size_t message_wants(const struct message_reader *r);

/*
 * Pass on bytes, at most those wanted.  @message gets the object if it is
 * complete, else NULL.  Returns false if the peer breaks the protocol; its
 * connection is of no use then.
 */
bool message_take(struct message_reader *r, const void *bytes,
                  size_t n, JsonNode **message, GError **error);

/**
 * struct message_room - room that a message still has
 * @values: as the device counts them
 */
struct message_room {
    size_t bytes, values;
};

/* The room for a reply */
void message_room_init(struct message_room *room);

/* Takes the room that an object needs; false if there is too little. */
bool message_room_take(struct message_room *room,
                       JsonObject *object);

/*
 * The bytes of a message; NULL if it is too long or has too many values.  Bytes
 * in it that are not UTF-8 become U+FFFD.
 */
GBytes *message_format(JsonObject *message);

#endif /* BTRAIL_MESSAGE_H */
