/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * footprint-bench: what footprints cost a writer of traces
 *
 * usage: footprint-bench RAW ROUNDS
 *
 * Encodes and packs all streams of a raw trace (raw.h), with and without
 * footprints in turn, and prints a JSON object: records, bytes, and CPU seconds,
 * the median of the rounds, also of what the one takes more than the other.
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "raw.h"
#include "lib/internal/block.h"
#include "lib/agent/chunk.h"
#include "lib/internal/codec.h"
#include "util/search.h"


static double cpu_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return ts.tv_sec + ts.tv_nsec / 1e9;
}

/* Adds records, as many as there is room for; returns how many. */
static size_t add_records(struct btrail_encoder *encoder,
                          struct btrail_block *block,
                          const struct raw_stream *raw, size_t at)
{
    size_t start = at;

    while (at < raw->n_records) {
        size_t n = MIN(raw->n_records - at,
                       MIN(btrail_encoder_room(encoder),
                           btrail_block_room(block)));

        if (!n) {
            break;
        }
        btrail_encoder_records(encoder, raw->records + at, n);
        btrail_block_add_records(block, n);
        at += n;
    }
    return at - start;
}

static uint64_t write_stream(const struct raw_stream *raw, bool footprint)
{
    const struct btrail_time time = { .icount = BTRAIL_NO_ICOUNT };
    struct btrail_encoder *encoder = btrail_encoder_new();
    struct btrail_packer *packer = btrail_packer_new();
    struct btrail_block *block = btrail_block_new();
    struct btrail_buf payload = { 0 };
    uint64_t bytes = 0;
    size_t at = 0;

    while (at < raw->n_records) {
        btrail_block_begin(block, raw->vcpu, at, 0, &time);
        btrail_encoder_begin(encoder, block->streams,
                             footprint ? &block->footprint : NULL);
        at += add_records(encoder, block, raw, at);
        btrail_encoder_end(encoder);
        btrail_packer_pack(packer, block, &payload);
        bytes += BTRAIL_CHUNK_HEADER_SIZE + payload.len;
    }
    btrail_buf_free(&payload);
    btrail_block_free(block);
    btrail_packer_free(packer);
    btrail_encoder_free(encoder);
    return bytes;
}

/* CPU seconds of all streams */
static double measure(const GArray *streams, bool footprint, uint64_t *bytes)
{
    double begin = cpu_now();

    *bytes = 0;
    for (unsigned i = 0; i < streams->len; i++) {
        *bytes += write_stream(&g_array_index(streams, struct raw_stream, i),
                               footprint);
    }
    return cpu_now() - begin;
}

static int compare(const void *a, const void *b)
{
    return BTRAIL_COMPARE(*(const double *)a, *(const double *)b);
}

static double median(double *seconds, int n)
{
    qsort(seconds, n, sizeof(*seconds), compare);
    return seconds[n / 2];
}

int main(int argc, char **argv)
{
    int rounds = argc == 3 ? atoi(argv[2]) : 0;
    g_autofree double *with = g_new(double, MAX(rounds, 1));
    g_autofree double *without = g_new(double, MAX(rounds, 1));
    g_autofree double *more = g_new(double, MAX(rounds, 1));
    uint64_t records = 0, bytes_with = 0, bytes_without = 0;
    GArray *streams;

    if (rounds < 1) {
        fprintf(stderr, "usage: footprint-bench RAW ROUNDS\n");
        return 2;
    }
    streams = raw_load(argv[1]);
    if (!streams || !streams->len) {
        return 1;
    }
    for (int i = 0; i < rounds; i++) {
        with[i] = measure(streams, true, &bytes_with);
        without[i] = measure(streams, false, &bytes_without);
        more[i] = with[i] - without[i];
    }
    for (unsigned i = 0; i < streams->len; i++) {
        records += g_array_index(streams, struct raw_stream, i).n_records;
    }
    printf("{\"records\": %" PRIu64 ", \"more_cpu_s\": %.6f, "
           "\"with\": {\"cpu_s\": %.6f, \"bytes\": %" PRIu64 "}, "
           "\"without\": {\"cpu_s\": %.6f, \"bytes\": %" PRIu64 "}}\n",
           records, median(more, rounds), median(with, rounds), bytes_with,
           median(without, rounds), bytes_without);
    return 0;
}
