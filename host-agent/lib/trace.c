/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Opening a trace: by its index, or by a scan if it has none
 */

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "block.h"
#include "trace.h"

/* More pieces of description than any writer makes. */
#define MAX_METAS   64

struct meta {
    char *json;
    size_t length;
};

struct btrail_trace {
    int fd;
    uint64_t size;
    struct btrail_trace_status status;
    GArray *streams;            /* of struct btrail_trace_stream, by vCPU */
    GArray *metas;              /* of struct meta */
};

/* 0, or -BTRAIL_ERR_CORRUPT at the end of the file, or -BTRAIL_ERR_IO */
static int read_at(const struct btrail_trace *t, void *data, size_t len,
                   uint64_t offset)
{
    uint8_t *p = data;

    while (len) {
        ssize_t n = pread(t->fd, p, len, offset);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return -BTRAIL_ERR_IO;
        }
        if (!n) {
            return -BTRAIL_ERR_CORRUPT;
        }
        p += n;
        len -= n;
        offset += n;
    }
    return 0;
}

int btrail_trace_read_chunk(const struct btrail_trace *t,
                            const struct btrail_index_entry *entry,
                            uint8_t *buf)
{
    uint8_t header[BTRAIL_CHUNK_HEADER_SIZE];
    struct btrail_chunk chunk;
    int ret = read_at(t, header, sizeof(header), entry->offset);

    if (ret) {
        return ret;
    }
    if (!btrail_chunk_get(header, &chunk) || chunk.type != entry->type ||
        chunk.size != entry->size) {
        return -BTRAIL_ERR_CORRUPT;
    }
    ret = read_at(t, buf, chunk.size, entry->offset + sizeof(header));
    if (ret) {
        return ret;
    }
    return btrail_chunk_check(&chunk, buf) ? 0 : -BTRAIL_ERR_CORRUPT;
}

static void clear_stream(gpointer p)
{
    g_array_free(((struct btrail_trace_stream *)p)->chunks, TRUE);
}

static void clear_meta(gpointer p)
{
    g_free(((struct meta *)p)->json);
}

static struct btrail_trace_stream *find_stream(const struct btrail_trace *t,
                                               unsigned vcpu, bool *found,
                                               unsigned *place)
{
    unsigned i;

    for (i = 0; i < t->streams->len; i++) {
        struct btrail_trace_stream *s =
            &g_array_index(t->streams, struct btrail_trace_stream, i);

        if (s->vcpu >= vcpu) {
            *found = s->vcpu == vcpu;
            *place = i;
            return s;
        }
    }
    *found = false;
    *place = i;
    return NULL;
}

const struct btrail_trace_stream *
btrail_trace_find_stream(const struct btrail_trace *t, unsigned vcpu)
{
    unsigned place;
    bool found;
    struct btrail_trace_stream *s = find_stream(t, vcpu, &found, &place);

    return found ? s : NULL;
}

/* False if the chunk does not follow those before it. */
static bool add_data(struct btrail_trace *t,
                     const struct btrail_index_entry *entry)
{
    struct btrail_trace_stream *s;
    unsigned place;
    bool found;

    s = find_stream(t, entry->vcpu, &found, &place);
    if (!found) {
        struct btrail_trace_stream fresh = {
            .vcpu = entry->vcpu,
            .chunks = g_array_new(FALSE, FALSE,
                                  sizeof(struct btrail_index_entry)),
        };

        g_array_insert_val(t->streams, place, fresh);
        s = &g_array_index(t->streams, struct btrail_trace_stream, place);
    } else {
        const struct btrail_index_entry *last =
            &g_array_index(s->chunks, struct btrail_index_entry,
                           s->chunks->len - 1);

        if (entry->first_index < last->end_index) {
            return false;
        }
    }
    g_array_append_val(s->chunks, *entry);
    return true;
}

/* -BTRAIL_ERR_CORRUPT if the chunk is of no use. */
static int add_meta(struct btrail_trace *t,
                    const struct btrail_index_entry *entry)
{
    struct meta meta = { .length = entry->size };
    int ret;

    if (entry->size > BTRAIL_META_MAX_PAYLOAD || t->metas->len == MAX_METAS) {
        return -BTRAIL_ERR_CORRUPT;
    }
    meta.json = g_malloc(entry->size + 1);
    meta.json[entry->size] = '\0';
    ret = btrail_trace_read_chunk(t, entry, (uint8_t *)meta.json);
    if (!ret && !g_utf8_validate_len(meta.json, meta.length, NULL)) {
        ret = -BTRAIL_ERR_CORRUPT;
    }
    if (ret) {
        g_free(meta.json);
        return ret;
    }
    g_array_append_val(t->metas, meta);
    return 0;
}

static void forget(struct btrail_trace *t)
{
    g_array_set_size(t->streams, 0);
    g_array_set_size(t->metas, 0);
}

/* Take in an entry of the index; @at is where the chunk before it ends. */
static int add_entry(struct btrail_trace *t,
                     const struct btrail_index_entry *e, uint64_t *at,
                     uint64_t limit)
{
    uint64_t length = (uint64_t)BTRAIL_CHUNK_HEADER_SIZE + e->size;
    int ret;

    if (e->offset < *at || e->offset > limit || length > limit - e->offset ||
        e->size > BTRAIL_CHUNK_MAX_PAYLOAD) {
        return -BTRAIL_ERR_CORRUPT;
    }
    *at = e->offset + length;

    switch (e->type) {
    case BTRAIL_CHUNK_META:
        ret = add_meta(t, e);
        if (ret == -BTRAIL_ERR_CORRUPT) {
            t->status.bad_chunks++;
            ret = 0;
        }
        return ret;
    case BTRAIL_CHUNK_DATA:
        return e->vcpu < BTRAIL_MAX_VCPUS &&
               e->size >= BTRAIL_BLOCK_HEADER_SIZE &&
               e->first_index <= e->end_index &&
               e->records <= e->end_index - e->first_index &&
               e->records <= BTRAIL_BLOCK_MAX_RECORDS &&
               add_data(t, e) ? 0 : -BTRAIL_ERR_CORRUPT;
    default:
        return -BTRAIL_ERR_CORRUPT;
    }
}

/* 0, -BTRAIL_ERR_CORRUPT if there is no sound index, -BTRAIL_ERR_IO */
static int open_by_index(struct btrail_trace *t)
{
    uint8_t bytes[BTRAIL_TRAILER_SIZE];
    uint64_t trailer, offset, at = BTRAIL_FILE_HEADER_SIZE, entries = 0;
    struct btrail_chunk chunk;
    struct btrail_end end;
    uint64_t last;
    int ret;

    if (t->size < BTRAIL_FILE_HEADER_SIZE + sizeof(bytes)) {
        return -BTRAIL_ERR_CORRUPT;
    }
    trailer = t->size - sizeof(bytes);
    ret = read_at(t, bytes, sizeof(bytes), trailer);
    if (ret) {
        return ret;
    }
    if (!btrail_chunk_get(bytes, &chunk) || chunk.type != BTRAIL_CHUNK_END ||
        chunk.size != BTRAIL_END_SIZE ||
        !btrail_chunk_check(&chunk, bytes + BTRAIL_CHUNK_HEADER_SIZE)) {
        return -BTRAIL_ERR_CORRUPT;
    }
    btrail_end_get(bytes + BTRAIL_CHUNK_HEADER_SIZE, &end);
    last = chunk.sequence;

    offset = end.index_offset;
    if (offset < BTRAIL_FILE_HEADER_SIZE) {
        return -BTRAIL_ERR_CORRUPT;
    }
    while (offset < trailer) {
        struct btrail_index_entry self = {
            .offset = offset, .type = BTRAIL_CHUNK_INDEX,
        };
        uint8_t *payload;
        uint32_t i;

        if (trailer - offset < BTRAIL_CHUNK_HEADER_SIZE) {
            return -BTRAIL_ERR_CORRUPT;
        }
        ret = read_at(t, bytes, BTRAIL_CHUNK_HEADER_SIZE, offset);
        if (ret) {
            return ret;
        }
        if (!btrail_chunk_get(bytes, &chunk) ||
            chunk.size % BTRAIL_INDEX_ENTRY_SIZE ||
            chunk.size > trailer - offset - BTRAIL_CHUNK_HEADER_SIZE) {
            return -BTRAIL_ERR_CORRUPT;
        }
        self.size = chunk.size;
        payload = g_malloc(chunk.size);
        ret = btrail_trace_read_chunk(t, &self, payload);
        for (i = 0; !ret && i < chunk.size; i += BTRAIL_INDEX_ENTRY_SIZE) {
            struct btrail_index_entry e;

            btrail_index_entry_get(payload + i, &e);
            ret = add_entry(t, &e, &at, end.index_offset);
            entries++;
        }
        g_free(payload);
        if (ret) {
            return ret;
        }
        offset += BTRAIL_CHUNK_HEADER_SIZE + (uint64_t)chunk.size;
    }
    if (offset != trailer || entries != end.entries) {
        return -BTRAIL_ERR_CORRUPT;
    }
    t->status.chunks = last + 1;
    t->status.complete = true;
    t->status.indexed = true;
    return 0;
}

/*
 * Where is the next chunk header, from @offset on?  The end of the file if
 * there is none.
 */
static int find_chunk(const struct btrail_trace *t, uint64_t *offset)
{
    g_autofree uint8_t *window = g_malloc(64 << 10);

    while (t->size - *offset >= BTRAIL_CHUNK_HEADER_SIZE) {
        size_t len = MIN(t->size - *offset, 64 << 10);
        const uint8_t *p = window, *end = window + len;
        int ret = read_at(t, window, len, *offset);

        if (ret) {
            return ret;
        }
        while ((p = memmem(p, end - p, BTRAIL_CHUNK_MAGIC, 4)) &&
               end - p >= BTRAIL_CHUNK_HEADER_SIZE) {
            uint64_t here = *offset + (p - window);
            struct btrail_chunk chunk;

            if (btrail_chunk_get(p, &chunk) &&
                chunk.size <= t->size - here - BTRAIL_CHUNK_HEADER_SIZE) {
                *offset = here;
                return 0;
            }
            p++;
        }
        /* A header may lie across the end of the window. */
        *offset += len - BTRAIL_CHUNK_HEADER_SIZE + 1;
    }
    *offset = t->size;
    return 0;
}

static int scan_chunk(struct btrail_trace *t, uint64_t offset,
                      const struct btrail_chunk *chunk)
{
    struct btrail_index_entry e = {
        .offset = offset,
        .size = chunk->size,
        .type = chunk->type,
    };
    uint8_t bytes[BTRAIL_BLOCK_HEADER_SIZE + 64];
    struct btrail_block_header h;
    int ret = 0;

    t->status.chunks++;
    switch (chunk->type) {
    case BTRAIL_CHUNK_META:
        ret = add_meta(t, &e);
        break;
    case BTRAIL_CHUNK_DATA:
        ret = read_at(t, bytes, MIN(chunk->size, sizeof(bytes)),
                      offset + BTRAIL_CHUNK_HEADER_SIZE);
        if (ret == 0 &&
            !btrail_block_header_get(bytes, MIN(chunk->size, sizeof(bytes)),
                                     &h)) {
            ret = -BTRAIL_ERR_CORRUPT;
        }
        if (ret == 0) {
            e.vcpu = h.vcpu;
            e.first_index = h.first_index;
            e.end_index = h.end_index;
            e.time_first = h.time_first;
            e.time_last = h.time_last;
            e.records = h.records;
            e.events = h.events;
            ret = add_data(t, &e) ? 0 : -BTRAIL_ERR_CORRUPT;
        }
        break;
    case BTRAIL_CHUNK_END:
        t->status.complete = offset + BTRAIL_TRAILER_SIZE == t->size;
        break;
    default:
        break;
    }
    if (ret == -BTRAIL_ERR_CORRUPT) {
        t->status.bad_chunks++;
        ret = 0;
    }
    return ret;
}

static int open_by_scan(struct btrail_trace *t)
{
    uint64_t offset = BTRAIL_FILE_HEADER_SIZE;
    uint64_t sequence = 0;

    memset(&t->status, 0, sizeof(t->status));
    while (offset < t->size) {
        uint8_t bytes[BTRAIL_CHUNK_HEADER_SIZE];
        struct btrail_chunk chunk;
        uint64_t found = offset;
        int ret = find_chunk(t, &found);

        if (ret == 0 && found < t->size) {
            ret = read_at(t, bytes, sizeof(bytes), found);
        }
        if (ret == -BTRAIL_ERR_CORRUPT) {
            /* The file has become shorter. */
            found = t->size;
        } else if (ret) {
            return ret;
        }
        if (found == t->size) {
            t->status.cut_bytes = t->size - offset;
            break;
        }
        t->status.skipped_bytes += found - offset;

        if (!btrail_chunk_get(bytes, &chunk) ||
            chunk.size > t->size - found - sizeof(bytes)) {
            /* Somebody else has just written here. */
            return -BTRAIL_ERR_CORRUPT;
        }
        if (chunk.sequence > sequence) {
            t->status.missing_chunks += chunk.sequence - sequence;
        }
        sequence = chunk.sequence + 1;
        ret = scan_chunk(t, found, &chunk);
        if (ret) {
            return ret;
        }
        offset = found + BTRAIL_CHUNK_HEADER_SIZE + (uint64_t)chunk.size;
    }
    return 0;
}

static int open_trace(struct btrail_trace *t)
{
    uint8_t header[BTRAIL_FILE_HEADER_SIZE];
    struct stat st;
    int ret;

    if (t->fd < 0 || fstat(t->fd, &st) < 0) {
        return -BTRAIL_ERR_IO;
    }
    if (S_ISDIR(st.st_mode)) {
        errno = EISDIR;
        return -BTRAIL_ERR_IO;
    }
    t->size = st.st_size;
    if (t->size < sizeof(header)) {
        return -BTRAIL_ERR_FORMAT;
    }
    ret = read_at(t, header, sizeof(header), 0);
    if (ret) {
        return ret == -BTRAIL_ERR_CORRUPT ? -BTRAIL_ERR_FORMAT : ret;
    }
    ret = btrail_file_header_get(header);
    if (ret) {
        return ret;
    }

    ret = open_by_index(t);
    if (ret == -BTRAIL_ERR_CORRUPT) {
        forget(t);
        ret = open_by_scan(t);
    }
    t->status.file_size = t->size;
    return ret;
}

int btrail_trace_open_fd(struct btrail_trace **trace, int fd)
{
    struct btrail_trace *t;
    int ret, error;

    if (!trace) {
        if (fd >= 0) {
            close(fd);
        }
        return -BTRAIL_ERR_ARGUMENT;
    }
    t = g_new0(struct btrail_trace, 1);
    t->fd = fd;
    t->streams = g_array_new(FALSE, FALSE, sizeof(struct btrail_trace_stream));
    g_array_set_clear_func(t->streams, clear_stream);
    t->metas = g_array_new(FALSE, FALSE, sizeof(struct meta));
    g_array_set_clear_func(t->metas, clear_meta);

    ret = open_trace(t);
    if (ret) {
        error = errno;
        btrail_trace_close(t);
        errno = error;
        return ret;
    }
    *trace = t;
    return 0;
}

int btrail_trace_open(struct btrail_trace **trace, const char *path)
{
    if (!trace || !path) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    return btrail_trace_open_fd(trace, open(path, O_RDONLY | O_CLOEXEC));
}

void btrail_trace_close(struct btrail_trace *t)
{
    if (t) {
        g_array_free(t->streams, TRUE);
        g_array_free(t->metas, TRUE);
        if (t->fd >= 0) {
            close(t->fd);
        }
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
    if (n >= t->streams->len) {
        return -BTRAIL_ERR_STREAM;
    }
    s = &g_array_index(t->streams, struct btrail_trace_stream, n);
    *info = (struct btrail_stream_info) {
        .vcpu = s->vcpu,
        .chunks = s->chunks->len,
    };
    for (i = 0; i < s->chunks->len; i++) {
        const struct btrail_index_entry *e =
            &g_array_index(s->chunks, struct btrail_index_entry, i);

        info->records += e->records;
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
    const struct meta *meta;

    if (!t || !json) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    if (n >= t->metas->len) {
        return -BTRAIL_ERR_END;
    }
    meta = &g_array_index(t->metas, struct meta, n);
    *json = meta->json;
    if (length) {
        *length = meta->length;
    }
    return 0;
}
