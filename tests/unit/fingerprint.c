/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of fingerprint.c: traces that are the same, and traces that differ in
 * one thing
 */

#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "replay/fingerprint.h"
#include "trace-samples.h"

#define RECORDS     (FINGERPRINT_INTERVAL * 2 + 1000)
#define SLAB        4096u

/* What is different in a trace */
struct change {
    uint64_t index;
    struct btrail_record add;   /* to the record */
    uint64_t cr3;               /* loaded before it */
    uint64_t less;              /* records at the end */
    unsigned slab;              /* records in a slab, if not SLAB */
    unsigned vcpus;             /* if not one; the last one is different */
};

typedef void put_slab(void *opaque, unsigned vcpu,
                      const struct btrail_slab *slab);

static void make_slabs(const struct change *c, put_slab *put, void *opaque)
{
    g_autofree struct btrail_record *records =
        g_new(struct btrail_record, SLAB);
    unsigned slab_size = c->slab ? c->slab : SLAB;
    uint64_t all = RECORDS - c->less;

    for (uint64_t first = 0; first < all; first += slab_size) {
        uint64_t n = MIN(slab_size, all - first);
        struct btrail_event events[2] = {
            /* The host's time is another one in each replay. */
            { .type = BTRAIL_EVENT_TIME, .index = first,
              .data = { first + (uintptr_t)opaque, first, first } },
            { .type = BTRAIL_EVENT_CR3, .index = c->index,
              .data = { c->cr3 } },
        };
        struct btrail_slab slab = {
            .first_index = first, .records = records, .n_records = n,
            .events = events, .n_events = 1,
        };

        for (uint64_t i = 0; i < n; i++) {
            records[i] = (struct btrail_record) { (first + i) % 777,
                                                  (first + i) % 555, 0 };
        }
        for (unsigned vcpu = 0; vcpu + 1 < c->vcpus; vcpu++) {
            put(opaque, vcpu, &slab);
        }
        if (c->index >= first && c->index < first + n) {
            records[c->index - first].from += c->add.from;
            records[c->index - first].to += c->add.to;
            records[c->index - first].flags += c->add.flags;
            slab.n_events += c->cr3 != 0;
        }
        put(opaque, MAX(c->vcpus, 1) - 1, &slab);
    }
}

static void put_to_writer(void *opaque, unsigned vcpu,
                          const struct btrail_slab *slab)
{
    g_assert_cmpint(btrail_writer_append(opaque, vcpu, slab), ==, 0);
}

static void write_trace(const char *path, const struct change *c)
{
    struct btrail_writer *w;

    g_assert_cmpint(btrail_writer_open(&w, path, BTRAIL_WRITER_REPLACE), ==,
                    0);
    make_slabs(c, put_to_writer, w);
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
}

struct side {
    char *path;
    struct btrail_trace *trace;
    GArray *prints;
};

static void open_side(struct side *s, const struct change *c)
{
    g_autoptr(GError) error = NULL;

    s->path = sample_path();
    write_trace(s->path, c);
    g_assert_cmpint(btrail_trace_open(&s->trace, s->path), ==, 0);
    s->prints = fingerprint_trace(s->trace, &error);
    g_assert_no_error(error);
}

static void close_side(struct side *s)
{
    btrail_trace_close(s->trace);
    sample_remove(s->path);
    g_array_unref(s->prints);
}

static struct btrail_block *get_block(struct btrail_block_sink *sink)
{
    return btrail_block_new();
}

static int drop_block(struct btrail_block_sink *sink,
                      struct btrail_block *block)
{
    btrail_block_free(block);
    return 0;
}

static void put_to_stream(void *opaque, unsigned vcpu,
                          const struct btrail_slab *slab)
{
    struct btrail_stream **streams = opaque;

    g_assert_cmpint(btrail_stream_append(streams[vcpu], slab,
                                         BTRAIL_GAP_CORRUPT), ==, 0);
}

/* Those of a trace that is being written are those of the file. */
static void test_written(void)
{
    static const struct change changes[] = {
        { .index = UINT64_MAX },
        { .index = 70000, .cr3 = 0x1000, .slab = 1000 },
        { .index = 5, .add = { 0, 1, 0 }, .vcpus = 2 },
    };
    struct btrail_block_sink sink = { get_block, drop_block };

    for (unsigned i = 0; i < G_N_ELEMENTS(changes); i++) {
        struct fingerprinter *f = fingerprinter_new();
        struct btrail_stream *streams[2];
        g_autoptr(GArray) prints = NULL;
        struct side file;

        for (unsigned vcpu = 0; vcpu < 2; vcpu++) {
            streams[vcpu] = btrail_stream_new(vcpu, &sink, false);
            btrail_stream_observe(streams[vcpu], fingerprinter_observer(f));
        }
        make_slabs(&changes[i], put_to_stream, streams);
        prints = fingerprinter_finish(f, NULL);
        open_side(&file, &changes[i]);
        g_assert_cmpmem(prints->data, prints->len * sizeof(struct fingerprint),
                        file.prints->data,
                        file.prints->len * sizeof(struct fingerprint));
        close_side(&file);
        btrail_stream_free(streams[0]);
        btrail_stream_free(streams[1]);
        fingerprinter_free(f);
    }
}

static void test_same(void)
{
    static const struct change none = { 0 }, slabs = { .slab = 1000 };
    struct side a, b;
    struct fingerprint_difference d;
    g_autoptr(GError) error = NULL;
    uint64_t records;

    open_side(&a, &none);
    open_side(&b, &slabs);
    g_assert_cmpuint(a.prints->len, ==, 3);
    g_assert_true(fingerprint_agree(a.prints, b.prints, 0, &records));
    g_assert_false(fingerprint_compare(a.trace, b.trace, 0, 0, &d, &error));
    g_assert_no_error(error);
    close_side(&a);
    close_side(&b);
}

static void test_different(void)
{
    static const struct change none = { 0 };
    static const struct change changes[] = {
        { .index = 0, .add = { 1, 0, 0 } },
        { .index = 5, .add = { 0, 1, 0 } },
        { .index = FINGERPRINT_INTERVAL, .add = { 0, 0, 1 } },
        { .index = FINGERPRINT_INTERVAL - 1, .add = { 0, 1u << 31, 0 } },
        { .index = RECORDS - 1, .add = { 1, 0, 0 } },
    };
    struct side a, b;

    open_side(&a, &none);
    for (unsigned i = 0; i < G_N_ELEMENTS(changes); i++) {
        const struct change *c = &changes[i];
        uint64_t records = 0, last = c->index / FINGERPRINT_INTERVAL;
        struct fingerprint_difference d;

        open_side(&b, c);
        g_assert_false(fingerprint_agree(a.prints, b.prints, 0, &records));
        g_assert_cmpuint(records, ==, MIN((last + 1) * FINGERPRINT_INTERVAL,
                                          RECORDS));
        g_assert_true(fingerprint_compare(a.trace, b.trace, 0,
                                          last * FINGERPRINT_INTERVAL, &d,
                                          NULL));
        g_assert_cmpuint(d.index, ==, c->index);
        g_assert_false(d.ended);
        g_assert_cmpuint(d.b.records[0].from, ==,
                         d.a.records[0].from + c->add.from);
        g_assert_cmpuint(d.b.records[0].to, ==,
                         d.a.records[0].to + c->add.to);
        g_assert_cmpuint(d.a.count, ==, MIN(FINGERPRINT_PATH,
                                            RECORDS - c->index));
        for (unsigned k = 1; k < d.a.count; k++) {
            g_assert_cmpmem(&d.a.records[k], sizeof(d.a.records[k]),
                            &d.b.records[k], sizeof(d.b.records[k]));
        }
        close_side(&b);
    }
    close_side(&a);
}

static void test_several(void)
{
    static const struct change one = { .less = RECORDS - 9 }, two = {
        .less = RECORDS - 9, .vcpus = 2 }, other = {
        .less = RECORDS - 9, .index = 5, .add = { 0, 1, 0 }, .vcpus = 2 };
    struct side a, b, c;
    struct fingerprint_difference d;
    uint64_t records;

    open_side(&a, &two);
    open_side(&b, &other);
    g_assert_cmpuint(a.prints->len, ==, 2);
    g_assert_true(fingerprint_agree(a.prints, b.prints, 0, &records));
    g_assert_false(fingerprint_compare(a.trace, b.trace, 0, 0, &d, NULL));
    g_assert_false(fingerprint_agree(a.prints, b.prints, 1, &records));
    g_assert_true(fingerprint_compare(a.trace, b.trace, 1, 0, &d, NULL));
    g_assert_cmpuint(d.vcpu, ==, 1);
    g_assert_cmpuint(d.index, ==, 5);
    g_assert_false(d.ended);
    /* One without the stream */
    open_side(&c, &one);
    g_assert_true(fingerprint_agree(a.prints, c.prints, 1, &records));
    g_assert_true(fingerprint_compare(a.trace, c.trace, 1, 0, &d, NULL));
    g_assert_cmpuint(d.index, ==, 0);
    g_assert_true(d.ended);
    close_side(&a);
    close_side(&b);
    close_side(&c);
}

static void test_page_tables(void)
{
    static const struct change none = { 0 }, cr3 = { .index = 3,
                                                     .cr3 = 0x1000 };
    struct side a, b;
    struct fingerprint_difference d;
    uint64_t records;

    open_side(&a, &none);
    open_side(&b, &cr3);
    g_assert_false(fingerprint_agree(a.prints, b.prints, 0, &records));
    /* The records are the same. */
    g_assert_false(fingerprint_compare(a.trace, b.trace, 0, 0, &d, NULL));
    close_side(&a);
    close_side(&b);
}

static void test_shorter(void)
{
    static const struct change none = { 0 }, less = { .index = UINT64_MAX,
                                                      .less = 10 };
    struct side a, b;
    struct fingerprint_difference d;
    uint64_t records;

    open_side(&a, &none);
    open_side(&b, &less);
    g_assert_true(fingerprint_agree(a.prints, b.prints, 0, &records));
    g_assert_true(fingerprint_compare(a.trace, b.trace, 0, 0, &d, NULL));
    g_assert_true(d.ended);
    g_assert_cmpuint(d.index, ==, RECORDS - 10);
    close_side(&a);
    close_side(&b);
}

/* A trace that lacks records proves nothing. */
static void test_gap(void)
{
    char *path = sample_path();
    struct btrail_trace *trace;
    g_autoptr(GError) error = NULL;

    sample_write(path, 3);
    g_assert_cmpint(btrail_trace_open(&trace, path), ==, 0);
    g_assert_null(fingerprint_trace(trace, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL);
    btrail_trace_close(trace);
    sample_remove(path);
}

static void test_file(void)
{
    static const char *const wrong[] = {
        "", "backtrail fingerprints 2", "backtrail fingerprints 1\n",
        "backtrail fingerprints 2\n0 1 00000000000000000000000000000000",
        "backtrail fingerprints 2\n0 1 0\n",
        "backtrail fingerprints 2\n0 1 0000000000000000000000000000000g\n",
        "backtrail fingerprints 2\n0 1 00000000000000000000000000000000 1\n",
        "backtrail fingerprints 2\nx\n",
    };
    GArray *prints = g_array_new(FALSE, FALSE, sizeof(struct fingerprint));
    struct fingerprint p = { 3, 77, { 1, UINT64_MAX } };
    char *path = sample_path();
    g_autoptr(GError) error = NULL;
    const struct fingerprint *q;
    GArray *again;

    g_array_append_val(prints, p);
    g_assert_true(fingerprint_save(path, prints, NULL));
    again = fingerprint_load(path, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(again->len, ==, 1);
    q = &g_array_index(again, struct fingerprint, 0);
    g_assert_cmpuint(q->vcpu, ==, 3);
    g_assert_cmpuint(q->records, ==, 77);
    g_assert_cmpuint(q->chain[0], ==, 1);
    g_assert_cmpuint(q->chain[1], ==, UINT64_MAX);
    g_array_unref(again);
    g_array_unref(prints);
    for (unsigned i = 0; i < G_N_ELEMENTS(wrong); i++) {
        g_autoptr(GError) why = NULL;

        g_assert_null(fingerprint_parse(wrong[i], &why));
        g_assert_error(why, AGENT_ERROR, AGENT_ERROR_PROTOCOL);
    }
    sample_remove(path);
}

/* Whoever has made a recording may have put anything in the file's place. */
static void test_hostile(void)
{
    g_autofree char *folder = g_dir_make_tmp("backtrail-XXXXXX", NULL);
    g_autofree char *fifo = g_build_filename(folder, "fifo", NULL);
    g_autofree char *huge = g_build_filename(folder, "huge", NULL);
    const char *const paths[] = { fifo, huge, folder };

    g_assert_cmpint(mkfifo(fifo, 0600), ==, 0);
    g_assert_true(g_file_set_contents(huge, "", 0, NULL));
    g_assert_cmpint(truncate(huge, INT64_C(1) << 40), ==, 0);
    for (unsigned i = 0; i < G_N_ELEMENTS(paths); i++) {
        g_autoptr(GError) error = NULL;

        g_assert_null(fingerprint_load(paths[i], &error));
        g_test_message("%s", error->message);
        g_assert_nonnull(strstr(error->message, paths[i]));
    }
    g_unlink(fifo);
    g_unlink(huge);
    g_rmdir(folder);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/fingerprint/several", test_several);
    g_test_add_func("/fingerprint/written", test_written);
    g_test_add_func("/fingerprint/same", test_same);
    g_test_add_func("/fingerprint/different", test_different);
    g_test_add_func("/fingerprint/page-tables", test_page_tables);
    g_test_add_func("/fingerprint/shorter", test_shorter);
    g_test_add_func("/fingerprint/gap", test_gap);
    g_test_add_func("/fingerprint/file", test_file);
    g_test_add_func("/fingerprint/hostile", test_hostile);
    return g_test_run();
}
