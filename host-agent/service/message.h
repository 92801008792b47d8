/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Messages of a control connection, as bytes; see transport.h
 */

#ifndef BTRAIL_MESSAGE_H
#define BTRAIL_MESSAGE_H

#include <json-glib/json-glib.h>

#include "service/service-error.h"

struct btrail_message_reader;

struct btrail_message_reader *btrail_message_reader_new(void);
void btrail_message_reader_free(struct btrail_message_reader *r);

/* How many bytes, at least 1, it wants now: it keeps no more than a message. */
size_t btrail_message_wants(const struct btrail_message_reader *r);

/*
 * Take bytes, no more than it wants.  False if the peer says what it must not;
 * there is nothing to be read from it any more then.  @message gets an object
 * if one is whole, or NULL.
 */
bool btrail_message_take(struct btrail_message_reader *r, const void *bytes,
                         size_t n, JsonNode **message, GError **error);

/* The bytes of a message; NULL if it is too long. */
GBytes *btrail_message_format(JsonObject *message);

#endif /* BTRAIL_MESSAGE_H */
