/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "chunk.h"
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
    const char *json;

    g_assert_cmpint(open_bytes(&trace, sample, sample_len), ==, 0);
    g_assert_cmpint(btrail_trace_open(NULL, "x"), ==, -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_trace_open(&trace, NULL), ==,
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
    g_test_add_func("/trace/not-a-trace", test_not_a_trace);
    g_test_add_func("/trace/arguments", test_arguments);
    ret = g_test_run();
    g_free(sample);
    return ret;
}
