/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Scanning a file from chunk to chunk, without its index
 */

#ifndef BTRAIL_SCAN_H
#define BTRAIL_SCAN_H

#include "lib/agent/chunk.h"
#include "lib/internal/block.h"

/**
 * struct btrail_scan_chunk - a chunk that was found
 * @offset:    of its header in the file
 * @header:    its header; the payload fits into the file
 * @start:     the first bytes of the payload, until the next call
 * @start_len: BTRAIL_BLOCK_START, or the whole payload if it is shorter
 */
struct btrail_scan_chunk {
    uint64_t offset;
    struct btrail_chunk header;
    const uint8_t *start;
    size_t start_len;
};

/**
 * struct btrail_scan - a scan
 * @skipped: bytes between chunks so far that belong to none
 * @cut:     bytes after the last chunk, at the end of the scan
 *
 * The other members are private.
 */
struct btrail_scan {
    uint64_t skipped;
    uint64_t cut;

    int fd;
    uint64_t size;
    uint64_t offset;            /* after the last chunk */
    uint8_t *window;            /* bytes of the file from window_at on */
    uint64_t window_at;
    size_t window_len;
};

/*
 * Begins at @offset of a file that is @size bytes long.  The file may change
 * during the scan, which does not read what is written after @size.
 */
void btrail_scan_begin(struct btrail_scan *scan, int fd, uint64_t offset,
                       uint64_t size);
void btrail_scan_free(struct btrail_scan *scan);

/*
 * Finds the next chunk.  Where no chunk begins, searches the bytes for one.
 * Errors: END, IO.
 */
int btrail_scan_next(struct btrail_scan *scan,
                     struct btrail_scan_chunk *chunk);

#endif /* BTRAIL_SCAN_H */
