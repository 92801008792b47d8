/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How small the codec gets records and how fast it is, beside others
 *
 * usage: codec [--records N] [--sample N] [--rounds N] FOLDER
 *
 * FOLDER is a raw trace (raw.h).  Prints a JSON object; tests/bench/codec
 * makes tables of several.
 *
 * Everything is measured in turn, --rounds times, on the same records, in CPU
 * time.  What each decoder gives is compared with what its encoder got, outside
 * the time.  Methods that are slow take --sample records from the middle of the
 * first stream, once; two that are not take them, too, to be compared with.
 *
 * "backtrail" is the whole way of the agent: slabs of the size that QEMU
 * makes, with their events, through codec, zstd and checksums into a file in
 * memory; and back through cursors.  The slabs are filled as a guest fills
 * them, a buffer at a time, outside the time: an agent never reads records that
 * nobody has just written.  The others get the array of records.
 */

#include <errno.h>
#include <glib/gstdio.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#include <zstd.h>
#ifdef HAVE_LZ4
#include <lz4frame.h>
#endif
#ifdef HAVE_LZMA
#include <lzma.h>
#endif

#include "lib/agent/bytes.h"
#include "raw.h"

/* As hw/misc/branch-trace/buffer.c makes slabs, and how many */
#define SLAB_RECORDS    10000
#define SLABS           64

#define MAX_ROUNDS      100

/* Decoding with 1, 2, 4... threads */
#define MAX_DOUBLINGS   9

/* An array of records in a row */
struct span {
    const struct btrail_record *records;
    size_t n;
};

struct method {
    const char *name;
    bool slow;
    /* Append to @out. */
    void (*encode)(const struct span *in, struct btrail_buf *out);
    /* False if the bytes do not give @n records. */
    bool (*decode)(const uint8_t *in, size_t len, struct btrail_record *out,
                   size_t n);
};

struct result {
    uint64_t records;
    uint64_t bytes;
    unsigned rounds;
    double encode[MAX_ROUNDS], decode[MAX_ROUNDS];  /* seconds */
};

static void G_GNUC_NORETURN die(const char *what, const char *why)
{
    fprintf(stderr, "codec: %s: %s\n", what, why);
    exit(1);
}

static double cpu_seconds(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return ts.tv_sec + ts.tv_nsec / 1e9;
}

/* zstd */

static void encode_zstd(const struct span *in, struct btrail_buf *out,
                        int level, int window_log)
{
    size_t size = in->n * sizeof(*in->records);
    ZSTD_CCtx *zstd = ZSTD_createCCtx();
    size_t ret;

    ZSTD_CCtx_setParameter(zstd, ZSTD_c_compressionLevel, level);
    if (window_log) {
        ZSTD_CCtx_setParameter(zstd, ZSTD_c_windowLog, window_log);
        ZSTD_CCtx_setParameter(zstd, ZSTD_c_enableLongDistanceMatching, 1);
    }
    btrail_buf_reserve(out, ZSTD_compressBound(size));
    ret = ZSTD_compress2(zstd, out->data + out->len, out->cap - out->len,
                         in->records, size);
    if (ZSTD_isError(ret)) {
        die("zstd", ZSTD_getErrorName(ret));
    }
    out->len += ret;
    ZSTD_freeCCtx(zstd);
}

static void encode_zstd1(const struct span *in, struct btrail_buf *out)
{
    encode_zstd(in, out, 1, 0);
}

static void encode_zstd3(const struct span *in, struct btrail_buf *out)
{
    encode_zstd(in, out, 3, 0);
}

static void encode_zstd19(const struct span *in, struct btrail_buf *out)
{
    encode_zstd(in, out, 19, 27);
}

static bool decode_zstd(const uint8_t *in, size_t len,
                        struct btrail_record *out, size_t n)
{
    ZSTD_DCtx *zstd = ZSTD_createDCtx();
    size_t ret = ZSTD_decompressDCtx(zstd, out, n * sizeof(*out), in, len);

    ZSTD_freeDCtx(zstd);
    return ret == n * sizeof(*out);
}

/* lz4 */

#ifdef HAVE_LZ4
static void encode_lz4(const struct span *in, struct btrail_buf *out)
{
    const LZ4F_preferences_t preferences = {
        .frameInfo = { .blockSizeID = LZ4F_max4MB },
    };
    size_t size = in->n * sizeof(*in->records);
    size_t ret;

    btrail_buf_reserve(out, LZ4F_compressFrameBound(size, &preferences));
    ret = LZ4F_compressFrame(out->data + out->len, out->cap - out->len,
                             in->records, size, &preferences);
    if (LZ4F_isError(ret)) {
        die("lz4", LZ4F_getErrorName(ret));
    }
    out->len += ret;
}

static bool decode_lz4(const uint8_t *in, size_t len,
                       struct btrail_record *out, size_t n)
{
    size_t size = n * sizeof(*out), done = 0;
    size_t left = 1;
    LZ4F_dctx *lz4;

    if (LZ4F_isError(LZ4F_createDecompressionContext(&lz4, LZ4F_VERSION))) {
        die("lz4", "out of memory");
    }
    while (left && len) {
        size_t to = size - done, from = len;

        left = LZ4F_decompress(lz4, (uint8_t *)out + done, &to, in, &from,
                               NULL);
        if (LZ4F_isError(left) || (!to && !from)) {
            break;
        }
        done += to;
        in += from;
        len -= from;
    }
    LZ4F_freeDecompressionContext(lz4);
    return !left && !len && done == size;
}
#endif

/* xz */

#ifdef HAVE_LZMA
static void encode_xz(const struct span *in, struct btrail_buf *out)
{
    size_t size = in->n * sizeof(*in->records);

    btrail_buf_reserve(out, lzma_stream_buffer_bound(size));
    if (lzma_easy_buffer_encode(6, LZMA_CHECK_CRC32, NULL,
                                (const uint8_t *)in->records, size,
                                out->data, &out->len, out->cap) != LZMA_OK) {
        die("xz", "failed");
    }
}

static bool decode_xz(const uint8_t *in, size_t len,
                      struct btrail_record *out, size_t n)
{
    uint64_t limit = UINT64_MAX;
    size_t from = 0, to = 0;

    return lzma_stream_buffer_decode(&limit, 0, NULL, in, &from, len,
                                     (uint8_t *)out, &to,
                                     n * sizeof(*out)) == LZMA_OK &&
           from == len && to == n * sizeof(*out);
}
#endif

/*
 * The plain predictor: a table has, for a hash of the last four targets,
 * which record came next the last time.  Those that it predicts are counted;
 * the others are differences.  zstd gets both, as a whole.
 */
#define PLAIN_BITS      16
#define PLAIN_LEVEL     1

struct plain {
    struct btrail_record table[1 << PLAIN_BITS];
    uint64_t history;
    uint64_t to;
};

static struct btrail_record *plain_entry(struct plain *p)
{
    return &p->table[(p->history * 0x9e3779b97f4a7c15ull) >>
                     (64 - PLAIN_BITS)];
}

static void plain_next(struct plain *p, const struct btrail_record *r)
{
    p->to = r->to;
    p->history = (p->history << 16) ^ ((r->to * 0xff51afd7ed558ccdull) >> 20);
}

static void plain_pack(const struct btrail_buf *in, struct btrail_buf *out)
{
    size_t ret;

    btrail_buf_reserve(out, 16 + ZSTD_compressBound(in->len));
    ret = ZSTD_compress(out->data + out->len + 16, out->cap - out->len - 16,
                        in->data, in->len, PLAIN_LEVEL);
    if (ZSTD_isError(ret)) {
        die("plain predictor", ZSTD_getErrorName(ret));
    }
    btrail_put64(out->data + out->len, in->len);
    btrail_put64(out->data + out->len + 8, ret);
    out->len += 16 + ret;
}

static void encode_plain(const struct span *in, struct btrail_buf *out)
{
    struct plain *p = g_new0(struct plain, 1);
    struct btrail_buf runs = { 0 }, literals = { 0 };
    uint64_t run = 0;
    size_t i;

    for (i = 0; i < in->n; i++) {
        const struct btrail_record *r = &in->records[i];
        struct btrail_record *e = plain_entry(p);

        if (e->from == r->from && e->to == r->to && e->flags == r->flags) {
            run++;
        } else {
            uint8_t *end;

            btrail_buf_append_varint(&runs, run);
            run = 0;
            btrail_buf_reserve(&literals, 3 * BTRAIL_VARINT_MAX);
            end = literals.data + literals.len;
            end = btrail_put_varint(end, btrail_zigzag(r->from - p->to));
            end = btrail_put_varint(end, btrail_zigzag(r->to - r->from));
            end = btrail_put_varint(end, r->flags);
            literals.len = end - literals.data;
            *e = *r;
        }
        plain_next(p, r);
    }
    btrail_buf_append_varint(&runs, run);
    plain_pack(&runs, out);
    plain_pack(&literals, out);
    btrail_buf_free(&runs);
    btrail_buf_free(&literals);
    g_free(p);
}

static uint8_t *plain_unpack(const uint8_t **in, const uint8_t **end)
{
    uint64_t size = btrail_get64(*in), stored = btrail_get64(*in + 8);
    uint8_t *data = g_malloc(size + 1);

    if (ZSTD_decompress(data, size, *in + 16, stored) != size) {
        die("plain predictor", "wrong");
    }
    *in += 16 + stored;
    *end = data + size;
    return data;
}

static bool decode_plain(const uint8_t *in, size_t len,
                         struct btrail_record *out, size_t n)
{
    const uint8_t *runs_end, *literals_end, *run, *literal;
    uint8_t *runs = plain_unpack(&in, &runs_end);
    uint8_t *literals = plain_unpack(&in, &literals_end);
    struct plain *p = g_new0(struct plain, 1);
    uint64_t left = 0, a = 0, b = 0, flags = 0;
    size_t i;

    run = btrail_get_varint(runs, runs_end, &left);
    literal = literals;
    for (i = 0; i < n && run && literal; i++) {
        struct btrail_record *e = plain_entry(p);

        if (left) {
            left--;
        } else {
            literal = btrail_get_varint(literal, literals_end, &a);
            literal = literal ?
                btrail_get_varint(literal, literals_end, &b) : NULL;
            literal = literal ?
                btrail_get_varint(literal, literals_end, &flags) : NULL;
            e->from = p->to + btrail_unzigzag(a);
            e->to = e->from + btrail_unzigzag(b);
            e->flags = flags;
            run = btrail_get_varint(run, runs_end, &left);
        }
        out[i] = *e;
        plain_next(p, e);
    }
    g_free(runs);
    g_free(literals);
    g_free(p);
    return i == n;
}

#define ZSTD3   1               /* what sizes are compared with */
static const struct method methods[] = {
    { "zstd -1", false, encode_zstd1, decode_zstd },
    { "zstd -3", false, encode_zstd3, decode_zstd },
#ifdef HAVE_LZ4
    { "lz4", false, encode_lz4, decode_lz4 },
#endif
    { "plain predictor", false, encode_plain, decode_plain },
    { "zstd -19 --long=27", true, encode_zstd19, decode_zstd },
#ifdef HAVE_LZMA
    { "xz -6", true, encode_xz, decode_xz },
#endif
};

/* Measure a method once on each of @spans. */
static void measure(const struct method *m, const GArray *spans,
                    struct btrail_record *decoded, struct result *r)
{
    unsigned i;

    r->records = r->bytes = 0;
    r->encode[r->rounds] = r->decode[r->rounds] = 0;
    for (i = 0; i < spans->len; i++) {
        const struct span *span = &g_array_index(spans, struct span, i);
        struct btrail_buf bytes = { 0 };
        double t = cpu_seconds();
        bool ok;

        m->encode(span, &bytes);
        r->encode[r->rounds] += cpu_seconds() - t;
        t = cpu_seconds();
        ok = m->decode(bytes.data, bytes.len, decoded, span->n);
        r->decode[r->rounds] += cpu_seconds() - t;
        if (!ok || memcmp(decoded, span->records,
                          span->n * sizeof(*decoded))) {
            die(m->name, "does not decode to what was encoded");
        }
        r->records += span->n;
        r->bytes += bytes.len;
        btrail_buf_free(&bytes);
    }
    r->rounds++;
}

/* backtrail */

static void check(int ret)
{
    if (ret) {
        die("backtrail", ret == -BTRAIL_ERR_IO ? g_strerror(errno) :
            btrail_strerror(ret));
    }
}

/* The first event that comes after record @index */
static size_t events_before(const struct raw_stream *s, size_t e,
                            uint64_t index)
{
    while (e < s->n_events && s->events[e].index <= index) {
        e++;
    }
    return e;
}

/* A stream on its way to a writer, slab by slab */
struct feed {
    const struct raw_stream *stream;
    size_t begin, end;          /* records; events of the first come, too */
    size_t record, event;
    uint64_t cr3;
    struct btrail_record *slabs;    /* those that are filled */
    size_t filled;                  /* up to this record */
    double fill_time;               /* CPU seconds */
};

static void feed_begin(struct feed *f, const struct raw_stream *s,
                       size_t begin, size_t end)
{
    size_t i;

    *f = (struct feed) {
        .stream = s, .begin = begin, .end = end, .record = begin,
    };
    for (i = 0; i < s->n_events && s->events[i].index <= begin; i++) {
        if (s->events[i].type == BTRAIL_EVENT_CR3) {
            f->cr3 = s->events[i].data[0];
        }
    }
    f->event = begin ? i : 0;
    f->slabs = g_new(struct btrail_record, SLABS * SLAB_RECORDS);
    f->filled = begin;
}

/* What the guest would do. */
static const struct btrail_record *fill_slabs(struct feed *f)
{
    const size_t most = SLABS * SLAB_RECORDS;
    size_t place = (f->record - f->begin) % most;

    if (f->record == f->filled) {
        size_t n = MIN(most, f->end - f->record);
        double t = cpu_seconds();

        memcpy(f->slabs, f->stream->records + f->record, n * sizeof(*f->slabs));
        f->filled += n;
        f->fill_time += cpu_seconds() - t;
    }
    return f->slabs + place;
}

static void feed_slab(struct feed *f, struct btrail_writer *writer)
{
    const struct raw_stream *s = f->stream;
    size_t n = MIN(f->end - f->record, SLAB_RECORDS);
    size_t events = events_before(s, f->event, f->record + n);
    struct btrail_slab slab = {
        .first_index = f->record,
        .cr3 = f->cr3,
        .records = fill_slabs(f),
        .n_records = n,
        .events = s->events + f->event,
        .n_events = events - f->event,
    };

    check(btrail_writer_append(writer, s->vcpu, &slab));
    for (; f->event < events; f->event++) {
        if (s->events[f->event].type == BTRAIL_EVENT_CR3) {
            f->cr3 = s->events[f->event].data[0];
        }
    }
    f->record += n;
}

/* Write the feeds in turn, as an agent meets the slabs of its vCPUs. */
static void write_trace(const char *path, struct feed *feeds, unsigned n)
{
    struct btrail_writer *writer;
    bool more;
    unsigned i;

    check(btrail_writer_open(&writer, path, BTRAIL_WRITER_REPLACE));
    do {
        more = false;
        for (i = 0; i < n; i++) {
            if (feeds[i].record < feeds[i].end) {
                feed_slab(&feeds[i], writer);
                more = true;
            }
        }
    } while (more);
    check(btrail_writer_close(writer));
}

/* Read all streams; with @feeds, compare the records. */
static void read_trace(const char *path, const struct feed *feeds, unsigned n)
{
    struct btrail_trace *trace;
    unsigned i;

    check(btrail_trace_open(&trace, path));
    for (i = 0; i < n; i++) {
        const struct raw_stream *s = feeds[i].stream;
        struct btrail_cursor *cursor;
        struct btrail_batch b;
        uint64_t count = 0;
        int ret;

        check(btrail_cursor_open(&cursor, trace, s->vcpu, 0));
        while (!(ret = btrail_cursor_next(cursor, &b))) {
            if (b.count && feeds[i].record &&
                (b.index != feeds[i].begin + count ||
                 b.index + b.count > feeds[i].end ||
                 memcmp(b.records, s->records + b.index,
                        b.count * sizeof(*b.records)))) {
                die("backtrail", "does not decode to what was encoded");
            }
            count += b.count;
        }
        if (ret != -BTRAIL_ERR_END) {
            check(ret);
        }
        btrail_cursor_close(cursor);
        if (count != feeds[i].end - feeds[i].begin) {
            die("backtrail", "records are missing");
        }
    }
    btrail_trace_close(trace);
}

static int count_batch(void *opaque, const struct btrail_piece *piece,
                       const struct btrail_batch *batch)
{
    uint64_t *counts = opaque;

    counts[piece->worker] += batch ? batch->count : 0;
    return 0;
}

/* Decoding with some number of threads; wall time, and CPU time of all */
struct threads {
    unsigned threads;
    bool ordered;
    double wall[MAX_ROUNDS], cpu[MAX_ROUNDS];
};

static void measure_threads(const char *path, uint64_t records, int round,
                            struct threads *t)
{
    uint64_t counts[BTRAIL_MAX_THREADS] = { 0 }, sum = 0;
    double cpu = cpu_seconds(), wall = g_get_monotonic_time() / 1e6;
    struct btrail_trace *trace;
    unsigned i;

    check(btrail_trace_open(&trace, path));
    check(btrail_parallel_decode(trace, NULL, 0, t->ordered ?
                                 BTRAIL_PARALLEL_ORDERED : 0, t->threads,
                                 count_batch, counts));
    btrail_trace_close(trace);
    t->wall[round] = g_get_monotonic_time() / 1e6 - wall;
    t->cpu[round] = cpu_seconds() - cpu;
    for (i = 0; i < t->threads; i++) {
        sum += counts[i];
    }
    if (sum != records) {
        die("backtrail", "records are missing");
    }
}

/* The feeds have begun, and end here. */
static void measure_backtrail(const char *path, struct feed *feeds,
                              unsigned n, struct result *r)
{
    GStatBuf st;
    double t = cpu_seconds();
    unsigned i;

    write_trace(path, feeds, n);
    r->encode[r->rounds] = cpu_seconds() - t;
    for (i = 0; i < n; i++) {
        r->encode[r->rounds] -= feeds[i].fill_time;
    }
    if (!r->rounds) {
        read_trace(path, feeds, n);
    }
    /* Decode without comparing. */
    for (i = 0; i < n; i++) {
        feeds[i].record = 0;
    }
    t = cpu_seconds();
    read_trace(path, feeds, n);
    r->decode[r->rounds] = cpu_seconds() - t;

    if (g_stat(path, &st)) {
        die(path, g_strerror(errno));
    }
    r->bytes = st.st_size;
    r->records = 0;
    for (i = 0; i < n; i++) {
        r->records += feeds[i].end - feeds[i].begin;
        g_clear_pointer(&feeds[i].slabs, g_free);
    }
    r->rounds++;
}

/* Output */

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static void print_times(const char *name, double *seconds, unsigned n)
{
    qsort(seconds, n, sizeof(*seconds), compare_doubles);
    printf(", \"%s_s\": {\"best\": %.6f, \"median\": %.6f}", name, seconds[0],
           (seconds[(n - 1) / 2] + seconds[n / 2]) / 2);
}

static void print_result(const char *name, bool sample, struct result *r)
{
    static bool another;

    printf("%s\n  {\"method\": \"%s\", \"sample\": %s, \"rounds\": %u, "
           "\"records\": %" PRIu64 ", \"bytes\": %" PRIu64,
           another ? "," : "", name, sample ? "true" : "false", r->rounds,
           r->records, r->bytes);
    print_times("encode", r->encode, r->rounds);
    print_times("decode", r->decode, r->rounds);
    putchar('}');
    another = true;
}

static void print_threads(struct threads *t, int rounds, uint64_t records,
                          bool another)
{
    printf("%s\n  {\"threads\": %u, \"ordered\": %s, \"records\": %" PRIu64,
           another ? "," : "", t->threads, t->ordered ? "true" : "false",
           records);
    print_times("wall", t->wall, rounds);
    print_times("cpu", t->cpu, rounds);
    putchar('}');
}

/* A file that takes no disk, if there is a place for such files */
static char *scratch_file(void)
{
    const char *folder = g_access("/dev/shm", W_OK) ? g_get_tmp_dir() :
                         "/dev/shm";
    char *path = g_build_filename(folder, "backtrail-bench-XXXXXX", NULL);
    int fd = g_mkstemp(path);

    if (fd < 0) {
        die(path, g_strerror(errno));
    }
    close(fd);
    return path;
}

static void bench(GArray *streams, size_t max, size_t sample_size, int rounds)
{
    g_autofree struct feed *feeds = g_new0(struct feed, streams->len);
    g_autoptr(GArray) all = g_array_new(FALSE, FALSE, sizeof(struct span));
    g_autoptr(GArray) sample = g_array_new(FALSE, FALSE, sizeof(struct span));
    struct result results[G_N_ELEMENTS(methods)] = { 0 };
    struct result ours = { 0 }, our_sample = { 0 }, zstd_sample = { 0 };
    const struct raw_stream *first =
        &g_array_index(streams, struct raw_stream, 0);
    size_t largest = 0, n = MIN(sample_size, MIN(max, first->n_records));
    size_t middle = (MIN(max, first->n_records) - n) / 2;
    struct span part = { first->records + middle, n };
    g_autofree struct btrail_record *decoded = NULL;
    g_autofree char *path = scratch_file();
    struct threads *threads = g_new0(struct threads, 2 * MAX_DOUBLINGS);
    unsigned i, n_threads = 0;
    struct feed feed;
    int round;

    for (i = 0; i < streams->len; i++) {
        const struct raw_stream *s =
            &g_array_index(streams, struct raw_stream, i);
        struct span span = { s->records, MIN(max, s->n_records) };

        g_array_append_val(all, span);
        largest = MAX(largest, span.n);
    }
    g_array_append_val(sample, part);
    decoded = g_new(struct btrail_record, largest);
    /* The page faults are not the decoders'. */
    memset(decoded, 0xff, largest * sizeof(*decoded));

    for (i = 1; i <= btrail_parallel_threads(); i *= 2) {
        threads[n_threads++] = (struct threads) { i, false };
        threads[n_threads++] = (struct threads) { i, true };
    }

    for (round = 0; round < rounds; round++) {
        for (i = 0; i < streams->len; i++) {
            feed_begin(&feeds[i],
                       &g_array_index(streams, struct raw_stream, i), 0,
                       g_array_index(all, struct span, i).n);
        }
        measure_backtrail(path, feeds, streams->len, &ours);
        for (i = 0; i < n_threads; i++) {
            measure_threads(path, ours.records, round, &threads[i]);
        }
        feed_begin(&feed, first, middle, middle + n);
        measure_backtrail(path, &feed, 1, &our_sample);
        measure(&methods[ZSTD3], sample, decoded, &zstd_sample);
        for (i = 0; i < G_N_ELEMENTS(methods); i++) {
            if (!methods[i].slow) {
                measure(&methods[i], all, decoded, &results[i]);
            } else if (!round) {
                measure(&methods[i], sample, decoded, &results[i]);
            }
        }
    }
    g_unlink(path);

    printf("{\"streams\": %u, \"results\": [", streams->len);
    print_result("backtrail", false, &ours);
    print_result("backtrail", true, &our_sample);
    print_result(methods[ZSTD3].name, true, &zstd_sample);
    for (i = 0; i < G_N_ELEMENTS(methods); i++) {
        print_result(methods[i].name, methods[i].slow, &results[i]);
    }
    printf("\n], \"threads\": [");
    for (i = 0; i < n_threads; i++) {
        print_threads(&threads[i], rounds, ours.records, i);
    }
    printf("\n]}\n");
    g_free(threads);
}

int main(int argc, char **argv)
{
    int max = INT_MAX, sample = 4 << 20, rounds = 3;
    const GOptionEntry entries[] = {
        { "records", 0, 0, G_OPTION_ARG_INT, &max,
          "at most this many of each stream", "N" },
        { "sample", 0, 0, G_OPTION_ARG_INT, &sample,
          "how many for what is slow", "N" },
        { "rounds", 0, 0, G_OPTION_ARG_INT, &rounds, "how many times", "N" },
        { NULL }
    };
    GOptionContext *context = g_option_context_new("FOLDER");
    g_autoptr(GError) error = NULL;
    GArray *streams;

    g_option_context_add_main_entries(context, entries, NULL);
    if (!g_option_context_parse(context, &argc, &argv, &error) || argc != 2 ||
        max < 1 || sample < 1 || rounds < 1 || rounds > MAX_ROUNDS) {
        fprintf(stderr, "codec: %s\n", error ? error->message :
                "one folder, and numbers from 1 on");
        return 2;
    }
    g_option_context_free(context);
    streams = raw_load(argv[1]);
    if (!streams) {
        return 1;
    }
    bench(streams, max, sample, rounds);
    g_array_unref(streams);
    return 0;
}
