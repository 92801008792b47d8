/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Sideband: see sideband.h
 */

#include <stdlib.h>
#include <zstd.h>

#include "lib/agent/sideband.h"

/* It is little beside the records: most is code, which this level suits. */
#define ZSTD_LEVEL      3

/* What is shorter loses little, but would take as long as 20 KiB. */
#define PACK_MIN        512

/*
 * What comes in parts is symbols of a kernel, 7 MB of text.  Level 3 takes twice
 * the time and makes them no shorter.  Window and table are so small that they
 * stay in the cache beside a guest that runs.
 */
#define PARTS_LEVEL         1
#define PARTS_MIN_MATCH     5
#define PARTS_HASH_LOG      11
#define PARTS_WINDOW_LOG    17

/* Room for what zstd gives at a time */
#define OUTPUT          (64u << 10)

static void put_header(uint8_t *p, const struct btrail_sideband_info *info)
{
    btrail_put16(p, info->kind);
    btrail_put16(p + 2, info->kernel);
    btrail_put32(p + 4, info->size);
    btrail_put64(p + 8, info->time);
}

void btrail_sideband_pack(const struct btrail_sideband_info *info,
                          const void *data, struct btrail_buf *payload)
{
    size_t stored = 0;
    uint8_t *p;

    payload->len = 0;
    btrail_buf_reserve(payload, BTRAIL_SIDEBAND_HEADER_SIZE + info->size);
    put_header(payload->data, info);
    p = payload->data + BTRAIL_SIDEBAND_HEADER_SIZE;
    if (info->size >= PACK_MIN) {
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

struct btrail_sideband_parts {
    struct btrail_sideband_info info;
    ZSTD_CCtx *zstd;
    struct btrail_buf payload;
};

struct btrail_sideband_parts *
btrail_sideband_begin(const struct btrail_sideband_info *info)
{
    struct btrail_sideband_parts *parts =
        g_new0(struct btrail_sideband_parts, 1);

    parts->info = *info;
    parts->info.size = 0;
    parts->zstd = ZSTD_createCCtx();
    if (!parts->zstd) {
        g_error("out of memory");
    }
    ZSTD_CCtx_setParameter(parts->zstd, ZSTD_c_compressionLevel, PARTS_LEVEL);
    ZSTD_CCtx_setParameter(parts->zstd, ZSTD_c_minMatch, PARTS_MIN_MATCH);
    ZSTD_CCtx_setParameter(parts->zstd, ZSTD_c_hashLog, PARTS_HASH_LOG);
    ZSTD_CCtx_setParameter(parts->zstd, ZSTD_c_windowLog, PARTS_WINDOW_LOG);
    btrail_buf_reserve(&parts->payload, BTRAIL_SIDEBAND_HEADER_SIZE);
    parts->payload.len = BTRAIL_SIDEBAND_HEADER_SIZE;
    return parts;
}

static void compress_part(struct btrail_sideband_parts *parts,
                          const void *data, size_t size, bool end)
{
    ZSTD_inBuffer in = { data, size, 0 };
    struct btrail_buf *payload = &parts->payload;
    size_t left;

    do {
        ZSTD_outBuffer out;

        btrail_buf_reserve(payload, OUTPUT);
        out = (ZSTD_outBuffer) { payload->data, payload->cap, payload->len };
        left = ZSTD_compressStream2(parts->zstd, &out, &in,
                                    end ? ZSTD_e_end : ZSTD_e_continue);
        payload->len = out.pos;
        if (ZSTD_isError(left)) {
            g_error("zstd: %s", ZSTD_getErrorName(left));
        }
    } while (end ? left != 0 : in.pos < in.size);
}

void btrail_sideband_add(struct btrail_sideband_parts *parts,
                         const void *data, size_t size)
{
    parts->info.size += (uint32_t)size;
    compress_part(parts, data, size, false);
}

/* Has the data as they are, for what zstd makes of them is no shorter. */
static void store_as_is(struct btrail_sideband_parts *parts)
{
    size_t size = parts->info.size;
    g_autofree uint8_t *data = g_malloc(size + 1);
    size_t got = ZSTD_decompress(data, size,
                                 parts->payload.data +
                                 BTRAIL_SIDEBAND_HEADER_SIZE,
                                 parts->payload.len -
                                 BTRAIL_SIDEBAND_HEADER_SIZE);

    if (got != size) {
        g_error("zstd: data are not what they were");
    }
    parts->payload.len = BTRAIL_SIDEBAND_HEADER_SIZE;
    btrail_buf_append(&parts->payload, data, size);
}

void btrail_sideband_end(struct btrail_sideband_parts *parts,
                         struct btrail_buf *payload)
{
    compress_part(parts, NULL, 0, true);
    if (parts->payload.len - BTRAIL_SIDEBAND_HEADER_SIZE >=
        parts->info.size) {
        store_as_is(parts);
    }
    put_header(parts->payload.data, &parts->info);
    *payload = parts->payload;
    ZSTD_freeCCtx(parts->zstd);
    g_free(parts);
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
