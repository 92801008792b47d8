/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Files that are written chunk by chunk: one or several
 * parts, full disks and files that exist.
 */

#include <errno.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "lib/agent/chunk.h"
#include "lib/internal/index.h"
#include "lib/agent/parts.h"
#include "lib/agent/store.h"
#include "store-samples.h"
#include "trace-samples.h"

static int open_store(struct btrail_store **store, const char *path,
                      bool replace)
{
    struct btrail_store_options options = { path, .replace = replace };

    return btrail_store_open(store, &options);
}

static void test_exists(void)
{
    char *path = sample_path();
    struct btrail_store *store;

    g_assert_cmpint(open_store(&store, path, false), ==, 0);
    g_assert_cmpint(btrail_store_close(store, NULL), ==, 0);
    g_assert_cmpint(open_store(&store, path, false), ==,
                    -BTRAIL_ERR_IO);
    g_assert_cmpint(errno, ==, EEXIST);
    g_assert_cmpint(open_store(&store, path, true), ==, 0);
    g_assert_cmpint(btrail_store_close(store, NULL), ==, 0);
    sample_remove(path);
}

/* A trace of nothing is one. */
static void test_empty(void)
{
    char *path = sample_path();
    struct btrail_trace_status status;
    struct btrail_store *store;
    struct btrail_trace *trace;

    g_assert_cmpint(open_store(&store, path, false), ==, 0);
    g_assert_cmpuint(btrail_store_size(store), ==, BTRAIL_FILE_HEADER_SIZE);
    g_assert_cmpint(btrail_store_close(store, NULL), ==, 0);
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

    g_assert_cmpint(open_store(&store, "/nonexistent/x", false), ==,
                    -BTRAIL_ERR_IO);
    g_assert_cmpint(errno, ==, ENOENT);
}

/* Writes to it fail, and it can be neither cut nor synced. */
static void test_full_device(void)
{
    struct btrail_store *store;

    g_assert_cmpint(open_store(&store, "/dev/full", true), ==,
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
    for (size = 72; size < 1500; size += 13) {
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
        g_assert_cmpint(open_store(&store, path, false), ==, 0);
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
        end = btrail_store_close(store, NULL);
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
    g_assert_cmpint(open_store(&store, path, false), ==,
                    -BTRAIL_ERR_IO);
    g_assert_cmpint(errno, ==, EFBIG);
    g_assert_cmpint(stat(path, &st), <, 0);
    g_assert_cmpint(errno, ==, ENOENT);

    g_assert_true(g_file_set_contents(path, "", 0, NULL));
    g_assert_cmpint(open_store(&store, path, true), ==,
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

    g_assert_cmpint(open_store(&store, path, false), ==, 0);
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
    g_assert_cmpint(btrail_store_close(store, NULL), ==, 0);
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

/*
 * No part is larger than it may be, unless a chunk is, and each is complete
 * by itself, with the description; together they have all chunks.
 */
static void test_parts(void)
{
    const unsigned chunks = 300;
    char *path = sample_path();
    struct btrail_store_options options = { path, .part_size = 20000 };
    struct btrail_trace_status status;
    struct btrail_stream_info info;
    struct btrail_store *store;
    struct btrail_trace *trace;
    struct store_parts found;
    uint64_t records = 0;
    uint32_t part;
    unsigned i;

    g_assert_cmpint(btrail_store_open(&store, &options), ==, 0);
    g_assert_cmpint(btrail_store_meta(store, "{\"a\": 1}", 8), ==, 0);
    for (i = 0; i < chunks; i++) {
        size_t len = i == 100 ? 50000 : g_test_rand_int_range(400, 5000);

        g_assert_cmpint(store_put_chunk(store, i, len), ==, 0);
    }
    g_assert_cmpint(btrail_store_meta(store, "{\"b\": 2}", 8), ==, 0);
    found = store_parts(path);
    g_assert_cmpuint(btrail_store_size(store), ==, found.total);
    g_assert_cmpint(btrail_store_close(store, NULL), ==, 0);

    found = store_parts(path);
    g_assert_cmpuint(found.first, ==, 0);
    g_assert_cmpuint(found.n, ==, found.last + 1);
    for (part = 0; part <= found.last; part++) {
        g_autofree char *name = btrail_part_path(path, part);
        const char *json;

        g_assert_cmpint(btrail_trace_open(&trace, name), ==, 0);
        btrail_trace_status(trace, &status);
        g_assert_true(status.complete && status.indexed);
        g_assert_true(status.continued == (part < found.last));
        g_assert_cmpuint(status.first_part, ==, part);
        g_assert_cmpint(btrail_trace_meta(trace, 0, &json, NULL), ==, 0);
        g_assert_cmpstr(json, ==, "{\"a\": 1}");
        g_assert_cmpint(btrail_trace_meta(trace, 1, &json, NULL), ==,
                        part == found.last ? 0 : -BTRAIL_ERR_END);
        if (records == chunks) {
            /* The last description had no room where the last chunk is. */
            g_assert_cmpuint(part, ==, found.last);
            g_assert_cmpint(btrail_trace_stream(trace, 0, &info), ==,
                            -BTRAIL_ERR_STREAM);
            btrail_trace_close(trace);
            break;
        }
        g_assert_cmpint(btrail_trace_stream(trace, 0, &info), ==, 0);
        g_assert_cmpuint(info.first_index, ==, records);
        records += info.records;
        /* One that is too large has nothing but its one chunk. */
        g_assert_true(status.file_size <= options.part_size ||
                      info.chunks == 1);
        btrail_trace_close(trace);
    }
    g_assert_cmpuint(records, ==, chunks);
    g_assert_cmpuint(found.n, <, chunks / 4);

    g_assert_cmpint(btrail_trace_open_parts(&trace, path), ==, 0);
    btrail_trace_status(trace, &status);
    g_assert_cmpuint(status.files, ==, found.n);
    g_assert_cmpuint(status.file_size, ==, found.total);
    g_assert_true(status.complete && status.indexed && !status.continued);
    g_assert_cmpint(btrail_trace_stream(trace, 0, &info), ==, 0);
    g_assert_cmpuint(info.records, ==, chunks);
    btrail_trace_close(trace);
    sample_remove(path);
}

/* Parts of a trace before are in the way, or are replaced, all of them. */
static void test_parts_exist(void)
{
    char *path = sample_path();
    struct btrail_store_options options = { path, .part_size = 1000 };
    struct btrail_store *store;
    unsigned i;

    g_assert_cmpint(btrail_store_open(&store, &options), ==, 0);
    for (i = 0; i < 10; i++) {
        g_assert_cmpint(store_put_chunk(store, i, 600), ==, 0);
    }
    g_assert_cmpint(btrail_store_close(store, NULL), ==, 0);
    g_assert_cmpuint(store_parts(path).n, ==, 10);

    g_remove(path);
    g_assert_cmpint(btrail_store_open(&store, &options), ==, -BTRAIL_ERR_IO);
    g_assert_cmpint(errno, ==, EEXIST);
    g_assert_cmpuint(store_parts(path).n, ==, 9);
    options.replace = true;
    g_assert_cmpint(btrail_store_open(&store, &options), ==, 0);
    g_assert_cmpuint(store_parts(path).n, ==, 1);
    g_assert_cmpint(btrail_store_close(store, NULL), ==, 0);
    sample_remove(path);
}

/*
 * The next part cannot be made: the last one says nothing of it, and is
 * complete except for what could not be written.
 */
static void test_no_next_part(void)
{
    char *path = sample_path();
    g_autofree char *next = btrail_part_path(path, 1);
    struct btrail_store_options options = { path, .part_size = 1000 };
    struct btrail_trace_status status;
    struct btrail_store *store;
    struct btrail_trace *trace;

    g_assert_cmpint(btrail_store_open(&store, &options), ==, 0);
    g_assert_cmpint(store_put_chunk(store, 0, 600), ==, 0);
    g_assert_cmpint(g_mkdir(next, 0777), ==, 0);
    g_assert_cmpint(store_put_chunk(store, 1, 600), ==, -BTRAIL_ERR_IO);
    g_assert_cmpint(errno, ==, EEXIST);
    g_assert_cmpint(btrail_store_close(store, NULL), ==, -BTRAIL_ERR_IO);
    g_assert_cmpint(errno, ==, EEXIST);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    btrail_trace_status(trace, &status);
    g_assert_false(status.complete);
    g_assert_false(status.continued);
    g_assert_cmpuint(status.chunks, ==, 1);
    g_assert_cmpuint(status.cut_bytes, ==, 0);
    btrail_trace_close(trace);
    sample_remove(path);
}

static void read_header(const char *path, struct btrail_file_header *header)
{
    g_autofree char *bytes = NULL;
    gsize len;

    g_assert_true(g_file_get_contents(path, &bytes, &len, NULL));
    g_assert_cmpuint(len, >=, BTRAIL_FILE_HEADER_SIZE);
    g_assert_cmpint(btrail_file_header_get((uint8_t *)bytes, header), ==, 0);
}

/* A trace of parts is continued: what was there stays, and so do the names. */
static void test_continue(void)
{
    char *first = sample_path();
    g_autofree char *path = btrail_part_path(first, 2);
    g_autofree char *next = btrail_part_path(first, 3);
    struct btrail_store_options options = { first, .part_size = 1000 };
    struct btrail_file_header h;
    struct btrail_store *store;
    unsigned i;

    g_assert_cmpint(btrail_store_open(&store, &options), ==, 0);
    for (i = 0; i < 2; i++) {
        g_assert_cmpint(store_put_chunk(store, i, 600), ==, 0);
    }
    g_assert_cmpint(btrail_store_close(store, NULL), ==, 0);
    options.path = path;
    options.part = 2;
    g_assert_cmpint(btrail_store_open(&store, &options), ==, 0);
    for (i = 2; i < 4; i++) {
        g_assert_cmpint(store_put_chunk(store, i, 600), ==, 0);
    }
    g_assert_cmpint(btrail_store_close(store, NULL), ==, 0);
    g_assert_cmpuint(store_parts(first).n, ==, 4);
    read_header(path, &h);
    g_assert_cmpuint(h.part, ==, 2);
    read_header(next, &h);
    g_assert_cmpuint(h.part, ==, 3);
    /* But not over what is there. */
    g_remove(path);
    g_assert_cmpint(btrail_store_open(&store, &options), ==, -BTRAIL_ERR_IO);
    g_assert_cmpint(errno, ==, EEXIST);
    sample_remove(first);
}

/* Nobody replaces a file while it is being written. */
static void test_busy(void)
{
    char *path = sample_path();
    struct btrail_store *store, *second;
    struct btrail_trace_status status;
    struct btrail_trace *trace;

    g_assert_cmpint(open_store(&store, path, false), ==, 0);
    g_assert_cmpint(btrail_store_meta(store, "{}", 2), ==, 0);
    g_assert_cmpint(open_store(&second, path, true), ==, -BTRAIL_ERR_IO);
    g_assert_cmpint(errno, ==, EBUSY);
    g_assert_cmpint(btrail_store_close(store, NULL), ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    btrail_trace_status(trace, &status);
    g_assert_true(status.complete);
    btrail_trace_close(trace);
    g_assert_cmpint(open_store(&second, path, true), ==, 0);
    g_assert_cmpint(btrail_store_close(second, NULL), ==, 0);
    sample_remove(path);
}

static void test_identify(void)
{
    static const uint8_t id[16] = "fedcba9876543210";
    char *path = sample_path();
    g_autofree char *next = btrail_part_path(path, 1);
    struct btrail_store_options options = {
        path, .id = (const uint8_t *)"0123456789abcdef", .part_size = 1000,
        .replace = true,
    };
    struct btrail_file_header h;
    struct btrail_store *store;
    unsigned i;

    g_assert_cmpint(btrail_store_open(&store, &options), ==, 0);
    read_header(path, &h);
    g_assert_cmpmem(h.id, 16, options.id, 16);
    g_assert_cmpuint(h.begin, ==, 0);
    g_assert_cmpint(btrail_store_identify(store, id, 3), ==, 0);
    for (i = 0; i < 2; i++) {
        g_assert_cmpint(store_put_chunk(store, i, 600), ==, 0);
    }
    g_assert_cmpint(btrail_store_close(store, NULL), ==, 0);
    read_header(path, &h);
    g_assert_cmpmem(h.id, 16, id, 16);
    g_assert_cmpuint(h.begin, ==, 3);
    g_assert_cmpuint(h.part, ==, 0);
    read_header(next, &h);
    g_assert_cmpmem(h.id, 16, id, 16);
    g_assert_cmpuint(h.begin, ==, BTRAIL_GAP_ELSEWHERE);
    g_assert_cmpuint(h.part, ==, 1);
    /* Without one, it is random. */
    g_assert_cmpint(open_store(&store, path, true), ==, 0);
    g_assert_cmpint(btrail_store_close(store, NULL), ==, 0);
    read_header(path, &h);
    g_assert_true(memcmp(h.id, id, 16));
    sample_remove(path);
}

/* With an interval, what was written is synced when that is over. */
static void test_sync(void)
{
    char *path = sample_path();
    struct btrail_store_options options = {
        path, .sync = BTRAIL_SYNC_INTERVAL, .sync_interval = 50000000,
    };
    struct btrail_store *store;
    gint64 at, again, before;

    g_assert_cmpint(btrail_store_open(&store, &options), ==, 0);
    g_assert_cmpint(btrail_store_sync(store, &at), ==, 0);
    g_assert_cmpint(at, ==, 0);
    before = g_get_monotonic_time();
    g_assert_cmpint(store_put_chunk(store, 0, 200), ==, 0);
    g_assert_cmpint(btrail_store_sync(store, &at), ==, 0);
    if (at) {
        g_assert_cmpint(at, >=, before + 50000);
        /* It counts from what is not synced yet. */
        g_assert_cmpint(store_put_chunk(store, 1, 200), ==, 0);
        g_assert_cmpint(btrail_store_sync(store, &again), ==, 0);
        g_assert_true(again == at || g_get_monotonic_time() >= at);
        while (g_get_monotonic_time() < at) {
            g_usleep(1000);
        }
        g_assert_cmpint(btrail_store_sync(store, &at), ==, 0);
        g_assert_true(!at || again != at);
    }
    g_assert_cmpint(btrail_store_close(store, NULL), ==, 0);
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
    g_test_add_func("/store/parts", test_parts);
    g_test_add_func("/store/parts-exist", test_parts_exist);
    g_test_add_func("/store/no-next-part", test_no_next_part);
    g_test_add_func("/store/continue", test_continue);
    g_test_add_func("/store/busy", test_busy);
    g_test_add_func("/store/identify", test_identify);
    g_test_add_func("/store/sync", test_sync);
    return g_test_run();
}
