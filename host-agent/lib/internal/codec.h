/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Codec "path": records to bytes and back
 *
 * A program takes the paths that it has taken before.  Both sides keep a
 * list of the edges (from and to) that have been taken and the path through
 * them.  The record that came next the last time is predicted to come next
 * again; only where the path forks off from the one predicted is something
 * stored: how far it was the same, and which edge it took instead.
 *
 * docs/trace-format.md describes the bytes.
 */

#ifndef BTRAIL_CODEC_H
#define BTRAIL_CODEC_H

#include "backtrail/transport.h"
#include "lib/agent/bytes.h"
#include "lib/internal/footprint.h"

#define BTRAIL_CODEC_PATH           1
#define BTRAIL_CODEC_PATH_COUNTS    2   /* with instruction counts */

/* Limits from begin to end, so that decoding takes bounded time and memory */
#define BTRAIL_CODEC_MAX_RECORDS    (1u << 22)
#define BTRAIL_CODEC_MAX_EDGES      (1u << 19)
#define BTRAIL_CODEC_MAX_BYTES      (8u << 20)

/* The most bytes of a record in the streams */
#define BTRAIL_CODEC_MAX_MISS_BYTES     4
#define BTRAIL_CODEC_MAX_STRAIGHT_BYTES 4
#define BTRAIL_CODEC_MAX_LENGTH_BYTES   BTRAIL_VARINT_MAX
#define BTRAIL_CODEC_MAX_TARGET_BYTES   1
#define BTRAIL_CODEC_MAX_PLACE_BYTES    2
#define BTRAIL_CODEC_MAX_DISTANCE_BYTES (BTRAIL_VARINT_MAX - 1)
#define BTRAIL_CODEC_MAX_RETURN_BYTES   1
#define BTRAIL_CODEC_MAX_FLAG_BYTES     (4 + BTRAIL_VARINT_MAX)
#define BTRAIL_CODEC_MAX_COUNT_BYTES    (4 + 7)

enum btrail_codec_stream {
    /*
     * Forks passed, kind of the edge taken.  Each is in the stream of what
     * has predicted the path until there, since those are much alike.
     */
    BTRAIL_CODEC_MISSES_NONE,   /* nothing: an edge not taken before */
    BTRAIL_CODEC_MISSES_EDGE,   /* the same edge the last time */
    BTRAIL_CODEC_MISSES_EDGES,  /* the same miss, or the same four edges */
    BTRAIL_CODEC_STRAIGHTS,     /* records since the last fork */
    /* From the last target to the branch, where */
    BTRAIL_CODEC_LENGTHS,       /* nothing was predicted */
    BTRAIL_CODEC_OTHER_LENGTHS, /* another edge was */
    BTRAIL_CODEC_TARGETS,       /* where it goes, a byte: */
    BTRAIL_CODEC_PLACES,        /* where something else has gone to */
    BTRAIL_CODEC_DISTANCES,     /* or that far, without the lowest bits */
    BTRAIL_CODEC_RETURNS,       /* to which branch it goes back */
    BTRAIL_CODEC_FLAGS,         /* where flags change */
    BTRAIL_CODEC_COUNTS,        /* instruction counts that are not predicted */
    BTRAIL_CODEC_STREAMS,
};

/* Which of these applies to each stream */
extern const uint8_t btrail_codec_record_bytes[BTRAIL_CODEC_STREAMS];

struct btrail_encoder;
struct btrail_decoder;

struct btrail_encoder *btrail_encoder_new(void);
void btrail_encoder_free(struct btrail_encoder *enc);

/**
 * btrail_encoder_begin - start from scratch
 * @out:       BTRAIL_CODEC_STREAMS buffers, which must outlive the use
 * @footprint: begun, outlives the use, too; NULL if it is not wanted
 *
 * Records have instruction counts if the first one has.  Only then there is
 * anything in the last buffer.  The first record continues where the last one
 * before this call went to.
 */
void btrail_encoder_begin(struct btrail_encoder *enc, struct btrail_buf *out,
                          struct btrail_footprint *footprint);

/* Records are missing before the next one. */
void btrail_encoder_gap(struct btrail_encoder *enc);

/**
 * btrail_encoder_room - how many records can be added before a limit is reached
 *
 * For any records; there may be more room than that after some have been
 * added.
 */
size_t btrail_encoder_room(const struct btrail_encoder *enc);

/**
 * btrail_encoder_records - add records
 * @records: may be changed by others at any time
 * @n:       at most btrail_encoder_room()
 */
void btrail_encoder_records(struct btrail_encoder *enc,
                            const struct btrail_record *records, size_t n);

/* btrail_encoder_end - complete the buffers */
void btrail_encoder_end(struct btrail_encoder *enc);

struct btrail_decoder *btrail_decoder_new(void);
void btrail_decoder_free(struct btrail_decoder *dec);

/*
 * The most bytes that a decoder uses to get this many records from this many
 * bytes, except tables of a fixed size
 */
uint64_t btrail_decoder_memory(uint32_t records, uint64_t bytes);

/**
 * btrail_decoder_begin - start from scratch
 * @data, @len: BTRAIL_CODEC_STREAMS streams, which must outlive the use
 * @records:    how many there are, at most BTRAIL_CODEC_MAX_RECORDS
 *
 * Errors: CORRUPT, MEMORY.
 */
int btrail_decoder_begin(struct btrail_decoder *dec,
                         const uint8_t *const *data, const size_t *len,
                         size_t records);

/**
 * btrail_decoder_ahead - decode all records, and keep them in short
 *
 * Right after the begin.  btrail_decoder_records() then does little more than
 * copy them.
 */
void btrail_decoder_ahead(struct btrail_decoder *dec);

/**
 * btrail_decoder_records - get the next @n records
 * @records: gets them; NULL to skip them, which is faster
 *
 * False if the streams hold fewer or are damaged; also if these are the last
 * ones and bytes are left over.
 */
bool btrail_decoder_records(struct btrail_decoder *dec,
                            struct btrail_record *records, size_t n);

#endif /* BTRAIL_CODEC_H */
