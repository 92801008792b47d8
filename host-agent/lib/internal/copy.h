/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Copying the chunks of traces into another file, with GAP events for what is
 * missing between them
 */

#ifndef BTRAIL_COPY_H
#define BTRAIL_COPY_H

#include "lib/internal/file.h"
#include "lib/internal/store.h"

struct btrail_copy;

/**
 * struct btrail_copy_sum - what has been copied so far
 * @chunks:       DATA chunks
 * @records:      records in them
 * @bad_chunks:   chunks that were left out because they are damaged
 * @gaps:         GAP events that were added
 * @lost:         records that those say are missing, as far as it is known
 * @lost_unknown: there are more, whose number is not known
 * @ends:         END events that were added
 */
struct btrail_copy_sum {
    uint64_t chunks;
    uint64_t records;
    uint64_t bad_chunks;
    uint64_t gaps;
    uint64_t lost;
    bool lost_unknown;
    unsigned ends;
};

/**
 * btrail_copy_new
 * @store:  where to; NULL to find out what there is to be copied
 * @begin:  why records before the first chunk of a stream are missing, as the
 *          header of the new file tells it
 * @decode: check the records, too, not only the events
 */
struct btrail_copy *btrail_copy_new(struct btrail_store *store,
                                    uint16_t begin, bool decode);
void btrail_copy_free(struct btrail_copy *copy);

/* Go on with another store, or with one after all. */
void btrail_copy_to(struct btrail_copy *copy, struct btrail_store *store);

/**
 * btrail_copy_data - copy a DATA chunk
 * @entry:  the next one of its stream
 * @begins: it is the first one that @file has of the stream
 *
 * It is copied as it is; if it is damaged it is left out, and what it had is
 * told by a GAP event before the next one.
 *
 * Errors: IO, MEMORY, VERSION (a codec that is not known).
 */
int btrail_copy_data(struct btrail_copy *copy, const struct btrail_file *file,
                     const struct btrail_index_entry *entry, bool begins);

/**
 * btrail_copy_sideband - copy a SIDEBAND chunk
 *
 * It is copied as it is, or left out if it is damaged.
 *
 * Errors: IO, MEMORY.
 */
int btrail_copy_sideband(struct btrail_copy *copy,
                         const struct btrail_file *file,
                         const struct btrail_index_entry *entry);

/**
 * btrail_copy_follow - a stream goes on, or ends, behind a chunk elsewhere
 * @entry: the last chunk of the stream, in a file that comes before
 *
 * Nothing is copied.  Errors: IO, MEMORY, VERSION.
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

const struct btrail_copy_sum *btrail_copy_sum(const struct btrail_copy *copy);

#endif /* BTRAIL_COPY_H */
