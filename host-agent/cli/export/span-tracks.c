/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tracks of a timeline for spans: see span-tracks.h
 */

#include <glib.h>

#include "cli/export/span-tracks.h"
#include "util/hash.h"

/* Numbers of tracks, beside those of calls */
#define FIRST_TRACK     (UINT64_C(1) << 31)

/* Tracks of a thread: more are of no use to a person. */
#define MAX_TRACKS      256

/**
 * struct track
 * @time: of its last event
 * @ends: of spans in it that are still open (uint64_t), the innermost one last
 */
struct track {
    uint64_t number;
    uint64_t time;
    GArray *ends;
};

/**
 * struct span_tracks
 * @threads: parent -> its tracks, a GArray of struct track
 * @n:       tracks
 * @left_out: spans
 */
struct span_tracks {
    struct perfetto *out;
    struct timeline_slices *slices;
    const char *name;
    GHashTable *threads;
    uint64_t n;
    uint64_t left_out;
};

static void clear_track(gpointer p)
{
    struct track *t = p;

    g_array_unref(t->ends);
}

struct span_tracks *span_tracks_new(struct perfetto *out,
                                    struct timeline_slices *slices, const char *name)
{
    struct span_tracks *s = g_new0(struct span_tracks, 1);

    s->out = out;
    s->slices = slices;
    s->name = name;
    s->threads = g_hash_table_new_full(btrail_int64_hash, g_int64_equal, g_free,
                                       (GDestroyNotify)g_array_unref);
    return s;
}

void span_tracks_free(struct span_tracks *s)
{
    g_hash_table_unref(s->threads);
    g_free(s);
}

static GArray *tracks_of(struct span_tracks *s, uint64_t parent)
{
    GArray *tracks = g_hash_table_lookup(s->threads, &parent);

    if (!tracks) {
        tracks = g_array_new(FALSE, FALSE, sizeof(struct track));
        g_array_set_clear_func(tracks, clear_track);
        g_hash_table_insert(s->threads, g_memdup2(&parent, sizeof(parent)),
                            tracks);
    }
    return tracks;
}

static const uint64_t *innermost(const struct track *t)
{
    return t->ends->len ?
           &g_array_index(t->ends, uint64_t, t->ends->len - 1) : NULL;
}

/* Writes the ends of spans up to a time. */
static void end_spans(struct span_tracks *s, struct track *t, uint64_t time)
{
    const uint64_t *end;

    while ((end = innermost(t)) && *end <= time) {
        t->time = MAX(t->time, *end);
        slices_end(s->slices, t->number, t->time);
        g_array_set_size(t->ends, t->ends->len - 1);
    }
}

static struct track *new_track(struct span_tracks *s, GArray *tracks,
                               uint64_t parent)
{
    const struct track t = {
        .number = FIRST_TRACK + s->n++,
        .ends = g_array_new(FALSE, FALSE, sizeof(uint64_t)),
    };

    perfetto_track(s->out, t.number, parent, s->name);
    g_array_append_val(tracks, t);
    return &g_array_index(tracks, struct track, tracks->len - 1);
}

/* A track that has room for a span; NULL if there are too many. */
static struct track *find_track(struct span_tracks *s, uint64_t parent,
                                uint64_t begin, uint64_t end)
{
    GArray *tracks = tracks_of(s, parent);

    for (guint i = 0; i < tracks->len; i++) {
        struct track *t = &g_array_index(tracks, struct track, i);
        const uint64_t *around;

        end_spans(s, t, begin);
        around = innermost(t);
        if (!around || *around >= end) {
            return t;
        }
    }
    return tracks->len < MAX_TRACKS ? new_track(s, tracks, parent) : NULL;
}

void span_tracks_add(struct span_tracks *s, uint64_t parent,
                     const struct span *span)
{
    uint64_t begin = span->begin->time, end = MAX(begin, span->end->time);
    struct track *t = find_track(s, parent, begin, end);

    if (!t) {
        s->left_out++;
        return;
    }
    t->time = MAX(t->time, begin);
    slices_begin(s->slices, t->number, t->time, s->name,
                 span->begin->known ? &span->begin->value : NULL);
    end = MAX(end, t->time);
    g_array_append_val(t->ends, end);
}

uint64_t span_tracks_end(struct span_tracks *s)
{
    GHashTableIter iter;
    gpointer tracks;

    g_hash_table_iter_init(&iter, s->threads);
    while (g_hash_table_iter_next(&iter, NULL, &tracks)) {
        for (guint i = 0; i < ((GArray *)tracks)->len; i++) {
            end_spans(s, &g_array_index((GArray *)tracks, struct track, i),
                      UINT64_MAX);
        }
    }
    return s->left_out;
}
