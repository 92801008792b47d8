/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Repairing: a complete file of what is left of one
 */

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "lib/agent/parts.h"
#include "lib/agent/trace-files.h"
#include "lib/internal/copy.h"
#include "lib/internal/pread.h"
#include "lib/internal/scan.h"
#include "util/search.h"

/* A META, DATA or SIDEBAND chunk of the file */
struct repair_piece {
    struct btrail_index_entry entry;
    bool begins;                /* the first one of its stream */
    bool bad;                   /* it was read and is damaged */
    unsigned meta;              /* number of the description */
};

struct repair {
    struct btrail_file *file;
    GArray *pieces;             /* of struct repair_piece, by their place */
    struct btrail_repair_result result;
};

static struct repair_piece *piece(const struct repair *r, unsigned i)
{
    return &g_array_index(r->pieces, struct repair_piece, i);
}

static gint compare_pieces(gconstpointer a, gconstpointer b)
{
    const struct repair_piece *x = a, *y = b;

    return BTRAIL_COMPARE(x->entry.offset, y->entry.offset);
}

static void add_piece(struct repair *r, const struct btrail_index_entry *e,
                      bool begins, unsigned meta)
{
    struct repair_piece p = { .entry = *e, .begins = begins, .meta = meta };

    g_array_append_val(r->pieces, p);
}

static void find_pieces(struct repair *r)
{
    struct btrail_file *f = r->file;
    unsigned i, k;

    for (i = 0; i < f->metas->len; i++) {
        const struct btrail_meta *m = &g_array_index(f->metas,
                                                     struct btrail_meta, i);
        const struct btrail_index_entry e = {
            .offset = m->offset, .size = m->length, .type = BTRAIL_CHUNK_META,
        };

        add_piece(r, &e, false, i);
    }
    for (i = 0; i < f->streams->len; i++) {
        const GArray *chunks = g_array_index(f->streams,
                                             struct btrail_trace_stream,
                                             i).chunks;

        for (k = 0; k < chunks->len; k++) {
            add_piece(r, btrail_entry(chunks, k), !k, 0);
        }
    }
    for (i = 0; i < f->sideband->len; i++) {
        add_piece(r, btrail_entry(f->sideband, i), false, 0);
    }
    g_array_sort(r->pieces, compare_pieces);
}

/* Does the trace continue in a part that exists? */
static bool find_next_part(const struct repair *r, const char *path)
{
    const struct btrail_file_header *h = &r->file->header;
    g_autofree char *first = btrail_part_first(path, h->part);
    g_autofree char *next = NULL;
    uint8_t bytes[BTRAIL_FILE_HEADER_SIZE];
    struct btrail_file_header other;
    bool found;
    int fd;

    if (r->file->continued) {
        return true;
    }
    if (!first || r->file->no_header || r->file->status.complete ||
        h->part == UINT32_MAX) {
        return false;
    }
    next = btrail_part_path(first, h->part + 1);
    fd = open(next, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return false;
    }
    found = !btrail_pread_all(fd, bytes, sizeof(bytes), 0) &&
            !btrail_file_header_get(bytes, &other) &&
            other.part == h->part + 1 &&
            !memcmp(other.id, h->id, BTRAIL_ID_SIZE);
    close(fd);
    return found;
}

/*
 * Streams of which the last part has nothing must end, too.  Ignores parts that
 * cannot be opened.
 */
static int follow_streams(const struct repair *r, const char *path,
                          struct btrail_copy *copy)
{
    const struct btrail_file_header *h = &r->file->header;
    g_autofree char *first = btrail_part_first(path, h->part);
    const struct btrail_trace_stream *s;
    struct btrail_trace *trace;
    unsigned i;
    int ret = 0;

    if (!h->part || !first || r->file->no_header || r->result.continued ||
        btrail_trace_open_parts(&trace, first)) {
        return 0;
    }
    for (i = 0; !ret && (s = btrail_trace_nth_stream(trace, i)); i++) {
        const struct btrail_index_entry *last =
            btrail_entry(s->chunks, s->chunks->len - 1);
        const struct btrail_file *f = btrail_trace_file(trace, last->file);

        if (f->header.part < h->part &&
            !memcmp(f->header.id, h->id, BTRAIL_ID_SIZE)) {
            ret = btrail_copy_follow(copy, f, last);
        }
    }
    btrail_trace_close(trace);
    return ret;
}

/* Copies all but the end, and marks the pieces that are damaged. */
static int copy_pieces(struct repair *r, const char *path,
                       struct btrail_copy *copy, struct btrail_store *store)
{
    const struct btrail_merge_result *sum = btrail_copy_sum(copy);
    unsigned i;
    int ret = 0;

    for (i = 0; !ret && i < r->pieces->len; i++) {
        struct repair_piece *p = piece(r, i);
        uint64_t bad = sum->bad_chunks;

        if (p->entry.type == BTRAIL_CHUNK_SIDEBAND) {
            ret = btrail_copy_sideband(copy, r->file, &p->entry);
        } else if (p->entry.type == BTRAIL_CHUNK_DATA && p->bad) {
            btrail_copy_bad_data(copy, r->file, &p->entry, p->begins);
        } else if (p->entry.type == BTRAIL_CHUNK_DATA) {
            ret = btrail_copy_data(copy, r->file, &p->entry, p->begins);
            p->bad = sum->bad_chunks > bad;
        } else if (store) {
            const struct btrail_meta *m =
                &g_array_index(r->file->metas, struct btrail_meta, p->meta);

            ret = btrail_store_meta(store, m->json, m->length);
        }
    }
    return ret ? ret : follow_streams(r, path, copy);
}

static int end_copy(struct repair *r, struct btrail_copy *copy)
{
    const struct btrail_trace_status *s = &r->file->status;
    /* Without an index, all is there only if nothing is damaged. */
    bool all = s->indexed || (s->complete && r->result.cut);
    int ret = btrail_copy_end(copy, !r->result.continued, !all);

    r->result.copied = *btrail_copy_sum(copy);
    r->result.copied.bad_chunks += s->bad_chunks;
    return ret;
}

/* Is everything in the file sound, so that only its end is missing? */
static bool is_cut(const struct repair *r, const struct btrail_copy *copy)
{
    const struct btrail_trace_status *s = &r->file->status;
    const struct btrail_merge_result *sum = btrail_copy_sum(copy);

    return !r->file->no_header && !s->bad_chunks && !s->missing_chunks &&
           !s->skipped_bytes && !sum->bad_chunks && !sum->gaps;
}

/*
 * Refuses a file that has chunks of an unknown type, which a repair would lose.
 * Errors: IO, VERSION.
 */
static int know_chunks(const struct repair *r)
{
    struct btrail_scan_chunk chunk;
    struct btrail_scan scan;
    int ret;

    btrail_scan_begin(&scan, r->file->fd, BTRAIL_FILE_HEADER_SIZE,
                      r->file->size);
    while (!(ret = btrail_scan_next(&scan, &chunk))) {
        if (chunk.header.type < BTRAIL_CHUNK_META ||
            chunk.header.type > BTRAIL_CHUNK_SIDEBAND) {
            ret = -BTRAIL_ERR_VERSION;
            break;
        }
    }
    btrail_scan_free(&scan);
    return ret == -BTRAIL_ERR_END ? 0 : ret;
}

/* Finds out what must be done; @copy then has all but the end. */
static int scan_file(struct repair *r, const char *path,
                     struct btrail_copy *copy)
{
    const struct btrail_trace_status *s = &r->file->status;
    int ret = know_chunks(r);

    r->result.no_header = r->file->no_header;
    r->result.continued = find_next_part(r, path);
    if (!ret) {
        ret = copy_pieces(r, path, copy, NULL);
    }
    r->result.cut = !ret && is_cut(r, copy);
    r->result.whole = r->result.cut && s->complete && s->indexed &&
                      r->result.continued == r->file->continued &&
                      (r->result.continued || !btrail_copy_is_open(copy));
    return ret;
}

static void describe(const struct repair *r,
                     struct btrail_store_options *options)
{
    const struct btrail_file_header *h = &r->file->header;

    options->id = r->file->no_header ? NULL : h->id;
    options->part = h->part;
    options->merged = h->merged;
    options->begin = h->begin;
    options->continued = r->result.continued;
}

static int write_copy(struct repair *r, const char *path, const char *out,
                      bool replace)
{
    struct btrail_store_options options = { .path = out, .replace = replace };
    struct btrail_store *store;
    struct btrail_copy *copy;
    int ret, end;

    if (btrail_file_is(r->file, out)) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    describe(r, &options);
    ret = btrail_store_open(&store, &options);
    if (ret) {
        return ret;
    }
    /* The scan has decoded the records. */
    copy = btrail_copy_new(store, options.begin, false);
    ret = copy_pieces(r, path, copy, store);
    if (!ret) {
        ret = end_copy(r, copy);
    }
    btrail_copy_free(copy);
    end = btrail_store_close(store, NULL);
    ret = ret ? ret : end;
    if (ret && !replace) {
        /* It is ours, and the next call would fail because of it. */
        int error = errno;

        unlink(out);
        errno = error;
    }
    return ret;
}

/* Finds where the last piece ends, and the number of a chunk there. */
static int find_end(const struct repair *r, uint64_t *offset,
                    uint64_t *sequence)
{
    uint8_t bytes[BTRAIL_CHUNK_HEADER_SIZE];
    const struct repair_piece *last;
    struct btrail_chunk chunk;
    int ret;

    *offset = BTRAIL_FILE_HEADER_SIZE;
    *sequence = 0;
    if (!r->pieces->len) {
        return 0;
    }
    last = piece(r, r->pieces->len - 1);
    ret = btrail_pread_all(r->file->fd, bytes, sizeof(bytes),
                           last->entry.offset);
    if (ret) {
        return ret;
    }
    if (!btrail_chunk_get(bytes, &chunk)) {
        return -BTRAIL_ERR_CORRUPT;
    }
    *offset = last->entry.offset + sizeof(bytes) + chunk.size;
    *sequence = chunk.sequence + 1;
    return 0;
}

static int complete(struct repair *r, const char *path, int fd,
                    struct btrail_copy *copy)
{
    struct btrail_store_options options = { .path = path };
    struct btrail_store *store;
    uint64_t offset, sequence;
    unsigned i;
    int ret = find_end(r, &offset, &sequence), end;

    if (ret) {
        close(fd);
        return ret;
    }
    describe(r, &options);
    ret = btrail_store_resume(&store, &options, fd, offset, sequence);
    if (ret) {
        return ret;
    }
    for (i = 0; i < r->pieces->len; i++) {
        btrail_store_adopt(store, &piece(r, i)->entry, r->file->roots);
    }
    btrail_copy_to(copy, store);
    ret = end_copy(r, copy);
    end = btrail_store_close(store, NULL);
    return ret ? ret : end;
}

/* Opens the file to change it, which no other process does now. */
static int open_to_change(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);

    if (fd >= 0 && !btrail_store_lock(fd)) {
        close(fd);
        errno = EBUSY;
        return -1;
    }
    return fd;
}

static int repair_in_place(struct repair *r, const char *path)
{
    struct btrail_copy *copy;
    int fd = open_to_change(path), ret;

    if (fd < 0) {
        return -BTRAIL_ERR_IO;
    }
    /* From here on no other process changes the file. */
    ret = btrail_file_open(&r->file, dup(fd), false);
    if (ret) {
        btrail_close(fd);
        return ret;
    }
    find_pieces(r);
    copy = btrail_copy_new(NULL, r->file->header.begin, true);
    ret = scan_file(r, path, copy);
    if (!ret && r->result.cut && !r->result.whole) {
        ret = complete(r, path, fd, copy);
        fd = -1;
    } else if (!ret) {
        ret = end_copy(r, copy);
        ret = ret || r->result.whole ? ret : -BTRAIL_ERR_CORRUPT;
    }
    btrail_copy_free(copy);
    btrail_close(fd);
    return ret;
}

static int repair_copy(struct repair *r, const char *path, const char *out,
                       bool replace)
{
    struct btrail_copy *copy;
    const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
    int ret = btrail_file_open(&r->file, open(path, flags), true);

    if (ret) {
        return ret;
    }
    find_pieces(r);
    copy = btrail_copy_new(NULL, r->file->header.begin, true);
    ret = scan_file(r, path, copy);
    if (!ret) {
        ret = end_copy(r, copy);
    }
    btrail_copy_free(copy);
    return ret || r->result.whole || !out ? ret :
           write_copy(r, path, out, replace);
}

int btrail_repair(const char *path, const char *out, unsigned flags,
                  struct btrail_repair_result *result)
{
    struct repair r = { NULL };
    int ret;

    if (!path || (flags & ~(BTRAIL_WRITER_REPLACE | BTRAIL_REPAIR_IN_PLACE)) ||
        ((flags & BTRAIL_REPAIR_IN_PLACE) &&
         (out || (flags & BTRAIL_WRITER_REPLACE)))) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    r.pieces = g_array_new(FALSE, FALSE, sizeof(struct repair_piece));
    if (flags & BTRAIL_REPAIR_IN_PLACE) {
        ret = repair_in_place(&r, path);
    } else {
        ret = repair_copy(&r, path, out, flags & BTRAIL_WRITER_REPLACE);
    }
    g_array_free(r.pieces, TRUE);
    btrail_file_close(r.file);
    if (result) {
        *result = r.result;
    }
    return ret;
}
