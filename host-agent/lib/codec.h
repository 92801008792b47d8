/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Codec "predict": records to bytes and back
 *
 * Both sides keep a table that remembers, for a hash of the last few branch
 * targets, which record came next the last time.  Records that the table
 * foretells are counted; the others are stored as differences.  The code of
 * a program repeats itself, so most are foretold.
 *
 * docs/trace-format.md describes the bytes.
 */

#ifndef BTRAIL_CODEC_H
#define BTRAIL_CODEC_H

#include "backtrail/transport.h"
#include "bytes.h"

#define BTRAIL_CODEC_PREDICT        1
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
/* Clearing a table costs more than all else that a short input does. */
#define BTRAIL_PREDICT_BITS         8
#else
#define BTRAIL_PREDICT_BITS         16
#endif

/* The most records in one go, from begin to end. */
#define BTRAIL_CODEC_MAX_RECORDS    (1u << 20)

/* The most bytes a record can take in each of the streams. */
#define BTRAIL_CODEC_MAX_RUN_BYTES      3
#define BTRAIL_CODEC_MAX_LITERAL_BYTES  (2 * BTRAIL_VARINT_MAX)
#define BTRAIL_CODEC_MAX_FLAG_BYTES     (3 + BTRAIL_VARINT_MAX)

enum btrail_codec_stream {
    BTRAIL_CODEC_RUNS,          /* how many records were foretold in a row */
    BTRAIL_CODEC_LITERALS,      /* those that were not */
    BTRAIL_CODEC_FLAGS,         /* where flags change */
    BTRAIL_CODEC_STREAMS,
};

struct btrail_encoder;
struct btrail_decoder;

struct btrail_encoder *btrail_encoder_new(void);
void btrail_encoder_free(struct btrail_encoder *enc);

/**
 * btrail_encoder_begin - start from scratch
 * @out: BTRAIL_CODEC_STREAMS buffers, which must outlive the use
 */
void btrail_encoder_begin(struct btrail_encoder *enc, struct btrail_buf *out);

/**
 * btrail_encoder_records - add records
 * @records: may be changed by others at any time; each field is read once
 */
void btrail_encoder_records(struct btrail_encoder *enc,
                            const struct btrail_record *records, size_t n);

/* btrail_encoder_end - complete the buffers */
void btrail_encoder_end(struct btrail_encoder *enc);

struct btrail_decoder *btrail_decoder_new(void);
void btrail_decoder_free(struct btrail_decoder *dec);

/**
 * btrail_decoder_begin - start from scratch
 * @data, @len: BTRAIL_CODEC_STREAMS streams, which must outlive the use
 * @records:    how many there are
 *
 * False if the streams are damaged.
 */
bool btrail_decoder_begin(struct btrail_decoder *dec,
                          const uint8_t *const *data, const size_t *len,
                          size_t records);

/**
 * btrail_decoder_records - get the next @n records
 *
 * False if the streams hold fewer or are damaged; also if these are the last
 * ones and bytes are left over.
 */
bool btrail_decoder_records(struct btrail_decoder *dec,
                            struct btrail_record *records, size_t n);

#endif /* BTRAIL_CODEC_H */
