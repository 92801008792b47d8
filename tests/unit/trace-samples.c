/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Traces to test readers with: see trace-samples.h
 */

#include <glib/gstdio.h>

#include "trace-samples.h"

char *sample_path(void)
{
    GError *error = NULL;
    char *folder = g_dir_make_tmp("backtrail-XXXXXX", &error), *path;

    g_assert_no_error(error);
    path = g_build_filename(folder, "sample.btrail", NULL);
    g_free(folder);
    return path;
}

void sample_remove(char *path)
{
    g_autofree char *folder = g_path_get_dirname(path);
    GDir *dir = g_dir_open(folder, 0, NULL);
    const char *name;

    g_assert_nonnull(dir);
    while ((name = g_dir_read_name(dir))) {
        g_autofree char *file = g_build_filename(folder, name, NULL);

        g_assert_cmpint(g_remove(file), ==, 0);
    }
    g_dir_close(dir);
    g_assert_cmpint(g_rmdir(folder), ==, 0);
    g_free(path);
}

static uint64_t chunk_first_index(unsigned chunk)
{
    return chunk * SAMPLE_CHUNK_RECORDS + (chunk ? SAMPLE_LOST : 0);
}

void sample_write(const char *path, unsigned chunks)
{
    const struct btrail_writer_options options = {
        .flags = BTRAIL_WRITER_REPLACE,
    };

    sample_write_with(path, chunks, &options);
}

void sample_sideband(unsigned i, struct btrail_sideband_info *info,
                     uint8_t *bytes)
{
    uint32_t random = i, k;

    *info = (struct btrail_sideband_info) {
        .kind = 1 + i % 5, .size = i * 137 % SAMPLE_SIDEBAND_MAX,
        .time = i % 3 ? 1000000 * (i + 1) : 0,
    };
    for (k = 0; k < info->size; k++) {
        random = random * 1664525 + 1013904223;
        bytes[k] = i % 2 ? k % 7 : random >> 24;
    }
}

static void write_sample(const char *path, unsigned chunks,
                         const struct btrail_writer_options *options,
                         bool sideband)
{
    static const char json[] = "{\"sample\": true}";
    static const unsigned vcpus[] = { 0, 3 };
    struct btrail_writer *w;
    unsigned chunk, v, i;

    g_assert_cmpint(btrail_writer_open_with(&w, path, options), ==, 0);
    g_assert_cmpint(btrail_writer_meta(w, json, strlen(json)), ==, 0);
    for (chunk = 0; chunk < chunks; chunk++) {
        for (v = 0; v < G_N_ELEMENTS(vcpus); v++) {
            struct btrail_record records[SAMPLE_CHUNK_RECORDS];
            uint64_t first = chunk_first_index(chunk);
            struct btrail_event events[4];
            struct btrail_slab slab = {
                .first_index = first,
                .cr3 = 0x1000 * chunk,
                .records = records,
                .n_records = SAMPLE_CHUNK_RECORDS,
                .events = events,
            };

            for (i = 0; i < SAMPLE_CHUNK_RECORDS; i++) {
                records[i].from = 0x1000 * vcpus[v] + first + i;
                records[i].to = first + i;
                records[i].flags = 0;
            }
            if (chunk == 1) {
                events[slab.n_events++] = (struct btrail_event) {
                    .index = first,
                    .type = BTRAIL_EVENT_GAP,
                    .reason = BTRAIL_GAP_OVERFLOW,
                    .data = { SAMPLE_LOST },
                };
            }
            events[slab.n_events++] = (struct btrail_event) {
                .index = first,
                .type = BTRAIL_EVENT_TIME,
                .data = { 1000000 * (chunk + 1), chunk, BTRAIL_NO_ICOUNT },
            };
            events[slab.n_events++] = (struct btrail_event) {
                .index = first + SAMPLE_CHUNK_RECORDS / 2,
                .type = BTRAIL_EVENT_CR3,
                .data = { 0x1000 * (chunk + 1) },
            };
            if (chunk == chunks - 1) {
                events[slab.n_events++] = (struct btrail_event) {
                    .index = first + SAMPLE_CHUNK_RECORDS,
                    .type = BTRAIL_EVENT_END,
                    .reason = BTRAIL_END_STOPPED,
                };
            }
            g_assert_cmpint(btrail_writer_append(w, vcpus[v], &slab), ==, 0);
        }
        g_assert_cmpint(btrail_writer_flush(w), ==, 0);
        if (sideband) {
            uint8_t bytes[SAMPLE_SIDEBAND_MAX];
            struct btrail_sideband_info info;

            sample_sideband(chunk, &info, bytes);
            g_assert_cmpint(btrail_writer_sideband(w, &info, bytes), ==, 0);
        }
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
}

void sample_write_with(const char *path, unsigned chunks,
                       const struct btrail_writer_options *options)
{
    write_sample(path, chunks, options, false);
}

void sample_write_sideband(const char *path, unsigned chunks,
                           const struct btrail_writer_options *options)
{
    write_sample(path, chunks, options, true);
}

static void check_records(const struct btrail_batch *b, unsigned vcpu)
{
    size_t i;

    for (i = 0; i < b->count; i++) {
        uint64_t index = b->index + i;
        uint64_t place = index;
        unsigned chunk;

        if (index >= SAMPLE_CHUNK_RECORDS) {
            place -= SAMPLE_LOST;
        }
        chunk = place / SAMPLE_CHUNK_RECORDS;
        g_assert_cmphex(b->records[i].from, ==, 0x1000 * vcpu + index);
        g_assert_cmphex(b->records[i].to, ==, index);
        g_assert_cmphex(b->records[i].flags, ==, 0);
        g_assert_cmphex(b->cr3, ==, 0x1000 *
                        (chunk + (place % SAMPLE_CHUNK_RECORDS >=
                                  SAMPLE_CHUNK_RECORDS / 2)));
        g_assert_cmpuint(b->time.host, ==, 1000000 * (chunk + 1));
        g_assert_cmpuint(b->time.tsc, ==, chunk);
        g_assert_cmpuint(b->time.icount, ==, BTRAIL_NO_ICOUNT);
    }
}

void sample_write_slabs(const char *path, const struct sample_slabs *s)
{
    struct btrail_writer *w;

    g_assert_cmpint(btrail_writer_open(&w, path, BTRAIL_WRITER_REPLACE), ==,
                    0);
    for (unsigned i = 0; i < s->n; i++) {
        struct btrail_event events[2] = { { 0 } };
        struct btrail_slab slab = {
            .first_index = i * s->n_records + (i < s->n / 2 ? 0 : s->lost),
            .records = &s->records[i * s->n_records],
            .n_records = s->n_records, .events = events,
        };

        if (s->lost && i == s->n / 2) {
            events[slab.n_events++] = (struct btrail_event) {
                .index = slab.first_index, .type = BTRAIL_EVENT_GAP,
                .reason = BTRAIL_GAP_OVERFLOW, .data = { s->lost },
            };
        }
        events[slab.n_events++] = (struct btrail_event) {
            .index = slab.first_index, .type = BTRAIL_EVENT_TIME,
            .data = { i + 1, i, s->counted ?
                      slab.records->flags >> BTRAIL_RECORD_ICOUNT_SHIFT :
                      BTRAIL_NO_ICOUNT },
        };
        g_assert_cmpint(btrail_writer_append(w, 0, &slab), ==, 0);
        if (i % s->in_chunk == s->in_chunk - 1) {
            g_assert_cmpint(btrail_writer_flush(w), ==, 0);
        }
    }
    g_assert_cmpint(btrail_writer_close(w), ==, 0);
}

bool sample_walk(struct btrail_trace *trace, unsigned vcpu, sample_seen *seen,
                 void *opaque, struct sample_end *end)
{
    struct btrail_cursor *cursor;
    struct btrail_batch b;
    uint64_t index = 0;
    int ret;

    ret = btrail_cursor_open(&cursor, trace, vcpu, 0);
    if (ret) {
        g_assert_cmpint(ret, ==, -BTRAIL_ERR_STREAM);
        return false;
    }
    while (!(ret = btrail_cursor_next(cursor, &b))) {
        g_assert_cmpuint(b.index, ==, index);
        g_assert_true(!b.count == !!b.event);
        if (b.count) {
            index += b.count;
        } else if (b.event->type == BTRAIL_EVENT_GAP &&
                   b.event->data[0] != BTRAIL_LOST_UNKNOWN) {
            index += b.event->data[0];
            g_assert_cmpuint(b.event->index, ==, index);
        }
        seen(opaque, &b);
    }
    g_assert_cmpint(ret, ==, -BTRAIL_ERR_END);
    /* And it stays there. */
    g_assert_cmpint(btrail_cursor_next(cursor, &b), ==, -BTRAIL_ERR_END);
    end->index = index;
    end->bad_chunks = btrail_cursor_bad_chunks(cursor);
    btrail_cursor_close(cursor);
    return true;
}

struct reading {
    struct sample_stream *s;
    unsigned vcpu;
};

static void seen_sample(void *opaque, const struct btrail_batch *b)
{
    const struct reading *r = opaque;
    struct sample_stream *s = r->s;

    if (b->count) {
        check_records(b, r->vcpu);
        s->records += b->count;
        return;
    }
    if (b->event->type == BTRAIL_EVENT_GAP &&
        b->event->data[0] != BTRAIL_LOST_UNKNOWN) {
        if (b->synthetic) {
            g_assert_cmpuint(b->event->reason, ==, BTRAIL_GAP_CORRUPT);
            s->synthetic++;
            s->missing += b->event->data[0];
        } else {
            s->lost += b->event->data[0];
            if (b->event->reason == BTRAIL_GAP_ELSEWHERE ||
                b->event->reason == BTRAIL_GAP_OVERWRITTEN) {
                s->elsewhere += b->event->data[0];
                return;
            }
        }
    }
    s->events += !b->synthetic;
    s->ended |= b->event->type == BTRAIL_EVENT_END;
}

bool sample_read(struct btrail_trace *trace, unsigned vcpu,
                 struct sample_stream *s)
{
    struct reading reading = { s, vcpu };
    struct sample_end end;

    memset(s, 0, sizeof(*s));
    if (!sample_walk(trace, vcpu, seen_sample, &reading, &end)) {
        return false;
    }
    s->end_index = end.index;
    s->bad_chunks = end.bad_chunks;
    return true;
}
