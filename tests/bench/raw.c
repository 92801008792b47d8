/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Raw traces: see raw.h
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "raw.h"

#define WINDOW_LOG  27          /* programs come back after a long time */

/* An array on its way to a file */
struct output {
    char *path;
    FILE *file;
    ZSTD_CCtx *zstd;
    void *buffer;
};

static bool fail(const char *path, const char *what)
{
    fprintf(stderr, "raw: %s: %s\n", path, what);
    return false;
}

static bool output_open(struct output *out, const char *folder, unsigned vcpu,
                        const char *what)
{
    out->path = g_strdup_printf("%s/vcpu%u.%s.zst", folder, vcpu, what);
    out->file = fopen(out->path, "wb");
    if (!out->file) {
        fail(out->path, g_strerror(errno));
        g_free(out->path);
        return false;
    }
    out->zstd = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(out->zstd, ZSTD_c_compressionLevel, 1);
    ZSTD_CCtx_setParameter(out->zstd, ZSTD_c_windowLog, WINDOW_LOG);
    ZSTD_CCtx_setParameter(out->zstd, ZSTD_c_enableLongDistanceMatching, 1);
    ZSTD_CCtx_setParameter(out->zstd, ZSTD_c_checksumFlag, 1);
    out->buffer = g_malloc(ZSTD_CStreamOutSize());
    return true;
}

/* An error shows when the file is closed. */
static void output_write(struct output *out, const void *data, size_t len,
                         ZSTD_EndDirective directive)
{
    ZSTD_inBuffer in = { data, len, 0 };
    size_t left;

    do {
        ZSTD_outBuffer to = { out->buffer, ZSTD_CStreamOutSize(), 0 };

        left = ZSTD_compressStream2(out->zstd, &to, &in, directive);
        if (ZSTD_isError(left)) {
            g_error("zstd: %s", ZSTD_getErrorName(left));
        }
        fwrite(out->buffer, 1, to.pos, out->file);
    } while (directive == ZSTD_e_end ? left != 0 : in.pos != in.size);
}

static bool output_close(struct output *out)
{
    bool ok;

    output_write(out, NULL, 0, ZSTD_e_end);
    ok = !ferror(out->file);
    if (fclose(out->file)) {
        ok = false;
    }
    if (!ok) {
        fail(out->path, "cannot write");
    }
    ZSTD_freeCCtx(out->zstd);
    g_free(out->buffer);
    g_free(out->path);
    return ok;
}

/* Copy a stream up to @max records. */
static bool extract_stream(struct btrail_cursor *cursor, const char *path,
                           struct output *records, struct output *events,
                           size_t max)
{
    struct btrail_batch b;
    uint64_t next = 0;
    int ret = 0;

    while (next < max && !(ret = btrail_cursor_next(cursor, &b))) {
        if (b.event) {
            output_write(events, b.event, sizeof(*b.event),
                         ZSTD_e_continue);
        } else {
            size_t n = MIN(b.count, max - next);

            if (b.index != next) {
                return fail(path, "the trace has holes");
            }
            output_write(records, b.records, n * sizeof(*b.records),
                         ZSTD_e_continue);
            next += n;
        }
    }
    return !ret || ret == -BTRAIL_ERR_END ||
           fail(path, btrail_strerror(ret));
}

static bool extract_vcpu(const struct btrail_trace *trace, unsigned vcpu,
                         const char *path, const char *folder, size_t max)
{
    struct btrail_cursor *cursor;
    struct output records, events;
    bool ok = false;
    int ret = btrail_cursor_open(&cursor, trace, vcpu, 0);

    if (ret) {
        return fail(path, btrail_strerror(ret));
    }
    if (output_open(&records, folder, vcpu, "records")) {
        if (output_open(&events, folder, vcpu, "events")) {
            ok = extract_stream(cursor, path, &records, &events, max);
            ok = output_close(&events) && ok;
        }
        ok = output_close(&records) && ok;
    }
    btrail_cursor_close(cursor);
    return ok;
}

bool raw_extract(const char *path, const char *folder, size_t max)
{
    struct btrail_trace *trace;
    struct btrail_stream_info info;
    bool ok = true;
    unsigned i;
    int ret = btrail_trace_open(&trace, path);

    if (ret) {
        return fail(path, btrail_strerror(ret));
    }
    for (i = 0; ok && !btrail_trace_stream(trace, i, &info); i++) {
        ok = extract_vcpu(trace, info.vcpu, path, folder, max);
    }
    btrail_trace_close(trace);
    return ok && (i || fail(path, "no streams"));
}

/* The whole content of a compressed file; NULL after saying why. */
static void *load_file(const char *path, size_t unit, size_t *n)
{
    g_autofree char *compressed = NULL;
    g_autoptr(GError) error = NULL;
    ZSTD_DCtx *zstd = ZSTD_createDCtx();
    ZSTD_inBuffer in = { 0 };
    ZSTD_outBuffer out = { 0 };
    size_t left = 1;

    if (!g_file_get_contents(path, &compressed, &in.size, &error)) {
        ZSTD_freeDCtx(zstd);
        fail(path, error->message);
        return NULL;
    }
    in.src = compressed;
    ZSTD_DCtx_setParameter(zstd, ZSTD_d_windowLogMax, WINDOW_LOG);
    while (left) {
        if (out.size - out.pos < ZSTD_DStreamOutSize()) {
            out.size = MAX(2 * out.size, ZSTD_DStreamOutSize());
            out.dst = g_realloc(out.dst, out.size);
        }
        left = ZSTD_decompressStream(zstd, &out, &in);
        if (ZSTD_isError(left) ||
            (left && in.pos == in.size && out.pos < out.size)) {
            break;
        }
    }
    ZSTD_freeDCtx(zstd);
    if (left || out.pos % unit) {
        fail(path, "damaged; remove its folder to have it made again");
        g_free(out.dst);
        return NULL;
    }
    *n = out.pos / unit;
    return g_realloc(out.dst, MAX(out.pos, 1));
}

static void clear_stream(gpointer p)
{
    struct raw_stream *s = p;

    g_free(s->records);
    g_free(s->events);
}

GArray *raw_load(const char *folder)
{
    GArray *streams = g_array_new(FALSE, TRUE, sizeof(struct raw_stream));
    unsigned vcpu;

    g_array_set_clear_func(streams, clear_stream);
    for (vcpu = 0; vcpu < BTRAIL_MAX_VCPUS; vcpu++) {
        g_autofree char *records =
            g_strdup_printf("%s/vcpu%u.records.zst", folder, vcpu);
        g_autofree char *events =
            g_strdup_printf("%s/vcpu%u.events.zst", folder, vcpu);
        struct raw_stream s = { .vcpu = vcpu };

        if (access(records, F_OK)) {
            continue;
        }
        s.records = load_file(records, sizeof(*s.records), &s.n_records);
        s.events = load_file(events, sizeof(*s.events), &s.n_events);
        g_array_append_val(streams, s);
        if (!s.records || !s.events) {
            g_array_unref(streams);
            return NULL;
        }
    }
    if (!streams->len) {
        fail(folder, "no raw trace");
        g_array_unref(streams);
        return NULL;
    }
    return streams;
}
