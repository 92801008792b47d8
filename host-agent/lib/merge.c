/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Merging: one file of all those that are one trace
 */

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "lib/agent/trace-files.h"
#include "lib/internal/copy.h"

/*
 * The stream whose next chunk is the earliest, in the order of recording;
 * @which gets its number.  NULL if no chunk is left.
 */
static const struct btrail_trace_stream *
earliest(const struct btrail_trace *trace, const unsigned *next,
         unsigned *which)
{
    const struct btrail_trace_stream *s, *best = NULL;
    uint64_t best_time = 0;
    unsigned i;

    for (i = 0; (s = btrail_trace_nth_stream(trace, i)); i++) {
        if (next[i] < s->chunks->len) {
            uint64_t time = btrail_entry(s->chunks, next[i])->time_first;

            if (!best || time < best_time) {
                best = s;
                best_time = time;
                *which = i;
            }
        }
    }
    return best;
}

static int copy_chunks(const struct btrail_trace *trace,
                       struct btrail_copy *copy)
{
    g_autofree unsigned *next = g_new0(unsigned,
                                       btrail_trace_streams(trace) + 1);
    const struct btrail_trace_stream *s;
    unsigned i = 0;
    int ret = 0;

    while (!ret && (s = earliest(trace, next, &i))) {
        const struct btrail_index_entry *e = btrail_entry(s->chunks, next[i]);
        bool begins = !next[i] || e[-1].file != e->file;

        ret = btrail_copy_data(copy, btrail_trace_file(trace, e->file), e,
                               begins);
        next[i]++;
    }
    return ret;
}

/* Pieces of description from @i up to @end; a later one counts more. */
static int copy_metas(const struct btrail_trace *trace,
                      struct btrail_store *store, unsigned i, unsigned end)
{
    const char *json;
    size_t length;
    int ret = 0;

    for (; !ret && i < end && !btrail_trace_meta(trace, i, &json, &length);
         i++) {
        ret = btrail_store_meta(store, json, length);
    }
    return ret;
}

static int copy_sideband(const struct btrail_trace *trace,
                         struct btrail_copy *copy)
{
    const GArray *sideband = btrail_trace_sidebands(trace);
    unsigned i;
    int ret = 0;

    for (i = 0; !ret && i < sideband->len; i++) {
        const struct btrail_index_entry *e = btrail_entry(sideband, i);

        ret = btrail_copy_sideband(copy, btrail_trace_file(trace, e->file),
                                   e);
    }
    return ret;
}

/* @more: of the description, or NULL */
static int write_all(const struct btrail_trace *trace,
                     struct btrail_store *store, struct btrail_copy *copy,
                     bool running, const char *more)
{
    unsigned most = BTRAIL_MAX_METAS - (more != NULL);
    struct btrail_trace_status status;
    unsigned metas = 0, first;
    const char *json;
    int ret;

    btrail_trace_status(trace, &status);
    while (!btrail_trace_meta(trace, metas, &json, NULL)) {
        metas++;
    }
    /* Of too many, those in the middle are left out. */
    first = metas > most ? metas - most + 1 : 1;
    ret = copy_metas(trace, store, 0, 1);
    if (!ret && metas) {
        ret = copy_metas(trace, store, first, metas - 1);
    }
    if (!ret && more) {
        ret = btrail_store_meta(store, more, strlen(more));
    }
    if (!ret) {
        ret = copy_sideband(trace, copy);
    }
    if (!ret) {
        ret = copy_chunks(trace, copy);
    }
    if (!ret) {
        ret = btrail_copy_end(copy, running || !(status.complete ||
                                                 status.continued),
                              !status.indexed && !running);
    }
    if (!ret && metas > 1) {
        ret = copy_metas(trace, store, metas - 1, metas);
    }
    return ret;
}

/*
 * The header of one file in place of all.  @running: the last file may have been
 * ended meanwhile, because another follows; this trace ends with it.
 */
static void describe(const struct btrail_trace *trace, bool running,
                     struct btrail_store_options *options)
{
    const struct btrail_file *f = btrail_trace_file(trace, 0);
    struct btrail_trace_status status;
    uint64_t last = 0;
    unsigned i;

    btrail_trace_status(trace, &status);
    options->id = f->header.id;
    options->part = f->header.part;
    options->begin = f->header.begin;
    options->continued = status.continued && !running;
    for (i = 0; (f = btrail_trace_file(trace, i)); i++) {
        last = MAX(last, (uint64_t)f->header.part + f->header.merged);
        if (f->header.part == options->part) {
            options->begin = MIN(options->begin, f->header.begin);
        }
    }
    options->merged = MIN(last, UINT32_MAX) - options->part;
}

static bool is_one_of(const struct btrail_trace *trace, const char *path)
{
    const struct btrail_file *f;
    unsigned i;

    for (i = 0; (f = btrail_trace_file(trace, i)); i++) {
        if (btrail_file_is(f, path)) {
            return true;
        }
    }
    return false;
}

static int merge(const struct btrail_trace *trace, const char *out,
                 unsigned flags, bool running, const char *more,
                 struct btrail_merge_result *result)
{
    struct btrail_store_options options = {
        .path = out, .replace = flags & BTRAIL_WRITER_REPLACE,
    };
    struct btrail_store *store;
    struct btrail_copy *copy;
    int ret, end, error;

    if (!trace || !out || (flags & ~BTRAIL_WRITER_REPLACE) ||
        is_one_of(trace, out)) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    describe(trace, running, &options);
    ret = btrail_store_open(&store, &options);
    if (ret) {
        return ret;
    }
    copy = btrail_copy_new(store, options.begin, false);
    ret = write_all(trace, store, copy, running, more);
    error = errno;
    if (result) {
        *result = *btrail_copy_sum(copy);
    }
    btrail_copy_free(copy);
    end = btrail_store_close(store, NULL);
    if (!ret) {
        ret = end;
        error = errno;
    }
    if (ret && !options.replace) {
        /* It is ours, and the next call would fail because of it. */
        unlink(out);
    }
    errno = error;
    return ret;
}

int btrail_merge(const struct btrail_trace *trace, const char *out,
                 unsigned flags, struct btrail_merge_result *result)
{
    return merge(trace, out, flags, false, NULL, result);
}

int btrail_merge_running(const struct btrail_trace *trace, const char *out,
                         const char *more, struct btrail_merge_result *result)
{
    return merge(trace, out, 0, true, more, result);
}
