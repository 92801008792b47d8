/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Sideband: see sideband.h
 */

#include <stdlib.h>
#include <zstd.h>

#include "lib/internal/sideband.h"

/* It is little beside the records, and made by a thread that has time. */
#define ZSTD_LEVEL  3

void btrail_sideband_pack(const struct btrail_sideband_info *info,
                          const void *data, struct btrail_buf *payload)
{
    size_t stored = 0;
    uint8_t *p;

    payload->len = 0;
    btrail_buf_reserve(payload, BTRAIL_SIDEBAND_HEADER_SIZE + info->size);
    p = payload->data;
    btrail_put16(p, info->kind);
    btrail_put16(p + 2, info->kernel);
    btrail_put32(p + 4, info->size);
    btrail_put64(p + 8, info->time);
    p += BTRAIL_SIDEBAND_HEADER_SIZE;
    if (info->size > 1) {
        stored = ZSTD_compress(p, info->size - 1, data, info->size,
                               ZSTD_LEVEL);
    }
    if (!stored || ZSTD_isError(stored)) {
        /* It did not become shorter. */
        stored = info->size;
        if (stored) {
            memcpy(p, data, stored);
        }
    }
    payload->len = BTRAIL_SIDEBAND_HEADER_SIZE + stored;
}

bool btrail_sideband_header_get(const uint8_t *payload, size_t len,
                                struct btrail_sideband_info *info)
{
    if (len < BTRAIL_SIDEBAND_HEADER_SIZE) {
        return false;
    }
    *info = (struct btrail_sideband_info) {
        .kind = btrail_get16(payload),
        .kernel = btrail_get16(payload + 2),
        .size = btrail_get32(payload + 4),
        .time = btrail_get64(payload + 8),
    };
    return info->size <= BTRAIL_SIDEBAND_MAX_SIZE &&
           len - BTRAIL_SIDEBAND_HEADER_SIZE <= info->size;
}

int btrail_sideband_unpack(const uint8_t *payload, size_t len,
                           struct btrail_sideband_info *info, void **data)
{
    const uint8_t *stored = payload + BTRAIL_SIDEBAND_HEADER_SIZE;
    size_t stored_len = len - BTRAIL_SIDEBAND_HEADER_SIZE;
    uint8_t *bytes;

    if (!btrail_sideband_header_get(payload, len, info)) {
        return -BTRAIL_ERR_CORRUPT;
    }
    bytes = malloc(info->size + 1);
    if (!bytes) {
        return -BTRAIL_ERR_MEMORY;
    }
    if (stored_len == info->size) {
        memcpy(bytes, stored, info->size);
    } else if (ZSTD_decompress(bytes, info->size, stored, stored_len) !=
               info->size) {
        free(bytes);
        return -BTRAIL_ERR_CORRUPT;
    }
    *data = bytes;
    return 0;
}
