/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A ring of files: the parts of a trace before the one that is written to, of
 * which it deletes the oldest
 */

#ifndef BTRAIL_STORE_RING_H
#define BTRAIL_STORE_RING_H

#include "lib/agent/store.h"

/**
 * struct btrail_ring_part - a part that is finished
 * @path:     of the file
 * @size:     of the file
 * @sideband: of struct btrail_index_entry: its SIDEBAND chunks; NULL for none
 * @records:  in it
 * @last_time: host clock of the last TIME event in it, or 0
 */
struct btrail_ring_part {
    char *path;
    uint64_t size;
    GArray *sideband;
    uint64_t records;
    uint64_t last_time;
};

/**
 * struct btrail_store_ring - the parts, and the sideband of deleted ones
 * @carried_size: what that will take in the part that is written to
 *
 * The other members are private.
 */
struct btrail_store_ring {
    uint64_t carried_size;

    const struct btrail_store_options *options;
    GArray *kept;               /* of struct btrail_ring_part, oldest first */
    uint64_t kept_size;
    uint64_t kept_records;
    GQueue carried;             /* of struct carried */
};

/* @options must outlive the ring. */
void btrail_store_ring_init(struct btrail_store_ring *ring,
                            const struct btrail_store_options *options);
void btrail_store_ring_clear(struct btrail_store_ring *ring);

/* Adds the newest part.  The ring owns its members from here on. */
void btrail_store_ring_add(struct btrail_store_ring *ring,
                           const struct btrail_ring_part *part);

/*
 * Makes room for a part of this many bytes, and for the sideband that this
 * carries over; false if there is no such room.
 */
bool btrail_store_ring_make_room(struct btrail_store_ring *ring,
                                 uint64_t bytes);

/* Does a part with these numbers have its share of records, or of time? */
bool btrail_store_ring_has_share(const struct btrail_store_ring *ring,
                                 uint64_t records, uint64_t first_time,
                                 uint64_t last_time);

/*
 * Deletes parts beyond the limits of records and time, where a newer part has
 * these numbers.
 */
void btrail_store_ring_trim(struct btrail_store_ring *ring, uint64_t records,
                            uint64_t last_time);

/* What a SIDEBAND chunk takes in a part */
uint64_t btrail_ring_sideband_size(uint32_t payload);

/*
 * Takes the next SIDEBAND chunk of deleted parts; false if there is none.  The
 * caller frees @payload.  Drops the oldest of what takes more than @most bytes
 * together, and what can no longer be read because another process has changed
 * it.
 */
bool btrail_store_ring_next(struct btrail_store_ring *ring, uint64_t most,
                            uint8_t **payload, uint32_t *len,
                            struct btrail_sideband_info *info);

#endif /* BTRAIL_STORE_RING_H */
