/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fields of messages of Protocol Buffers: see protobuf.h
 */

#include "cli/export/protobuf.h"
#include "lib/agent/bytes.h"

void protobuf_varint(GByteArray *a, uint64_t v)
{
    uint8_t bytes[BTRAIL_VARINT_MAX];

    g_byte_array_append(a, bytes, btrail_put_varint(bytes, v) - bytes);
}

void protobuf_number(GByteArray *a, unsigned field, uint64_t v)
{
    protobuf_varint(a, field << 3);
    protobuf_varint(a, v);
}

void protobuf_bytes(GByteArray *a, unsigned field, const void *bytes,
                    size_t n)
{
    protobuf_varint(a, field << 3 | 2);
    protobuf_varint(a, n);
    g_byte_array_append(a, bytes, n);
}
