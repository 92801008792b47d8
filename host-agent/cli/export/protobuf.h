/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fields of messages of Protocol Buffers
 */

#ifndef BTRAIL_CLI_PROTOBUF_H
#define BTRAIL_CLI_PROTOBUF_H

#include <glib.h>
#include <stdint.h>

/* Append a number as one of a packed field has it; a field with a number; and
 * one with bytes. */
void protobuf_varint(GByteArray *a, uint64_t v);
void protobuf_number(GByteArray *a, unsigned field, uint64_t v);
void protobuf_bytes(GByteArray *a, unsigned field, const void *bytes,
                    size_t n);

#endif /* BTRAIL_CLI_PROTOBUF_H */
