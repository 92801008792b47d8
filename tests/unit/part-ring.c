/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A flight recorder: its newest records and names make a trace at any moment,
 * and it leaves no file
 */

#include <errno.h>
#include <glib/gstdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "drain/part-ring.h"
#include "lib/agent/stream.h"
#include "scratch.h"

#define LIMIT   100000u         /* of its files with records */
#define LENGTH  2000u           /* records in a chunk, which take about this */

static const struct session_limit limit = { .bytes = LIMIT };

/* Puts blocks into the ring. */
struct sink {
    struct btrail_block_sink sink;
    struct part_ring *r;
};

static struct btrail_block *get_block(struct btrail_block_sink *sink)
{
    return btrail_block_new();
}

static int put_block(struct btrail_block_sink *sink,
                     struct btrail_block *block)
{
    struct btrail_packer *packer = btrail_packer_new();
    struct btrail_buf payload = { 0 };
    int ret;

    btrail_packer_pack(packer, block, &payload);
    ret = btrail_store_data(part_ring_store(((struct sink *)sink)->r),
                            payload.data, payload.len, &block->header);
    btrail_buf_free(&payload);
    btrail_packer_free(packer);
    btrail_block_free(block);
    return ret;
}

/* A chunk whose first record has this number of LENGTH, from random places */
static void put_chunk(struct part_ring *r, uint64_t number)
{
    struct sink sink = { { get_block, put_block }, r };
    struct btrail_stream *stream = btrail_stream_new(0, &sink.sink, true);
    struct btrail_record records[LENGTH];
    const struct btrail_event event = {
        .type = BTRAIL_EVENT_TIME, .index = number * LENGTH,
        .data = { number + 1, 0, BTRAIL_NO_ICOUNT },
    };
    const struct btrail_slab slab = {
        .first_index = number * LENGTH, .cr3 = 0x1000, .records = records,
        .n_records = LENGTH, .events = &event, .n_events = 1,
    };

    for (unsigned i = 0; i < LENGTH; i++) {
        records[i] = (struct btrail_record) {
            (uint64_t)g_test_rand_int_range(0, INT32_MAX),
            number * LENGTH + i, 0,
        };
    }
    g_assert_cmpint(btrail_stream_append(stream, &slab, 0), ==, 0);
    g_assert_cmpint(btrail_stream_flush(stream), ==, 0);
    btrail_stream_free(stream);
}

/* A piece of sideband, by its time */
static void put_name(struct part_ring *r, uint64_t time)
{
    const struct btrail_sideband_info info = {
        .kind = 0xfff0, .time = time, .size = sizeof(time),
    };
    struct btrail_buf payload = { 0 };

    btrail_sideband_pack(&info, (const uint8_t *)&time, &payload);
    g_assert_cmpint(btrail_store_sideband(part_ring_names(r), payload.data,
                                          payload.len), ==, 0);
    btrail_buf_free(&payload);
}

struct found {
    unsigned files;
    unsigned names;             /* files of them */
    uint64_t record_bytes;
};

static struct found look(const char *folder)
{
    GDir *dir = g_dir_open(folder, 0, NULL);
    struct found found = { 0 };
    const char *name;

    while ((name = g_dir_read_name(dir))) {
        g_autofree char *path = g_build_filename(folder, name, NULL);
        bool names = g_str_has_prefix(name, "names-");
        GStatBuf st;

        g_assert_cmpint(g_stat(path, &st), ==, 0);
        found.files++;
        found.names += names;
        found.record_bytes += names ? 0 : (uint64_t)st.st_size;
    }
    g_dir_close(dir);
    return found;
}

static struct part_ring *ring_at(const char *folder)
{
    struct part_ring *r = part_ring_new(folder, &limit);

    g_assert_nonnull(r);
    return r;
}

/* Who frees it has closed its store of records. */
static void end(struct part_ring *r, bool keep)
{
    g_assert_cmpint(btrail_store_close(part_ring_store(r), NULL), ==, 0);
    part_ring_free(r, keep);
}

/* A dump has all records from one on up to @end, and names of @times. */
static void check_dump(const char *path, uint64_t first_most,
                       uint64_t end_index, const uint64_t *times, unsigned n)
{
    struct btrail_trace *trace;
    struct btrail_cursor *cursor;
    struct btrail_sideband_info info;
    struct btrail_batch b;
    uint64_t next = 0, lost = 0;
    unsigned i;

    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_assert_cmpint(btrail_cursor_open(&cursor, trace, 0, 0), ==, 0);
    while (!btrail_cursor_next(cursor, &b)) {
        if (b.event && b.event->type == BTRAIL_EVENT_GAP &&
            b.event->data[0] != BTRAIL_LOST_UNKNOWN) {
            g_assert_cmpuint(b.event->reason, ==, BTRAIL_GAP_OVERWRITTEN);
            g_assert_cmpuint(next, ==, 0);
            lost += b.event->data[0];
        }
        for (size_t k = 0; k < b.count; k++) {
            g_assert_cmpuint(b.records[k].to, ==, b.index + k);
            g_assert_true(!next || next == b.index + k);
            if (!next) {
                g_assert_cmpuint(b.index, <=, first_most);
            }
            next = b.index + k + 1;
        }
    }
    g_assert_cmpuint(next, ==, end_index);
    btrail_cursor_close(cursor);
    for (i = 0; !btrail_trace_sideband(trace, i, &info, NULL); i++) {
        g_assert_cmpuint(i, <, n);
        g_assert_cmpuint(info.time, ==, times[i]);
    }
    g_assert_cmpuint(i, ==, n);
    btrail_trace_close(trace);
}

static void dump(struct part_ring *r, const char *path)
{
    struct btrail_merge_result result;

    g_assert_cmpint(part_ring_dump(part_ring_files(r), path, NULL, &result), ==, 0);
    g_assert_cmpuint(result.bad_chunks, ==, 0);
}

/* At any moment it has the newest records, and more than half of its size. */
static void test_newest(void)
{
    char *folder = scratch_new(), *others = scratch_new();
    g_autofree char *path = g_build_filename(others, "dump.btrail", NULL);
    struct part_ring *r = ring_at(folder);
    const uint64_t time = 5;
    uint64_t bytes = 0;

    put_name(r, time);
    for (uint64_t i = 0; i < 120; i++) {
        put_chunk(r, i);
        bytes = MAX(bytes, look(folder).record_bytes);
        g_assert_cmpuint(look(folder).record_bytes, <=, LIMIT);
        if (i % 20 == 19) {
            dump(r, path);
            check_dump(path, i * LENGTH, (i + 1) * LENGTH, &time, 1);
            g_assert_cmpint(g_unlink(path), ==, 0);
        }
    }
    g_assert_cmpuint(bytes, >, LIMIT / 2);
    end(r, false);
    g_assert_cmpuint(look(folder).files, ==, 0);
    scratch_remove(folder);
    scratch_remove(others);
}

/* The trace ends with it, and so does its stream. */
static void check_ends(const char *path)
{
    struct btrail_trace_status status;
    struct btrail_trace *trace;
    struct btrail_cursor *cursor;
    struct btrail_batch b;
    bool ended = false;

    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    btrail_trace_status(trace, &status);
    g_assert_true(status.complete);
    g_assert_false(status.continued);
    g_assert_cmpint(btrail_cursor_open(&cursor, trace, 0, 0), ==, 0);
    while (!btrail_cursor_next(cursor, &b)) {
        ended = b.event && b.event->type == BTRAIL_EVENT_END;
    }
    g_assert_true(ended);
    btrail_cursor_close(cursor);
    btrail_trace_close(trace);
}

/*
 * Files that were opened are dumped, whatever is deleted meanwhile, or ended
 * because another follows.
 */
static void test_open(void)
{
    char *folder = scratch_new(), *others = scratch_new();
    g_autofree char *path = g_build_filename(others, "dump.btrail", NULL);
    struct part_ring *r = ring_at(folder);
    struct btrail_merge_result result;
    GArray *files;

    for (uint64_t i = 0; i < 10; i++) {
        put_chunk(r, i);
    }
    files = part_ring_files(r);
    for (uint64_t i = 10; i < 100; i++) {
        put_chunk(r, i);
    }
    g_assert_cmpint(part_ring_dump(files, path, NULL, &result), ==, 0);
    g_assert_cmpuint(result.records % LENGTH, ==, 0);
    g_assert_cmpuint(result.records, >=, 10 * LENGTH / 2);
    check_ends(path);
    end(r, false);
    scratch_remove(folder);
    scratch_remove(others);
}

/* While it is held it deletes nothing, as often as it was held. */
static void test_held(void)
{
    char *folder = scratch_new();
    struct part_ring *r = ring_at(folder);
    uint64_t i = 0, held;

    while (look(folder).record_bytes < LIMIT * 3 / 4) {
        put_chunk(r, i++);
    }
    part_ring_hold(r);
    part_ring_hold(r);
    while (look(folder).record_bytes < LIMIT * 3 / 2) {
        g_assert_cmpuint(i, <, 200);
        put_chunk(r, i++);
    }
    held = look(folder).record_bytes;
    part_ring_release(r);
    part_ring_trim(r);
    g_assert_cmpuint(look(folder).record_bytes, ==, held);
    part_ring_release(r);
    part_ring_trim(r);
    g_assert_cmpuint(look(folder).record_bytes, <=, LIMIT);
    end(r, false);
    scratch_remove(folder);
}

/* Of files of names the last two stay, and both are dumped. */
static void test_names(void)
{
    char *folder = scratch_new(), *others = scratch_new();
    g_autofree char *path = g_build_filename(others, "dump.btrail", NULL);
    struct part_ring *r = ring_at(folder);
    uint64_t times[2];

    put_chunk(r, 0);
    g_assert_false(part_ring_names_full(r));
    for (uint64_t i = 1; i < 5; i++) {
        put_name(r, i);
        times[0] = i - 1;
        times[1] = i;
        dump(r, path);
        check_dump(path, 0, LENGTH, i == 1 ? times + 1 : times, i == 1 ? 1 : 2);
        g_assert_cmpint(g_unlink(path), ==, 0);
        g_assert_true(part_ring_new_names(r) == part_ring_names(r));
        g_assert_cmpuint(look(folder).names, ==, 2);
    }
    end(r, false);
    g_assert_cmpuint(look(folder).files, ==, 0);
    scratch_remove(folder);
    scratch_remove(others);
}

/* What is kept is what a dump would have. */
static void test_keep(void)
{
    char *folder = scratch_new();
    struct part_ring *r = ring_at(folder);
    struct found found;

    put_chunk(r, 0);
    found = look(folder);
    end(r, true);
    g_assert_cmpuint(found.files, ==, 2);
    g_assert_cmpuint(look(folder).files, ==, found.files);
    scratch_remove(folder);
}

/* Where files cannot be made, none stay. */
static void test_errors(void)
{
    char *folder = scratch_new();
    g_autofree char *names = g_build_filename(folder, "names-0.btrail", NULL);
    g_autofree char *path = g_build_filename(folder, "no", "dump", NULL);
    struct btrail_merge_result result;
    struct part_ring *r;

    g_assert_null(part_ring_new("/nonexistent", &limit));
    g_assert_cmpint(errno, ==, ENOENT);
    g_assert_true(g_file_set_contents(names, "", 0, NULL));
    g_assert_null(part_ring_new(folder, &limit));
    g_assert_cmpint(errno, ==, EEXIST);
    g_assert_cmpuint(look(folder).files, ==, 1);
    g_assert_cmpint(g_unlink(names), ==, 0);
    r = ring_at(folder);
    put_chunk(r, 0);
    g_assert_cmpint(part_ring_dump(part_ring_files(r), path, NULL, &result), ==,
                    -BTRAIL_ERR_IO);
    g_assert_cmpint(errno, ==, ENOENT);
    end(r, false);
    scratch_remove(folder);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/part-ring/newest", test_newest);
    g_test_add_func("/part-ring/open", test_open);
    g_test_add_func("/part-ring/held", test_held);
    g_test_add_func("/part-ring/names", test_names);
    g_test_add_func("/part-ring/keep", test_keep);
    g_test_add_func("/part-ring/errors", test_errors);
    return g_test_run();
}
