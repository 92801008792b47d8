/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How much memory a stream takes, to write it and to read it, whatever is in
 * it: at most 64 MiB
 */
#include <errno.h>
#include <glib/gstdio.h>
#include <unistd.h>

#include "lib/agent/chunk.h"
#include "grown.h"
#include "lib/agent/store.h"
#include "lib/agent/stream.h"
#include "trace-samples.h"

#define LIMIT           (64u << 20)
#define SLAB_RECORDS    (1u << 16)

/* Fills a slab: its records from @index on, and events if it wants any */
typedef void fill_fn(struct btrail_record *records, struct btrail_event *events,
                     size_t *n_events, uint64_t index);

static uint64_t random_state = 1;

static uint64_t random_u64(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static void put_time(struct btrail_event *events, size_t *n_events,
                     uint64_t index)
{
    events[(*n_events)++] = (struct btrail_event) {
        .index = index, .type = BTRAIL_EVENT_TIME,
        .data = { index + 1, 3 * index, BTRAIL_NO_ICOUNT },
    };
}

/* As programs do: loops, and now and then something else */
static void fill_ordinary(struct btrail_record *r, struct btrail_event *e,
                          size_t *n_events, uint64_t index)
{
    size_t i;

    put_time(e, n_events, index);
    for (i = 0; i < SLAB_RECORDS; i++) {
        uint64_t place = random_u64() % 50 ? i % 97 : random_u64() % 5000;

        r[i] = (struct btrail_record) {
            0x400000 + place * 16, 0x400000 + place * 24, 0,
        };
    }
}

/* The same edge all the time: the most records a chunk can have */
static void fill_same(struct btrail_record *r, struct btrail_event *e,
                      size_t *n_events, uint64_t index)
{
    size_t i;

    put_time(e, n_events, index);
    for (i = 0; i < SLAB_RECORDS; i++) {
        r[i] = (struct btrail_record) { 0x1000, 0x2000, 0 };
    }
}

/* What no codec makes smaller */
static void fill_random(struct btrail_record *r, struct btrail_event *e,
                        size_t *n_events, uint64_t index)
{
    size_t i;

    put_time(e, n_events, index);
    for (i = 0; i < SLAB_RECORDS; i++) {
        r[i] = (struct btrail_record) {
            random_u64(), random_u64(), random_u64(),
        };
    }
}

/* Always another edge, but close: the most edges a chunk can have */
static void fill_edges(struct btrail_record *r, struct btrail_event *e,
                       size_t *n_events, uint64_t index)
{
    size_t i;

    put_time(e, n_events, index);
    for (i = 0; i < SLAB_RECORDS; i++) {
        uint64_t place = (index + i) * 4;

        r[i] = (struct btrail_record) { place, place + 2, 0 };
    }
}

/* As many events as records, of numbers as large as they come */
static void fill_events(struct btrail_record *r, struct btrail_event *e,
                        size_t *n_events, uint64_t index)
{
    size_t i;

    for (i = 0; i < SLAB_RECORDS; i++) {
        r[i] = (struct btrail_record) { random_u64() % 1000, 1, 0 };
        e[(*n_events)++] = (struct btrail_event) {
            .index = index + i, .type = BTRAIL_EVENT_TIME,
            .data = { index + i + 1, random_u64(), random_u64() },
        };
    }
}

/* All of this in turn: what is kept of one must not add up with the next. */
static void fill_all(struct btrail_record *r, struct btrail_event *e,
                     size_t *n_events, uint64_t index)
{
    static fill_fn *const fills[] = {
        fill_ordinary, fill_same, fill_random, fill_edges, fill_events,
    };

    fills[index / SLAB_RECORDS / 40 % G_N_ELEMENTS(fills)](r, e, n_events,
                                                           index);
}

static const struct kind {
    const char *name;
    fill_fn *fill;
    unsigned slabs;
} kinds[] = {
    { "ordinary", fill_ordinary, 200 },
    { "same", fill_same, 200 },
    { "random", fill_random, 60 },
    { "edges", fill_edges, 60 },
    { "events", fill_events, 20 },
    { "all", fill_all, 420 },
};

/* A trace of records of a kind */
struct file {
    const struct kind *kind;
    const char *path;
};

/* What the slabs take is not the writer's. */
static struct btrail_record slab_records[SLAB_RECORDS];
static struct btrail_event slab_events[SLAB_RECORDS + 1];

static void run_writer(void *opaque)
{
    const struct file *f = opaque;
    struct btrail_writer_options options = { .sync = BTRAIL_SYNC_NONE };
    struct btrail_writer *w;
    unsigned i;

    g_assert_cmpint(btrail_writer_open_with(&w, f->path, &options), ==, 0);
    for (i = 0; i < f->kind->slabs; i++) {
        struct btrail_slab slab = {
            .first_index = (uint64_t)i * SLAB_RECORDS,
            .records = slab_records,
            .n_records = SLAB_RECORDS,
            .events = slab_events,
        };

        f->kind->fill(slab_records, slab_events, &slab.n_events,
                      slab.first_index);
        g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
}

static void run_reader(void *opaque)
{
    const struct file *f = opaque;
    struct btrail_trace *trace;
    struct btrail_cursor *cursor;
    struct btrail_batch batch;
    uint64_t records = 0;

    g_assert_cmpint(btrail_trace_open(&trace, f->path), ==, 0);
    g_assert_cmpint(btrail_cursor_open(&cursor, trace, 0, 0), ==, 0);
    while (!btrail_cursor_next(cursor, &batch)) {
        g_assert_false(batch.synthetic);
        records += batch.count;
    }
    g_assert_cmpuint(records, ==, (uint64_t)f->kind->slabs * SLAB_RECORDS);
    btrail_cursor_close(cursor);
    btrail_trace_close(trace);
}

static void test_stream(gconstpointer opaque)
{
    const struct kind *kind = opaque;
    char *path = sample_path();
    struct file f = { kind, path };
    uint64_t size;

    if (SANITIZED) {
        g_test_skip("sanitizers take memory, too");
        sample_remove(path);
        return;
    }
    memset(slab_records, 1, sizeof(slab_records));
    memset(slab_events, 1, sizeof(slab_events));
    size = grown(run_writer, &f);
    g_test_message("%s: writing takes %.1f MiB", kind->name,
                   size / 1048576.0);
    g_assert_cmpuint(size, <=, LIMIT);
    /* What does nothing has measured nothing. */
    g_assert_cmpuint(size, >, LIMIT / 100);
    size = grown(run_reader, &f);
    g_test_message("%s: reading takes %.1f MiB", kind->name,
                   size / 1048576.0);
    g_assert_cmpuint(size, <=, LIMIT);
    g_assert_cmpuint(size, >, LIMIT / 1000);
    sample_remove(path);
}

/*
 * Chunks that claim what the format allows and that no writer makes: as large
 * as a payload may be, and with all of the sections as large as they may be,
 * one after the other.
 */
static void write_hostile(const char *path)
{
    struct btrail_store_options options = {
        .path = path, .sync = BTRAIL_SYNC_NONE,
    };
    struct btrail_packer *packer = btrail_packer_new();
    struct btrail_block *block = btrail_block_new();
    struct btrail_time time = { 1, 1, 1 };
    struct btrail_buf payload = { 0 };
    struct btrail_store *store;
    unsigned i, k;

    g_assert_cmpint(btrail_store_open(&store, &options), ==, 0);
    for (i = 0; i <= BTRAIL_CODEC_STREAMS; i++) {
        uint64_t index = (uint64_t)i * BTRAIL_BLOCK_MAX_RECORDS;

        btrail_block_begin(block, 0, index, 0, &time);
        for (k = 0; k < BTRAIL_BLOCK_MAX_EVENTS; k++) {
            struct btrail_event e = {
                .index = index, .type = BTRAIL_EVENT_PAUSE,
                .data = { random_u64(), random_u64(), random_u64() },
            };

            btrail_block_add_event(block, &e);
        }
        btrail_block_add_records(block, BTRAIL_BLOCK_MAX_RECORDS);
        if (i < BTRAIL_CODEC_STREAMS) {
            struct btrail_buf *b = &block->streams[i];

            btrail_buf_reserve(b, BTRAIL_CODEC_MAX_BYTES);
            b->len = MIN(BTRAIL_CODEC_MAX_BYTES,
                         i == BTRAIL_CODEC_RETURNS ?
                         BTRAIL_BLOCK_MAX_RECORDS : BTRAIL_CODEC_MAX_BYTES);
            for (k = 0; k < b->len; k += 8) {
                uint64_t r = random_u64() & 0x7f7f7f7f7f7f7f7full;

                memcpy(b->data + k, &r, 8);
            }
        }
        btrail_packer_pack(packer, block, &payload);
        if (i == BTRAIL_CODEC_STREAMS) {
            btrail_buf_reserve(&payload, BTRAIL_CHUNK_MAX_PAYLOAD);
            memset(payload.data + payload.len, 1,
                   BTRAIL_CHUNK_MAX_PAYLOAD - payload.len);
            payload.len = BTRAIL_CHUNK_MAX_PAYLOAD;
        }
        g_assert_cmpint(btrail_store_data(store, payload.data, payload.len,
                                          &block->header), ==, 0);
    }
    g_assert_cmpint(btrail_store_close(store, NULL), ==, 0);
    btrail_buf_free(&payload);
    btrail_packer_free(packer);
    btrail_block_free(block);
}

static void run_hostile(void *path)
{
    struct btrail_trace *trace;
    struct btrail_cursor *cursor;
    struct btrail_batch batch;
    struct btrail_repair_result r;

    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_assert_cmpint(btrail_cursor_open(&cursor, trace, 0, 0), ==, 0);
    while (!btrail_cursor_next(cursor, &batch)) {
        continue;
    }
    g_assert_cmpuint(btrail_cursor_bad_chunks(cursor), ==,
                     BTRAIL_CODEC_STREAMS + 1);
    btrail_cursor_close(cursor);
    btrail_trace_close(trace);
    g_assert_cmpint(btrail_repair(path, NULL, 0, &r), ==, 0);
    g_assert_cmpuint(r.copied.bad_chunks, ==, BTRAIL_CODEC_STREAMS + 1);
}

static void test_hostile(void)
{
    char *path = sample_path();
    uint64_t size;

    if (SANITIZED) {
        g_test_skip("sanitizers take memory, too");
    } else {
        write_hostile(path);
        size = grown(run_hostile, path);
        g_test_message("hostile: reading takes %.1f MiB", size / 1048576.0);
        g_assert_cmpuint(size, <=, LIMIT);
    }
    sample_remove(path);
}

int main(int argc, char **argv)
{
    unsigned i;

    g_test_init(&argc, &argv, NULL);
    for (i = 0; i < G_N_ELEMENTS(kinds); i++) {
        g_autofree char *name = g_strconcat("/memory/", kinds[i].name, NULL);

        g_test_add_data_func(name, &kinds[i], test_stream);
    }
    g_test_add_func("/memory/hostile", test_hostile);
    return g_test_run();
}
