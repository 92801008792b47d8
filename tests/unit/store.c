/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "chunk.h"
#include "index.h"
#include "store.h"
#include "trace-samples.h"

static void test_exists(void)
{
    char *path = sample_path();
    struct btrail_store *store;

    g_assert_cmpint(btrail_store_open(&store, path, false), ==, 0);
    g_assert_cmpint(btrail_store_close(store), ==, 0);
    g_assert_cmpint(btrail_store_open(&store, path, false), ==,
                    -BTRAIL_ERR_IO);
    g_assert_cmpint(errno, ==, EEXIST);
    g_assert_cmpint(btrail_store_open(&store, path, true), ==, 0);
    g_assert_cmpint(btrail_store_close(store), ==, 0);
    sample_remove(path);
}

/* A trace of nothing is one. */
static void test_empty(void)
{
    char *path = sample_path();
    struct btrail_trace_status status;
    struct btrail_store *store;
    struct btrail_trace *trace;

    g_assert_cmpint(btrail_store_open(&store, path, false), ==, 0);
    g_assert_cmpuint(btrail_store_size(store), ==, BTRAIL_FILE_HEADER_SIZE);
    g_assert_cmpint(btrail_store_close(store), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    btrail_trace_status(trace, &status);
    g_assert_true(status.complete);
    g_assert_true(status.indexed);
    g_assert_cmpuint(btrail_trace_streams(trace), ==, 0);
    btrail_trace_close(trace);
    sample_remove(path);
}

static void test_no_folder(void)
{
    struct btrail_store *store;

    g_assert_cmpint(btrail_store_open(&store, "/nonexistent/x", false), ==,
                    -BTRAIL_ERR_IO);
    g_assert_cmpint(errno, ==, ENOENT);
}

/* Writes to it fail, and it can be neither cut nor synced. */
static void test_full_device(void)
{
    struct btrail_store *store;

    g_assert_cmpint(btrail_store_open(&store, "/dev/full", true), ==,
                    -BTRAIL_ERR_IO);
    g_assert_cmpint(errno, ==, ENOSPC);
}

/*
 * A file that may not grow beyond some size, whatever it is: it ends with a
 * whole chunk, and the error comes again at the end.
 */
static void test_full(void)
{
    struct rlimit old, limit;
    unsigned size;

    signal(SIGXFSZ, SIG_IGN);
    g_assert_cmpint(getrlimit(RLIMIT_FSIZE, &old), ==, 0);
    for (size = 40; size < 1500; size += 13) {
        char *path = sample_path();
        struct btrail_store *store;
        struct btrail_trace *trace;
        struct btrail_trace_status status;
        unsigned whole = 0;
        int i, ret = 0, end;
        struct stat st;

        limit = old;
        limit.rlim_cur = size;
        g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &limit), ==, 0);
        g_assert_cmpint(btrail_store_open(&store, path, false), ==, 0);
        for (i = 0; i < 10; i++) {
            char json[50 + 1];

            g_snprintf(json, sizeof(json), "{\"number\": %d%*s}", i, 38, "");
            ret = btrail_store_meta(store, json, 50);
            if (ret) {
                g_assert_cmpint(errno, ==, EFBIG);
                /* It is over for good. */
                g_assert_cmpint(btrail_store_meta(store, "{}", 2), ==,
                                -BTRAIL_ERR_IO);
                g_assert_cmpint(errno, ==, EFBIG);
                break;
            }
            whole++;
        }
        g_assert_cmpuint(btrail_store_size(store), ==,
                         BTRAIL_FILE_HEADER_SIZE +
                         whole * (BTRAIL_CHUNK_HEADER_SIZE + 50));
        end = btrail_store_close(store);
        if (ret) {
            g_assert_cmpint(end, ==, -BTRAIL_ERR_IO);
            g_assert_cmpint(errno, ==, EFBIG);
        }
        g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &old), ==, 0);

        g_assert_cmpint(stat(path, &st), ==, 0);
        g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
        btrail_trace_status(trace, &status);
        g_assert_cmpuint(status.cut_bytes + status.skipped_bytes +
                         status.bad_chunks, ==, 0);
        if (end) {
            g_assert_false(status.complete);
            g_assert_cmpuint(status.chunks, ==, whole);
            g_assert_cmpuint(st.st_size, ==, BTRAIL_FILE_HEADER_SIZE +
                             whole * (BTRAIL_CHUNK_HEADER_SIZE + 50));
        } else {
            g_assert_true(status.complete);
            g_assert_cmpuint(status.chunks, ==, whole + 2);
        }
        btrail_trace_close(trace);
        sample_remove(path);
    }
}

/* Not even for the header: nothing is left behind, but what was there is. */
static void test_no_room(void)
{
    struct rlimit old, limit;
    char *path = sample_path();
    struct btrail_store *store;
    struct stat st;

    signal(SIGXFSZ, SIG_IGN);
    g_assert_cmpint(getrlimit(RLIMIT_FSIZE, &old), ==, 0);
    limit = old;
    limit.rlim_cur = BTRAIL_FILE_HEADER_SIZE - 1;
    g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &limit), ==, 0);
    g_assert_cmpint(btrail_store_open(&store, path, false), ==,
                    -BTRAIL_ERR_IO);
    g_assert_cmpint(errno, ==, EFBIG);
    g_assert_cmpint(stat(path, &st), <, 0);
    g_assert_cmpint(errno, ==, ENOENT);

    g_assert_true(g_file_set_contents(path, "", 0, NULL));
    g_assert_cmpint(btrail_store_open(&store, path, true), ==,
                    -BTRAIL_ERR_IO);
    g_assert_cmpint(errno, ==, EFBIG);
    g_assert_cmpint(stat(path, &st), ==, 0);
    g_assert_cmpint(st.st_size, ==, 0);
    g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &old), ==, 0);
    sample_remove(path);
}

/* More entries than fit into one INDEX chunk, with lists of all lengths */
static void test_large_index(void)
{
    unsigned n = 10000, i, j;
    uint64_t index_size = 0;
    char *path = sample_path();
    struct btrail_trace_status status;
    struct btrail_stream_info info;
    struct btrail_store *store;
    struct btrail_trace *trace;

    g_assert_cmpint(btrail_store_open(&store, path, false), ==, 0);
    for (i = 0; i < n; i++) {
        static const uint8_t payload[BTRAIL_BLOCK_MIN];
        struct btrail_block_header h = {
            .first_index = i, .end_index = i + 1, .records = 1,
        };

        for (j = 0; j < i % (BTRAIL_CR3SET_MAX + 2); j++) {
            btrail_cr3set_switch(&h.switches, 0, (i + j + 1ull) << 12);
        }
        index_size += BTRAIL_INDEX_ENTRY_SIZE +
                      btrail_cr3set_listed(h.switches.n) * 8;
        g_assert_cmpint(btrail_store_data(store, payload, sizeof(payload),
                                          &h), ==, 0);
    }
    g_assert_cmpint(btrail_store_close(store), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    btrail_trace_status(trace, &status);
    g_assert_true(status.indexed);
    g_assert_cmpuint(index_size, >, 3 * BTRAIL_INDEX_MAX_PAYLOAD);
    g_assert_cmpuint(status.chunks, ==, n +
                     (index_size + BTRAIL_INDEX_MAX_PAYLOAD - 1) /
                     BTRAIL_INDEX_MAX_PAYLOAD + 1);
    g_assert_cmpint(btrail_trace_stream(trace, 0, &info), ==, 0);
    g_assert_cmpuint(info.chunks, ==, n);
    g_assert_cmpuint(info.records, ==, n);
    btrail_trace_close(trace);
    sample_remove(path);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/store/exists", test_exists);
    g_test_add_func("/store/empty", test_empty);
    g_test_add_func("/store/no-folder", test_no_folder);
    g_test_add_func("/store/full-device", test_full_device);
    g_test_add_func("/store/full", test_full);
    g_test_add_func("/store/no-room", test_no_room);
    g_test_add_func("/store/large-index", test_large_index);
    return g_test_run();
}
