/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Codec "path": what was encoded is decoded bit by bit, in whatever pieces, and
 * damaged streams are decoded within bounds.
 */

#include "lib/internal/codec.h"

struct streams {
    struct btrail_buf buf[BTRAIL_CODEC_STREAMS];
};

static void free_streams(struct streams *s)
{
    unsigned i;

    for (i = 0; i < BTRAIL_CODEC_STREAMS; i++) {
        btrail_buf_free(&s->buf[i]);
    }
}

/* Encode in pieces of @step records. */
static void encode(struct streams *s, const struct btrail_record *r, size_t n,
                   size_t step)
{
    struct btrail_encoder *enc = btrail_encoder_new();

    memset(s, 0, sizeof(*s));
    btrail_encoder_begin(enc, s->buf, NULL);
    while (n) {
        size_t k = MIN(n, step);

        btrail_encoder_records(enc, r, k);
        r += k;
        n -= k;
    }
    btrail_encoder_end(enc);
    btrail_encoder_free(enc);
}

static bool begin(struct btrail_decoder *dec, const struct streams *s,
                  size_t n)
{
    const uint8_t *data[BTRAIL_CODEC_STREAMS];
    size_t len[BTRAIL_CODEC_STREAMS];
    unsigned i;

    for (i = 0; i < BTRAIL_CODEC_STREAMS; i++) {
        /* A copy of exactly that length, so that no byte more is read. */
        data[i] = g_memdup2(s->buf[i].data, s->buf[i].len);
        len[i] = s->buf[i].len;
        g_test_queue_free((gpointer)data[i]);
    }
    return btrail_decoder_begin(dec, data, len, n) == 0;
}

/* The number of pieces that are decoded, or -1 if the beginning is damaged */
static int decode_pieces(const struct streams *s, struct btrail_record *r,
                         size_t n, size_t step, bool ahead)
{
    /* One for all: new memory takes longer than decoding. */
    static struct btrail_decoder *dec;
    int pieces;

    dec = dec ?: btrail_decoder_new();
    pieces = begin(dec, s, n) ? 0 : -1;
    if (!pieces && ahead) {
        btrail_decoder_ahead(dec);
    }
    while (pieces >= 0 && n) {
        size_t k = MIN(n, step);

        if (!btrail_decoder_records(dec, r, k)) {
            break;
        }
        pieces++;
        r += k;
        n -= k;
    }
    return pieces;
}

static bool decode(const struct streams *s, struct btrail_record *r, size_t n,
                   size_t step)
{
    struct btrail_record *other = g_new(struct btrail_record, n + 1);
    int all = n / step + !!(n % step);
    int pieces = decode_pieces(s, r, n, step, false);

    /* Decoding ahead makes no difference, also if the streams are damaged. */
    g_assert_cmpint(decode_pieces(s, other, n, step, true), ==, pieces);
    if (pieces > 0) {
        size_t good = MIN(n, pieces * MIN(step, n));

        g_assert_cmpmem(other, good * sizeof(*r), r, good * sizeof(*r));
    }
    g_free(other);
    return pieces == all;
}

/* Pass over some records in between. */
static void check_skip(const struct streams *s, const struct btrail_record *r,
                       size_t n, bool ahead)
{
    struct btrail_decoder *dec = btrail_decoder_new();
    struct btrail_record *got = g_new(struct btrail_record, n + 1);
    bool over = true;
    size_t i = 0;

    g_assert_true(begin(dec, s, n));
    if (ahead) {
        btrail_decoder_ahead(dec);
    }
    while (i < n) {
        size_t k = MIN(n - i, 1 + n / 7);

        g_assert_true(btrail_decoder_records(dec, over ? NULL : got, k));
        if (!over) {
            g_assert_cmpmem(got, k * sizeof(*r), r + i, k * sizeof(*r));
        }
        over = !over;
        i += k;
    }
    btrail_decoder_free(dec);
    g_free(got);
}

static void check_round_trip(const struct btrail_record *r, size_t n)
{
    static const size_t steps[] = { 1, 7, 4096, SIZE_MAX };
    struct btrail_record *got = g_new(struct btrail_record, n + 1);
    struct streams s, other;
    unsigned i, j;

    encode(&s, r, n, SIZE_MAX);
    for (i = 0; i < G_N_ELEMENTS(steps); i++) {
        /* Pieces make no difference. */
        encode(&other, r, n, steps[i]);
        for (j = 0; j < BTRAIL_CODEC_STREAMS; j++) {
            g_assert_cmpmem(s.buf[j].data, s.buf[j].len, other.buf[j].data,
                            other.buf[j].len);
        }
        free_streams(&other);

        memset(got, 0xaa, n * sizeof(*got));
        g_assert_true(decode(&s, got, n, steps[i]));
        g_assert_cmpmem(got, n * sizeof(*got), r, n * sizeof(*r));
    }
    check_skip(&s, r, n, false);
    check_skip(&s, r, n, true);
    free_streams(&s);
    g_free(got);
}

static uint64_t random64(void)
{
    return (uint64_t)(uint32_t)g_test_rand_int() << 32 |
           (uint32_t)g_test_rand_int();
}

static void test_empty(void)
{
    check_round_trip(NULL, 0);
}

static void test_random(void)
{
    size_t i, n = 20000;
    struct btrail_record *r = g_new(struct btrail_record, n);

    for (i = 0; i < n; i++) {
        r[i] = (struct btrail_record) { random64(), random64(), random64() };
    }
    check_round_trip(r, n);
    g_free(r);
}

/* Few different addresses, so that there are hits and misses of all kinds */
static void test_program(void)
{
    size_t i, n = 100000;
    struct btrail_record *r = g_new0(struct btrail_record, n);
    struct streams s;

    for (i = 0; i < n; i++) {
        size_t which = i % 1000 < 900 ? i % 13 :
                       (size_t)g_test_rand_int_range(0, 40);

        r[i].from = 0xffffffff81000000ull + which * 48;
        r[i].to = 0x400000 + which * 16;
    }
    check_round_trip(r, n);
    encode(&s, r, n, n);
    g_assert_cmpint(s.buf[BTRAIL_CODEC_FLAGS].len, ==, 0);
    /* Each edge is new once. */
    g_assert_cmpint(s.buf[BTRAIL_CODEC_TARGETS].len +
                    s.buf[BTRAIL_CODEC_RETURNS].len, <=, 40 * 10);
    /* A tenth of them come as a surprise, with what follows. */
    g_assert_cmpint(s.buf[BTRAIL_CODEC_MISSES_NONE].len +
                    s.buf[BTRAIL_CODEC_MISSES_EDGE].len +
                    s.buf[BTRAIL_CODEC_MISSES_EDGES].len, <, n / 3);
    free_streams(&s);
    g_free(r);
}

/* What is predicted costs nothing, however long it continues. */
static void test_loop(void)
{
    size_t i, n = 1000000;
    struct btrail_record *r = g_new0(struct btrail_record, n);
    struct streams s;
    unsigned j;

    for (i = 0; i < n; i++) {
        r[i].from = 0x401000 + i % 5 * 16;
        r[i].to = 0x401000 + (i + 1) % 5 * 16 - 8;
    }
    encode(&s, r, n, n);
    check_skip(&s, r, n, false);
    check_skip(&s, r, n, true);
    for (j = 0; j < BTRAIL_CODEC_STREAMS; j++) {
        g_assert_cmpint(s.buf[j].len, <, 30);
    }
    free_streams(&s);
    g_free(r);
}

/* Calls from many places, each for the first time: returns find their way. */
static void test_returns(void)
{
    enum { SITES = 2000 };
    struct btrail_record *r = g_new0(struct btrail_record, 2 * SITES);
    struct streams s;
    size_t i;

    for (i = 0; i < SITES; i++) {
        r[2 * i].from = 0x400000 + i * 64;
        r[2 * i].to = 0x800000;
        r[2 * i + 1].from = 0x800010;
        r[2 * i + 1].to = r[2 * i].from + 5;
    }
    encode(&s, r, 2 * SITES, 2 * SITES);
    check_skip(&s, r, 2 * SITES, false);
    g_assert_cmpint(s.buf[BTRAIL_CODEC_RETURNS].len, ==, SITES);
    free_streams(&s);
    g_free(r);
}

/* The encoder says when it is full, of edges or of bytes. */
static void test_room(void)
{
    struct btrail_encoder *enc = btrail_encoder_new();
    struct streams s = { 0 };
    struct btrail_record r[64] = { 0 };
    uint64_t n = 0, bytes = 0;
    unsigned i;

    btrail_encoder_begin(enc, s.buf, NULL);
    while (btrail_encoder_room(enc) >= G_N_ELEMENTS(r)) {
        for (i = 0; i < G_N_ELEMENTS(r); i++) {
            r[i].from = n * 32;
            r[i].to = ++n * 32;
        }
        btrail_encoder_records(enc, r, G_N_ELEMENTS(r));
    }
    g_assert_cmpuint(n, >, BTRAIL_CODEC_MAX_EDGES - G_N_ELEMENTS(r));
    g_assert_cmpuint(n, <=, BTRAIL_CODEC_MAX_EDGES);
    free_streams(&s);

    memset(&s, 0, sizeof(s));
    btrail_encoder_begin(enc, s.buf, NULL);
    for (n = 0; btrail_encoder_room(enc); n++) {
        r[0] = (struct btrail_record) { random64(), random64(), random64() };
        btrail_encoder_records(enc, r, 1);
    }
    btrail_encoder_end(enc);
    for (i = 0; i < BTRAIL_CODEC_STREAMS; i++) {
        bytes += s.buf[i].len;
    }
    g_assert_cmpuint(bytes, <=, BTRAIL_CODEC_MAX_BYTES);
    g_assert_cmpuint(bytes, >, BTRAIL_CODEC_MAX_BYTES - 100);
    free_streams(&s);

    memset(&s, 0, sizeof(s));
    memset(r, 0, sizeof(r));
    btrail_encoder_begin(enc, s.buf, NULL);
    for (n = 0; btrail_encoder_room(enc) >= G_N_ELEMENTS(r);
         n += G_N_ELEMENTS(r)) {
        btrail_encoder_records(enc, r, G_N_ELEMENTS(r));
    }
    g_assert_cmpuint(n, ==, BTRAIL_CODEC_MAX_RECORDS);
    g_assert_cmpuint(btrail_encoder_room(enc), ==, 0);
    free_streams(&s);
    btrail_encoder_free(enc);
}

static void test_extremes(void)
{
    static const uint64_t a[] = {
        0, 1, UINT64_MAX, 1ull << 63, (1ull << 63) - 1, 0xffff800000000000ull,
    };
    size_t n = 0, i, j, k;
    struct btrail_record r[6 * 6 * 6];

    for (i = 0; i < 6; i++) {
        for (j = 0; j < 6; j++) {
            for (k = 0; k < 6; k++) {
                r[n++] = (struct btrail_record) { a[i], a[j], a[k] };
            }
        }
    }
    check_round_trip(r, n);
    /* All zero is what the table predicts before it has learnt. */
    memset(r, 0, sizeof(r));
    check_round_trip(r, n);
    for (i = 0; i < n; i++) {
        check_round_trip(r, i);
    }
}

static void test_flags(void)
{
    size_t i, n = 10000;
    struct btrail_record *r = g_new0(struct btrail_record, n);
    struct streams s;

    /* From the first record on, until the last one, alternating, in runs */
    for (i = 0; i < n; i++) {
        r[i].flags = BTRAIL_RECORD_PREDICTED;
    }
    check_round_trip(r, n);
    encode(&s, r, n, n);
    g_assert_cmpint(s.buf[BTRAIL_CODEC_FLAGS].len, ==, 2);
    free_streams(&s);
    for (i = 0; i < n; i++) {
        r[i].flags = i == n - 1;
    }
    check_round_trip(r, n);
    for (i = 0; i < n; i++) {
        r[i].flags = i & 1 ? UINT64_MAX : 0;
    }
    check_round_trip(r, n);
    for (i = 0; i < n; i++) {
        r[i].flags = i / 100 % 3;
    }
    check_round_trip(r, n);
    g_free(r);
}

/* Each record as long as it gets, in every stream */
static void test_worst(void)
{
    size_t i, n = 200000;
    struct btrail_record *r = g_new(struct btrail_record, n);
    struct btrail_record *got = g_new(struct btrail_record, n);
    struct streams s;

    for (i = 0; i < n; i++) {
        r[i].from = i & 1 ? 1ull << 62 : 3ull << 62;
        r[i].to = r[i].from + (1ull << 63) + i;
        r[i].flags = i & 1 ? UINT64_MAX : 1ull << 63;
    }
    encode(&s, r, n, n);
    for (i = 0; i < BTRAIL_CODEC_STREAMS; i++) {
        g_assert_cmpint(s.buf[i].len, <=, n * btrail_codec_record_bytes[i]);
    }
    g_assert_true(decode(&s, got, n, n));
    g_assert_cmpmem(got, n * sizeof(*got), r, n * sizeof(*r));
    free_streams(&s);
    g_free(got);
    g_free(r);
}

/* Branches before, at and after the one predicted, and far from any */
static void test_lengths(void)
{
    static const uint64_t from[] = {
        0x1000, 0x1008, 0x1000, 0xff8, 0x1000, 0x1001, 0xfff, 0, UINT64_MAX,
        0x7ff, 0x800, 1ull << 63, 0x1000,
    };
    struct btrail_record r[4 * G_N_ELEMENTS(from)];
    struct streams s;
    size_t i;

    /* Each again and again after the same edge, and not two times the same */
    for (i = 0; i < G_N_ELEMENTS(r); i += 2) {
        r[i] = (struct btrail_record) { 0x400, 0x800, 0 };
        r[i + 1] = (struct btrail_record) {
            from[i / 2 % G_N_ELEMENTS(from)], 0x300 + i, 0,
        };
    }
    check_round_trip(r, G_N_ELEMENTS(r));
    encode(&s, r, G_N_ELEMENTS(r), G_N_ELEMENTS(r));
    g_assert_cmpint(s.buf[BTRAIL_CODEC_OTHER_LENGTHS].len, >,
                    G_N_ELEMENTS(from));
    free_streams(&s);
}

/* Calls of the same functions from ever new places */
static void test_places(void)
{
    enum { SITES = 3000, FUNCTIONS = 10 };
    struct btrail_record *r = g_new0(struct btrail_record, SITES);
    struct streams s;
    size_t i;

    for (i = 0; i < SITES; i++) {
        r[i].from = 0x400000 + i * 7919;
        r[i].to = 0x7f0000000000 + i % FUNCTIONS * 0x1234567;
    }
    check_round_trip(r, SITES);
    encode(&s, r, SITES, SITES);
    g_assert_cmpint(s.buf[BTRAIL_CODEC_PLACES].len, ==,
                    2 * (SITES - FUNCTIONS));
    g_assert_cmpint(s.buf[BTRAIL_CODEC_TARGETS].len, ==, SITES);
    free_streams(&s);
    g_free(r);
}

/* Every distance: each number of bytes, and -1, which is encoded otherwise */
static void test_distances(void)
{
    struct btrail_record r[4 * 64];
    size_t i;

    for (i = 0; i < G_N_ELEMENTS(r); i++) {
        r[i].from = 0x400000 + i * 64;
        r[i].to = r[i].from + (1ull << i / 4) * (i & 1 ? -1 : 1) - (i >> 1 & 1);
        r[i].flags = 0;
    }
    check_round_trip(r, G_N_ELEMENTS(r));
}

static void fill(struct btrail_record *r, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++) {
        r[i].from = 0x1000 + i % 5 * 32 + (i % 11 == 0);
        r[i].to = i % 17 ? 0x2000 + i % 5 : r[i ? i - 1 : 0].from + 5;
        r[i].flags = i / 64 + (1000 + i * 5 + i / 7)
                     * (UINT64_C(1) << BTRAIL_RECORD_ICOUNT_SHIFT);
    }
}

/* Counts: what is predicted needs nothing, and anything else is kept. */
static void test_counts(void)
{
    enum { N = 5000, LOOPS = 100 };
    struct btrail_record *r = g_new0(struct btrail_record, N);
    uint64_t count = (UINT64_C(1) << 48) - 50000;
    struct streams s, plain;
    size_t i;

    for (i = 0; i < N; i++) {
        r[i].from = 0x1000 + i % LOOPS * 64;
        r[i].to = 0x1000 + (i + 1) % LOOPS * 64 - i % LOOPS % 3;
    }
    encode(&plain, r, N, N);
    g_assert_cmpuint(plain.buf[BTRAIL_CODEC_COUNTS].len, ==, 0);
    for (i = 0; i < N; i++) {
        count += 3 + i % LOOPS % 20;
        r[i].flags = count << BTRAIL_RECORD_ICOUNT_SHIFT;
    }
    check_round_trip(r, N);
    encode(&s, r, N, N);
    for (i = 0; i < BTRAIL_CODEC_COUNTS; i++) {
        g_assert_cmpmem(s.buf[i].data, s.buf[i].len, plain.buf[i].data,
                        plain.buf[i].len);
    }
    g_assert_cmpuint(s.buf[BTRAIL_CODEC_COUNTS].len, <=, 2 * LOOPS + 10);
    free_streams(&s);
    /* Backwards, none, and much more at once, beside other flags */
    for (i = 0; i < N; i += 1 + i % 37) {
        count += i % 3 ? i : UINT64_MAX / (i + 1);
        r[i].flags = count << BTRAIL_RECORD_ICOUNT_SHIFT | i % 5 * 0x10;
    }
    r[N / 2].flags = r[N - 1].flags = 0;
    check_round_trip(r, N);
    r[0].flags = UINT64_MAX;
    check_round_trip(r, N);
    /* As long as the first record has none, the codec looks for none. */
    r[0].flags = 0;
    check_round_trip(r, N);
    encode(&s, r, N, N);
    g_assert_cmpuint(s.buf[BTRAIL_CODEC_COUNTS].len, ==, 0);
    free_streams(&s);
    free_streams(&plain);
    g_free(r);
}

/* Of two decodings with the same tables, the first leaves nothing behind. */
static void test_counts_again(void)
{
    struct btrail_record r[300], got[300];
    struct btrail_decoder *dec = btrail_decoder_new();
    struct streams s, plain;

    fill(r, G_N_ELEMENTS(r));
    encode(&s, r, G_N_ELEMENTS(r), 7);
    for (size_t i = 0; i < G_N_ELEMENTS(r); i++) {
        got[i] = r[i];
        got[i].flags = 0;
    }
    encode(&plain, got, G_N_ELEMENTS(r), 7);
    for (unsigned round = 0; round < 4; round++) {
        bool counts = round != 1;

        g_assert_true(begin(dec, counts ? &s : &plain, G_N_ELEMENTS(r)));
        g_assert_true(btrail_decoder_records(dec, got, G_N_ELEMENTS(r)));
        for (size_t i = 0; i < G_N_ELEMENTS(r); i++) {
            g_assert_cmphex(got[i].flags, ==, counts ? r[i].flags : 0);
        }
    }
    btrail_decoder_free(dec);
    free_streams(&s);
    free_streams(&plain);
}

/* Whatever is in the streams, decoding ends in a bool and within bounds. */
static void test_hostile(void)
{
    enum { N = 300 };
    struct btrail_record r[N], got[N];
    struct streams s;
    unsigned i, j, bit;

    fill(r, N);
    encode(&s, r, N, N);

    /* Cut at every byte: something must be missing. */
    for (i = 0; i < BTRAIL_CODEC_STREAMS; i++) {
        size_t len = s.buf[i].len;

        g_assert_cmpint(len, >, 0);
        while (s.buf[i].len--) {
            bool ok = decode(&s, got, N, N);

            /* Flags that change nowhere are in order, and so are counts. */
            g_assert_true(!ok || i == BTRAIL_CODEC_FLAGS ||
                          i == BTRAIL_CODEC_COUNTS);
        }
        s.buf[i].len = len;
    }
    /* A byte too many */
    for (i = 0; i < BTRAIL_CODEC_STREAMS; i++) {
        btrail_buf_append(&s.buf[i], "", 1);
        g_assert_false(decode(&s, got, N, N));
        s.buf[i].len--;
    }
    /* Every bit flipped */
    for (i = 0; i < BTRAIL_CODEC_STREAMS; i++) {
        for (j = 0; j < s.buf[i].len; j++) {
            for (bit = 0; bit < 8; bit++) {
                s.buf[i].data[j] ^= 1 << bit;
                decode(&s, got, N, 17);
                s.buf[i].data[j] ^= 1 << bit;
            }
        }
    }
    g_assert_true(decode(&s, got, N, N));
    g_assert_cmpmem(got, sizeof(got), r, sizeof(r));

    /*
     * Fewer records than there are.  One or two less or more could be what
     * is predicted, and are up to the checksums.
     */
    g_assert_false(decode(&s, got, N / 2, N / 2));
    free_streams(&s);
}

static void test_garbage(void)
{
    enum { N = 100 };
    struct btrail_record got[N];
    struct streams s = { 0 };
    uint8_t bytes[4 * BTRAIL_CODEC_STREAMS];
    unsigned round, i;

    for (round = 0; round < 2000; round++) {
        for (i = 0; i < sizeof(bytes); i++) {
            bytes[i] = g_test_rand_int_range(0, 256);
        }
        for (i = 0; i < BTRAIL_CODEC_STREAMS; i++) {
            s.buf[i].data = bytes + i * 4;
            s.buf[i].len = g_test_rand_int_range(0, 5);
        }
        decode(&s, got, g_test_rand_int_range(0, N), N);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/codec/empty", test_empty);
    g_test_add_func("/codec/random", test_random);
    g_test_add_func("/codec/program", test_program);
    g_test_add_func("/codec/loop", test_loop);
    g_test_add_func("/codec/returns", test_returns);
    g_test_add_func("/codec/room", test_room);
    g_test_add_func("/codec/extremes", test_extremes);
    g_test_add_func("/codec/flags", test_flags);
    g_test_add_func("/codec/counts", test_counts);
    g_test_add_func("/codec/counts-again", test_counts_again);
    g_test_add_func("/codec/worst", test_worst);
    g_test_add_func("/codec/lengths", test_lengths);
    g_test_add_func("/codec/places", test_places);
    g_test_add_func("/codec/distances", test_distances);
    g_test_add_func("/codec/hostile", test_hostile);
    g_test_add_func("/codec/garbage", test_garbage);
    return g_test_run();
}
