/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Merging parts of a trace into one file: nothing is lost but what was missing,
 * damaged or cut off before.
 */

#include <errno.h>
#include <glib/gstdio.h>

#include "lib/agent/chunk.h"
#include "lib/agent/parts.h"
#include "trace-samples.h"

#define CHUNKS  12

static const unsigned vcpus[] = { 0, 3 };

/* A sample in several parts */
struct parts {
    char *path;
    char *out;
    unsigned n;
};

static char *beside(const char *path, const char *name)
{
    g_autofree char *folder = g_path_get_dirname(path);

    return g_build_filename(folder, name, NULL);
}

static void parts_new(struct parts *p, uint64_t ring)
{
    struct btrail_writer_options options = {
        .part_size = 1500, .ring_size = ring,
    };
    g_autoptr(GArray) parts = NULL;

    p->path = sample_path();
    p->out = beside(p->path, "out.btrail");
    sample_write_with(p->path, CHUNKS, &options);
    parts = btrail_parts_find(p->path);
    p->n = parts->len + 1;
    g_assert_cmpuint(p->n, >=, 4);
}

static void parts_free(struct parts *p)
{
    sample_remove(p->path);
    g_free(p->out);
}

/* Merge parts, in any order, all but @without; @n counts from @first. */
static void merge(const struct parts *p, unsigned first, unsigned n,
                  unsigned without, const char *out,
                  struct btrail_merge_result *m)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
    struct btrail_trace *trace;
    unsigned i;

    for (i = first; i < first + n; i++) {
        if (i != without) {
            g_ptr_array_insert(names, g_test_rand_int_range(0, names->len + 1),
                               btrail_part_path(p->path, i));
        }
    }
    g_assert_cmpint(btrail_trace_open_files(&trace,
                                            (const char **)names->pdata,
                                            names->len), ==, 0);
    g_assert_cmpint(btrail_merge(trace, out, BTRAIL_WRITER_REPLACE, m), ==,
                    0);
    btrail_trace_close(trace);
}

/* The file is sound; what is read in it has to be what is read in @from. */
static void check_same(const char *out, struct btrail_trace *from,
                       struct btrail_trace_status *status)
{
    struct btrail_trace *trace;
    const char *json, *want;
    unsigned i;

    g_assert_cmpint(btrail_trace_open(&trace, out), ==, 0);
    btrail_trace_status(trace, status);
    g_assert_true(status->complete && status->indexed);
    g_assert_cmpuint(status->bad_chunks + status->missing_chunks +
                     status->skipped_bytes + status->cut_bytes, ==, 0);
    for (i = 0; i < G_N_ELEMENTS(vcpus); i++) {
        struct sample_stream got, s;

        g_assert_true(sample_read(trace, vcpus[i], &got));
        g_assert_true(sample_read(from, vcpus[i], &s));
        g_assert_cmpuint(got.records, ==, s.records);
        g_assert_cmpuint(got.end_index, ==, s.end_index);
        g_assert_cmpuint(got.synthetic + got.bad_chunks, ==, 0);
        /* What readers report by themselves is an event in the file. */
        g_assert_cmpuint(got.lost, ==, s.lost + s.missing);
        g_assert_cmpuint(got.elsewhere, ==, s.elsewhere);
        g_assert_true(got.ended == s.ended);
    }
    for (i = 0; !btrail_trace_meta(from, i, &want, NULL); i++) {
        g_assert_cmpint(btrail_trace_meta(trace, i, &json, NULL), ==, 0);
        g_assert_cmpstr(json, ==, want);
    }
    g_assert_cmpint(btrail_trace_meta(trace, i, &json, NULL), ==,
                    -BTRAIL_ERR_END);
    btrail_trace_close(trace);
}

static void test_parts(void)
{
    struct btrail_trace_status status;
    struct btrail_trace *trace;
    struct btrail_merge_result m;
    struct parts p;

    parts_new(&p, 0);
    merge(&p, 0, p.n, UINT_MAX, p.out, &m);
    g_assert_cmpuint(m.chunks, ==, 2 * CHUNKS);
    g_assert_cmpuint(m.records, ==, 2 * CHUNKS * SAMPLE_CHUNK_RECORDS);
    g_assert_cmpuint(m.gaps + m.bad_chunks + m.ends, ==, 0);
    g_assert_cmpint(btrail_trace_open_parts(&trace, p.path), ==, 0);
    check_same(p.out, trace, &status);
    g_assert_false(status.continued);
    g_assert_cmpuint(status.first_part, ==, 0);
    btrail_trace_close(trace);
    parts_free(&p);
}

/* Some parts in one file, the others in another: that is all of the trace. */
static void test_some(void)
{
    struct btrail_trace_status status;
    struct btrail_trace *trace;
    struct btrail_merge_result m;
    struct parts p;
    unsigned k;

    parts_new(&p, 0);
    for (k = 1; k < p.n; k++) {
        g_autofree char *other = beside(p.path, "other.btrail");
        const char *paths[] = { p.out, other };
        unsigned i;

        merge(&p, 0, k, UINT_MAX, other, &m);
        g_assert_cmpuint(m.gaps, ==, 0);
        merge(&p, k, p.n - k, UINT_MAX, p.out, &m);
        /* The header says that there was something before. */
        g_assert_cmpuint(m.gaps, ==, 0);
        g_assert_cmpint(btrail_trace_open(&trace, other), ==, 0);
        btrail_trace_status(trace, &status);
        g_assert_true(status.continued);
        btrail_trace_close(trace);
        g_assert_cmpint(btrail_trace_open(&trace, p.out), ==, 0);
        btrail_trace_status(trace, &status);
        g_assert_cmpuint(status.first_part, ==, k);
        btrail_trace_close(trace);

        g_assert_cmpint(btrail_trace_open_files(&trace, paths, 2), ==, 0);
        btrail_trace_status(trace, &status);
        g_assert_true(status.complete && !status.continued);
        g_assert_cmpuint(status.missing_parts, ==, 0);
        for (i = 0; i < G_N_ELEMENTS(vcpus); i++) {
            struct sample_stream s;

            g_assert_true(sample_read(trace, vcpus[i], &s));
            g_assert_cmpuint(s.records, ==, CHUNKS * SAMPLE_CHUNK_RECORDS);
            g_assert_cmpuint(s.synthetic, ==, 0);
        }
        /* And merged again it is one file. */
        g_assert_cmpint(btrail_merge(trace, p.path, BTRAIL_WRITER_REPLACE,
                                     &m), ==, 0);
        check_same(p.path, trace, &status);
        g_assert_false(status.continued);
        g_assert_cmpuint(m.gaps, ==, 0);
        btrail_trace_close(trace);
        sample_remove(p.path);
        g_free(p.out);
        parts_new(&p, 0);
    }
    parts_free(&p);
}

/* A part is missing: what it had is elsewhere. */
static void test_missing(void)
{
    struct parts p;
    unsigned without;

    parts_new(&p, 0);
    for (without = 0; without < p.n; without++) {
        g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
        struct btrail_trace_status status;
        struct btrail_trace *trace;
        struct btrail_merge_result m;
        unsigned i;

        for (i = 0; i < p.n; i++) {
            if (i != without) {
                g_ptr_array_add(names, btrail_part_path(p.path, i));
            }
        }
        g_assert_cmpint(btrail_trace_open_files(&trace,
                                                (const char **)names->pdata,
                                                names->len), ==, 0);
        g_assert_cmpint(btrail_merge(trace, p.out, BTRAIL_WRITER_REPLACE, &m),
                        ==, 0);
        g_assert_true(!m.gaps == (!without || without == p.n - 1));
        check_same(p.out, trace, &status);
        g_assert_true(status.continued == (without == p.n - 1));
        btrail_trace_close(trace);
    }
    parts_free(&p);
}

static void test_ring(void)
{
    struct btrail_trace_status status;
    struct btrail_trace *trace;
    struct btrail_merge_result m;
    struct parts p;

    parts_new(&p, 8000);
    g_assert_false(g_file_test(p.path, G_FILE_TEST_EXISTS));
    g_assert_cmpint(btrail_trace_open_parts(&trace, p.path), ==, 0);
    g_assert_cmpint(btrail_merge(trace, p.out, 0, &m), ==, 0);
    check_same(p.out, trace, &status);
    g_assert_cmpuint(m.gaps, ==, 0);
    g_assert_cmpuint(status.first_part, ==, 0);
    btrail_trace_close(trace);
    parts_free(&p);
}

/* A bit is another one anywhere in a part. */
static void test_damaged(void)
{
    g_autofree char *bytes = NULL, *name = NULL;
    struct parts p;
    gsize len, i;
    uint64_t bad = 0;

    parts_new(&p, 0);
    name = btrail_part_path(p.path, 1);
    g_assert_true(g_file_get_contents(name, &bytes, &len, NULL));
    for (i = BTRAIL_FILE_HEADER_SIZE; i < len; i += 3) {
        struct btrail_trace_status status;
        struct btrail_trace *trace;
        struct btrail_merge_result m;

        bytes[i] ^= 1 << i % 8;
        g_assert_true(g_file_set_contents(name, bytes, len, NULL));
        g_assert_cmpint(btrail_trace_open_parts(&trace, p.path), ==, 0);
        g_assert_cmpint(btrail_merge(trace, p.out, BTRAIL_WRITER_REPLACE, &m),
                        ==, 0);
        check_same(p.out, trace, &status);
        g_assert_true(!m.bad_chunks || m.gaps);
        bad += m.bad_chunks;
        btrail_trace_close(trace);
        bytes[i] ^= 1 << i % 8;
    }
    g_assert_cmpuint(bad, >, 0);
    parts_free(&p);
}

/* The last part was cut off: its streams get an end. */
static void test_cut(void)
{
    g_autofree char *bytes = NULL, *name = NULL;
    struct btrail_trace_status status;
    struct btrail_trace *trace;
    struct btrail_merge_result m;
    struct parts p;
    gsize len;
    unsigned i;

    parts_new(&p, 0);
    name = btrail_part_path(p.path, p.n - 1);
    g_assert_true(g_file_get_contents(name, &bytes, &len, NULL));
    g_assert_true(g_file_set_contents(name, bytes, 200, NULL));
    g_assert_cmpint(btrail_trace_open_parts(&trace, p.path), ==, 0);
    g_assert_cmpint(btrail_merge(trace, p.out, 0, &m), ==, 0);
    btrail_trace_close(trace);
    g_assert_cmpuint(m.ends, >=, 1);
    g_assert_cmpuint(m.gaps, ==, m.ends);
    g_assert_true(m.lost_unknown);
    g_assert_cmpuint(m.lost, ==, 0);
    g_assert_cmpint(btrail_trace_open(&trace, p.out), ==, 0);
    btrail_trace_status(trace, &status);
    g_assert_true(status.complete && status.indexed && !status.continued);
    for (i = 0; i < G_N_ELEMENTS(vcpus); i++) {
        struct sample_stream s;

        g_assert_true(sample_read(trace, vcpus[i], &s));
        g_assert_true(s.ended);
        g_assert_cmpuint(s.synthetic + s.bad_chunks, ==, 0);
    }
    btrail_trace_close(trace);
    parts_free(&p);
}

static void test_arguments(void)
{
    g_autofree char *name = NULL;
    struct btrail_trace *trace;
    struct btrail_merge_result m;
    struct parts p;

    parts_new(&p, 0);
    name = btrail_part_path(p.path, 2);
    g_assert_cmpint(btrail_trace_open_parts(&trace, p.path), ==, 0);
    g_assert_cmpint(btrail_merge(NULL, p.out, 0, &m), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_merge(trace, NULL, 0, &m), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_merge(trace, p.out, 2, &m), ==,
                    -BTRAIL_ERR_ARGUMENT);
    /* It would destroy what it reads. */
    g_assert_cmpint(btrail_merge(trace, name, BTRAIL_WRITER_REPLACE, &m), ==,
                    -BTRAIL_ERR_ARGUMENT);
    g_assert_cmpint(btrail_merge(trace, p.out, 0, NULL), ==, 0);
    g_assert_cmpint(btrail_merge(trace, p.out, 0, &m), ==, -BTRAIL_ERR_IO);
    g_assert_cmpint(errno, ==, EEXIST);
    g_assert_cmpint(btrail_merge(trace, "/nonexistent/x", 0, &m), ==,
                    -BTRAIL_ERR_IO);
    g_assert_cmpint(errno, ==, ENOENT);
    btrail_trace_close(trace);
    parts_free(&p);
}

int main(int argc, char **argv)
{
    /* Hundreds of files are written, each of which has to be on the disk. */
    if (!g_access("/dev/shm", 2)) {
        g_setenv("TMPDIR", "/dev/shm", FALSE);
    }
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/merge/parts", test_parts);
    g_test_add_func("/merge/some", test_some);
    g_test_add_func("/merge/missing", test_missing);
    g_test_add_func("/merge/ring", test_ring);
    g_test_add_func("/merge/damaged", test_damaged);
    g_test_add_func("/merge/cut", test_cut);
    g_test_add_func("/merge/arguments", test_arguments);
    return g_test_run();
}
