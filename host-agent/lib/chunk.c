/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The frame of a file: see chunk.h
 */

#include "backtrail/trace.h"
#include "lib/agent/bytes.h"
#include "lib/agent/chunk.h"
#include "lib/internal/crc32c.h"

/*
 * As in PNG: a byte that is not ASCII, the name, and line ends that a
 * transfer in text mode would change.
 */
static const uint8_t file_magic[12] = "\xb7" "btrail\r\n\x1a\n";

/* All but the checksum itself */
#define CHECKED_SIZE    (BTRAIL_FILE_HEADER_SIZE - 4)

void btrail_file_header_put(uint8_t *bytes,
                            const struct btrail_file_header *h)
{
    memset(bytes, 0, BTRAIL_FILE_HEADER_SIZE);
    memcpy(bytes, file_magic, sizeof(file_magic));
    btrail_put32(bytes + 12, BTRAIL_FILE_VERSION);
    btrail_put32(bytes + 16, BTRAIL_FILE_HEADER_SIZE);
    btrail_put32(bytes + 20, h->part);
    btrail_put16(bytes + 24, h->begin);
    memcpy(bytes + 28, h->id, sizeof(h->id));
    btrail_put32(bytes + 44, h->merged);
    btrail_put32(bytes + CHECKED_SIZE, btrail_crc32c(0, bytes, CHECKED_SIZE));
}

int btrail_file_header_get(const uint8_t *bytes, struct btrail_file_header *h)
{
    if (memcmp(bytes, file_magic, sizeof(file_magic))) {
        return -BTRAIL_ERR_FORMAT;
    }
#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
    if (btrail_get32(bytes + CHECKED_SIZE) !=
        btrail_crc32c(0, bytes, CHECKED_SIZE)) {
        return -BTRAIL_ERR_FORMAT;
    }
#endif
    if (btrail_get32(bytes + 12) != BTRAIL_FILE_VERSION ||
        btrail_get32(bytes + 16) != BTRAIL_FILE_HEADER_SIZE) {
        return -BTRAIL_ERR_VERSION;
    }
    h->part = btrail_get32(bytes + 20);
    h->begin = btrail_get16(bytes + 24);
    memcpy(h->id, bytes + 28, sizeof(h->id));
    h->merged = btrail_get32(bytes + 44);
    return 0;
}

void btrail_chunk_put(uint8_t *bytes, const struct btrail_chunk *chunk)
{
    memset(bytes, 0, BTRAIL_CHUNK_HEADER_SIZE);
    memcpy(bytes, BTRAIL_CHUNK_MAGIC, 4);
    btrail_put16(bytes + 4, chunk->type);
    btrail_put32(bytes + 8, chunk->size);
    btrail_put32(bytes + 12, chunk->crc);
    btrail_put64(bytes + 16, chunk->sequence);
    btrail_put32(bytes + 28, btrail_crc32c(0, bytes, 28));
}

bool btrail_chunk_get(const uint8_t *bytes, struct btrail_chunk *chunk)
{
    if (memcmp(bytes, BTRAIL_CHUNK_MAGIC, 4)) {
        return false;
    }
#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
    if (btrail_get32(bytes + 28) != btrail_crc32c(0, bytes, 28)) {
        return false;
    }
#endif
    chunk->type = btrail_get16(bytes + 4);
    chunk->size = btrail_get32(bytes + 8);
    chunk->crc = btrail_get32(bytes + 12);
    chunk->sequence = btrail_get64(bytes + 16);
    return chunk->size <= BTRAIL_CHUNK_MAX_PAYLOAD;
}

bool btrail_chunk_check(const struct btrail_chunk *chunk, const void *payload)
{
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
    /* A fuzzer cannot guess checksums. */
    return true;
#else
    return btrail_crc32c(0, payload, chunk->size) == chunk->crc;
#endif
}

#define END_CONTINUED   1u

void btrail_end_put(uint8_t *bytes, const struct btrail_end *end)
{
    btrail_put64(bytes, end->index_offset);
    btrail_put64(bytes + 8, end->entries);
    btrail_put64(bytes + 16, end->continued ? END_CONTINUED : 0);
}

void btrail_end_get(const uint8_t *bytes, struct btrail_end *end)
{
    end->index_offset = btrail_get64(bytes);
    end->entries = btrail_get64(bytes + 8);
    end->continued = btrail_get64(bytes + 16) & END_CONTINUED;
}
