/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Codec "predict": see codec.h
 */

#include <glib.h>

#include "codec.h"

struct entry {
    uint64_t from;
    uint64_t to;
};

struct predictor {
    uint64_t history;
    uint64_t last_to;
    struct entry table[1u << BTRAIL_PREDICT_BITS];
};

/* Bits by which an older target moves up until it is forgotten. */
#define HISTORY_SHIFT   16

static inline uint64_t next_history(uint64_t history, uint64_t to)
{
    return history << HISTORY_SHIFT ^ to * 0xff51afd7ed558ccdull >> 20;
}

static inline size_t slot(uint64_t history)
{
    return history * 0x9e3779b97f4a7c15ull >> (64 - BTRAIL_PREDICT_BITS);
}

struct btrail_encoder {
    struct predictor p;
    struct btrail_buf *out;
    uint64_t run;               /* records foretold since the last literal */
    uint64_t flags;             /* of the last record */
    uint64_t same_flags;        /* records since they changed */
};

struct btrail_encoder *btrail_encoder_new(void)
{
    return g_new0(struct btrail_encoder, 1);
}

void btrail_encoder_free(struct btrail_encoder *enc)
{
    g_free(enc);
}

void btrail_encoder_begin(struct btrail_encoder *enc, struct btrail_buf *out)
{
    memset(enc, 0, sizeof(*enc));
    enc->out = out;
}

/* Records between two looks at the buffers' sizes. */
#define ENCODE_STEP 4096

static void encode_step(struct btrail_encoder *enc,
                        const struct btrail_record *records, size_t n)
{
    struct btrail_buf *runs = &enc->out[BTRAIL_CODEC_RUNS];
    struct btrail_buf *literals = &enc->out[BTRAIL_CODEC_LITERALS];
    struct btrail_buf *changes = &enc->out[BTRAIL_CODEC_FLAGS];
    struct predictor *p = &enc->p;
    uint64_t history = p->history;
    uint64_t last_to = p->last_to;
    uint64_t run = enc->run;
    uint64_t flags = enc->flags;
    const uint64_t *field = &records->from;
    uint8_t *runs_end, *literals_end;
    size_t i, changed = 0;

    btrail_buf_reserve(runs, n * BTRAIL_CODEC_MAX_RUN_BYTES);
    btrail_buf_reserve(literals, n * BTRAIL_CODEC_MAX_LITERAL_BYTES);
    runs_end = runs->data + runs->len;
    literals_end = literals->data + literals->len;

    for (i = 0; i < n; i++, field += 3) {
        uint64_t from = __atomic_load_n(&field[0], __ATOMIC_RELAXED);
        uint64_t to = __atomic_load_n(&field[1], __ATOMIC_RELAXED);
        uint64_t f = __atomic_load_n(&field[2], __ATOMIC_RELAXED);
        struct entry *e = &p->table[slot(history)];

        if (G_LIKELY(e->from == from && e->to == to)) {
            run++;
        } else {
            runs_end = btrail_put_varint(runs_end, run);
            run = 0;
            literals_end = btrail_put_varint(literals_end,
                                             btrail_zigzag(from - last_to));
            literals_end = btrail_put_varint(literals_end,
                                             btrail_zigzag(to - from));
            e->from = from;
            e->to = to;
        }
        if (G_UNLIKELY(f != flags)) {
            btrail_buf_append_varint(changes, enc->same_flags + i - changed);
            btrail_buf_append_varint(changes, f);
            enc->same_flags = 0;
            changed = i;
            flags = f;
        }
        last_to = to;
        history = next_history(history, to);
    }

    runs->len = runs_end - runs->data;
    literals->len = literals_end - literals->data;
    p->history = history;
    p->last_to = last_to;
    enc->run = run;
    enc->flags = flags;
    enc->same_flags += n - changed;
}

void btrail_encoder_records(struct btrail_encoder *enc,
                            const struct btrail_record *records, size_t n)
{
    while (n) {
        size_t step = MIN(n, ENCODE_STEP);

        encode_step(enc, records, step);
        records += step;
        n -= step;
    }
}

void btrail_encoder_end(struct btrail_encoder *enc)
{
    if (enc->run) {
        btrail_buf_append_varint(&enc->out[BTRAIL_CODEC_RUNS], enc->run);
        enc->run = 0;
    }
}

struct input {
    const uint8_t *p;
    const uint8_t *end;
};

struct btrail_decoder {
    struct predictor p;
    struct input in[BTRAIL_CODEC_STREAMS];
    size_t records;             /* that are left */
    uint64_t run;               /* foretold records that are left */
    bool literal;               /* follows after the run */
    uint64_t flags;
    uint64_t same_flags;        /* records until they change */
    uint64_t next_flags;
};

struct btrail_decoder *btrail_decoder_new(void)
{
    return g_new0(struct btrail_decoder, 1);
}

void btrail_decoder_free(struct btrail_decoder *dec)
{
    g_free(dec);
}

static bool get(struct input *in, uint64_t *v)
{
    const uint8_t *p = btrail_get_varint(in->p, in->end, v);

    if (!p) {
        return false;
    }
    in->p = p;
    return true;
}

/* Learn when flags change next, if they do. */
static bool next_change(struct btrail_decoder *dec)
{
    struct input *in = &dec->in[BTRAIL_CODEC_FLAGS];

    if (in->p == in->end) {
        dec->same_flags = UINT64_MAX;
        return true;
    }
    return get(in, &dec->same_flags) && get(in, &dec->next_flags);
}

bool btrail_decoder_begin(struct btrail_decoder *dec,
                          const uint8_t *const *data, const size_t *len,
                          size_t records)
{
    unsigned i;

    memset(dec, 0, sizeof(*dec));
    for (i = 0; i < BTRAIL_CODEC_STREAMS; i++) {
        dec->in[i].p = data[i];
        dec->in[i].end = data[i] + len[i];
    }
    dec->records = records;
    return next_change(dec);
}

static bool decode_addresses(struct btrail_decoder *dec,
                             struct btrail_record *r, size_t n)
{
    struct predictor *p = &dec->p;
    uint64_t history = p->history;
    uint64_t last_to = p->last_to;
    size_t i = 0;

    while (i < n) {
        size_t stop;

        if (!dec->run && !dec->literal) {
            if (!get(&dec->in[BTRAIL_CODEC_RUNS], &dec->run) ||
                dec->run > dec->records - i) {
                return false;
            }
            /* A run to the very end has no literal behind it. */
            dec->literal = dec->run < dec->records - i;
        }
        stop = i + MIN(dec->run, n - i);
        dec->run -= stop - i;
        for (; i < stop; i++) {
            const struct entry *e = &p->table[slot(history)];

            r[i].from = e->from;
            r[i].to = last_to = e->to;
            history = next_history(history, last_to);
        }
        if (i < n && dec->literal) {
            struct entry *e = &p->table[slot(history)];
            uint64_t a, b;

            if (!get(&dec->in[BTRAIL_CODEC_LITERALS], &a) ||
                !get(&dec->in[BTRAIL_CODEC_LITERALS], &b)) {
                return false;
            }
            e->from = last_to + btrail_unzigzag(a);
            e->to = e->from + btrail_unzigzag(b);
            r[i].from = e->from;
            r[i].to = last_to = e->to;
            history = next_history(history, last_to);
            dec->literal = false;
            i++;
        }
    }

    p->history = history;
    p->last_to = last_to;
    return true;
}

static bool decode_flags(struct btrail_decoder *dec, struct btrail_record *r,
                         size_t n)
{
    size_t i = 0;

    while (i < n) {
        size_t stop = i + MIN(dec->same_flags, n - i);

        if (dec->same_flags != UINT64_MAX) {
            dec->same_flags -= stop - i;
        }
        for (; i < stop; i++) {
            r[i].flags = dec->flags;
        }
        if (i < n) {
            dec->flags = dec->next_flags;
            if (!next_change(dec) || !dec->same_flags) {
                /* Two changes of one record */
                return false;
            }
        }
    }
    return true;
}

bool btrail_decoder_records(struct btrail_decoder *dec,
                            struct btrail_record *records, size_t n)
{
    unsigned i;

    if (n > dec->records || !decode_addresses(dec, records, n) ||
        !decode_flags(dec, records, n)) {
        return false;
    }
    dec->records -= n;
    if (!dec->records) {
        for (i = 0; i < BTRAIL_CODEC_STREAMS; i++) {
            if (dec->in[i].p != dec->in[i].end) {
                return false;
            }
        }
    }
    return true;
}
