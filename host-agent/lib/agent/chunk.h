/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The frame of a file: its header, and chunks with length and checksum
 *
 * docs/trace-format.md describes the bytes.
 */

#ifndef BTRAIL_CHUNK_H
#define BTRAIL_CHUNK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BTRAIL_FILE_HEADER_SIZE     64
#define BTRAIL_FILE_VERSION         1

#define BTRAIL_CHUNK_HEADER_SIZE    32
#define BTRAIL_CHUNK_MAGIC          "\xb7" "btk"
#define BTRAIL_CHUNK_MAX_PAYLOAD    (64u << 20)
#define BTRAIL_META_MAX_PAYLOAD     (1u << 20)

enum btrail_chunk_type {
    BTRAIL_CHUNK_META = 1,
    BTRAIL_CHUNK_DATA = 2,
    BTRAIL_CHUNK_INDEX = 3,
    BTRAIL_CHUNK_END = 4,
    BTRAIL_CHUNK_SIDEBAND = 5,
};

/**
 * struct btrail_chunk - header of a chunk
 * @type:     enum btrail_chunk_type; readers skip others
 * @size:     of the payload, at most BTRAIL_CHUNK_MAX_PAYLOAD
 * @crc:      CRC-32C of the payload
 * @sequence: number of the chunk in the file
 */
struct btrail_chunk {
    uint16_t type;
    uint32_t size;
    uint32_t crc;
    uint64_t sequence;
};

#define BTRAIL_ID_SIZE              16

/**
 * struct btrail_file_header - the first bytes of a file
 * @part:  which file of its trace it is, from 0
 * @merged: how many parts that follow it have been merged into it
 * @begin: enum btrail_gap_reason: why records before the first chunk of a
 *         stream are not in this file; 0 if all streams begin with index 0
 * @id:    of the trace, the same in all its files
 */
struct btrail_file_header {
    uint32_t part;
    uint32_t merged;
    uint16_t begin;
    uint8_t id[BTRAIL_ID_SIZE];
};

void btrail_file_header_put(uint8_t *bytes,
                            const struct btrail_file_header *header);

/* 0, -BTRAIL_ERR_FORMAT, -BTRAIL_ERR_VERSION */
int btrail_file_header_get(const uint8_t *bytes,
                           struct btrail_file_header *header);

void btrail_chunk_put(uint8_t *bytes, const struct btrail_chunk *chunk);

/* False if these bytes are not a chunk header. */
bool btrail_chunk_get(const uint8_t *bytes, struct btrail_chunk *chunk);

/* Does the payload have the checksum of the header? */
bool btrail_chunk_check(const struct btrail_chunk *chunk, const void *payload);

/* Payload of the END chunk: where the first INDEX chunk is. */
#define BTRAIL_END_SIZE             24

/* Bytes at the end of the file whose number is always the same */
#define BTRAIL_TRAILER_SIZE     (BTRAIL_CHUNK_HEADER_SIZE + BTRAIL_END_SIZE)

/**
 * struct btrail_end - payload of the END chunk, the last one
 * @index_offset: of the first INDEX chunk; the others follow it
 * @entries:      in all INDEX chunks
 * @continued:    the trace continues in the next part
 */
struct btrail_end {
    uint64_t index_offset;
    uint64_t entries;
    bool continued;
};

void btrail_end_put(uint8_t *bytes, const struct btrail_end *end);
void btrail_end_get(const uint8_t *bytes, struct btrail_end *end);

#endif /* BTRAIL_CHUNK_H */
