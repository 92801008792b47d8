/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The bytes of messages of a control connection; see transport.h
 */

#ifndef BTRAIL_MESSAGE_H
#define BTRAIL_MESSAGE_H

#include <json-glib/json-glib.h>

#include "service/service-error.h"

struct btrail_message_reader;

struct btrail_message_reader *btrail_message_reader_new(void);
void btrail_message_reader_free(struct btrail_message_reader *r);

/* How many bytes to read next, at least 1: up to the end of one message */
size_t btrail_message_wants(const struct btrail_message_reader *r);

/*
 * Pass on bytes, at most those wanted.  @message gets the object if it is
 * complete, else NULL.  Returns false if the peer breaks the protocol; its
 * connection is of no use then.
 */
bool btrail_message_take(struct btrail_message_reader *r, const void *bytes,
                         size_t n, JsonNode **message, GError **error);

/* The bytes of a message; NULL if it is too long or has too many values.  What is
 * not UTF-8 in it becomes U+FFFD. */
GBytes *btrail_message_format(JsonObject *message);

#endif /* BTRAIL_MESSAGE_H */
