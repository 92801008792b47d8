/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Scanning a file from chunk to chunk: see scan.h
 */

#include "lib/internal/pread.h"
#include "lib/internal/scan.h"

/*
 * Of large chunks only a little must be read; of small ones, many are read at
 * once.
 */
#define SMALL_WINDOW    4096
#define LARGE_WINDOW    (256u << 10)

void btrail_scan_begin(struct btrail_scan *scan, int fd, uint64_t offset,
                       uint64_t size)
{
    *scan = (struct btrail_scan) {
        .fd = fd,
        .size = size,
        .offset = offset,
        .window = g_malloc(LARGE_WINDOW),
    };
}

void btrail_scan_free(struct btrail_scan *scan)
{
    g_free(scan->window);
    scan->window = NULL;
}

/*
 * Reads the @need bytes from @offset on into the window, or those up to the end
 * of the file; @have gets their number.
 */
static int fill_window(struct btrail_scan *scan, uint64_t offset, size_t need,
                       const uint8_t **bytes, size_t *have)
{
    uint64_t end = scan->window_at + scan->window_len;
    size_t len;
    int ret;

    if (offset < scan->window_at || end < offset ||
        (end - offset < need && end < scan->size)) {
        /* What begins in the window and ends after it comes in a row. */
        len = offset >= scan->window_at && offset < end ?
              LARGE_WINDOW : SMALL_WINDOW;
        len = MIN(MAX(len, need), scan->size - offset);
        ret = btrail_pread(scan->fd, scan->window, &len, offset);
        if (ret) {
            return ret;
        }
        if (len < need && offset + len < scan->size) {
            /* The file has become shorter. */
            scan->size = offset + len;
        }
        scan->window_at = offset;
        scan->window_len = end = len;
        end += offset;
    }
    *bytes = scan->window + (offset - scan->window_at);
    *have = end - offset;
    return 0;
}

static bool fits(const struct btrail_scan *scan, uint64_t offset,
                 const struct btrail_chunk *chunk)
{
    return chunk->size <= scan->size - offset - BTRAIL_CHUNK_HEADER_SIZE;
}

/* Moves @offset to the next chunk, or to the end of the file. */
static int find(struct btrail_scan *scan, uint64_t *offset)
{
    while (scan->size - *offset >= BTRAIL_CHUNK_HEADER_SIZE) {
        const uint8_t *bytes, *p, *end;
        struct btrail_chunk chunk;
        size_t have;
        int ret = fill_window(scan, *offset, BTRAIL_CHUNK_HEADER_SIZE,
                              &bytes, &have);

        if (ret) {
            return ret;
        }
        if (have < BTRAIL_CHUNK_HEADER_SIZE) {
            break;
        }
        end = bytes + have;
        for (p = bytes; (p = memmem(p, end - p, BTRAIL_CHUNK_MAGIC, 4)) &&
             end - p >= BTRAIL_CHUNK_HEADER_SIZE; p++) {
            uint64_t here = *offset + (p - bytes);

            if (btrail_chunk_get(p, &chunk) && fits(scan, here, &chunk)) {
                *offset = here;
                return 0;
            }
        }
        /* A header may lie across the end of the window. */
        *offset += have - BTRAIL_CHUNK_HEADER_SIZE + 1;
    }
    *offset = scan->size;
    return 0;
}

int btrail_scan_next(struct btrail_scan *scan,
                     struct btrail_scan_chunk *chunk)
{
    uint64_t begin = MIN(scan->offset, scan->size), found = begin;
    size_t have, need;
    int ret = find(scan, &found);

    if (ret) {
        return ret;
    }
    if (found < scan->size) {
        /* It is in the window, but perhaps its payload is not yet. */
        const uint8_t *bytes;

        need = MIN(BTRAIL_CHUNK_HEADER_SIZE + BTRAIL_BLOCK_START,
                   scan->size - found);
        ret = fill_window(scan, found, need, &bytes, &have);
        if (ret) {
            return ret;
        }
        if (have >= BTRAIL_CHUNK_HEADER_SIZE &&
            btrail_chunk_get(bytes, &chunk->header) &&
            fits(scan, found, &chunk->header)) {
            chunk->offset = found;
            chunk->start = bytes + BTRAIL_CHUNK_HEADER_SIZE;
            chunk->start_len = MIN(have - BTRAIL_CHUNK_HEADER_SIZE,
                                   chunk->header.size);
            chunk->start_len = MIN(chunk->start_len, BTRAIL_BLOCK_START);
            scan->skipped += found - begin;
            scan->offset = found + BTRAIL_CHUNK_HEADER_SIZE +
                           chunk->header.size;
            return 0;
        }
        /* Another process has just written here. */
    }
    scan->cut = scan->size - begin;
    scan->offset = scan->size;
    return -BTRAIL_ERR_END;
}
