/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Footprint: which code a chunk has run, so that a search can leave it out
 *
 * It consists of lines, 64 bytes of linear addresses each: those that lie
 * between where a branch went to and where the next one came from.  It is a
 * section of its own, which can be read without the others.
 * docs/trace-format.md describes the bytes.
 */

#ifndef BTRAIL_FOOTPRINT_H
#define BTRAIL_FOOTPRINT_H

#include "lib/agent/bytes.h"

#define BTRAIL_FOOTPRINT_SHIFT 6

/* Lines of a piece of code, at most */
#define BTRAIL_FOOTPRINT_PIECE 64u

/* The most lines of what is still taken for code without a branch: 64 KiB */
#define BTRAIL_FOOTPRINT_MOST 1024u

/* Pieces of code that are kept for one chunk, of which some are the same */
#define BTRAIL_FOOTPRINT_PIECES (1u << 16)

/* The most bytes of the section: checksum, flags, and two numbers for a run */
#define BTRAIL_FOOTPRINT_MAX_SIZE \
    (5u + BTRAIL_FOOTPRINT_PIECES / 2 * 2 * BTRAIL_VARINT_MAX)

/**
 * struct btrail_footprint - that of a chunk that is being written
 * @pieces: of uint64_t, first line << 6 | lines after it, in any order,
 *          perhaps twice
 * @any:    there are too many: the chunk may have run anything
 * @gap:    records are missing in the chunk
 */
struct btrail_footprint {
    GArray *pieces;
    bool any;
    bool gap;
};

void btrail_footprint_begin(struct btrail_footprint *f);
void btrail_footprint_free(struct btrail_footprint *f);

/* Bytes of memory of its pieces */
size_t btrail_footprint_size(const struct btrail_footprint *f);

/* Adds a piece as above: up to BTRAIL_FOOTPRINT_PIECE lines. */
void btrail_footprint_add(struct btrail_footprint *f, uint64_t piece);

/* Makes the section; replaces @section. */
void btrail_footprint_pack(const struct btrail_footprint *f,
                           struct btrail_buf *section);

/* What a chunk may have run */
enum btrail_ran {
    BTRAIL_RAN_NONE, /* none of the addresses */
    BTRAIL_RAN_PERHAPS, /* what is in the same line as one of them */
    BTRAIL_RAN_UNKNOWN, /* anything: records are missing, or lines */
};

/* Reads a section.  One that is damaged does not say anything.  The addresses
 * are in order. */
enum btrail_ran btrail_footprint_ran(const uint8_t *section, size_t len,
                                     const uint64_t *addresses, size_t n);

#endif /* BTRAIL_FOOTPRINT_H */
