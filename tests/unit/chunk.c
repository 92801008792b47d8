/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Headers of files and chunks and the END chunk: written, read back, and
 * refused when damaged or of another version.
 */

#include <glib.h>

#include "backtrail/trace.h"
#include "lib/agent/chunk.h"
#include "lib/internal/crc32c.h"

static const struct btrail_file_header file_header = {
    .part = 0x12345678, .begin = 0x9abc, .id = "0123456789abcdef",
};

static void test_file_header(void)
{
    struct btrail_file_header got;
    uint8_t b[BTRAIL_FILE_HEADER_SIZE];
    unsigned i, bit;

    btrail_file_header_put(b, &file_header);
    g_assert_cmpint(btrail_file_header_get(b, &got), ==, 0);
    g_assert_cmphex(got.part, ==, file_header.part);
    g_assert_cmphex(got.begin, ==, file_header.begin);
    g_assert_cmpmem(got.id, sizeof(got.id), file_header.id, 16);
    for (i = 0; i < sizeof(b); i++) {
        for (bit = 0; bit < 8; bit++) {
            b[i] ^= 1 << bit;
            g_assert_cmpint(btrail_file_header_get(b, &got), ==,
                            -BTRAIL_ERR_FORMAT);
            b[i] ^= 1 << bit;
        }
    }
}

/* A later version is distinguished from damage. */
static void test_file_version(void)
{
    struct btrail_file_header got;
    uint8_t b[BTRAIL_FILE_HEADER_SIZE];
    uint32_t crc;

    btrail_file_header_put(b, &file_header);
    b[12]++;
    crc = btrail_crc32c(0, b, 60);
    memcpy(b + 60, &crc, 4);
    g_assert_cmpint(btrail_file_header_get(b, &got), ==,
                    -BTRAIL_ERR_VERSION);
}

static void test_chunk(void)
{
    static const char payload[] = "payload";
    struct btrail_chunk chunk = {
        .type = BTRAIL_CHUNK_DATA,
        .size = sizeof(payload),
        .crc = btrail_crc32c(0, payload, sizeof(payload)),
        .sequence = 0x123456789abcdefull,
    }, got;
    uint8_t b[BTRAIL_CHUNK_HEADER_SIZE];
    char damaged[sizeof(payload)];
    unsigned i, bit;

    btrail_chunk_put(b, &chunk);
    g_assert_true(btrail_chunk_get(b, &got));
    g_assert_cmpint(got.type, ==, chunk.type);
    g_assert_cmpint(got.size, ==, chunk.size);
    g_assert_cmpint(got.crc, ==, chunk.crc);
    g_assert_cmpuint(got.sequence, ==, chunk.sequence);
    g_assert_true(btrail_chunk_check(&got, payload));
    for (i = 0; i < sizeof(b); i++) {
        for (bit = 0; bit < 8; bit++) {
            b[i] ^= 1 << bit;
            g_assert_false(btrail_chunk_get(b, &got));
            b[i] ^= 1 << bit;
        }
    }
    for (i = 0; i < sizeof(damaged); i++) {
        memcpy(damaged, payload, sizeof(damaged));
        damaged[i] ^= 0x10;
        g_assert_false(btrail_chunk_check(&chunk, damaged));
    }
}

static void test_chunk_size(void)
{
    struct btrail_chunk chunk = { .size = BTRAIL_CHUNK_MAX_PAYLOAD }, got;
    uint8_t b[BTRAIL_CHUNK_HEADER_SIZE];

    btrail_chunk_put(b, &chunk);
    g_assert_true(btrail_chunk_get(b, &got));
    chunk.size++;
    btrail_chunk_put(b, &chunk);
    g_assert_false(btrail_chunk_get(b, &got));
}

static void test_end(void)
{
    struct btrail_end end = { 11, 12, true }, got = { 0 };
    uint8_t b[BTRAIL_END_SIZE];

    btrail_end_put(b, &end);
    btrail_end_get(b, &got);
    g_assert_cmpuint(got.index_offset, ==, 11);
    g_assert_cmpuint(got.entries, ==, 12);
    g_assert_true(got.continued);
    end.continued = false;
    btrail_end_put(b, &end);
    btrail_end_get(b, &got);
    g_assert_false(got.continued);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/chunk/file-header", test_file_header);
    g_test_add_func("/chunk/file-version", test_file_version);
    g_test_add_func("/chunk/header", test_chunk);
    g_test_add_func("/chunk/size", test_chunk_size);
    g_test_add_func("/chunk/end", test_end);
    return g_test_run();
}
