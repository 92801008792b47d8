/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The thread that writes blocks and sideband: order, calls and errors
 */

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "grown.h"
#include "drain/output.h"
#include "trace-samples.h"

#define BLOCKS          9       /* as a session of one vCPU has */
#define SLAB_RECORDS    (1u << 16)
#define SLABS           60
#define MEMORY          (64u << 20)

static struct btrail_record records[SLAB_RECORDS];

/* What nothing makes smaller, so that blocks are as large as they come */
static int append_random(struct btrail_stream *s, unsigned slab)
{
    struct btrail_event time = {
        .index = (uint64_t)slab * SLAB_RECORDS, .type = BTRAIL_EVENT_TIME,
        .data = { slab + 1, slab, BTRAIL_NO_ICOUNT },
    };
    struct btrail_slab made = {
        .first_index = time.index,
        .records = records,
        .n_records = SLAB_RECORDS,
        .events = &time,
        .n_events = 1,
    };
    size_t i;

    for (i = 0; i < SLAB_RECORDS; i++) {
        records[i] = (struct btrail_record) {
            (uint64_t)g_test_rand_int() << 32 | g_test_rand_int(),
            (uint64_t)g_test_rand_int() << 32 | g_test_rand_int(), 0,
        };
    }
    return btrail_stream_append(s, &made, 0);
}

/* Read a pipe slowly into a file: its name with ".read". */
static gpointer read_slowly(gpointer opaque)
{
    g_autofree char *path = g_strconcat(opaque, ".read", NULL);
    g_autofree uint8_t *bytes = g_malloc(1 << 20);
    int in = open(opaque, O_RDONLY);
    int out = open(path, O_WRONLY | O_CREAT, 0600);
    ssize_t n;

    g_assert_cmpint(in, >=, 0);
    g_assert_cmpint(out, >=, 0);
    while ((n = read(in, bytes, 1 << 20)) > 0) {
        g_assert_cmpint(write(out, bytes, n), ==, n);
        g_usleep(3000);
    }
    close(in);
    close(out);
    return NULL;
}

static void write_to_pipe(void *path)
{
    struct btrail_store_options options = { .path = path, .replace = true };
    GThread *reader = g_thread_new("reader", read_slowly, path);
    struct output *output;
    struct btrail_store *store;
    struct btrail_stream *s;
    unsigned i;

    g_assert_cmpint(btrail_store_open(&store, &options), ==, 0);
    output = output_new(store, NULL, BLOCKS);
    s = btrail_stream_new(0, output_sink(output), false);
    for (i = 0; i < SLABS; i++) {
        output_slab(output);
        g_assert_cmpint(append_random(s, i), ==, 0);
    }
    g_assert_cmpint(btrail_stream_flush(s), ==, 0);
    output_finish(output);
    g_assert_cmpint(output_error(output), ==, 0);
    g_assert_cmpuint(output_records(output), ==,
                     (uint64_t)SLABS * SLAB_RECORDS);
    output_free(output);
    btrail_stream_free(s);
    g_assert_cmpint(btrail_store_close(store, NULL), ==, 0);
    g_thread_join(reader);
}

/*
 * If the reader is slow, only so much of what is written waits, whatever it is:
 * less than a stream may take.
 */
static void test_slow(void)
{
    char *path = sample_path();
    g_autofree char *read_path = g_strconcat(path, ".read", NULL);
    struct btrail_stream_info info;
    struct btrail_trace *trace;
    uint64_t size;

    g_assert_cmpint(mkfifo(path, 0600), ==, 0);
    memset(records, 1, sizeof(records));
    size = grown(write_to_pipe, path);

    g_assert_cmpint(btrail_trace_open(&trace, read_path), ==, 0);
    g_assert_cmpint(btrail_trace_stream(trace, 0, &info), ==, 0);
    g_assert_cmpuint(info.records, ==, (uint64_t)SLABS * SLAB_RECORDS);
    btrail_trace_close(trace);
    g_test_message("%.1f MiB", size / 1048576.0);
    if (!SANITIZED) {
        g_assert_cmpuint(size, <=, MEMORY);
        g_assert_cmpuint(size, >, MEMORY / 20);
    }
    sample_remove(path);
}

/* A slab that ends more blocks than there may be: nobody waits for ever. */
static void test_large_slab(void)
{
    char *path = sample_path();
    struct btrail_store_options options = { .path = path };
    struct output *output;
    struct btrail_store *store;
    struct btrail_stream *s;

    g_assert_cmpint(btrail_store_open(&store, &options), ==, 0);
    output = output_new(store, NULL, BLOCKS);
    s = btrail_stream_new(0, output_sink(output), false);
    output_slab(output);
    for (unsigned i = 0; i < BLOCKS; i++) {
        g_assert_cmpint(append_random(s, i), ==, 0);
    }
    g_assert_cmpint(btrail_stream_flush(s), ==, 0);
    output_finish(output);
    g_assert_cmpuint(output_records(output), ==,
                     BLOCKS * SLAB_RECORDS);
    output_free(output);
    btrail_stream_free(s);
    g_assert_cmpint(btrail_store_close(store, NULL), ==, 0);
    sample_remove(path);
}

/*
 * Names do not wait for a slow disk: those for which there is no room are left
 * out, and the room of the others is given back when they are written.
 */
static void test_names(void)
{
    const uint64_t room = UINT64_C(8) << 20;
    struct btrail_budget *budget = btrail_budget_new_fixed(room, 4);
    char *path = sample_path();
    g_autofree char *read_path = g_strconcat(path, ".read", NULL);
    struct btrail_store_options options = { .path = path, .replace = true };
    struct btrail_sideband_info info = {
        .kind = BTRAIL_SIDEBAND_IMAGE, .size = sizeof(records),
    };
    struct btrail_buf packed = { 0 };
    struct output *output;
    struct btrail_store *store;
    struct btrail_trace *trace;
    unsigned sent = 0, kept = 0;
    GThread *reader;

    for (size_t i = 0; i < sizeof(records) / 4; i++) {
        ((uint32_t *)(void *)records)[i] = g_test_rand_int();
    }
    btrail_sideband_pack(&info, records, &packed);
    g_assert_cmpint(mkfifo(path, 0600), ==, 0);
    reader = g_thread_new("reader", read_slowly, path);
    g_assert_cmpint(btrail_store_open(&store, &options), ==, 0);
    output = output_new(store, NULL, BLOCKS);
    for (unsigned i = 0; i < 500; i++) {
        if (btrail_budget_take(budget, packed.len + BTRAIL_BUDGET_ENTRY)) {
            output_packed(output, g_memdup2(packed.data, packed.len),
                          packed.len, budget);
            sent++;
        }
    }
    g_assert_cmpuint(btrail_budget_refused(budget), >, 0);
    output_finish(output);
    g_assert_cmpuint(btrail_budget_left(budget), ==, room);
    btrail_budget_unref(budget);
    output_free(output);
    g_assert_cmpint(btrail_store_close(store, NULL), ==, 0);
    g_thread_join(reader);
    btrail_buf_free(&packed);

    g_assert_cmpint(btrail_trace_open(&trace, read_path), ==, 0);
    while (!btrail_trace_sideband(trace, kept, &info, NULL)) {
        kept++;
    }
    g_assert_cmpuint(kept, ==, sent);
    btrail_trace_close(trace);
    sample_remove(path);
}

/* After an error all is dropped, and no caller waits. */
static void test_full(void)
{
    char *path = sample_path();
    struct btrail_store_options options = { .path = path };
    struct rlimit old, limit;
    struct output *output;
    struct btrail_store *store;
    struct btrail_stream *s;
    unsigned i;

    g_assert_cmpint(btrail_store_open(&store, &options), ==, 0);
    output = output_new(store, NULL, 2);
    s = btrail_stream_new(0, output_sink(output), false);
    signal(SIGXFSZ, SIG_IGN);
    g_assert_cmpint(getrlimit(RLIMIT_FSIZE, &old), ==, 0);
    limit = old;
    limit.rlim_cur = 100000;
    g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &limit), ==, 0);
    for (i = 0; i < 4; i++) {
        int ret = append_random(s, i);

        /* A later slab than the one that fails may return the error. */
        g_assert_true(!ret || ret == -BTRAIL_ERR_IO);
        btrail_stream_flush(s);
    }
    output_finish(output);
    g_assert_cmpint(output_error(output), ==, EFBIG);
    g_assert_cmpuint(output_records(output), ==, 0);
    output_free(output);
    btrail_stream_free(s);
    g_assert_cmpint(btrail_store_close(store, NULL), ==, -BTRAIL_ERR_IO);
    g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &old), ==, 0);
    sample_remove(path);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/output/slow", test_slow);
    g_test_add_func("/output/large-slab", test_large_slab);
    g_test_add_func("/output/names", test_names);
    g_test_add_func("/output/full", test_full);
    return g_test_run();
}
