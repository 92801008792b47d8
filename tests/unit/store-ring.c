/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A ring of files: it keeps to its limits of bytes, records and time, and
 * what is there is the newest.
 */

#include <errno.h>

#include "store-samples.h"
#include "trace-samples.h"

/*
 * At no moment there are more bytes than there may be, and at each moment
 * what is there is the newest, without a hole.
 */
static void test_ring(void)
{
    char *path = sample_path();
    struct btrail_store_options options = { path, .ring_size = 100000 };
    struct btrail_store *store;
    uint64_t newest = 0;
    unsigned i;

    g_assert_cmpint(btrail_store_open(&store, &options), ==, 0);
    for (i = 0; i < 600; i++) {
        struct btrail_trace_status status;
        struct btrail_stream_info info;
        struct btrail_trace *trace;
        struct store_parts found;
        size_t len = i % 200 == 100 ? 50000 :
                     g_test_rand_int_range(400, 8000);

        g_assert_cmpint(store_put_chunk(store, i, len), ==, 0);
        newest += len;
        found = store_parts(path);
        g_assert_cmpuint(found.total, <=, options.ring_size);
        g_assert_cmpuint(found.n, ==, found.last - found.first + 1);
        /* As if the writer were killed now */
        g_assert_cmpint(btrail_trace_open_parts(&trace, path), ==, 0);
        btrail_trace_status(trace, &status);
        g_assert_cmpuint(status.cut_bytes + status.skipped_bytes +
                         status.bad_chunks + status.missing_parts, ==, 0);
        g_assert_cmpuint(status.first_part, ==, 0);
        g_assert_false(status.complete);
        g_assert_cmpint(btrail_trace_stream(trace, 0, &info), ==, 0);
        g_assert_cmpuint(info.end_index, ==, i + 1);
        g_assert_cmpuint(info.first_index + info.records, ==, i + 1);
        btrail_trace_close(trace);
        /* It is a ring of many chunks, not of the last few. */
        if (newest > options.ring_size && len < 8000 && i % 200 < 100) {
            g_assert_cmpuint(found.total, >, options.ring_size / 2);
        }
    }
    g_assert_cmpint(btrail_store_close(store, NULL), ==, 0);
    g_assert_cmpuint(store_parts(path).total, <=, options.ring_size);
    g_assert_cmpuint(store_parts(path).first, >, 0);
    sample_remove(path);
}

/* It has what was requested, and less than two of its parts more. */
static void test_ring_limit(gconstpointer opaque)
{
    char *path = sample_path();
    struct btrail_store_options options = {
        path, .ring_size = 10 << 20,
        .ring_records = opaque ? 0 : 800, .ring_ns = opaque ? 800000000 : 0,
    };
    struct btrail_stream_info info;
    struct btrail_store *store;
    struct btrail_trace *trace;
    unsigned i;

    g_assert_cmpint(btrail_store_open(&store, &options), ==, 0);
    for (i = 0; i < 3000; i++) {
        g_assert_cmpint(store_put_chunk(store, i, 500), ==, 0);
        if (i % 100 == 99) {
            g_assert_cmpint(btrail_trace_open_parts(&trace, path), ==, 0);
            g_assert_cmpint(btrail_trace_stream(trace, 0, &info), ==, 0);
            g_assert_cmpuint(info.end_index, ==, i + 1);
            g_assert_cmpuint(info.end_index - info.first_index, >=,
                             MIN(i + 1, 800));
            g_assert_cmpuint(info.end_index - info.first_index, <=,
                             800 + 2 * 800 / BTRAIL_STORE_RING_PARTS);
            btrail_trace_close(trace);
        }
    }
    g_assert_cmpint(btrail_store_close(store, NULL), ==, 0);
    sample_remove(path);
}

/* While it is held all stays that is there, but not for ever. */
static void test_ring_held(void)
{
    char *path = sample_path();
    unsigned held = 0;
    struct btrail_store_options options = {
        path, .ring_size = 100000, .ring_held = &held,
    };
    struct btrail_store *store;
    struct store_parts before, found;
    unsigned i;

    g_assert_cmpint(btrail_store_open(&store, &options), ==, 0);
    for (i = 0; i < 100; i++) {
        g_assert_cmpint(store_put_chunk(store, i, 4000), ==, 0);
    }
    before = store_parts(path);
    g_assert_cmpuint(before.first, >, 0);
    held = 1;
    for (; i < 115; i++) {
        g_assert_cmpint(store_put_chunk(store, i, 4000), ==, 0);
    }
    found = store_parts(path);
    g_assert_cmpuint(found.first, ==, before.first);
    g_assert_cmpuint(found.total, >, options.ring_size);
    for (; i < 200; i++) {
        g_assert_cmpint(store_put_chunk(store, i, 4000), ==, 0);
        g_assert_cmpuint(store_parts(path).total, <=, 2 * options.ring_size);
    }
    g_assert_cmpuint(store_parts(path).first, >, before.first);
    held = 0;
    g_assert_cmpint(store_put_chunk(store, i, 4000), ==, 0);
    g_assert_cmpuint(store_parts(path).total, <=, options.ring_size);
    g_assert_cmpint(btrail_store_close(store, NULL), ==, 0);
    sample_remove(path);
}

/* A chunk that is larger than all of the ring */
static void test_ring_too_small(void)
{
    char *path = sample_path();
    struct btrail_store_options options = { path, .ring_size = 10000 };
    struct btrail_store *store;

    g_assert_cmpint(btrail_store_open(&store, &options), ==, 0);
    g_assert_cmpint(store_put_chunk(store, 0, 200), ==, 0);
    g_assert_cmpint(store_put_chunk(store, 1, 20000), ==, -BTRAIL_ERR_IO);
    g_assert_cmpint(errno, ==, ENOSPC);
    g_assert_cmpint(btrail_store_close(store, NULL), ==, -BTRAIL_ERR_IO);
    g_assert_cmpuint(store_parts(path).total, <=, options.ring_size);
    sample_remove(path);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/store-ring/newest", test_ring);
    g_test_add_data_func("/store-ring/records", NULL, test_ring_limit);
    g_test_add_data_func("/store-ring/time", "", test_ring_limit);
    g_test_add_func("/store-ring/held", test_ring_held);
    g_test_add_func("/store-ring/too-small", test_ring_too_small);
    return g_test_run();
}
