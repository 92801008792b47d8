/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A flight recorder: the last records, in files of a private folder
 *
 * Records are in a ring of parts.  What names them, which is worth more than it
 * takes and is told once, is in a file of its own, or two: when it has got too
 * large, all that still holds is told again into a new one, and the one before
 * the last is deleted.
 */

#ifndef BTRAIL_RING_H
#define BTRAIL_RING_H

#include "lib/internal/store.h"

struct btrail_ring;

/**
 * struct btrail_session_limit - what a ring has, whichever is reached first
 * @bytes:   that its records take in files, at least 1 MiB
 * @records: of all vCPUs together, 0 for any number.  It has these, and up to
 *           an eighth more
 * @ns:      time, 0 for any; up to an eighth more, likewise
 */
struct btrail_session_limit {
    uint64_t bytes;
    uint64_t records;
    uint64_t ns;
};

/* @folder is there and empty.  NULL and errno on failure. */
struct btrail_ring *btrail_ring_new(const char *folder,
                                    const struct btrail_session_limit *limit);

/* Where records go, and where names do; the caller closes the first. */
struct btrail_store *btrail_ring_store(struct btrail_ring *r);
struct btrail_store *btrail_ring_names(struct btrail_ring *r);

/*
 * Delete nothing of what there is until it is let go as often as it was held;
 * if that takes long, the oldest all the same.  Any thread
 */
void btrail_ring_hold(struct btrail_ring *r);
void btrail_ring_release(struct btrail_ring *r);

/*
 * What has to be called by whoever writes to these stores, or when nobody does
 * any more:
 */

/* Have names got too large? */
bool btrail_ring_names_full(struct btrail_ring *r);

/* Go on in another file of names; all is to be told again.  NULL on failure */
struct btrail_store *btrail_ring_new_names(struct btrail_ring *r);

/* Delete what it has too much, after it was held. */
void btrail_ring_trim(struct btrail_ring *r);

/* File descriptors of all files as they are now, for btrail_ring_dump() */
GArray *btrail_ring_files(struct btrail_ring *r);

/*
 * Make one trace of files, which are closed.  Any thread.  0 or a negative
 * enum btrail_error; no file is left behind then.
 */
int btrail_ring_dump(GArray *files, const char *path,
                     struct btrail_merge_result *result);

/* Close the names and, unless they are to be kept, delete all files. */
void btrail_ring_free(struct btrail_ring *r, bool keep);

#endif /* BTRAIL_RING_H */
