/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Traces: one file or several, and their streams
 */

#include <errno.h>
#include <fcntl.h>

#include "lib/agent/parts.h"
#include "lib/agent/sideband.h"
#include "lib/agent/trace-files.h"
#include "lib/internal/kernel-ends.h"
#include "lib/internal/pread.h"
#include "util/search.h"

/*
 * A recording deletes parts while they are being opened: how often to try
 * again
 */
#define TRIES   10

struct btrail_trace {
    struct btrail_trace_status status;
    GPtrArray *files;           /* of struct btrail_file, by part */
    GArray *streams;            /* of struct btrail_trace_stream, by vCPU */
    GPtrArray *metas;           /* of struct btrail_meta, those of files */
    GArray *sideband;           /* of struct btrail_index_entry */
    gint *damaged;              /* which pieces of it are, as far as read */
    GArray *ends;               /* times without a kernel, or NULL */
    struct btrail_budget *budget, *decoding;
};

static struct btrail_file *file(const struct btrail_trace *t, unsigned n)
{
    return g_ptr_array_index(t->files, n);
}

const struct btrail_trace_stream *
btrail_trace_find_stream(const struct btrail_trace *t, unsigned vcpu)
{
    unsigned place;

    return btrail_find_stream(t->streams, vcpu, &place);
}

/* How many chunks of a stream begin before or with a record */
static unsigned chunks_up_to(const struct btrail_trace_stream *s,
                             uint64_t index)
{
    return BTRAIL_UP_TO(s->chunks->data, s->chunks->len,
                        struct btrail_index_entry, first_index, index);
}

/* May the records [@begin, @end) of chunk @i have run one of the addresses? */
static bool chunk_ran(const struct btrail_trace *t,
                      const struct btrail_trace_stream *s, unsigned i,
                      const uint64_t *addresses, size_t n, uint64_t begin,
                      uint64_t end)
{
    const struct btrail_index_entry *e = btrail_entry(s->chunks, i);

    return begin < end &&
           (!addresses ||
            btrail_file_ran(btrail_trace_file(t, e->file), e, addresses,
                            n));
}

bool btrail_trace_last_ran(const struct btrail_trace *t, unsigned vcpu,
                           const uint64_t *addresses, size_t n, uint64_t before,
                           uint64_t *begin, uint64_t *end)
{
    const struct btrail_trace_stream *s = btrail_trace_find_stream(t, vcpu);
    unsigned i = s ? chunks_up_to(s, before - 1) : 0;

    /* From the end of chunk i - 1 up to @before there is a hole, or nothing. */
    for (*end = before; s && *end; *end = *begin) {
        const struct btrail_index_entry *e = i ? btrail_entry(s->chunks,
                                                              i - 1) :
                                                 NULL;

        *begin = e ? e->end_index : 0;
        if (*begin < *end) {
            return true;
        }
        *begin = MIN(e->first_index, *end);
        i--;
        if (chunk_ran(t, s, i, addresses, n, *begin, *end)) {
            return true;
        }
    }
    return false;
}

bool btrail_trace_next_ran(const struct btrail_trace *t, unsigned vcpu,
                           const uint64_t *addresses, size_t n, uint64_t from,
                           uint64_t *begin, uint64_t *end)
{
    const struct btrail_trace_stream *s = btrail_trace_find_stream(t, vcpu);
    unsigned i = s ? chunks_up_to(s, from) : 0;

    if (i && btrail_entry(s->chunks, i - 1)->end_index > from) {
        i--;
    }
    for (*begin = from; s && i < s->chunks->len; *begin = *end, i++) {
        const struct btrail_index_entry *e = btrail_entry(s->chunks, i);

        *end = e->first_index;
        if (*begin < *end) {
            return true;
        }
        *end = MAX(e->end_index, *begin);
        if (chunk_ran(t, s, i, addresses, n, *begin, *end)) {
            return true;
        }
    }
    return false;
}

const struct btrail_trace_stream *
btrail_trace_nth_stream(const struct btrail_trace *t, unsigned n)
{
    return n < t->streams->len ?
           &g_array_index(t->streams, struct btrail_trace_stream, n) : NULL;
}

int btrail_trace_pick_streams(const struct btrail_trace *t,
                              const unsigned *vcpus, size_t n,
                              GPtrArray **streams)
{
    g_autoptr(GPtrArray) list = g_ptr_array_new();
    size_t i;

    if (!vcpus != !n || n > BTRAIL_MAX_VCPUS) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    for (i = 0; i < (n ? n : t->streams->len); i++) {
        const struct btrail_trace_stream *s =
            n ? btrail_trace_find_stream(t, vcpus[i]) :
            btrail_trace_nth_stream(t, i);

        if (!s) {
            return -BTRAIL_ERR_STREAM;
        }
        if (g_ptr_array_find(list, s, NULL)) {
            return -BTRAIL_ERR_ARGUMENT;
        }
        g_ptr_array_add(list, (gpointer)s);
    }
    *streams = g_steal_pointer(&list);
    return 0;
}

const struct btrail_file *btrail_trace_file(const struct btrail_trace *t,
                                            unsigned n)
{
    return n < t->files->len ? file(t, n) : NULL;
}

/* What one file has of a stream */
struct stream_piece {
    unsigned file;
    const GArray *chunks;
};

static const struct btrail_index_entry *
piece_entry(const struct stream_piece *p, unsigned i)
{
    return btrail_entry(p->chunks, i);
}

static gint compare_pieces(gconstpointer a, gconstpointer b)
{
    const struct stream_piece *x = a, *y = b;
    const struct btrail_index_entry *ex = piece_entry(x, 0);
    const struct btrail_index_entry *ey = piece_entry(y, 0);
    const struct btrail_index_entry *lx = piece_entry(x, x->chunks->len - 1);
    const struct btrail_index_entry *ly = piece_entry(y, y->chunks->len - 1);

    /* A piece with only events of an index comes before its records. */
    return BTRAIL_COMPARE(ex->first_index, ey->first_index) ?:
           BTRAIL_COMPARE(lx->end_index, ly->end_index) ?:
           BTRAIL_COMPARE(x->file, y->file);
}

/* Joins the pieces of a stream.  Errors: OVERLAP. */
static int join_stream(struct btrail_trace *t, unsigned vcpu, GArray *pieces)
{
    struct btrail_trace_stream stream = {
        .vcpu = vcpu,
        .chunks = btrail_index_new(),
    };
    uint64_t end = 0, time_max = 0;
    unsigned i, k;

    g_array_append_val(t->streams, stream);
    g_array_sort(pieces, compare_pieces);
    for (i = 0; i < pieces->len; i++) {
        const struct stream_piece *p =
            &g_array_index(pieces, struct stream_piece, i);

        if (piece_entry(p, 0)->first_index < end) {
            return -BTRAIL_ERR_OVERLAP;
        }
        end = piece_entry(p, p->chunks->len - 1)->end_index;
        g_array_append_vals(stream.chunks, p->chunks->data, p->chunks->len);
        for (k = stream.chunks->len - p->chunks->len; k < stream.chunks->len;
             k++) {
            struct btrail_index_entry *e = btrail_entry(stream.chunks, k);

            e->file = p->file;
            time_max = MAX(time_max, e->time_last);
            e->time_max = time_max;
        }
    }
    return 0;
}

static int join_streams(struct btrail_trace *t)
{
    g_autoptr(GArray) pieces = g_array_new(FALSE, FALSE,
                                           sizeof(struct stream_piece));
    unsigned vcpu, i, place;
    int ret = 0;

    for (vcpu = 0; !ret && vcpu < BTRAIL_MAX_VCPUS; vcpu++) {
        g_array_set_size(pieces, 0);
        for (i = 0; i < t->files->len; i++) {
            struct btrail_trace_stream *s =
                btrail_find_stream(file(t, i)->streams, vcpu, &place);

            if (s) {
                struct stream_piece piece = { i, s->chunks };

                g_array_append_val(pieces, piece);
            }
        }
        if (pieces->len) {
            ret = join_stream(t, vcpu, pieces);
        }
    }
    for (i = 0; i < t->files->len; i++) {
        g_array_set_size(file(t, i)->streams, 0);
    }
    return ret;
}

static bool has_meta(const struct btrail_trace *t,
                     const struct btrail_meta *meta)
{
    unsigned i;

    for (i = 0; i < t->metas->len; i++) {
        const struct btrail_meta *m = g_ptr_array_index(t->metas, i);

        if (m->length == meta->length &&
            !memcmp(m->json, meta->json, m->length)) {
            return true;
        }
    }
    return false;
}

/* Each part repeats the description with which the first one begins. */
static void join_metas(struct btrail_trace *t)
{
    unsigned i, k;

    for (i = 0; i < t->files->len; i++) {
        GArray *metas = file(t, i)->metas;

        for (k = 0; k < metas->len; k++) {
            struct btrail_meta *meta =
                &g_array_index(metas, struct btrail_meta, k);

            if (!i || !has_meta(t, meta)) {
                g_ptr_array_add(t->metas, meta);
            }
        }
    }
}

static void join_sideband(struct btrail_trace *t)
{
    unsigned i, k;

    for (i = 0; i < t->files->len; i++) {
        GArray *sideband = file(t, i)->sideband;

        for (k = 0; k < sideband->len; k++) {
            btrail_entry(sideband, k)->file = i;
        }
        g_array_append_vals(t->sideband, sideband->data, sideband->len);
        g_array_set_size(sideband, 0);
    }
}

static void join_status(struct btrail_trace *t)
{
    struct btrail_trace_status *status = &t->status;
    uint64_t next = 0;          /* part that comes next */
    unsigned i;

    status->files = t->files->len;
    status->first_part = file(t, 0)->header.part;
    if (file(t, 0)->header.begin == BTRAIL_GAP_OVERWRITTEN) {
        status->first_part = 0;
    }
    status->complete = true;
    status->indexed = true;
    for (i = 0; i < t->files->len; i++) {
        const struct btrail_file *f = file(t, i);

        status->file_size += f->size;
        status->chunks += f->status.chunks;
        status->bad_chunks += f->status.bad_chunks;
        status->missing_chunks += f->status.missing_chunks;
        status->skipped_bytes += f->status.skipped_bytes;
        status->cut_bytes += f->status.cut_bytes;
        status->complete &= f->status.complete;
        status->indexed &= f->status.indexed;
        status->continued = f->continued;
        if (i && f->header.part > next) {
            status->missing_parts += f->header.part - next;
        }
        next = MAX(next, (uint64_t)f->header.part + f->header.merged + 1);
    }
}

static gint compare_files(gconstpointer a, gconstpointer b)
{
    const struct btrail_file *x = *(struct btrail_file *const *)a;
    const struct btrail_file *y = *(struct btrail_file *const *)b;

    return BTRAIL_COMPARE(x->header.part, y->header.part);
}

struct btrail_budget *btrail_trace_budget(const struct btrail_trace *t)
{
    return t->budget;
}

struct btrail_budget *btrail_trace_decoding(const struct btrail_trace *t)
{
    return t->decoding;
}

GArray *btrail_trace_kernel_ends(const struct btrail_trace *t)
{
    return t->ends;
}

static struct btrail_trace *trace_new(void)
{
    struct btrail_trace *t = g_new0(struct btrail_trace, 1);

    t->files = g_ptr_array_new_with_free_func(
        (GDestroyNotify)btrail_file_close);
    t->streams = btrail_streams_new();
    t->metas = g_ptr_array_new();
    t->sideband = btrail_index_new();
    return t;
}

/* Makes one trace of the files, or frees @t and returns the error. */
static int join(struct btrail_trace *t, struct btrail_trace **trace)
{
    unsigned i;
    int ret = 0;

    for (i = 1; !ret && i < t->files->len; i++) {
        if (memcmp(file(t, 0)->header.id, file(t, i)->header.id,
                   BTRAIL_ID_SIZE)) {
            ret = -BTRAIL_ERR_OTHER;
        }
    }
    g_ptr_array_sort(t->files, compare_files);
    if (!ret) {
        ret = join_streams(t);
    }
    if (ret) {
        btrail_trace_close(t);
        return ret;
    }
    join_metas(t);
    join_sideband(t);
    t->damaged = g_new0(gint, t->sideband->len + 1);
    join_status(t);
    t->budget = btrail_budget_new(t->status.file_size);
    t->decoding = btrail_budget_new_decoding(t->status.file_size);
    t->ends = btrail_kernel_ends_read(t);
    *trace = t;
    return 0;
}

static int add_fd(struct btrail_trace *t, int fd)
{
    struct btrail_file *f;
    int ret = btrail_file_open(&f, fd, false);

    if (!ret) {
        g_ptr_array_add(t->files, f);
    }
    return ret;
}

static int add_path(struct btrail_trace *t, const char *path)
{
    /* Beside a trace there may be a FIFO where a part of it is expected. */
    return add_fd(t, open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
}

int btrail_trace_open_fd(struct btrail_trace **trace, int fd)
{
    struct btrail_trace *t;
    int ret;

    if (!trace) {
        btrail_close(fd);
        return -BTRAIL_ERR_ARGUMENT;
    }
    t = trace_new();
    ret = add_fd(t, fd);
    if (ret) {
        btrail_trace_close(t);
        return ret;
    }
    return join(t, trace);
}

int btrail_trace_open(struct btrail_trace **trace, const char *path)
{
    return btrail_trace_open_files(trace, &path, 1);
}

int btrail_trace_open_files(struct btrail_trace **trace,
                            const char *const *paths, unsigned n)
{
    struct btrail_trace *t;
    unsigned i;

    if (!trace || !paths || !n) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    for (i = 0; i < n; i++) {
        if (!paths[i]) {
            return -BTRAIL_ERR_ARGUMENT;
        }
    }
    t = trace_new();
    for (i = 0; i < n; i++) {
        int ret = add_path(t, paths[i]);

        if (ret) {
            btrail_trace_close(t);
            return ret;
        }
    }
    return join(t, trace);
}

/*
 * Opens the existing parts of a trace; @raced if one was deleted meanwhile.
 * Leaves out parts of another trace that were left behind.
 */
static int add_parts(struct btrail_trace *t, const char *path, bool *raced)
{
    g_autoptr(GArray) parts = btrail_parts_find(path);
    unsigned i;
    int ret = add_path(t, path);

    *raced = false;
    if (ret && (ret != -BTRAIL_ERR_IO || errno != ENOENT || !parts->len)) {
        return ret;
    }
    for (i = 0; i < parts->len; i++) {
        uint32_t part = g_array_index(parts, uint32_t, i);
        g_autofree char *name = btrail_part_path(path, part);
        const struct btrail_file *f;

        ret = add_path(t, name);
        if (ret == -BTRAIL_ERR_FORMAT) {
            /* It was just created, or is not part of a trace. */
            continue;
        }
        if (ret) {
            *raced = ret == -BTRAIL_ERR_IO && errno == ENOENT;
            return ret;
        }
        f = file(t, t->files->len - 1);
        if (t->files->len > 1 &&
            (f->header.part != part ||
             memcmp(f->header.id, file(t, 0)->header.id, BTRAIL_ID_SIZE))) {
            g_ptr_array_remove_index(t->files, t->files->len - 1);
        }
    }
    return 0;
}

int btrail_trace_open_parts(struct btrail_trace **trace, const char *path)
{
    unsigned tries;

    if (!trace || !path) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    for (tries = 0;; tries++) {
        struct btrail_trace *t = trace_new();
        bool raced;
        int ret = add_parts(t, path, &raced);

        if (!ret) {
            return join(t, trace);
        }
        btrail_trace_close(t);
        if (!raced || tries == TRIES) {
            return ret;
        }
    }
}

void btrail_trace_close(struct btrail_trace *t)
{
    if (t) {
        g_ptr_array_free(t->metas, TRUE);
        g_array_free(t->sideband, TRUE);
        g_free(t->damaged);
        g_clear_pointer(&t->ends, g_array_unref);
        g_array_free(t->streams, TRUE);
        g_ptr_array_free(t->files, TRUE);
        btrail_budget_unref(t->budget);
        btrail_budget_unref(t->decoding);
        g_free(t);
    }
}

int btrail_trace_status(const struct btrail_trace *t,
                        struct btrail_trace_status *status)
{
    if (!t || !status) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    *status = t->status;
    return 0;
}

unsigned btrail_trace_streams(const struct btrail_trace *t)
{
    return t ? t->streams->len : 0;
}

int btrail_trace_stream(const struct btrail_trace *t, unsigned n,
                        struct btrail_stream_info *info)
{
    const struct btrail_trace_stream *s;
    unsigned i;

    if (!t || !info) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    s = btrail_trace_nth_stream(t, n);
    if (!s) {
        return -BTRAIL_ERR_STREAM;
    }
    *info = (struct btrail_stream_info) {
        .vcpu = s->vcpu,
        .chunks = s->chunks->len,
    };
    for (i = 0; i < s->chunks->len; i++) {
        const struct btrail_index_entry *e = btrail_entry(s->chunks, i);

        info->records += e->records;
        info->bytes += BTRAIL_CHUNK_HEADER_SIZE + e->size;
        if (!i) {
            info->first_index = e->first_index;
        }
        if (!info->first_time) {
            info->first_time = e->time_first;
        }
        if (e->time_last) {
            info->last_time = e->time_last;
        }
        info->end_index = e->end_index;
    }
    return 0;
}

int btrail_trace_meta(const struct btrail_trace *t, unsigned n,
                      const char **json, size_t *length)
{
    const struct btrail_meta *meta;

    if (!t || !json) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    if (n >= t->metas->len) {
        return -BTRAIL_ERR_END;
    }
    meta = g_ptr_array_index(t->metas, n);
    *json = meta->json;
    if (length) {
        *length = meta->length;
    }
    return 0;
}

const GArray *btrail_trace_sidebands(const struct btrail_trace *t)
{
    return t->sideband;
}

int btrail_trace_sideband(const struct btrail_trace *t, unsigned i,
                          struct btrail_sideband_info *info, void **data)
{
    const struct btrail_index_entry *e;
    int ret = 0;

    if (!t || !info) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    if (i >= t->sideband->len) {
        return -BTRAIL_ERR_END;
    }
    e = btrail_entry(t->sideband, i);
    btrail_index_entry_info(e, info);
    if (data) {
        ret = btrail_file_read_sideband(file(t, e->file), e, info, data, NULL);
    }
    if (ret == -BTRAIL_ERR_CORRUPT) {
        btrail_trace_sideband_damaged(t, i);
    }
    return ret;
}

void btrail_trace_sideband_damaged(const struct btrail_trace *t, unsigned i)
{
    g_atomic_int_set(&t->damaged[i], 1);
}

uint64_t btrail_trace_sidebands_damaged(const struct btrail_trace *t)
{
    uint64_t n = 0;

    for (guint i = 0; i < t->sideband->len; i++) {
        n += g_atomic_int_get(&t->damaged[i]);
    }
    return n;
}
