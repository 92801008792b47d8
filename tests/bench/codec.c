/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How fast the codec is, and how small it gets records
 *
 * usage: codec [--json] [--records N] [--rounds N] [TRACE]
 *
 * Takes the records of the first stream of TRACE, or records of a made-up
 * program.  The speeds are the best of several rounds; they are CPU time of
 * one core.  "encode" is what the drain thread does, "pack" what the output
 * thread adds.
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "block.h"

static struct btrail_record *records;
static size_t n_records;

static double cpu_seconds(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return ts.tv_sec + ts.tv_nsec / 1e9;
}

static bool load_trace(const char *path, size_t max)
{
    struct btrail_trace *trace;
    struct btrail_stream_info info;
    struct btrail_cursor *cursor;
    struct btrail_batch batch;
    int ret = btrail_trace_open(&trace, path);

    if (!ret) {
        ret = btrail_trace_stream(trace, 0, &info);
    }
    if (!ret) {
        ret = btrail_cursor_open(&cursor, trace, info.vcpu, 0);
    }
    if (ret) {
        fprintf(stderr, "codec: %s: %s\n", path, btrail_strerror(ret));
        return false;
    }
    max = MIN(max, info.records);
    records = g_new(struct btrail_record, max);
    while (n_records < max && !btrail_cursor_next(cursor, &batch)) {
        size_t n = MIN(batch.count, max - n_records);

        if (n) {
            memcpy(records + n_records, batch.records, n * sizeof(*records));
            n_records += n;
        }
    }
    btrail_cursor_close(cursor);
    btrail_trace_close(trace);
    if (!n_records) {
        fprintf(stderr, "codec: %s: no records\n", path);
    }
    return n_records;
}

/*
 * Loops in loops, calls and returns, and conditions of which some depend on
 * data: the shape of a program, with as many surprises as a real one has.
 */
static uint64_t seed = 1;

static uint64_t chance(void)
{
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return seed >> 33;
}

static void branch(uint64_t from, uint64_t to, size_t max)
{
    if (n_records < max) {
        records[n_records++] = (struct btrail_record) { from, to, 0 };
    }
}

static void run_function(uint64_t number, unsigned depth, size_t max)
{
    uint64_t base = 0xffffffff81000000ull + number * 0x340;
    unsigned loops = 1 + (number * 7 + depth) % 9;
    unsigned i;

    for (i = 0; i < loops && n_records < max; i++) {
        if (chance() % 100 < 3) {
            branch(base + 0x12, base + 0x40, max);
        }
        if (depth < 5 && number % 3 != 1) {
            uint64_t callee = (number * 31 + depth * 17 + i % 2) % 3000;

            branch(base + 0x58, 0xffffffff81000000ull + callee * 0x340, max);
            run_function(callee, depth + 1, max);
            branch(0xffffffff81000000ull + callee * 0x340 + 0x180,
                   base + 0x5d, max);
        }
        branch(base + 0x90, base, max);
    }
}

static void make_up(size_t max)
{
    records = g_new(struct btrail_record, max);
    while (n_records < max) {
        run_function(chance() % 64, 0, max);
    }
}

struct result {
    double encode, pack, decode;
    uint64_t bytes;
};

static void measure(struct result *best)
{
    struct btrail_encoder *encoder = btrail_encoder_new();
    struct btrail_packer *packer = btrail_packer_new();
    struct btrail_unpacker *unpacker = btrail_unpacker_new();
    struct btrail_block *block = btrail_block_new();
    struct btrail_buf payload = { 0 };
    struct btrail_record *decoded = g_new(struct btrail_record, 8192);
    struct result r = { 0 };
    size_t i, j;

    for (i = 0; i < n_records; i += BTRAIL_BLOCK_MAX_RECORDS) {
        size_t n = MIN(n_records - i, BTRAIL_BLOCK_MAX_RECORDS);
        struct btrail_block_header header;
        struct btrail_time time = { 0 };
        double t = cpu_seconds();

        btrail_block_begin(block, 0, i, 0, &time);
        btrail_encoder_begin(encoder, block->streams);
        btrail_encoder_records(encoder, records + i, n);
        btrail_encoder_end(encoder);
        btrail_block_add_records(block, n);
        r.encode += cpu_seconds() - t;

        t = cpu_seconds();
        btrail_packer_pack(packer, block, &payload);
        r.pack += cpu_seconds() - t;
        r.bytes += payload.len;

        t = cpu_seconds();
        if (!btrail_block_header_get(payload.data, payload.len, &header) ||
            btrail_unpacker_load(unpacker, payload.data, payload.len, &header,
                                 false)) {
            abort();
        }
        for (j = 0; j < n; j += 8192) {
            size_t step = MIN(n - j, 8192);

            if (!btrail_unpacker_records(unpacker, decoded, step)) {
                abort();
            }
            r.decode += cpu_seconds() - t;
            if (memcmp(decoded, records + i + j, step * sizeof(*decoded))) {
                fprintf(stderr, "codec: wrong after %zu records\n", i + j);
                exit(1);
            }
            t = cpu_seconds();
        }
    }
    best->bytes = r.bytes;
    best->encode = best->encode ? MIN(best->encode, r.encode) : r.encode;
    best->pack = best->pack ? MIN(best->pack, r.pack) : r.pack;
    best->decode = best->decode ? MIN(best->decode, r.decode) : r.decode;

    g_free(decoded);
    btrail_buf_free(&payload);
    btrail_block_free(block);
    btrail_unpacker_free(unpacker);
    btrail_packer_free(packer);
    btrail_encoder_free(encoder);
}

int main(int argc, char **argv)
{
    gboolean json = FALSE;
    int max = 20000000, rounds = 3, i;
    const GOptionEntry entries[] = {
        { "json", 0, 0, G_OPTION_ARG_NONE, &json, "print JSON", NULL },
        { "records", 0, 0, G_OPTION_ARG_INT, &max, "how many records", "N" },
        { "rounds", 0, 0, G_OPTION_ARG_INT, &rounds, "how many times", "N" },
        { NULL }
    };
    GOptionContext *context = g_option_context_new("[TRACE]");
    GError *error = NULL;
    struct result r = { 0 };
    double encode, pack, decode, bits;

    g_option_context_add_main_entries(context, entries, NULL);
    if (!g_option_context_parse(context, &argc, &argv, &error) || argc > 2 ||
        max < 1 || rounds < 1) {
        fprintf(stderr, "codec: %s\n", error ? error->message : "usage");
        return 2;
    }
    g_option_context_free(context);

    if (argc == 2) {
        if (!load_trace(argv[1], max)) {
            return 1;
        }
    } else {
        make_up(max);
    }
    for (i = 0; i < rounds; i++) {
        measure(&r);
    }
    encode = n_records / r.encode / 1e6;
    pack = n_records / r.pack / 1e6;
    decode = n_records / r.decode / 1e6;
    bits = r.bytes * 8.0 / n_records;
    if (json) {
        printf("{\"input\":\"%s\",\"records\":%zu,\"encode_mrec_s\":%.1f,"
               "\"pack_mrec_s\":%.1f,\"decode_mrec_s\":%.1f,"
               "\"bits_per_record\":%.4f}\n", argc == 2 ? "trace" : "made-up",
               n_records, encode, pack, decode, bits);
    }
    printf("encode=%.1f pack=%.1f decode=%.1f bits=%.3f\n", encode, pack,
           decode, bits);
    g_free(records);
    return 0;
}
