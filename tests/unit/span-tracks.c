/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Spans on tracks of a timeline, at random: a reader finds each of them, with
 * its times, on a track where each lies within another one or apart from it
 */

#include <stdlib.h>
#include <string.h>

#include "cli/export/span-tracks.h"
#include "timeline-reader.h"

enum { PARENTS = 3, MOST = 256 };

struct scene {
    char *bytes;
    size_t size;
    FILE *out;
    struct perfetto *p;
    struct timeline_slices *slices;
    struct span_tracks *tracks;
};

static void begin(struct scene *s)
{
    s->out = open_memstream(&s->bytes, &s->size);
    s->p = perfetto_new(s->out);
    s->slices = slices_new(s->p, 0);
    s->tracks = span_tracks_new(s->p, s->slices, "a to b");
}

static void end(struct scene *s)
{
    span_tracks_free(s->tracks);
    slices_free(s->slices);
    perfetto_free(s->p);
    fclose(s->out);
    free(s->bytes);
}

static void add(struct scene *s, uint64_t parent, uint64_t from, uint64_t to,
                const uint64_t *value)
{
    const struct span_point a = {
        .time = from, .known = value, .value = value ? *value : 0,
    };
    const struct span_point b = { .time = to };
    const struct span span = { .begin = &a, .end = &b };

    span_tracks_add(s->tracks, parent, &span);
}

/* A span as it was added, or as it was found on a track */
struct piece {
    uint64_t parent, begin, end, value;
    bool has_value;
};

/* What a reader finds: pieces, and the tracks of each parent */
struct found {
    GArray *pieces;
    unsigned tracks[PARENTS + 1];
};

/* The events of a track, in the order of the file, which is that of times */
static void read_track(const GArray *events, uint64_t track, uint64_t parent,
                       GArray *pieces)
{
    g_autoptr(GArray) open = g_array_new(FALSE, FALSE, sizeof(struct piece));
    uint64_t last = 0;

    for (guint i = 0; i < events->len; i++) {
        const struct timeline_event *e = &g_array_index(
            events, struct timeline_event, i);
        struct piece piece = {
            parent, e->time, 0, e->value, e->has_value,
        };

        if (e->track != track) {
            continue;
        }
        g_assert_cmpuint(e->time, >=, last);
        last = e->time;
        if (e->type == PERFETTO_BEGIN) {
            g_assert_cmpstr(e->name, ==, "a to b");
            g_array_append_val(open, piece);
        } else {
            g_assert_cmpint(e->type, ==, PERFETTO_END);
            g_assert_cmpuint(open->len, >, 0);
            piece = g_array_index(open, struct piece, open->len - 1);
            piece.end = e->time;
            g_array_set_size(open, open->len - 1);
            g_array_append_val(pieces, piece);
        }
    }
    g_assert_cmpuint(open->len, ==, 0);
}

static struct found read_all(struct scene *s)
{
    struct found f = {
        .pieces = g_array_new(FALSE, FALSE, sizeof(struct piece)),
    };
    g_autoptr(GHashTable) seen = g_hash_table_new(NULL, NULL);
    g_autoptr(GPtrArray) packets = NULL;
    g_autoptr(GArray) events = NULL;

    fflush(s->out);
    packets = timeline_packets(s->bytes, s->size);
    events = timeline_events(packets);
    for (guint i = 0; i < packets->len; i++) {
        if (proto_count(packets->pdata[i], 60)) {
            g_autoptr(GArray) d = proto_message(packets->pdata[i], 60);
            g_autofree char *name = proto_text(d, 2);
            uint64_t track = proto_value(d, 1), parent = proto_value(d, 5);

            /* Numbers of their own, apart from those of threads */
            g_assert_cmpstr(name, ==, "a to b");
            g_assert_true(g_hash_table_add(seen, GSIZE_TO_POINTER(track)));
            g_assert_cmpuint(track, >=, UINT64_C(1) << 31);
            g_assert_cmpuint(track, <, PERFETTO_TRACKS);
            g_assert_cmpuint(parent, <=, PARENTS);
            f.tracks[parent]++;
            read_track(events, track, parent, f.pieces);
        }
    }
    return f;
}

static int compare(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct piece));
}

static int by_begin(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;

    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static void check_same(GArray *found, GArray *want)
{
    g_array_sort(found, compare);
    g_array_sort(want, compare);
    g_assert_cmpuint(found->len, ==, want->len);
    for (guint i = 0; i < want->len; i++) {
        g_assert_cmpint(compare(&g_array_index(found, struct piece, i),
                                &g_array_index(want, struct piece, i)), ==, 0);
    }
}

static struct piece *piece_at(GArray *pieces, guint i)
{
    return &g_array_index(pieces, struct piece, i);
}

static void run(unsigned n, unsigned longest)
{
    g_autoptr(GArray) all = g_array_new(FALSE, TRUE, sizeof(struct piece));
    struct scene s;
    struct found f;

    begin(&s);
    g_array_set_size(all, n);
    for (unsigned i = 0; i < n; i++) {
        struct piece *p = piece_at(all, i);

        p->parent = g_test_rand_int_range(1, PARENTS + 1);
        p->begin = g_test_rand_int_range(1, 1000);
        p->end = p->begin + g_test_rand_int_range(0, longest);
        p->has_value = g_test_rand_bit();
        p->value = p->has_value ? g_test_rand_int() : 0;
    }
    g_array_sort(all, by_begin);
    for (unsigned i = 0; i < n; i++) {
        const struct piece *p = piece_at(all, i);

        add(&s, p->parent, p->begin, p->end,
            p->has_value ? &p->value : NULL);
    }
    g_assert_cmpuint(span_tracks_end(s.tracks), ==, 0);
    f = read_all(&s);
    check_same(f.pieces, all);
    g_array_unref(f.pieces);
    end(&s);
}

static void test_random(void)
{
    for (unsigned n = 0; n < 200; n++) {
        run(n, 1 + g_test_rand_int_range(0, 300));
    }
}

/* Spans, as "begin end", and how many tracks they need */
static void check_tracks(const char *spans, unsigned tracks)
{
    g_auto(GStrv) each = g_strsplit(spans, ", ", 0);
    struct scene s;
    struct found f;

    begin(&s);
    for (char **p = each; *p; p++) {
        char *rest;
        uint64_t from = g_ascii_strtoull(*p, &rest, 10);

        add(&s, 1, from, g_ascii_strtoull(rest, NULL, 10), NULL);
    }
    g_assert_cmpuint(span_tracks_end(s.tracks), ==, 0);
    f = read_all(&s);
    g_assert_cmpuint(f.tracks[1], ==, tracks);
    g_assert_cmpuint(f.pieces->len, ==, g_strv_length(each));
    g_array_unref(f.pieces);
    end(&s);
}

/* As few as spans need */
static void test_few(void)
{
    check_tracks("1 5", 1);
    check_tracks("1 5, 5 9, 9 12", 1);
    check_tracks("1 9, 2 8, 3 7, 4 5, 5 7", 1);
    check_tracks("1 9, 1 9", 1);
    check_tracks("1 5, 4 6", 2);
    check_tracks("1 5, 4 6, 5 7, 6 8", 2);
    check_tracks("1 5, 4 8, 6 7, 9 10", 2);
    check_tracks("1 4, 2 5, 3 6", 3);
    check_tracks("1 4, 2 5, 3 6, 6 9, 7 8", 3);
    check_tracks("1 1, 1 1, 1 2", 1);
}

/* One that ends before it begins, by the estimates of two vCPUs */
static void test_back(void)
{
    struct scene s;
    struct found f;

    begin(&s);
    add(&s, 1, 100, 90, NULL);
    g_assert_cmpuint(span_tracks_end(s.tracks), ==, 0);
    f = read_all(&s);
    g_assert_cmpuint(f.pieces->len, ==, 1);
    g_assert_cmpuint(piece_at(f.pieces, 0)->begin, ==, 100);
    g_assert_cmpuint(piece_at(f.pieces, 0)->end, ==, 100);
    g_array_unref(f.pieces);
    end(&s);
}

/* More tracks than a thread gets: the spans are counted, others are there. */
static void test_many(void)
{
    struct scene s;
    struct found f;

    begin(&s);
    for (unsigned i = 0; i < MOST + 3; i++) {
        add(&s, 1, 10 + i, 1000 + i, NULL);
        add(&s, 2, 10 + i, 1000 + i, NULL);
    }
    /* There is room again. */
    add(&s, 1, 1000, 1001, NULL);
    g_assert_cmpuint(span_tracks_end(s.tracks), ==, 6);
    f = read_all(&s);
    g_assert_cmpuint(f.tracks[1], ==, MOST);
    g_assert_cmpuint(f.tracks[2], ==, MOST);
    g_assert_cmpuint(f.pieces->len, ==, 2 * MOST + 1);
    g_array_unref(f.pieces);
    end(&s);
}

static void test_none(void)
{
    struct scene s;

    begin(&s);
    g_assert_cmpuint(span_tracks_end(s.tracks), ==, 0);
    g_assert_cmpuint(perfetto_written(s.p), ==, 0);
    end(&s);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/span-tracks/random", test_random);
    g_test_add_func("/span-tracks/few", test_few);
    g_test_add_func("/span-tracks/back", test_back);
    g_test_add_func("/span-tracks/many", test_many);
    g_test_add_func("/span-tracks/none", test_none);
    return g_test_run();
}
