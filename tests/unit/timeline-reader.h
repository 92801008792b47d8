/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads messages of Protocol Buffers, and timelines of Perfetto, by their
 * documents: shares no code with what writes them
 */

#ifndef BTRAIL_TIMELINE_READER_H
#define BTRAIL_TIMELINE_READER_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* A field of a message: a number, or if @bytes is not NULL, these */
struct proto_field {
    unsigned number;
    uint64_t value;
    const uint8_t *bytes;
    size_t n;
};

/* A number, of which @at is moved to after it; it must end before @end. */
uint64_t proto_varint(const uint8_t **at, const uint8_t *end);

/* The fields of a sound message, an array of struct proto_field */
GArray *proto_read(const void *bytes, size_t n);

/* Field @i of those with a number, or NULL; the message that is in one; the
 * number and the text of the only one, which must be there */
const struct proto_field *proto_get(const GArray *fields, unsigned number,
                                    unsigned i);
unsigned proto_count(const GArray *fields, unsigned number);
GArray *proto_message(const GArray *fields, unsigned number);
uint64_t proto_value(const GArray *fields, unsigned number);
char *proto_text(const GArray *fields, unsigned number);

/* Packets of a timeline: an array of arrays of fields */
GPtrArray *timeline_packets(const void *bytes, size_t n);

/* The same text for all that are equal, as long as the program runs */
const char *timeline_text(const char *text);

/* A track event; @name: of timeline_text(), or NULL */
struct timeline_event {
    unsigned type;
    uint64_t track;
    uint64_t time;
    const char *name;
    bool has_value;
    uint64_t value;
};

/*
 * The events of packets in their order, an array of struct timeline_event.
 * Names that are interned must be defined before they are used; and the
 * packet of the first event, and no other, begins their sequence.
 */
GArray *timeline_events(const GPtrArray *packets);

#endif /* BTRAIL_TIMELINE_READER_H */
