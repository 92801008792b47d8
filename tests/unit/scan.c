/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Scanning a file for chunks, in the presence of garbage and other writers.
 */

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/internal/crc32c.h"
#include "lib/internal/scan.h"

/* A file in the making, and where its chunks are */
struct image {
    int fd;
    GByteArray *bytes;
    GArray *offsets;            /* of uint64_t */
};

static struct image *image_new(void)
{
    struct image *im = g_new0(struct image, 1);

    im->fd = memfd_create("scan", MFD_CLOEXEC);
    g_assert_cmpint(im->fd, >=, 0);
    im->bytes = g_byte_array_new();
    im->offsets = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    return im;
}

static void image_free(struct image *im)
{
    close(im->fd);
    g_byte_array_unref(im->bytes);
    g_array_free(im->offsets, TRUE);
    g_free(im);
}

static uint8_t *grow(struct image *im, size_t len)
{
    size_t at = im->bytes->len;

    g_byte_array_set_size(im->bytes, at + len);
    return im->bytes->data + at;
}

static void add_chunk(struct image *im, uint32_t size)
{
    struct btrail_chunk chunk = {
        .type = BTRAIL_CHUNK_DATA,
        .size = size,
        .sequence = im->offsets->len,
    };
    uint64_t offset = im->bytes->len;
    uint8_t *p = grow(im, BTRAIL_CHUNK_HEADER_SIZE + size);

    g_array_append_val(im->offsets, offset);
    memset(p + BTRAIL_CHUNK_HEADER_SIZE, im->offsets->len, size);
    chunk.crc = btrail_crc32c(0, p + BTRAIL_CHUNK_HEADER_SIZE, size);
    btrail_chunk_put(p, &chunk);
}

static void write_image(struct image *im)
{
    g_assert_cmpint(ftruncate(im->fd, 0), ==, 0);
    g_assert_cmpint(pwrite(im->fd, im->bytes->data, im->bytes->len, 0), ==,
                    im->bytes->len);
}

/* All of @im's chunks, with these bytes in between and after them */
static void check(struct image *im, uint64_t skipped, uint64_t cut)
{
    struct btrail_scan scan;
    struct btrail_scan_chunk chunk;
    unsigned n = 0;
    int ret;

    btrail_scan_begin(&scan, im->fd, 0, im->bytes->len);
    while (!(ret = btrail_scan_next(&scan, &chunk))) {
        g_assert_cmpuint(n, <, im->offsets->len);
        g_assert_cmpuint(chunk.offset, ==,
                         g_array_index(im->offsets, uint64_t, n));
        g_assert_cmpuint(chunk.header.sequence, ==, n);
        g_assert_cmpmem(chunk.start, chunk.start_len, im->bytes->data +
                        chunk.offset + BTRAIL_CHUNK_HEADER_SIZE,
                        MIN(chunk.header.size, BTRAIL_BLOCK_START));
        n++;
    }
    g_assert_cmpint(ret, ==, -BTRAIL_ERR_END);
    g_assert_cmpuint(n, ==, im->offsets->len);
    g_assert_cmpuint(scan.skipped, ==, skipped);
    g_assert_cmpuint(scan.cut, ==, cut);
    /* It stays at the end. */
    g_assert_cmpint(btrail_scan_next(&scan, &chunk), ==, -BTRAIL_ERR_END);
    btrail_scan_free(&scan);
}

static void test_empty(void)
{
    struct image *im = image_new();

    check(im, 0, 0);
    memset(grow(im, 5), 0, 5);
    write_image(im);
    check(im, 0, 5);
    image_free(im);
}

/* Chunks of all sizes, so that they lie across what is read at once */
static void test_sizes(void)
{
    struct image *im = image_new();
    unsigned i;

    for (i = 0; i < 3000; i++) {
        add_chunk(im, i);
        add_chunk(im, 0);
    }
    for (i = 0; i < 200; i++) {
        add_chunk(im, g_test_rand_int_range(0, 1000));
        add_chunk(im, g_test_rand_int_range(0, 300000));
    }
    write_image(im);
    check(im, 0, 0);
    image_free(im);
}

/* Bytes that look like the start of a chunk in part, of every length */
static void test_garbage(void)
{
    static const uint8_t magic[] = BTRAIL_CHUNK_MAGIC;
    unsigned lengths[] = { 1, 3, 31, 32, 33, 4095, 4096, 4097, 262143, 262144,
                           300000 };
    unsigned i, j;

    for (i = 0; i < G_N_ELEMENTS(lengths); i++) {
        struct image *im = image_new();
        uint64_t skipped = 0;

        for (j = 0; j < 4; j++) {
            unsigned len = lengths[i] + j, k;
            uint8_t *p = grow(im, len);

            for (k = 0; k < len; k++) {
                p[k] = magic[(k + j) % 4];
            }
            skipped += len;
            add_chunk(im, 100 * j);
        }
        memset(grow(im, lengths[i]), 0xb7, lengths[i]);
        write_image(im);
        check(im, skipped, lengths[i]);
        image_free(im);
    }
}

/* The last chunk is not whole: its bytes are searched for others. */
static void test_cut(void)
{
    struct image *im = image_new();
    unsigned cut;

    add_chunk(im, 50);
    add_chunk(im, 70);
    g_array_set_size(im->offsets, 1);
    for (cut = 1; cut <= 102; cut++) {
        g_byte_array_set_size(im->bytes, im->bytes->len - 1);
        write_image(im);
        check(im, 0, 102 - cut);
    }
    image_free(im);
}

/* The file becomes shorter while it is read. */
static void test_truncated(void)
{
    struct image *im = image_new();
    struct btrail_scan scan;
    struct btrail_scan_chunk chunk;
    unsigned i;

    for (i = 0; i < 100; i++) {
        add_chunk(im, 10000);
    }
    write_image(im);
    btrail_scan_begin(&scan, im->fd, 0, im->bytes->len);
    for (i = 0; i < 20; i++) {
        g_assert_cmpint(btrail_scan_next(&scan, &chunk), ==, 0);
    }
    g_assert_cmpint(ftruncate(im->fd, 30 * 10032 + 100), ==, 0);
    for (; i < 30; i++) {
        g_assert_cmpint(btrail_scan_next(&scan, &chunk), ==, 0);
    }
    /* What is left of the next one may still be reported, once. */
    while (!btrail_scan_next(&scan, &chunk)) {
        g_assert_cmpuint(++i, <=, 31);
    }
    g_assert_cmpint(ftruncate(im->fd, 0), ==, 0);
    g_assert_cmpint(btrail_scan_next(&scan, &chunk), ==, -BTRAIL_ERR_END);
    btrail_scan_free(&scan);
    image_free(im);
}

static void test_unreadable(void)
{
    struct btrail_scan scan;
    struct btrail_scan_chunk chunk;

    btrail_scan_begin(&scan, -1, 0, 1000);
    g_assert_cmpint(btrail_scan_next(&scan, &chunk), ==, -BTRAIL_ERR_IO);
    g_assert_cmpint(errno, ==, EBADF);
    btrail_scan_free(&scan);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/scan/empty", test_empty);
    g_test_add_func("/scan/sizes", test_sizes);
    g_test_add_func("/scan/garbage", test_garbage);
    g_test_add_func("/scan/cut", test_cut);
    g_test_add_func("/scan/truncated", test_truncated);
    g_test_add_func("/scan/unreadable", test_unreadable);
    return g_test_run();
}
