/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Opening traces that are whole, cut off, damaged, or of several files.
 */

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/agent/bytes.h"
#include "lib/agent/chunk.h"
#include "lib/agent/parts.h"
#include "trace-samples.h"

#define CHUNKS          4
#define RECORDS         (CHUNKS * SAMPLE_CHUNK_RECORDS)
#define END_INDEX       (RECORDS + SAMPLE_LOST)

/* The sample as bytes, to be cut and damaged */
static uint8_t *sample;
static size_t sample_len;

static void load_sample(void)
{
    char *path = sample_path();

    sample_write(path, CHUNKS);
    g_assert_true(g_file_get_contents(path, (char **)&sample, &sample_len,
                                      NULL));
    sample_remove(path);
}

static int open_bytes(struct btrail_trace **trace, const uint8_t *bytes,
                      size_t len)
{
    int fd = memfd_create("trace", MFD_CLOEXEC);

    g_assert_cmpint(fd, >=, 0);
    g_assert_cmpint(write(fd, bytes, len), ==, len);
    return btrail_trace_open_fd(trace, fd);
}

static void assert_whole(struct btrail_trace *trace)
{
    static const unsigned vcpus[] = { 0, 3 };
    struct sample_stream s;
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(vcpus); i++) {
        g_assert_true(sample_read(trace, vcpus[i], &s));
        g_assert_cmpuint(s.records, ==, RECORDS);
        g_assert_cmpuint(s.events, ==, 2 * CHUNKS + 2);
        g_assert_cmpuint(s.synthetic, ==, 0);
        g_assert_cmpuint(s.lost, ==, SAMPLE_LOST);
        g_assert_cmpuint(s.end_index, ==, END_INDEX);
        g_assert_cmpuint(s.bad_chunks, ==, 0);
        g_assert_true(s.ended);
    }
}

static void test_whole(void)
{
    struct btrail_trace *trace;
    struct btrail_trace_status status;
    struct btrail_stream_info info;
    const char *json;
    size_t length;

    g_assert_cmpint(open_bytes(&trace, sample, sample_len), ==, 0);
    g_assert_cmpint(btrail_trace_status(trace, &status), ==, 0);
    g_assert_cmpuint(status.file_size, ==, sample_len);
    /* META, DATA, INDEX, END */
    g_assert_cmpuint(status.chunks, ==, 1 + 2 * CHUNKS + 1 + 1);
    g_assert_true(status.complete);
    g_assert_true(status.indexed);
    g_assert_cmpuint(status.bad_chunks + status.missing_chunks +
                     status.skipped_bytes + status.cut_bytes, ==, 0);

    g_assert_cmpuint(btrail_trace_streams(trace), ==, 2);
    g_assert_cmpint(btrail_trace_stream(trace, 1, &info), ==, 0);
    g_assert_cmpuint(info.vcpu, ==, 3);
    g_assert_cmpuint(info.chunks, ==, CHUNKS);
    g_assert_cmpuint(info.records, ==, RECORDS);
    g_assert_cmpuint(info.first_index, ==, 0);
    g_assert_cmpuint(info.end_index, ==, END_INDEX);
    g_assert_cmpuint(info.first_time, ==, 1000000);
    g_assert_cmpuint(info.last_time, ==, 1000000 * CHUNKS);
    g_assert_cmpint(btrail_trace_stream(trace, 2, &info), ==,
                    -BTRAIL_ERR_STREAM);

    g_assert_cmpint(btrail_trace_meta(trace, 0, &json, &length), ==, 0);
    g_assert_cmpstr(json, ==, "{\"sample\": true}");
    g_assert_cmpuint(length, ==, strlen(json));
    g_assert_cmpint(btrail_trace_meta(trace, 1, &json, &length), ==,
                    -BTRAIL_ERR_END);
    assert_whole(trace);
    btrail_trace_close(trace);
}

/*
 * A file that was cut off after any byte opens, and holds exactly the chunks
 * that are whole.
 */
static void test_cut(void)
{
    static const unsigned vcpus[] = { 0, 3 };
    size_t len;

    for (len = 0; len < sample_len; len++) {
        uint64_t whole = 0, ends[64], records = 0;
        struct btrail_trace_status status;
        struct btrail_trace *trace;
        struct sample_stream s;
        unsigned n = 0, v;
        size_t at;
        int ret = open_bytes(&trace, sample, len);

        if (len < BTRAIL_FILE_HEADER_SIZE) {
            g_assert_cmpint(ret, ==, -BTRAIL_ERR_FORMAT);
            continue;
        }
        g_assert_cmpint(ret, ==, 0);

        /* An independent count of whole DATA chunks */
        for (at = BTRAIL_FILE_HEADER_SIZE;
             at + BTRAIL_CHUNK_HEADER_SIZE <= len; n++) {
            struct btrail_chunk chunk;

            g_assert_true(btrail_chunk_get(sample + at, &chunk));
            at += BTRAIL_CHUNK_HEADER_SIZE + chunk.size;
            if (at > len) {
                break;
            }
            ends[whole++] = at;
            records += chunk.type == BTRAIL_CHUNK_DATA ?
                       SAMPLE_CHUNK_RECORDS : 0;
        }

        g_assert_cmpint(btrail_trace_status(trace, &status), ==, 0);
        g_assert_false(status.complete);
        g_assert_false(status.indexed);
        g_assert_cmpuint(status.chunks, ==, whole);
        g_assert_cmpuint(status.cut_bytes, ==, len - (whole ? ends[whole - 1] :
                         BTRAIL_FILE_HEADER_SIZE));
        g_assert_cmpuint(status.bad_chunks + status.missing_chunks +
                         status.skipped_bytes, ==, 0);
        for (v = 0; v < G_N_ELEMENTS(vcpus); v++) {
            if (sample_read(trace, vcpus[v], &s)) {
                g_assert_cmpuint(s.synthetic + s.bad_chunks, ==, 0);
                records -= s.records;
            }
        }
        g_assert_cmpuint(records, ==, 0);
        btrail_trace_close(trace);
    }
}

/*
 * A byte changed anywhere: either it is noticed, or it made no difference.
 * Never is a wrong record returned; sample_read() checks each.
 */
static void test_flip(void)
{
    static const unsigned vcpus[] = { 0, 3 };
    g_autofree uint8_t *bytes = g_memdup2(sample, sample_len);
    size_t i;

    for (i = 0; i < sample_len; i++) {
        struct btrail_trace_status status;
        struct btrail_trace *trace;
        struct sample_stream s;
        uint64_t records = 0, missing = 0, bad = 0;
        unsigned v;
        int ret;

        bytes[i] ^= 1 << g_test_rand_int_range(0, 8);
        ret = open_bytes(&trace, bytes, sample_len);
        bytes[i] = sample[i];
        if (i < BTRAIL_FILE_HEADER_SIZE) {
            g_assert_cmpint(ret, ==, -BTRAIL_ERR_FORMAT);
            continue;
        }
        g_assert_cmpint(ret, ==, 0);
        btrail_trace_status(trace, &status);
        for (v = 0; v < G_N_ELEMENTS(vcpus); v++) {
            g_assert_true(sample_read(trace, vcpus[v], &s));
            records += s.records;
            missing += s.missing;
            bad += s.bad_chunks;
        }
        /* One chunk at most, and it shows. */
        g_assert_cmpuint(records, >=, 2 * RECORDS - SAMPLE_CHUNK_RECORDS);
        if (records < 2 * RECORDS) {
            g_assert_cmpuint(bad + status.bad_chunks + status.skipped_bytes,
                             >, 0);
            /* With the index, the hole has its exact size. */
            g_assert_true(!status.indexed ||
                          missing == SAMPLE_CHUNK_RECORDS ||
                          missing == SAMPLE_CHUNK_RECORDS + SAMPLE_LOST);
        } else {
            g_assert_cmpuint(missing, ==, 0);
            g_assert_true(bad || status.bad_chunks || !status.indexed);
        }
        btrail_trace_close(trace);
    }
}

/* A piece taken out of the middle, of any size */
static void test_hole(void)
{
    size_t start = BTRAIL_FILE_HEADER_SIZE + 200, len;

    for (len = 1; len < sample_len - start - 200; len += 7) {
        g_autofree uint8_t *bytes = g_malloc(sample_len);
        struct btrail_trace_status status;
        struct btrail_trace *trace;
        struct sample_stream s;

        memcpy(bytes, sample, start);
        memcpy(bytes + start, sample + start + len, sample_len - start - len);
        g_assert_cmpint(open_bytes(&trace, bytes, sample_len - len), ==, 0);
        btrail_trace_status(trace, &status);
        g_assert_false(status.indexed);
        if (sample_read(trace, 0, &s)) {
            g_assert_cmpuint(s.records, <=, RECORDS);
        }
        sample_read(trace, 3, &s);
        btrail_trace_close(trace);
    }
}

/* Chunks that come twice, or in another order, give no record twice. */
static void test_repeated(void)
{
    g_autofree uint8_t *bytes = g_malloc(2 * sample_len);
    size_t body = sample_len - BTRAIL_FILE_HEADER_SIZE;
    struct btrail_trace_status status;
    struct btrail_trace *trace;

    memcpy(bytes, sample, sample_len);
    memcpy(bytes + sample_len, sample + BTRAIL_FILE_HEADER_SIZE, body);
    g_assert_cmpint(open_bytes(&trace, bytes, sample_len + body), ==, 0);
    btrail_trace_status(trace, &status);
    g_assert_false(status.indexed);
    g_assert_cmpuint(status.bad_chunks, ==, 2 * CHUNKS);
    assert_whole(trace);
    btrail_trace_close(trace);
}

#define PARTS_CHUNKS    12

/* A sample in parts of some chunks each; returns how many. */
static unsigned write_parts(const char *path)
{
    struct btrail_writer_options options = { .part_size = 1600 };
    g_autoptr(GArray) parts = NULL;

    sample_write_with(path, PARTS_CHUNKS, &options);
    parts = btrail_parts_find(path);
    g_assert_cmpuint(parts->len, >=, 4);
    return parts->len + 1;
}

/* All of the records except those that are elsewhere */
static void check_parts(struct btrail_trace *trace, uint64_t elsewhere)
{
    static const unsigned vcpus[] = { 0, 3 };
    uint64_t sum = 0;
    unsigned i;

    for (i = 0; i < G_N_ELEMENTS(vcpus); i++) {
        struct sample_stream s;

        g_assert_true(sample_read(trace, vcpus[i], &s));
        g_assert_cmpuint(s.synthetic + s.bad_chunks, ==, 0);
        g_assert_cmpuint(s.records + s.lost, ==, s.end_index);
        sum += s.elsewhere;
        if (!elsewhere) {
            g_assert_cmpuint(s.records, ==,
                             PARTS_CHUNKS * SAMPLE_CHUNK_RECORDS);
            g_assert_true(s.ended);
        }
    }
    g_assert_cmpuint(sum, ==, elsewhere);
}

static void test_parts(void)
{
    char *path = sample_path();
    unsigned n = write_parts(path), i;
    struct btrail_trace_status status;
    struct btrail_trace *trace;
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
    const char *json;

    g_assert_cmpint(btrail_trace_open_parts(&trace, path), ==, 0);
    btrail_trace_status(trace, &status);
    g_assert_cmpuint(status.files, ==, n);
    g_assert_true(status.complete && status.indexed && !status.continued);
    g_assert_cmpuint(status.missing_parts + status.first_part, ==, 0);
    /* The description is in each part, but it is one. */
    g_assert_cmpint(btrail_trace_meta(trace, 0, &json, NULL), ==, 0);
    g_assert_cmpint(btrail_trace_meta(trace, 1, &json, NULL), ==,
                    -BTRAIL_ERR_END);
    check_parts(trace, 0);
    btrail_trace_close(trace);

    /* In any order */
    for (i = 0; i < n; i++) {
        g_ptr_array_insert(names, g_test_rand_int_range(0, i + 1),
                           btrail_part_path(path, i));
    }
    g_assert_cmpint(btrail_trace_open_files(&trace,
                                            (const char **)names->pdata, n),
                    ==, 0);
    check_parts(trace, 0);
    btrail_trace_close(trace);
    /* One of them twice */
    g_ptr_array_add(names, btrail_part_path(path, 2));
    g_assert_cmpint(btrail_trace_open_files(&trace,
                                            (const char **)names->pdata,
                                            n + 1), ==, -BTRAIL_ERR_OVERLAP);
    sample_remove(path);
}

/* Records of one part that are in the streams of vCPU @from and above */
static uint64_t part_records(const char *path, unsigned part, unsigned from)
{
    g_autofree char *name = btrail_part_path(path, part);
    struct btrail_stream_info info;
    struct btrail_trace *trace;
    uint64_t records = 0;
    unsigned i;

    g_assert_cmpint(btrail_trace_open(&trace, name), ==, 0);
    for (i = 0; !btrail_trace_stream(trace, i, &info); i++) {
        if (info.vcpu >= from) {
            records += info.end_index - info.first_index;
        }
    }
    btrail_trace_close(trace);
    return records;
}

/* Parts that are not there: the reader says how much they had. */
static void test_missing_parts(void)
{
    char *path = sample_path();
    unsigned n = write_parts(path), part;

    for (part = 0; part < n; part++) {
        g_autofree char *name = btrail_part_path(path, part);
        g_autofree char *hidden = g_strconcat(name, ".hidden", NULL);
        uint64_t records = part_records(path, part, 0);
        struct btrail_trace_status status;
        struct btrail_trace *trace;

        g_assert_cmpint(g_rename(name, hidden), ==, 0);
        g_assert_cmpint(btrail_trace_open_parts(&trace, path), ==, 0);
        btrail_trace_status(trace, &status);
        g_assert_cmpuint(status.files, ==, n - 1);
        g_assert_true(status.complete && status.indexed);
        g_assert_cmpuint(status.first_part, ==, !part);
        g_assert_cmpuint(status.missing_parts, ==,
                         part > 0 && part < n - 1);
        g_assert_true(status.continued == (part == n - 1));
        if (part < n - 1) {
            check_parts(trace, records);
        }
        btrail_trace_close(trace);
        g_assert_cmpint(g_rename(hidden, name), ==, 0);
    }
    sample_remove(path);
}

/* What is damaged at the end of a part is not what is missing before it. */
static void test_damaged_part(void)
{
    char *path = sample_path();
    g_autofree char *first = btrail_part_path(path, 1);
    g_autofree char *second = btrail_part_path(path, 2);
    g_autofree char *bytes = NULL;
    uint64_t records;
    struct sample_stream s;
    struct btrail_trace *trace;
    gsize len;

    write_parts(path);
    records = part_records(path, 2, 3);
    g_assert_cmpint(g_remove(second), ==, 0);
    g_assert_true(g_file_get_contents(first, &bytes, &len, NULL));
    /* The last chunk before the index */
    bytes[btrail_get64((uint8_t *)bytes + len - BTRAIL_END_SIZE) - 1] ^= 1;
    g_assert_true(g_file_set_contents(first, bytes, len, NULL));

    g_assert_cmpint(btrail_trace_open_parts(&trace, path), ==, 0);
    g_assert_true(sample_read(trace, 3, &s));
    g_assert_cmpuint(s.bad_chunks, ==, 1);
    g_assert_cmpuint(s.synthetic, ==, 1);
    g_assert_cmpuint(s.missing, ==, SAMPLE_CHUNK_RECORDS);
    g_assert_cmpuint(s.elsewhere, ==, records);
    btrail_trace_close(trace);
    sample_remove(path);
}

/* Other traces, and what is none */
static void test_other_parts(void)
{
    char *path = sample_path(), *other = sample_path();
    g_autofree char *there = btrail_part_path(other, 2);
    g_autofree char *here = NULL, *garbage = NULL, *bytes = NULL;
    const char *paths[] = { path, other };
    unsigned n = write_parts(path);
    struct btrail_trace_status status;
    struct btrail_trace *trace;
    gsize len;

    write_parts(other);
    g_assert_cmpint(btrail_trace_open_files(&trace, paths, 2), ==,
                    -BTRAIL_ERR_OTHER);
    here = btrail_part_path(path, n);
    garbage = btrail_part_path(path, n + 1);
    g_assert_true(g_file_get_contents(there, &bytes, &len, NULL));
    g_assert_true(g_file_set_contents(here, bytes, len, NULL));
    g_assert_true(g_file_set_contents(garbage, "garbage", 7, NULL));
    g_assert_cmpint(btrail_trace_open_parts(&trace, path), ==, 0);
    btrail_trace_status(trace, &status);
    g_assert_cmpuint(status.files, ==, n);
    check_parts(trace, 0);
    btrail_trace_close(trace);
    sample_remove(path);
    sample_remove(other);
}

/* What an agent makes that takes over a session at @first_index, or begins it */
static void write_agent(const char *path, uint64_t first_index, unsigned slabs,
                        bool end)
{
    struct btrail_writer_options options = {
        .id = (const uint8_t *)"0123456789abcdef",
        .begin = first_index ? BTRAIL_GAP_AGENT_LOST : 0,
    };
    struct btrail_writer *w;
    unsigned i, k;

    g_assert_cmpint(btrail_writer_open_with(&w, path, &options), ==, 0);
    for (i = 0; i < slabs; i++) {
        struct btrail_record records[SAMPLE_CHUNK_RECORDS];
        struct btrail_event events[2] = {
            { first_index, BTRAIL_EVENT_TIME, 0, 0, { first_index + 1 } },
            { first_index + SAMPLE_CHUNK_RECORDS, BTRAIL_EVENT_END },
        };
        struct btrail_slab slab = {
            .first_index = first_index,
            .records = records,
            .n_records = SAMPLE_CHUNK_RECORDS,
            .events = events,
            .n_events = 1 + (end && i == slabs - 1),
        };

        for (k = 0; k < SAMPLE_CHUNK_RECORDS; k++) {
            records[k] = (struct btrail_record) { first_index + k, 0, 0 };
        }
        g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
        first_index += SAMPLE_CHUNK_RECORDS;
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
}

/* Read the records and count those that are in GAP events; no damage. */
static uint64_t read_agents(struct btrail_trace *trace, uint64_t *records)
{
    struct btrail_cursor *cursor;
    struct btrail_batch b;
    uint64_t lost = 0, index = 0;

    *records = 0;
    g_assert_cmpint(btrail_cursor_open(&cursor, trace, 0, 0), ==, 0);
    while (!btrail_cursor_next(cursor, &b)) {
        g_assert_cmpuint(b.index, ==, index);
        g_assert_false(b.synthetic);
        if (b.count) {
            g_assert_cmpuint(b.records[0].from, ==, index);
            index += b.count;
            *records += b.count;
        } else if (b.event->type == BTRAIL_EVENT_GAP) {
            g_assert_cmpuint(b.event->reason, ==, BTRAIL_GAP_AGENT_LOST);
            index += b.event->data[0];
            lost += b.event->data[0];
            g_assert_cmpuint(b.event->index, ==, index);
        }
    }
    btrail_cursor_close(cursor);
    return lost;
}

static void test_agents(void)
{
    char *path = sample_path();
    g_autofree char *second = g_strconcat(path, ".second", NULL);
    g_autofree char *early = g_strconcat(path, ".early", NULL);
    const char *paths[] = { second, path }, *overlap[] = { path, early };
    struct btrail_trace *trace;
    uint64_t records;

    write_agent(path, 0, 5, false);
    write_agent(second, 105, 3, true);
    write_agent(early, 99, 3, true);
    g_assert_cmpint(btrail_trace_open(&trace, second), ==, 0);
    g_assert_cmpuint(read_agents(trace, &records), ==, 105);
    g_assert_cmpuint(records, ==, 60);
    btrail_trace_close(trace);
    g_assert_cmpint(btrail_trace_open_files(&trace, paths, 2), ==, 0);
    g_assert_cmpuint(read_agents(trace, &records), ==, 5);
    g_assert_cmpuint(records, ==, 160);
    btrail_trace_close(trace);
    g_assert_cmpint(btrail_trace_open_files(&trace, overlap, 2), ==,
                    -BTRAIL_ERR_OVERLAP);
    sample_remove(path);
}

static void test_not_a_trace(void)
{
    static const char text[] = "This is not a trace, but it is long enough "
                               "to have a header.\n";
    struct btrail_trace *trace = NULL;
    char *path = sample_path();
    g_autofree char *folder = g_path_get_dirname(path);

    g_assert_cmpint(open_bytes(&trace, (const uint8_t *)text, sizeof(text)),
                    ==, -BTRAIL_ERR_FORMAT);
    g_assert_cmpint(open_bytes(&trace, NULL, 0), ==, -BTRAIL_ERR_FORMAT);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, -BTRAIL_ERR_IO);
    g_assert_cmpint(errno, ==, ENOENT);
    g_assert_cmpint(btrail_trace_open(&trace, folder), ==, -BTRAIL_ERR_IO);
    g_assert_cmpint(errno, ==, EISDIR);
    g_assert_cmpint(btrail_trace_open_fd(&trace, -1), ==, -BTRAIL_ERR_IO);
    g_assert_null(trace);
    sample_remove(path);
}

static void test_arguments(void)
{
    struct btrail_trace_status status;
    struct btrail_trace *trace;
    const char *json = NULL;

    g_assert_cmpint(open_bytes(&trace, sample, sample_len), ==, 0);
    g_assert_cmpint(btrail_trace_open(NULL, "x"), ==, -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_trace_open(&trace, NULL), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_trace_open_files(&trace, NULL, 1), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_trace_open_files(&trace, &json, 0), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_trace_open_files(&trace, &json, 1), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_trace_open_parts(&trace, NULL), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_trace_open_parts(NULL, "x"), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_trace_status(NULL, &status), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_trace_status(trace, NULL), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_trace_stream(trace, 0, NULL), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_trace_meta(trace, 0, NULL, NULL), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_trace_meta(NULL, 0, &json, NULL), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpuint(btrail_trace_streams(NULL), ==, 0);
    btrail_trace_close(trace);
    btrail_trace_close(NULL);
}

int main(int argc, char **argv)
{
    int ret;

    g_test_init(&argc, &argv, NULL);
    load_sample();
    g_test_add_func("/trace/whole", test_whole);
    g_test_add_func("/trace/cut", test_cut);
    g_test_add_func("/trace/flip", test_flip);
    g_test_add_func("/trace/hole", test_hole);
    g_test_add_func("/trace/repeated", test_repeated);
    g_test_add_func("/trace/parts", test_parts);
    g_test_add_func("/trace/missing-parts", test_missing_parts);
    g_test_add_func("/trace/damaged-part", test_damaged_part);
    g_test_add_func("/trace/other-parts", test_other_parts);
    g_test_add_func("/trace/agents", test_agents);
    g_test_add_func("/trace/not-a-trace", test_not_a_trace);
    g_test_add_func("/trace/arguments", test_arguments);
    ret = g_test_run();
    g_free(sample);
    return ret;
}
