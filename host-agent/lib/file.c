/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Opening a file: by its index, or by a scan if it has none.  See file.h.
 */

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "lib/agent/file.h"
#include "lib/internal/block.h"
#include "lib/internal/pread.h"
#include "lib/internal/scan.h"

/* Reads a payload of @entry->size bytes and checks its checksum. */
static int read_chunk(const struct btrail_file *f,
                      const struct btrail_index_entry *entry, uint8_t *buf)
{
    uint8_t header[BTRAIL_CHUNK_HEADER_SIZE];
    struct btrail_chunk chunk;
    int ret = btrail_pread_all(f->fd, header, sizeof(header), entry->offset);

    if (ret) {
        return ret;
    }
    if (!btrail_chunk_get(header, &chunk) || chunk.type != entry->type ||
        chunk.size != entry->size) {
        return -BTRAIL_ERR_CORRUPT;
    }
    ret = btrail_pread_all(f->fd, buf, chunk.size,
                           entry->offset + sizeof(header));
    if (ret) {
        return ret;
    }
    return btrail_chunk_check(&chunk, buf) ? 0 : -BTRAIL_ERR_CORRUPT;
}

int btrail_file_load_chunk(const struct btrail_file *f,
                           const struct btrail_index_entry *e,
                           struct btrail_buf *payload,
                           struct btrail_unpacker *unpacker, bool events_only,
                           struct btrail_block_header *h)
{
    int ret;

    if (e->size > btrail_block_max(e->records, e->events)) {
        return -BTRAIL_ERR_CORRUPT;
    }
    if (payload->cap < e->size) {
        btrail_buf_free(payload);
        payload->data = g_try_malloc(e->size);
        if (!payload->data) {
            return -BTRAIL_ERR_MEMORY;
        }
        payload->cap = e->size;
    }
    payload->len = e->size;
    ret = read_chunk(f, e, payload->data);
    if (ret) {
        return ret;
    }
    if (!btrail_block_header_get(payload->data, e->size, h) ||
        !btrail_index_entry_fits(e, f->roots, h)) {
        return -BTRAIL_ERR_CORRUPT;
    }
    return btrail_unpacker_load(unpacker, payload->data, e->size, h,
                                events_only);
}

enum btrail_ran btrail_file_ran(const struct btrail_file *f,
                                const struct btrail_index_entry *e,
                                const uint64_t *addresses, size_t n)
{
    uint8_t start[BTRAIL_BLOCK_START];
    uint32_t len = MIN(e->size, sizeof(start));
    uint64_t payload = e->offset + BTRAIL_CHUNK_HEADER_SIZE;
    struct btrail_block_header h;
    struct btrail_block_section s;
    g_autofree uint8_t *stored = NULL;
    g_autofree uint8_t *section = NULL;

    if (btrail_pread_all(f->fd, start, len, payload) ||
        !btrail_block_header_get(start, len, &h) ||
        !btrail_index_entry_fits(e, f->roots, &h) ||
        !btrail_block_find_footprint(start, len, &h, &s) ||
        s.offset > e->size || s.stored > e->size - s.offset) {
        return BTRAIL_RAN_UNKNOWN;
    }
    stored = g_malloc(s.stored);
    if (btrail_pread_all(f->fd, stored, s.stored, payload + s.offset)) {
        return BTRAIL_RAN_UNKNOWN;
    }
    if (s.stored == s.len) {
        return btrail_footprint_ran(stored, s.len, addresses, n);
    }
    section = g_malloc(s.len);
    return ZSTD_decompress(section, s.len, stored, s.stored) == s.len ?
               btrail_footprint_ran(section, s.len, addresses, n) :
               BTRAIL_RAN_UNKNOWN;
}

int btrail_file_read_sideband(const struct btrail_file *f,
                              const struct btrail_index_entry *entry,
                              struct btrail_sideband_info *info,
                              void **data, uint8_t **payload)
{
    g_autofree uint8_t *bytes = NULL;
    struct btrail_sideband_info want;
    void *unpacked;
    int ret;

    btrail_index_entry_info(entry, &want);
    /* An entry from a scan can be wrong, but its chunk fits into the file. */
    bytes = g_try_malloc(entry->size);
    if (!bytes) {
        return -BTRAIL_ERR_MEMORY;
    }
    ret = read_chunk(f, entry, bytes);
    if (!ret) {
        ret = btrail_sideband_unpack(bytes, entry->size, info, &unpacked);
    }
    if (ret) {
        return ret;
    }
    if (info->kind != want.kind || info->size != want.size ||
        info->time != want.time) {
        free(unpacked);
        return -BTRAIL_ERR_CORRUPT;
    }
    if (data) {
        *data = unpacked;
    } else {
        free(unpacked);
    }
    if (payload) {
        *payload = g_steal_pointer(&bytes);
    }
    return 0;
}

static void clear_stream(gpointer p)
{
    g_array_free(((struct btrail_trace_stream *)p)->chunks, TRUE);
}

GArray *btrail_streams_new(void)
{
    GArray *streams = g_array_new(FALSE, FALSE,
                                  sizeof(struct btrail_trace_stream));

    g_array_set_clear_func(streams, clear_stream);
    return streams;
}

static void clear_meta(gpointer p)
{
    g_free(((struct btrail_meta *)p)->json);
}

struct btrail_trace_stream *btrail_find_stream(GArray *streams, unsigned vcpu,
                                               unsigned *place)
{
    unsigned i;

    for (i = 0; i < streams->len; i++) {
        struct btrail_trace_stream *s =
            &g_array_index(streams, struct btrail_trace_stream, i);

        if (s->vcpu >= vcpu) {
            *place = i;
            return s->vcpu == vcpu ? s : NULL;
        }
    }
    *place = i;
    return NULL;
}

/* -BTRAIL_ERR_CORRUPT if the chunk does not follow those before it. */
static int add_data(struct btrail_file *f,
                     const struct btrail_index_entry *entry)
{
    struct btrail_trace_stream *s;
    unsigned place;

    if (f->chunks == BTRAIL_MAX_CHUNKS) {
        return -BTRAIL_ERR_CORRUPT;
    }
    s = btrail_find_stream(f->streams, entry->vcpu, &place);
    if (!s) {
        struct btrail_trace_stream fresh = {
            .vcpu = entry->vcpu,
            .chunks = btrail_index_new(),
        };

        g_array_insert_val(f->streams, place, fresh);
        s = &g_array_index(f->streams, struct btrail_trace_stream, place);
    } else {
        const struct btrail_index_entry *last =
            btrail_entry(s->chunks, s->chunks->len - 1);

        if (entry->first_index < last->end_index) {
            return -BTRAIL_ERR_CORRUPT;
        }
    }
    g_array_append_val(s->chunks, *entry);
    f->chunks++;
    return 0;
}

/* -BTRAIL_ERR_CORRUPT if the chunk is not usable */
static int add_meta(struct btrail_file *f,
                    const struct btrail_index_entry *entry)
{
    struct btrail_meta meta = {
        .length = entry->size, .offset = entry->offset,
    };
    int ret;

    if (entry->size > BTRAIL_META_MAX_PAYLOAD ||
        f->metas->len == BTRAIL_MAX_METAS) {
        return -BTRAIL_ERR_CORRUPT;
    }
    meta.json = g_malloc(entry->size + 1);
    meta.json[entry->size] = '\0';
    ret = read_chunk(f, entry, (uint8_t *)meta.json);
    if (!ret && !g_utf8_validate_len(meta.json, meta.length, NULL)) {
        ret = -BTRAIL_ERR_CORRUPT;
    }
    if (ret) {
        g_free(meta.json);
        return ret;
    }
    g_array_append_val(f->metas, meta);
    f->chunks++;
    return 0;
}

/* -BTRAIL_ERR_CORRUPT if there are too many. */
static int add_sideband(struct btrail_file *f,
                         const struct btrail_index_entry *entry)
{
    if (f->chunks == BTRAIL_MAX_CHUNKS) {
        return -BTRAIL_ERR_CORRUPT;
    }
    g_array_append_val(f->sideband, *entry);
    f->chunks++;
    return 0;
}

static void forget(struct btrail_file *f)
{
    g_array_set_size(f->sideband, 0);
    g_array_set_size(f->streams, 0);
    g_array_set_size(f->roots, 0);
    g_array_set_size(f->metas, 0);
    f->chunks = 0;
}

/* Adds an entry of the index; @at is where the chunk before it ends. */
static int add_entry(struct btrail_file *f,
                     const struct btrail_index_entry *e, uint64_t *at,
                     uint64_t limit)
{
    uint64_t length = (uint64_t)BTRAIL_CHUNK_HEADER_SIZE + e->size;
    int ret;

    if (e->offset < *at || e->offset > limit || length > limit - e->offset) {
        return -BTRAIL_ERR_CORRUPT;
    }
    *at = e->offset + length;

    if (e->type == BTRAIL_CHUNK_DATA) {
        return add_data(f, e);
    }
    if (e->type == BTRAIL_CHUNK_SIDEBAND) {
        return add_sideband(f, e);
    }
    ret = add_meta(f, e);
    if (ret == -BTRAIL_ERR_CORRUPT) {
        f->status.bad_chunks++;
        ret = 0;
    }
    return ret;
}

/* Is there an END chunk at the very end?  Errors: CORRUPT if not, IO. */
static int read_end(struct btrail_file *f, struct btrail_end *end,
                    uint64_t *sequence)
{
    uint8_t bytes[BTRAIL_TRAILER_SIZE];
    struct btrail_chunk chunk;
    int ret;

    if (f->size < BTRAIL_FILE_HEADER_SIZE + sizeof(bytes)) {
        return -BTRAIL_ERR_CORRUPT;
    }
    ret = btrail_pread_all(f->fd, bytes, sizeof(bytes),
                           f->size - sizeof(bytes));
    if (ret) {
        return ret;
    }
    if (!btrail_chunk_get(bytes, &chunk) || chunk.type != BTRAIL_CHUNK_END ||
        chunk.size != BTRAIL_END_SIZE ||
        !btrail_chunk_check(&chunk, bytes + BTRAIL_CHUNK_HEADER_SIZE)) {
        return -BTRAIL_ERR_CORRUPT;
    }
    btrail_end_get(bytes + BTRAIL_CHUNK_HEADER_SIZE, end);
    *sequence = chunk.sequence;
    return end->index_offset >= BTRAIL_FILE_HEADER_SIZE ?
           0 : -BTRAIL_ERR_CORRUPT;
}

/* Reads the INDEX chunk at @*offset and moves @offset to its end. */
static int read_index(struct btrail_file *f, uint64_t *offset, uint64_t limit,
                      struct btrail_buf *payload)
{
    struct btrail_index_entry self = {
        .offset = *offset, .type = BTRAIL_CHUNK_INDEX,
    };
    uint8_t bytes[BTRAIL_CHUNK_HEADER_SIZE];
    struct btrail_chunk chunk;
    int ret;

    if (limit - *offset < sizeof(bytes)) {
        return -BTRAIL_ERR_CORRUPT;
    }
    ret = btrail_pread_all(f->fd, bytes, sizeof(bytes), *offset);
    if (ret) {
        return ret;
    }
    if (!btrail_chunk_get(bytes, &chunk) ||
        chunk.size > BTRAIL_INDEX_MAX_PAYLOAD ||
        chunk.size > limit - *offset - sizeof(bytes)) {
        return -BTRAIL_ERR_CORRUPT;
    }
    *offset += sizeof(bytes) + chunk.size;
    self.size = chunk.size;
    payload->len = 0;
    btrail_buf_reserve(payload, chunk.size + 1);
    payload->len = chunk.size;
    return read_chunk(f, &self, payload->data);
}

static int read_indices(struct btrail_file *f, const struct btrail_end *end,
                        struct btrail_buf *payload)
{
    uint64_t offset = end->index_offset, at = BTRAIL_FILE_HEADER_SIZE;
    uint64_t trailer = f->size - BTRAIL_TRAILER_SIZE, entries = 0;

    while (offset < trailer) {
        const uint8_t *p, *stop;
        int ret = read_index(f, &offset, trailer, payload);

        if (ret) {
            return ret;
        }
        stop = payload->data + payload->len;
        for (p = payload->data; p < stop; entries++) {
            struct btrail_index_entry e;

            p = btrail_index_entry_get(p, stop, &e, f->roots);
            if (!p) {
                return -BTRAIL_ERR_CORRUPT;
            }
            ret = add_entry(f, &e, &at, end->index_offset);
            if (ret) {
                return ret;
            }
        }
    }
    return offset == trailer && entries == end->entries ?
           0 : -BTRAIL_ERR_CORRUPT;
}

/* 0, -BTRAIL_ERR_CORRUPT if there is no sound index, -BTRAIL_ERR_IO */
static int open_by_index(struct btrail_file *f)
{
    struct btrail_buf payload = { 0 };
    struct btrail_end end;
    uint64_t sequence;
    int ret = read_end(f, &end, &sequence);

    if (ret) {
        return ret;
    }
    ret = read_indices(f, &end, &payload);
    btrail_buf_free(&payload);
    if (ret) {
        return ret;
    }
    f->continued = end.continued;
    f->status.chunks = sequence + 1;
    f->status.complete = true;
    f->status.indexed = true;
    return 0;
}

/* The index is not usable, but the file may have been closed properly. */
static int scan_end(struct btrail_file *f,
                    const struct btrail_index_entry *e)
{
    uint8_t bytes[BTRAIL_END_SIZE];
    struct btrail_end end;
    int ret;

    if (e->size != sizeof(bytes)) {
        return -BTRAIL_ERR_CORRUPT;
    }
    ret = read_chunk(f, e, bytes);
    if (!ret && e->offset + BTRAIL_TRAILER_SIZE == f->size) {
        btrail_end_get(bytes, &end);
        f->status.complete = true;
        f->continued = end.continued;
    }
    return ret;
}

/* Adds a chunk that a scan has found. */
static int scan_chunk(struct btrail_file *f,
                      const struct btrail_scan_chunk *chunk)
{
    struct btrail_index_entry e = {
        .offset = chunk->offset,
        .size = chunk->header.size,
        .type = chunk->header.type,
    };
    struct btrail_sideband_info info;
    struct btrail_block_header h;
    int ret = 0;

    f->status.chunks++;
    switch (e.type) {
    case BTRAIL_CHUNK_META:
        ret = add_meta(f, &e);
        break;
    case BTRAIL_CHUNK_DATA:
        if (!btrail_block_header_get(chunk->start, chunk->start_len, &h)) {
            ret = -BTRAIL_ERR_CORRUPT;
            break;
        }
        btrail_index_entry_fill(&e, chunk->offset, e.size, &h, f->roots);
        ret = add_data(f, &e);
        break;
    case BTRAIL_CHUNK_SIDEBAND:
        if (!btrail_sideband_header_get(chunk->start, e.size, &info)) {
            ret = -BTRAIL_ERR_CORRUPT;
            break;
        }
        btrail_index_entry_sideband(&e, chunk->offset, e.size, &info);
        ret = add_sideband(f, &e);
        break;
    case BTRAIL_CHUNK_END:
        ret = scan_end(f, &e);
        break;
    default:
        break;
    }
    if (ret == -BTRAIL_ERR_CORRUPT) {
        f->status.bad_chunks++;
        ret = 0;
    }
    return ret;
}

static int open_by_scan(struct btrail_file *f)
{
    struct btrail_scan scan;
    struct btrail_scan_chunk chunk;
    uint64_t sequence = 0;
    int ret;

    memset(&f->status, 0, sizeof(f->status));
    btrail_scan_begin(&scan, f->fd, BTRAIL_FILE_HEADER_SIZE, f->size);
    while (!(ret = btrail_scan_next(&scan, &chunk))) {
        if (chunk.header.sequence > sequence) {
            f->status.missing_chunks += chunk.header.sequence - sequence;
        }
        sequence = chunk.header.sequence + 1;
        ret = scan_chunk(f, &chunk);
        if (ret) {
            break;
        }
    }
    f->status.skipped_bytes = scan.skipped;
    f->status.cut_bytes = scan.cut;
    btrail_scan_free(&scan);
    return ret == -BTRAIL_ERR_END ? 0 : ret;
}

static int open_file(struct btrail_file *f, bool damaged)
{
    uint8_t header[BTRAIL_FILE_HEADER_SIZE];
    struct stat st;
    int ret;

    if (f->fd < 0 || fstat(f->fd, &st) < 0) {
        return -BTRAIL_ERR_IO;
    }
    if (S_ISDIR(st.st_mode)) {
        errno = EISDIR;
        return -BTRAIL_ERR_IO;
    }
    f->size = st.st_size;
    if (f->size < sizeof(header)) {
        return -BTRAIL_ERR_FORMAT;
    }
    ret = btrail_pread_all(f->fd, header, sizeof(header), 0);
    if (ret) {
        return ret == -BTRAIL_ERR_CORRUPT ? -BTRAIL_ERR_FORMAT : ret;
    }
    ret = btrail_file_header_get(header, &f->header);
    if (ret == -BTRAIL_ERR_FORMAT && damaged) {
        f->no_header = true;
    } else if (ret) {
        return ret;
    }

    ret = open_by_index(f);
    if (ret == -BTRAIL_ERR_CORRUPT) {
        forget(f);
        ret = open_by_scan(f);
    }
    f->status.file_size = f->size;
    return !ret && f->no_header && !f->chunks ? -BTRAIL_ERR_FORMAT : ret;
}

int btrail_file_open(struct btrail_file **file, int fd, bool damaged)
{
    struct btrail_file *f = g_new0(struct btrail_file, 1);
    int ret;

    f->fd = fd;
    f->streams = btrail_streams_new();
    f->roots = btrail_roots_new();
    f->metas = g_array_new(FALSE, FALSE, sizeof(struct btrail_meta));
    g_array_set_clear_func(f->metas, clear_meta);
    f->sideband = btrail_index_new();

    ret = open_file(f, damaged);
    if (ret) {
        btrail_file_close(f);
        return ret;
    }
    *file = f;
    return 0;
}

bool btrail_file_is(const struct btrail_file *f, const char *path)
{
    struct stat a, b;

    return !fstat(f->fd, &a) && !stat(path, &b) && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

void btrail_file_close(struct btrail_file *f)
{
    if (f) {
        g_array_free(f->streams, TRUE);
        g_array_free(f->roots, TRUE);
        g_array_free(f->metas, TRUE);
        g_array_free(f->sideband, TRUE);
        btrail_close(f->fd);
        g_free(f);
    }
}
