/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Appending chunks to a file, whole ones only
 */

#ifndef BTRAIL_STORE_H
#define BTRAIL_STORE_H

#include "block.h"

struct btrail_store;

/*
 * Create a file with its header.  Errors: IO (errno EEXIST if it is there and
 * @replace is false).
 */
int btrail_store_open(struct btrail_store **store, const char *path,
                      bool replace);

/*
 * Append a META chunk.  After an IO error, here or below, the file ends with
 * its last whole chunk and nothing can be appended any more: the same error
 * comes again.
 */
int btrail_store_meta(struct btrail_store *store, const void *json,
                      size_t len);

/* Append a DATA chunk; @header is that of the block in @payload. */
int btrail_store_data(struct btrail_store *store, const void *payload,
                      size_t len, const struct btrail_block_header *header);

/* Bytes written */
uint64_t btrail_store_size(const struct btrail_store *store);

/* Write the index, unless there was an error; close the file, free @store. */
int btrail_store_close(struct btrail_store *store);

#endif /* BTRAIL_STORE_H */
