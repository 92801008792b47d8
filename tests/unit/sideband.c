/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * SIDEBAND chunks: written, read back, and refused when damaged.
 */

#include <stdlib.h>

#include "lib/agent/sideband.h"
#include "trace-samples.h"

/* What it gets back is what it was made of, and no longer. */
static void round_trip(const uint8_t *bytes, uint32_t size)
{
    const struct btrail_sideband_info info = {
        .kind = 0xfffe, .size = size, .time = UINT64_MAX - 1,
    };
    struct btrail_buf payload = { 0 };
    struct btrail_sideband_info got;
    void *data;

    btrail_sideband_pack(&info, bytes, &payload);
    g_assert_cmpuint(payload.len, <=, BTRAIL_SIDEBAND_HEADER_SIZE + size);
    g_assert_cmpint(btrail_sideband_unpack(payload.data, payload.len, &got,
                                           &data), ==, 0);
    g_assert_cmpmem(&got, sizeof(got), &info, sizeof(info));
    g_assert_cmpmem(data, got.size, bytes, size);
    free(data);
    btrail_buf_free(&payload);
}

/* The same of data that come in parts */
static void parts_round_trip(const uint8_t *bytes, uint32_t size)
{
    const struct btrail_sideband_info info = {
        .kind = 3, .kernel = 2, .time = 1234,
    };
    struct btrail_sideband_parts *parts = btrail_sideband_begin(&info);
    struct btrail_buf payload;
    struct btrail_sideband_info got;
    uint32_t at, n;
    void *data;

    for (at = 0; at < size; at += n) {
        g_autofree uint8_t *part = NULL;

        n = (uint32_t)g_test_rand_int_range(1, 300000);
        n = MIN(size - at, n);
        part = g_memdup2(bytes + at, n);
        btrail_sideband_add(parts, part, n);
    }
    btrail_sideband_end(parts, &payload);
    g_assert_cmpuint(payload.len, <=, BTRAIL_SIDEBAND_HEADER_SIZE + size);
    g_assert_cmpint(btrail_sideband_unpack(payload.data, payload.len, &got,
                                           &data), ==, 0);
    g_assert_cmpuint(got.kind, ==, 3);
    g_assert_cmpuint(got.kernel, ==, 2);
    g_assert_cmpuint(got.time, ==, 1234);
    g_assert_cmpmem(data, got.size, bytes, size);
    free(data);
    btrail_buf_free(&payload);
}

static void test_round_trip(void)
{
    static const uint32_t sizes[] = {
        0, 1, 2, 100, 4096, BTRAIL_SIDEBAND_MAX_SIZE,
    };
    g_autofree uint8_t *bytes = g_malloc(BTRAIL_SIDEBAND_MAX_SIZE);
    unsigned i, k;

    for (i = 0; i < G_N_ELEMENTS(sizes); i++) {
        memset(bytes, 7, sizes[i]);
        round_trip(bytes, sizes[i]);
        parts_round_trip(bytes, sizes[i]);
        for (k = 0; k < sizes[i]; k++) {
            bytes[k] = g_test_rand_int();
        }
        round_trip(bytes, sizes[i]);
        parts_round_trip(bytes, sizes[i]);
    }
}

static void test_damaged(void)
{
    uint8_t bytes[1000] = { 0 };
    const struct btrail_sideband_info info = { .kind = 1, .size = 1000 };
    struct btrail_buf payload = { 0 };
    struct btrail_sideband_info got;
    size_t len;
    void *data;

    btrail_sideband_pack(&info, bytes, &payload);
    g_assert_cmpuint(payload.len, <, 100);
    for (len = 0; len < payload.len; len++) {
        g_autofree uint8_t *cut = g_memdup2(payload.data, len);

        g_assert_cmpint(btrail_sideband_unpack(cut, len, &got, &data), ==,
                        -BTRAIL_ERR_CORRUPT);
    }
    /* Sizes that are not that of the data, or larger than any */
    static const uint32_t sizes[] = {
        0, 1, 999, 1001, BTRAIL_SIDEBAND_MAX_SIZE,
        BTRAIL_SIDEBAND_MAX_SIZE + 1, UINT32_MAX,
    };
    for (len = 0; len < G_N_ELEMENTS(sizes); len++) {
        btrail_put32(payload.data + 4, sizes[len]);
        g_assert_cmpint(btrail_sideband_unpack(payload.data, payload.len,
                                               &got, &data), ==,
                        -BTRAIL_ERR_CORRUPT);
    }
    btrail_buf_free(&payload);
}

/* All pieces, or those of a trace that lacks its index */
static void check_pieces(const char *path, unsigned pieces, unsigned damaged)
{
    uint8_t bytes[SAMPLE_SIDEBAND_MAX];
    struct btrail_sideband_info info, want;
    struct btrail_trace *trace;
    unsigned i;
    void *data;

    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    for (i = 0; i < pieces; i++) {
        sample_sideband(i, &want, bytes);
        g_assert_cmpint(btrail_trace_sideband(trace, i, &info, NULL), ==, 0);
        g_assert_cmpmem(&info, sizeof(info), &want, sizeof(want));
        if (i == damaged) {
            g_assert_cmpint(btrail_trace_sideband(trace, i, &info, &data),
                            ==, -BTRAIL_ERR_CORRUPT);
            continue;
        }
        g_assert_cmpint(btrail_trace_sideband(trace, i, &info, &data), ==, 0);
        g_assert_cmpmem(data, info.size, bytes, want.size);
        free(data);
    }
    g_assert_cmpint(btrail_trace_sideband(trace, i, &info, &data), ==,
                    -BTRAIL_ERR_END);
    btrail_trace_close(trace);
}

static void test_trace(void)
{
    struct btrail_writer_options options = { 0 };
    char *path = sample_path(), *bytes;
    uint8_t want[SAMPLE_SIDEBAND_MAX];
    struct btrail_sideband_info info;
    gsize len, at;

    sample_write_sideband(path, 20, &options);
    check_pieces(path, 20, 20);
    g_assert_true(g_file_get_contents(path, &bytes, &len, NULL));
    g_assert_true(g_file_set_contents(path, bytes, len - 1, NULL));
    check_pieces(path, 20, 20);

    /* An even piece is stored as it is. */
    sample_sideband(6, &info, want);
    for (at = 0; memcmp(bytes + at, want, info.size); at++) {
        g_assert_cmpuint(at, <, len - info.size);
    }
    bytes[at + 100] ^= 1;
    g_assert_true(g_file_set_contents(path, bytes, len, NULL));
    check_pieces(path, 20, 6);
    g_free(bytes);
    sample_remove(path);
}

static void test_arguments(void)
{
    struct btrail_sideband_info info = { .kind = 1, .size = 1 };
    struct btrail_trace *trace;
    struct btrail_writer *w;
    char *path = sample_path();

    g_assert_cmpint(btrail_writer_open(&w, path, 0), ==, 0);
    g_assert_cmpint(btrail_writer_sideband(w, NULL, "x"), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_writer_sideband(w, &info, NULL), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_writer_sideband(NULL, &info, "x"), ==,
                    -BTRAIL_ERR_ARGUMENT);
    info.size = BTRAIL_SIDEBAND_MAX_SIZE + 1;
    g_assert_cmpint(btrail_writer_sideband(w, &info, "x"), ==,
                    -BTRAIL_ERR_ARGUMENT);
    info.size = 0;
    g_assert_cmpint(btrail_writer_sideband(w, &info, NULL), ==, 0);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_assert_cmpint(btrail_trace_sideband(trace, 0, NULL, NULL), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_trace_sideband(NULL, 0, &info, NULL), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_trace_sideband(trace, 0, &info, NULL), ==, 0);
    g_assert_cmpuint(info.size, ==, 0);
    btrail_trace_close(trace);
    sample_remove(path);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/sideband/round-trip", test_round_trip);
    g_test_add_func("/sideband/damaged", test_damaged);
    g_test_add_func("/sideband/trace", test_trace);
    g_test_add_func("/sideband/arguments", test_arguments);
    return g_test_run();
}
