/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A flight recorder: the last records, in files of a private folder
 *
 * Records are in a ring of parts.  Names of them are sent only once and are
 * worth more than they occupy, so they are in a file of their own, or two: when
 * it has become too large, all that still holds is resent into a new one, and
 * the one before the last is deleted.
 */

#ifndef BTRAIL_PART_RING_H
#define BTRAIL_PART_RING_H

#include "lib/agent/store.h"

struct part_ring;

/**
 * struct session_limit - size of a ring, whichever is reached first
 * @bytes:   of its files with records, at least 1 MiB
 * @records: of all vCPUs together, 0 for no limit.  The ring has these, and up
 *           to an eighth more
 * @ns:      time, 0 for no limit; up to an eighth more, likewise
 */
struct session_limit {
    uint64_t bytes;
    uint64_t records;
    uint64_t ns;
};

/* @folder exists and is empty.  Returns NULL and sets errno on failure. */
struct part_ring *part_ring_new(const char *folder,
                                const struct session_limit *limit);

/* The stores for records and for names; the caller closes the first. */
struct btrail_store *part_ring_store(struct part_ring *r);
struct btrail_store *part_ring_names(struct part_ring *r);

/*
 * The ring deletes nothing until it is released as often as it was held; if
 * that takes too long, it deletes the oldest nevertheless.  Any thread
 */
void part_ring_hold(struct part_ring *r);
void part_ring_release(struct part_ring *r);

/*
 * For the thread that writes to these stores, or for any thread when none does
 * any more:
 */

/* Has the file of names got too large? */
bool part_ring_names_full(struct part_ring *r);

/* Begins another file of names: all must be resent.  NULL on failure */
struct btrail_store *part_ring_new_names(struct part_ring *r);

/* Deletes what exceeds the limit, after the ring was held. */
void part_ring_trim(struct part_ring *r);

/* Returns descriptors of all files as they are now, for part_ring_dump(). */
GArray *part_ring_files(struct part_ring *r);

/*
 * Makes one trace of the files, and closes them.  Any thread.  Returns 0, or a
 * negative enum btrail_error and leaves no file.  @more: as
 * btrail_merge_running()
 */
int part_ring_dump(GArray *files, const char *path, const char *more,
                   struct btrail_merge_result *result);

/* Closes the file of names and, unless @keep is set, deletes all files. */
void part_ring_free(struct part_ring *r, bool keep);

#endif /* BTRAIL_PART_RING_H */
