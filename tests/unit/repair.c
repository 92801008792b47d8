/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Repairing traces that were cut off, damaged or overwritten: every whole chunk
 * is kept, and nothing else changes.
 */

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <sys/file.h>
#include <unistd.h>

#include "lib/agent/bytes.h"
#include "lib/agent/chunk.h"
#include "lib/internal/crc32c.h"
#include "lib/agent/parts.h"
#include "random-trace.h"
#include "trace-samples.h"

#define CHUNKS  2
#define RECORDS (CHUNKS * SAMPLE_CHUNK_RECORDS)

static const unsigned vcpus[] = { 0, 3 };

/* The files of a test: what is repaired, and where to */
struct files {
    char *path;
    char *out;
    uint8_t *sample;
    size_t len;
};

static void files_new(struct files *f)
{
    g_autofree char *folder = NULL;

    f->path = sample_path();
    folder = g_path_get_dirname(f->path);
    f->out = g_build_filename(folder, "out.btrail", NULL);
    sample_write(f->path, CHUNKS);
    g_assert_true(g_file_get_contents(f->path, (char **)&f->sample, &f->len,
                                      NULL));
}

static void files_free(struct files *f)
{
    sample_remove(f->path);
    g_free(f->out);
    g_free(f->sample);
}

static void put(const char *path, const void *bytes, size_t len)
{
    g_assert_true(g_file_set_contents(path, bytes, len, NULL));
}

/* Where the chunks of the sample begin, and their end */
static unsigned find_chunks(const struct files *f, size_t *places,
                            struct btrail_chunk *chunks)
{
    size_t at = BTRAIL_FILE_HEADER_SIZE;
    unsigned n = 0;

    while (at < f->len) {
        g_assert_true(btrail_chunk_get(f->sample + at, &chunks[n]));
        places[n] = at;
        at += BTRAIL_CHUNK_HEADER_SIZE + chunks[n++].size;
    }
    places[n] = at;
    return n;
}

/*
 * A file that was repaired is complete, indexed and sound, has as many records
 * of each stream as it should have, and every stream has its end.
 */
static void check_repaired(const char *path, const uint64_t *records,
                           bool ended)
{
    struct btrail_trace_status status;
    struct btrail_trace *trace;
    struct btrail_repair_result r;
    unsigned i;

    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    btrail_trace_status(trace, &status);
    g_assert_true(status.complete && status.indexed);
    g_assert_cmpuint(status.bad_chunks + status.missing_chunks +
                     status.skipped_bytes + status.cut_bytes, ==, 0);
    for (i = 0; i < G_N_ELEMENTS(vcpus); i++) {
        struct sample_stream s;

        if (!sample_read(trace, vcpus[i], &s)) {
            g_assert_cmpuint(records[i], ==, 0);
            continue;
        }
        g_assert_cmpuint(s.records, ==, records[i]);
        g_assert_cmpuint(s.synthetic + s.bad_chunks, ==, 0);
        g_assert_true(s.ended == ended);
    }
    btrail_trace_close(trace);
    /* There is nothing more to repair. */
    g_assert_cmpint(btrail_repair(path, NULL, 0, &r), ==, 0);
    g_assert_true(r.whole);
    g_assert_cmpuint(r.copied.records, ==, records[0] + records[1]);
}

static void test_whole(void)
{
    const uint64_t all[] = { RECORDS, RECORDS };
    g_autofree char *bytes = NULL;
    struct btrail_repair_result r;
    struct files f;
    gsize len;

    files_new(&f);
    check_repaired(f.path, all, true);
    g_assert_cmpint(btrail_repair(f.path, f.out, 0, &r), ==, 0);
    g_assert_true(r.whole);
    g_assert_cmpuint(r.copied.records, ==, 2 * RECORDS);
    g_assert_false(g_file_test(f.out, G_FILE_TEST_EXISTS));
    g_assert_cmpint(btrail_repair(f.path, NULL, BTRAIL_REPAIR_IN_PLACE, &r),
                    ==, 0);
    g_assert_true(r.whole);
    g_assert_true(g_file_get_contents(f.path, &bytes, &len, NULL));
    g_assert_cmpmem(bytes, len, f.sample, f.len);
    files_free(&f);
}

/* Records of a vCPU in whole chunks before a place of the sample */
static uint64_t records_before(const struct files *f, size_t cut,
                               unsigned vcpu)
{
    struct btrail_chunk chunks[32];
    size_t places[33];
    unsigned n = find_chunks(f, places, chunks), i;
    uint64_t records = 0;

    for (i = 0; i < n; i++) {
        if (places[i + 1] <= cut && chunks[i].type == BTRAIL_CHUNK_DATA &&
            f->sample[places[i] + BTRAIL_CHUNK_HEADER_SIZE] == vcpu) {
            records += SAMPLE_CHUNK_RECORDS;
        }
    }
    return records;
}

/* Cut off at every byte: all whole chunks are kept, by a copy and in place. */
static void test_cut(void)
{
    struct files f;
    size_t cut;

    files_new(&f);
    for (cut = 0; cut < f.len; cut++) {
        uint64_t records[] = {
            records_before(&f, cut, 0), records_before(&f, cut, 3),
        };
        g_autofree char *kept = NULL, *copied = NULL, *completed = NULL;
        gsize kept_len, copied_len, completed_len;
        struct btrail_repair_result r, in_place;
        int ret;

        put(f.path, f.sample, cut);
        ret = btrail_repair(f.path, f.out, BTRAIL_WRITER_REPLACE, &r);
        if (cut < BTRAIL_FILE_HEADER_SIZE) {
            g_assert_cmpint(ret, ==, -BTRAIL_ERR_FORMAT);
            g_assert_cmpint(btrail_repair(f.path, NULL,
                                          BTRAIL_REPAIR_IN_PLACE, &r), ==,
                            -BTRAIL_ERR_FORMAT);
            continue;
        }
        g_assert_cmpint(ret, ==, 0);
        g_assert_true(!r.whole && r.cut && !r.no_header && !r.continued);
        g_assert_cmpuint(r.copied.records, ==, records[0] + records[1]);
        g_assert_cmpuint(r.copied.bad_chunks + r.copied.lost, ==, 0);
        /* A stream that has not come to its end gets one. */
        g_assert_cmpuint(r.copied.ends, ==,
                         (records[0] % RECORDS != 0) +
                         (records[1] % RECORDS != 0));
        g_assert_true(r.copied.lost_unknown == !!r.copied.ends);
        g_assert_cmpuint(r.copied.gaps, ==, r.copied.ends);
        check_repaired(f.out, records, true);

        /* The original is what it was, and in place the same comes out. */
        g_assert_true(g_file_get_contents(f.path, &kept, &kept_len, NULL));
        g_assert_cmpmem(kept, kept_len, f.sample, cut);
        g_assert_cmpint(btrail_repair(f.path, NULL, BTRAIL_REPAIR_IN_PLACE,
                                      &in_place), ==, 0);
        g_assert_cmpmem(&in_place, sizeof(in_place), &r, sizeof(r));
        g_assert_true(g_file_get_contents(f.out, &copied, &copied_len, NULL));
        g_assert_true(g_file_get_contents(f.path, &completed, &completed_len,
                                          NULL));
        g_assert_cmpmem(completed, completed_len, copied, copied_len);
    }
    files_free(&f);
}

/*
 * The DATA chunk that a byte of the sample is in: -1 if in none; @vcpu gets
 * whose, as a number of vcpus[].
 */
static int data_at(const struct files *f, size_t place, unsigned *vcpu)
{
    struct btrail_chunk chunks[32];
    size_t places[33];
    unsigned n = find_chunks(f, places, chunks), i;

    for (i = 0; i < n; i++) {
        if (place >= places[i] && place < places[i + 1]) {
            *vcpu = f->sample[places[i] + BTRAIL_CHUNK_HEADER_SIZE] == 3;
            return chunks[i].type == BTRAIL_CHUNK_DATA ? (int)i : -1;
        }
    }
    return -1;
}

/* Repair what @bytes have become by damage in @place, and what is to be kept */
static void check_damage(const struct files *f, const uint8_t *bytes,
                         size_t len, size_t place)
{
    uint64_t records[] = { RECORDS, RECORDS };
    unsigned vcpu;
    int chunk = data_at(f, place, &vcpu);
    struct btrail_repair_result r, in_place;
    int ret;

    put(f->path, bytes, len);
    g_assert_cmpint(btrail_repair(f->path, f->out, BTRAIL_WRITER_REPLACE, &r),
                    ==, 0);
    g_assert_false(r.whole);
    g_assert_true(r.no_header == (place < BTRAIL_FILE_HEADER_SIZE));
    if (chunk >= 0) {
        records[vcpu] -= SAMPLE_CHUNK_RECORDS;
        /* The index says how many are missing. */
        g_assert_true(r.copied.lost == SAMPLE_CHUNK_RECORDS ||
                      r.copied.lost == SAMPLE_CHUNK_RECORDS + SAMPLE_LOST);
        g_assert_false(r.copied.lost_unknown);
        g_assert_cmpuint(r.copied.gaps, ==, 1);
        g_assert_cmpuint(r.copied.bad_chunks, ==, 1);
    } else {
        g_assert_cmpuint(r.copied.lost + r.copied.gaps, ==, 0);
    }
    check_repaired(f->out, records, true);

    ret = btrail_repair(f->path, NULL, BTRAIL_REPAIR_IN_PLACE, &in_place);
    if (chunk >= 0) {
        g_autofree char *kept = NULL;
        gsize kept_len;

        g_assert_cmpint(ret, ==, -BTRAIL_ERR_CORRUPT);
        g_assert_false(in_place.cut);
        g_assert_true(g_file_get_contents(f->path, &kept, &kept_len, NULL));
        g_assert_cmpmem(kept, kept_len, bytes, len);
    } else if (!ret) {
        check_repaired(f->path, records, true);
    } else {
        /* Its header, or the description */
        g_assert_true(ret == -BTRAIL_ERR_CORRUPT || r.no_header);
    }
}

/* A bit or a whole byte is another one, anywhere. */
static void test_flip(void)
{
    struct files f;
    size_t i;

    files_new(&f);
    for (i = 0; i < f.len; i++) {
        g_autofree uint8_t *bytes = g_memdup2(f.sample, f.len);

        bytes[i] ^= i % 3 ? 1 << i % 8 : 0xff;
        check_damage(&f, bytes, f.len, i);
    }
    files_free(&f);
}

/*
 * Garbage over every place, and without an index that could say what was
 * there.
 */
static void test_overwritten(void)
{
    struct btrail_chunk chunks[32];
    size_t places[33], body, i;
    struct files f;
    unsigned n;

    files_new(&f);
    n = find_chunks(&f, places, chunks);
    g_assert_cmpint(chunks[n - 2].type, ==, BTRAIL_CHUNK_INDEX);
    body = places[n - 2];
    for (i = BTRAIL_FILE_HEADER_SIZE; i < body; i++) {
        g_autofree uint8_t *bytes = g_memdup2(f.sample, f.len);
        uint64_t records[] = { RECORDS, RECORDS };
        size_t len = MIN(90, body - i), k;
        struct btrail_repair_result r;
        uint64_t kept = 0;

        for (k = 0; k < len; k++) {
            bytes[i + k] ^= g_test_rand_int_range(1, 256);
        }
        for (k = 0; k < n; k++) {
            unsigned vcpu;

            if (places[k] < i + len && places[k + 1] > i &&
                data_at(&f, places[k], &vcpu) >= 0) {
                records[vcpu] -= SAMPLE_CHUNK_RECORDS;
            }
        }
        put(f.path, bytes, body);
        g_assert_cmpint(btrail_repair(f.path, f.out, BTRAIL_WRITER_REPLACE,
                                      &r), ==, 0);
        kept = records[0] + records[1];
        g_assert_cmpuint(r.copied.records, ==, kept);
        g_assert_true(kept == 2 * RECORDS || r.copied.lost ||
                      r.copied.lost_unknown);
        check_repaired(f.out, records, true);
    }
    files_free(&f);
}

/* Something that is no trace at all is left alone. */
static void test_not_a_trace(void)
{
    struct files f;
    g_autofree uint8_t *bytes = g_malloc0(100000);

    files_new(&f);
    put(f.path, bytes, 100000);
    g_assert_cmpint(btrail_repair(f.path, f.out, 0, NULL), ==,
                    -BTRAIL_ERR_FORMAT);
    g_assert_false(g_file_test(f.out, G_FILE_TEST_EXISTS));

    /* Another version, which is not damaged */
    memcpy(bytes, f.sample, BTRAIL_FILE_HEADER_SIZE);
    bytes[12] = 2;
    btrail_put32(bytes + 60, btrail_crc32c(0, bytes, 60));
    put(f.path, bytes, BTRAIL_FILE_HEADER_SIZE);
    g_assert_cmpint(btrail_repair(f.path, f.out, 0, NULL), ==,
                    -BTRAIL_ERR_VERSION);
    g_assert_cmpint(btrail_repair("/nonexistent/x", f.out, 0, NULL), ==,
                    -BTRAIL_ERR_IO);
    g_assert_cmpint(errno, ==, ENOENT);
    files_free(&f);
}

/* A codec that is not known: it is not for us to throw that away. */
static void test_codec(void)
{
    struct btrail_chunk chunks[32];
    size_t places[33];
    struct files f;
    uint8_t *chunk;

    files_new(&f);
    find_chunks(&f, places, chunks);
    g_assert_cmpint(chunks[1].type, ==, BTRAIL_CHUNK_DATA);
    chunk = f.sample + places[1];
    btrail_put32(chunk + 32 + 4, 77);
    g_assert_cmpuint(btrail_get32(chunk + 32 + 80), ==, 1);
    btrail_put32(chunk + 32 + 84,
                 btrail_crc32c(btrail_crc32c(0, chunk + 32, 84),
                               chunk + 32 + 88, 8));
    chunks[1].crc = btrail_crc32c(0, chunk + 32, chunks[1].size);
    btrail_chunk_put(chunk, &chunks[1]);
    put(f.path, f.sample, f.len - 1);
    g_assert_cmpint(btrail_repair(f.path, f.out, 0, NULL), ==,
                    -BTRAIL_ERR_VERSION);
    g_assert_cmpint(btrail_repair(f.path, NULL, BTRAIL_REPAIR_IN_PLACE, NULL),
                    ==, -BTRAIL_ERR_VERSION);
    g_assert_false(g_file_test(f.out, G_FILE_TEST_EXISTS));
    files_free(&f);
}

/* Neither is a chunk of a type that is not known. */
static void test_unknown_chunk(void)
{
    struct btrail_chunk chunks[32];
    g_autofree char *kept = NULL;
    size_t places[33];
    struct files f;
    gsize kept_len;

    files_new(&f);
    find_chunks(&f, places, chunks);
    chunks[2].type = 77;
    btrail_chunk_put(f.sample + places[2], &chunks[2]);
    put(f.path, f.sample, f.len);
    g_assert_cmpint(btrail_repair(f.path, f.out, 0, NULL), ==,
                    -BTRAIL_ERR_VERSION);
    g_assert_cmpint(btrail_repair(f.path, NULL, BTRAIL_REPAIR_IN_PLACE, NULL),
                    ==, -BTRAIL_ERR_VERSION);
    g_assert_false(g_file_test(f.out, G_FILE_TEST_EXISTS));
    g_assert_true(g_file_get_contents(f.path, &kept, &kept_len, NULL));
    g_assert_cmpmem(kept, kept_len, f.sample, f.len);
    files_free(&f);
}

/* A part is repaired as what it is: a part. */
static void test_parts(void)
{
    struct btrail_writer_options options = { .part_size = 1500 };
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
    char *path = sample_path();
    g_autoptr(GArray) parts = NULL;
    struct btrail_trace *trace;
    unsigned i, n;

    sample_write_with(path, 12, &options);
    parts = btrail_parts_find(path);
    n = parts->len + 1;
    g_assert_cmpuint(n, >=, 4);
    for (i = 0; i < n; i++) {
        g_autofree char *name = btrail_part_path(path, i);
        char *out = g_strconcat(name, ".out", NULL);
        g_autofree char *bytes = NULL;
        struct btrail_repair_result r;
        gsize len;

        g_ptr_array_add(names, out);
        g_assert_true(g_file_get_contents(name, &bytes, &len, NULL));
        put(name, bytes, len - 7);
        g_assert_cmpint(btrail_repair(name, out, 0, &r), ==, 0);
        g_assert_true(r.continued == (i < n - 1));
        g_assert_cmpuint(r.copied.ends + r.copied.gaps, ==, 0);
        g_assert_cmpint(btrail_repair(name, NULL, BTRAIL_REPAIR_IN_PLACE, &r),
                        ==, 0);
    }
    for (i = 0; i < 2; i++) {
        struct btrail_trace_status status;
        unsigned v;

        g_assert_cmpint(i ? btrail_trace_open_parts(&trace, path) :
                        btrail_trace_open_files(
                            &trace, (const char **)names->pdata, n), ==, 0);
        btrail_trace_status(trace, &status);
        g_assert_true(status.complete && status.indexed && !status.continued);
        g_assert_cmpuint(status.missing_parts, ==, 0);
        for (v = 0; v < G_N_ELEMENTS(vcpus); v++) {
            struct sample_stream s;

            g_assert_true(sample_read(trace, vcpus[v], &s));
            g_assert_cmpuint(s.records, ==, 12 * SAMPLE_CHUNK_RECORDS);
            g_assert_true(s.ended);
        }
        btrail_trace_close(trace);
    }
    sample_remove(path);
}

/* What cursors find in a trace, except GAP events that report damage */
static GArray *read_items(const char *path, unsigned vcpu, uint64_t *end)
{
    GArray *items = g_array_new(FALSE, TRUE, sizeof(struct random_item));
    struct btrail_trace *trace;
    struct btrail_cursor *cursor;
    struct btrail_batch b;
    size_t i;

    *end = 0;
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    if (!btrail_cursor_open(&cursor, trace, vcpu, 0)) {
        while (!btrail_cursor_next(cursor, &b)) {
            struct random_item item = { .index = b.index };

            *end = b.index + b.count;
            if (b.event) {
                if (b.event->type == BTRAIL_EVENT_GAP &&
                    b.event->data[0] != BTRAIL_LOST_UNKNOWN) {
                    *end += b.event->data[0];
                }
                item.event = *b.event;
                g_array_append_val(items, item);
            }
            for (i = 0; i < b.count; i++) {
                item.record = b.records[i];
                item.index = b.index + i;
                g_array_append_val(items, item);
            }
        }
        btrail_cursor_close(cursor);
    }
    btrail_trace_close(trace);
    return items;
}

static bool is_ours(const struct random_item *i)
{
    return (i->event.type == BTRAIL_EVENT_GAP &&
            i->event.reason == BTRAIL_GAP_CORRUPT) ||
           (i->event.type == BTRAIL_EVENT_END &&
            i->event.reason == BTRAIL_END_CUT);
}

/*
 * Traces of anything, with damage anywhere: what a reader finds in the damaged
 * file it finds in the repaired one, and CR3 and time are in force there as
 * before.
 */
static void test_random(void)
{
    unsigned round;

    for (round = 0; round < 40; round++) {
        struct random_trace *t = random_trace_new(3, 12);
        g_autofree char *out = g_strconcat(t->path, ".out", NULL);
        struct btrail_repair_result r;
        unsigned i, k;

        for (i = 0; i < t->streams->len; i++) {
            struct random_stream *s =
                &g_array_index(t->streams, struct random_stream, i);

            for (k = 0; k < s->cr3s->len; k++) {
                if (!g_test_rand_int_range(0, 4)) {
                    random_trace_damage(t, i, k);
                }
            }
        }
        g_assert_cmpint(btrail_repair(t->path, out, 0, &r), ==, 0);
        if (r.whole) {
            random_trace_free(t);
            continue;
        }
        for (i = 0; i < t->streams->len; i++) {
            struct random_stream *s =
                &g_array_index(t->streams, struct random_stream, i);
            g_autoptr(GArray) want = NULL, got = NULL;
            uint64_t want_end, got_end;
            unsigned w = 0;

            want = read_items(t->path, s->vcpu, &want_end);
            got = read_items(out, s->vcpu, &got_end);
            g_assert_cmpuint(got_end, ==, want_end);
            for (k = 0; k < got->len; k++) {
                struct random_item *a =
                    &g_array_index(got, struct random_item, k);
                struct random_item *b = NULL;

                if (is_ours(a)) {
                    continue;
                }
                while (w < want->len) {
                    b = &g_array_index(want, struct random_item, w);
                    if (!is_ours(b)) {
                        break;
                    }
                    w++;
                }
                if (w < want->len && !memcmp(a, b, sizeof(*a))) {
                    w++;
                    continue;
                }
                /* After a gap it says what is in force. */
                g_assert_cmpuint(k, >, 0);
                g_assert_true(a->event.type == BTRAIL_EVENT_CR3 ||
                              a->event.type == BTRAIL_EVENT_TIME);
            }
            while (w < want->len &&
                   is_ours(&g_array_index(want, struct random_item, w))) {
                w++;
            }
            g_assert_cmpuint(w, ==, want->len);
        }
        g_assert_cmpint(btrail_repair(out, NULL, 0, &r), ==, 0);
        g_assert_true(r.whole);
        random_trace_free(t);
    }
}

/* A file that is being written is not touched. */
static void test_busy(void)
{
    struct files f;
    int fd;

    files_new(&f);
    put(f.path, f.sample, f.len - 1);
    fd = open(f.path, O_RDONLY);
    g_assert_cmpint(flock(fd, LOCK_EX | LOCK_NB), ==, 0);
    g_assert_cmpint(btrail_repair(f.path, NULL, BTRAIL_REPAIR_IN_PLACE, NULL),
                    ==, -BTRAIL_ERR_IO);
    g_assert_cmpint(errno, ==, EBUSY);
    /* What is there can be copied. */
    g_assert_cmpint(btrail_repair(f.path, f.out, 0, NULL), ==, 0);
    close(fd);
    g_assert_cmpint(btrail_repair(f.path, NULL, BTRAIL_REPAIR_IN_PLACE, NULL),
                    ==, 0);
    files_free(&f);
}

static void test_arguments(void)
{
    struct btrail_repair_result r;
    struct files f;
    g_autofree char *link = NULL;

    files_new(&f);
    put(f.path, f.sample, f.len - 1);
    g_assert_cmpint(btrail_repair(NULL, f.out, 0, &r), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_repair(f.path, f.out, 2, &r), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_repair(f.path, f.out, BTRAIL_REPAIR_IN_PLACE, &r),
                    ==, -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_repair(f.path, f.path, BTRAIL_WRITER_REPLACE, &r),
                    ==, -BTRAIL_ERR_ARGUMENT);
    link = g_strconcat(f.path, ".link", NULL);
    g_assert_cmpint(symlink(f.path, link), ==, 0);
    g_assert_cmpint(btrail_repair(f.path, link, BTRAIL_WRITER_REPLACE, &r),
                    ==, -BTRAIL_ERR_ARGUMENT);

    put(f.out, "precious", 8);
    g_assert_cmpint(btrail_repair(f.path, f.out, 0, &r), ==, -BTRAIL_ERR_IO);
    g_assert_cmpint(errno, ==, EEXIST);
    g_assert_true(r.cut);
    g_assert_cmpint(btrail_repair(f.path, f.out, BTRAIL_WRITER_REPLACE, &r),
                    ==, 0);
    files_free(&f);
}

int main(int argc, char **argv)
{
    /* Thousands of files are written, each of which has to be on the disk. */
    if (!access("/dev/shm", W_OK)) {
        g_setenv("TMPDIR", "/dev/shm", FALSE);
    }
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/repair/whole", test_whole);
    g_test_add_func("/repair/cut", test_cut);
    g_test_add_func("/repair/flip", test_flip);
    g_test_add_func("/repair/overwritten", test_overwritten);
    g_test_add_func("/repair/not-a-trace", test_not_a_trace);
    g_test_add_func("/repair/codec", test_codec);
    g_test_add_func("/repair/unknown-chunk", test_unknown_chunk);
    g_test_add_func("/repair/parts", test_parts);
    g_test_add_func("/repair/random", test_random);
    g_test_add_func("/repair/busy", test_busy);
    g_test_add_func("/repair/arguments", test_arguments);
    return g_test_run();
}
