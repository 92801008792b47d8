/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Copying the chunks of traces into another file, with GAP events for what is
 * missing between them
 */

#ifndef BTRAIL_COPY_H
#define BTRAIL_COPY_H

#include "lib/agent/file.h"
#include "lib/agent/store.h"

struct btrail_copy;

/**
 * btrail_copy_new
 * @store:  where to; NULL to find out what can be copied
 * @begin:  why records before the first chunk of a stream are missing, as in
 *          the header of the new file
 * @decode: check the records, too, not only the events
 */
struct btrail_copy *btrail_copy_new(struct btrail_store *store,
                                    uint16_t begin, bool decode);
void btrail_copy_free(struct btrail_copy *copy);

/* Continue with another store. */
void btrail_copy_to(struct btrail_copy *copy, struct btrail_store *store);

/**
 * btrail_copy_data - copy a DATA chunk
 * @entry:  the next one of its stream
 * @begins: it is the first one that @file has of the stream
 *
 * Copies the chunk as it is.  Leaves a damaged one out, and a GAP event before
 * the next chunk says what it had.
 *
 * Errors: IO, MEMORY, VERSION (a codec that is not known).
 */
int btrail_copy_data(struct btrail_copy *copy, const struct btrail_file *file,
                     const struct btrail_index_entry *entry, bool begins);

/* The same for a chunk that is known to be damaged, which is not read. */
void btrail_copy_bad_data(struct btrail_copy *copy,
                          const struct btrail_file *file,
                          const struct btrail_index_entry *entry, bool begins);

/**
 * btrail_copy_sideband - copy a SIDEBAND chunk
 *
 * Copies the chunk as it is, or leaves it out if it is damaged.
 *
 * Errors: IO, MEMORY.
 */
int btrail_copy_sideband(struct btrail_copy *copy,
                         const struct btrail_file *file,
                         const struct btrail_index_entry *entry);

/**
 * btrail_copy_follow - a stream continues, or ends, after a chunk elsewhere
 * @entry: the last chunk of the stream, in a file that comes before
 *
 * Copies nothing.  Errors: IO, MEMORY, VERSION.
 */
int btrail_copy_follow(struct btrail_copy *copy,
                       const struct btrail_file *file,
                       const struct btrail_index_entry *entry);

/**
 * btrail_copy_end - no more chunks come
 * @cut:     give streams without an END event one
 * @unknown: and records may be missing before that
 *
 * Errors: IO.
 */
int btrail_copy_end(struct btrail_copy *copy, bool cut, bool unknown);

/* Does a stream lack its END event so far? */
bool btrail_copy_is_open(const struct btrail_copy *copy);

/* What has been copied so far */
const struct btrail_merge_result *
btrail_copy_sum(const struct btrail_copy *copy);

#endif /* BTRAIL_COPY_H */
