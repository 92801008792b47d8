/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Appending chunks to files: see store.h
 */

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

#include "lib/agent/parts.h"
#include "lib/internal/crc32c.h"
#include "lib/internal/pread.h"
#include "lib/internal/store-ring.h"

struct btrail_store {
    struct btrail_store_options options;
    char *path;                 /* of the first file */
    char *first;                /* of part 0, which that may not be */
    struct btrail_file_header header;
    int error;                  /* errno of the first failure, or 0 */

    /* The part that is written to */
    int fd;
    uint64_t offset;            /* end of the last whole chunk */
    uint64_t sequence;
    GArray *index;              /* of struct btrail_index_entry */
    GArray *roots;              /* of their address spaces */
    uint64_t index_size;        /* bytes of all entries */
    uint64_t records;
    uint64_t first_time;        /* of the first DATA chunk, 0 if none has one */
    uint64_t last_time;
    unsigned own_chunks;        /* that are not repeated from other parts */

    GPtrArray *metas;           /* of GBytes: to be repeated in each part */
    bool has_data;              /* in any part */
    struct btrail_store_ring ring;  /* the other parts, if it is one */
    uint64_t carried_here;      /* of the sideband of parts that it deleted */
    uint64_t finished_size;     /* of all parts before this one */
    gint64 sync_at;             /* 0 if all is on the disk */
};

static char *part_path(const struct btrail_store *store, uint32_t part)
{
    return part == store->options.part ? g_strdup(store->path) :
           btrail_part_path(store->first, part);
}

static int store_fail(struct btrail_store *store, int error)
{
    store->error = error;
    /*
     * Take back the piece of a chunk.  Not possible for a device or a pipe;
     * a reader finds the last whole chunk then, too.
     */
    if (ftruncate(store->fd, store->offset) < 0 ||
        lseek(store->fd, store->offset, SEEK_SET) < 0) {
        /* Report the first error. */
    }
    errno = error;
    return -BTRAIL_ERR_IO;
}

/* Returns the number of bytes; -1 and errno if not all were written */
static ssize_t write_all(int fd, struct iovec *iov, int n)
{
    size_t left = 0, total;
    int i;

    for (i = 0; i < n; i++) {
        left += iov[i].iov_len;
    }
    total = left;
    while (left) {
        ssize_t done = writev(fd, iov, n);

        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            errno = done ? errno : ENOSPC;
            return -1;
        }
        left -= done;
        for (; n && (size_t)done >= iov->iov_len; iov++, n--) {
            done -= iov->iov_len;
        }
        if (n) {
            iov->iov_base = (uint8_t *)iov->iov_base + done;
            iov->iov_len -= done;
        }
    }
    return total;
}

static bool write_header(int fd, const struct btrail_file_header *header)
{
    uint8_t bytes[BTRAIL_FILE_HEADER_SIZE];
    struct iovec iov = { bytes, sizeof(bytes) };

    btrail_file_header_put(bytes, header);
    return write_all(fd, &iov, 1) >= 0;
}

static int append(struct btrail_store *store, uint16_t type,
                  const void *payload, size_t len)
{
    struct btrail_chunk chunk = {
        .type = type,
        .size = len,
        .crc = btrail_crc32c(0, payload, len),
        .sequence = store->sequence,
    };
    uint8_t header[BTRAIL_CHUNK_HEADER_SIZE];
    struct iovec iov[] = {
        { header, sizeof(header) },
        { (void *)payload, len },
    };
    ssize_t total;

    if (store->error) {
        errno = store->error;
        return -BTRAIL_ERR_IO;
    }
    btrail_chunk_put(header, &chunk);
    total = write_all(store->fd, iov, G_N_ELEMENTS(iov));
    if (total < 0) {
        return store_fail(store, errno);
    }
    store->offset += total;
    store->sequence++;
    return 0;
}

static int append_meta(struct btrail_store *store, const void *json,
                       size_t len)
{
    struct btrail_index_entry entry = {
        .offset = store->offset,
        .size = len,
        .type = BTRAIL_CHUNK_META,
    };
    int ret = append(store, BTRAIL_CHUNK_META, json, len);

    if (!ret) {
        store->index_size += btrail_index_entry_size(&entry);
        g_array_append_val(store->index, entry);
    }
    return ret;
}

/* Where a SIDEBAND chunk is from, as its entry's file */
enum { CARRIED, OWN };

static void add_sideband(struct btrail_store *store, uint64_t offset,
                         uint32_t len, const struct btrail_sideband_info *info,
                         uint32_t from)
{
    struct btrail_index_entry entry;

    btrail_index_entry_sideband(&entry, offset, len, info);
    entry.file = from;
    store->index_size += btrail_index_entry_size(&entry);
    g_array_append_val(store->index, entry);
}

/* Bytes that the end of the part takes: INDEX chunks and END */
static uint64_t end_size(uint64_t index_size)
{
    /* A whole entry has to fit into what is left of a chunk. */
    uint64_t per_chunk = BTRAIL_INDEX_MAX_PAYLOAD - BTRAIL_INDEX_ENTRY_SIZE -
                         BTRAIL_CR3SET_MAX * BTRAIL_INDEX_ROOT_SIZE;
    uint64_t chunks = (index_size + per_chunk - 1) / per_chunk;

    return index_size + chunks * BTRAIL_CHUNK_HEADER_SIZE +
           BTRAIL_TRAILER_SIZE;
}

static int write_index(struct btrail_store *store, bool continued)
{
    struct btrail_end end = {
        .index_offset = store->offset,
        .entries = store->index->len,
        .continued = continued,
    };
    uint8_t bytes[BTRAIL_END_SIZE];
    uint64_t body = store->offset;
    struct btrail_buf payload = { 0 };
    unsigned i;
    int ret = 0;

    for (i = 0; !ret && i < store->index->len; i++) {
        const struct btrail_index_entry *e = btrail_entry(store->index, i);

        if (payload.len + btrail_index_entry_size(e) >
            BTRAIL_INDEX_MAX_PAYLOAD) {
            ret = append(store, BTRAIL_CHUNK_INDEX, payload.data,
                         payload.len);
            payload.len = 0;
        }
        btrail_index_entry_append(&payload, e, store->roots);
    }
    if (!ret && payload.len) {
        ret = append(store, BTRAIL_CHUNK_INDEX, payload.data, payload.len);
    }
    btrail_buf_free(&payload);
    if (!ret) {
        btrail_end_put(bytes, &end);
        ret = append(store, BTRAIL_CHUNK_END, bytes, sizeof(bytes));
    }
    if (ret) {
        /* A piece of an index is of no use. */
        store->offset = body;
        return store_fail(store, errno);
    }
    return 0;
}

/* Some file systems find room only now; devices and pipes cannot sync. */
static int sync_file(struct btrail_store *store)
{
    store->sync_at = 0;
    if (fdatasync(store->fd) < 0 && errno != EINVAL && errno != EROFS) {
        store->error = errno;
        return -BTRAIL_ERR_IO;
    }
    return 0;
}

/* The entry in the folder must reach the disk, too. */
static void sync_folder(const char *path)
{
    g_autofree char *folder = g_path_get_dirname(path);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
}

/* Completes the part and closes it. */
static int finish_part(struct btrail_store *store, bool continued)
{
    if (!store->error) {
        write_index(store, continued);
    }
    if (!store->error && store->options.sync != BTRAIL_SYNC_NONE) {
        sync_file(store);
    }
    if (close(store->fd) < 0 && !store->error && errno != EINTR) {
        store->error = errno;
    }
    store->fd = -1;
    errno = store->error;
    return store->error ? -BTRAIL_ERR_IO : 0;
}

bool btrail_store_lock(int fd)
{
    return !flock(fd, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK;
}

/* Open a file to write to; it is not emptied before its lock is ours. */
static int open_file(const char *path, bool replace)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC |
                  (replace ? 0 : O_EXCL), 0666);

    if (fd < 0) {
        return -1;
    }
    if (!btrail_store_lock(fd)) {
        errno = EBUSY;
    } else if (!replace || !ftruncate(fd, 0) || errno == EINVAL) {
        /* Devices and pipes cannot be emptied, and need not be. */
        return fd;
    }
    btrail_close(fd);
    return -1;
}

static void forget_part(struct btrail_store *store)
{
    store->carried_here = 0;
    store->offset = 0;
    store->sequence = 0;
    g_array_set_size(store->index, 0);
    g_array_set_size(store->roots, 0);
    store->index_size = 0;
    store->records = 0;
    store->first_time = 0;
    store->last_time = 0;
    store->own_chunks = 0;
    store->sync_at = 0;
}

static uint64_t metas_size(const struct btrail_store *store)
{
    uint64_t size = 0;
    unsigned i;

    for (i = 0; i < store->metas->len; i++) {
        size += BTRAIL_CHUNK_HEADER_SIZE + BTRAIL_INDEX_ENTRY_SIZE +
                g_bytes_get_size(g_ptr_array_index(store->metas, i));
    }
    return size;
}

/*
 * The SIDEBAND chunks of a ring's part.  The oldest, which were carried over to
 * it, are first.
 */
static GArray *sideband_of(const struct btrail_store *store)
{
    GArray *list = NULL;
    uint32_t part;
    unsigned i;

    for (part = CARRIED; store->options.ring_size && part <= OWN; part++) {
        for (i = 0; i < store->index->len; i++) {
            const struct btrail_index_entry *e = btrail_entry(store->index, i);

            if (e->type != BTRAIL_CHUNK_SIDEBAND || e->file != part) {
                continue;
            }
            if (!list) {
                list = btrail_index_new();
            }
            g_array_append_vals(list, e, 1);
        }
    }
    return list;
}

/* The file of the next part, with its header alone; -1 on failure */
static int begin_part(const struct btrail_store *store, const char *path,
                      const struct btrail_file_header *header)
{
    int fd = open_file(path, store->options.replace);
    int error;

    if (fd < 0 || write_header(fd, header)) {
        return fd;
    }
    error = errno;
    close(fd);
    unlink(path);
    errno = error;
    return -1;
}

/*
 * Continues in a new file.  It exists, and is one of the trace, before the old
 * one says so; if it cannot be created, the old one stays the last.
 */
static int next_part(struct btrail_store *store)
{
    struct btrail_file_header header = store->header;
    g_autofree char *path = part_path(store, header.part + 1);
    uint64_t old_size = store->offset + end_size(store->index_size);
    unsigned i;
    int fd, ret;

    if (store->options.ring_size &&
        !btrail_store_ring_make_room(&store->ring, old_size +
                                     BTRAIL_FILE_HEADER_SIZE +
                                     metas_size(store) + end_size(0))) {
        return store_fail(store, ENOSPC);
    }
    header.part++;
    header.merged = 0;
    if (store->has_data) {
        header.begin = store->options.ring_size ? BTRAIL_GAP_OVERWRITTEN :
                       BTRAIL_GAP_ELSEWHERE;
    }
    fd = begin_part(store, path, &header);
    if (fd < 0) {
        return store_fail(store, errno);
    }
    ret = finish_part(store, true);
    if (ret) {
        int error = errno;

        unlink(path);
        store->fd = fd;
        errno = error;
        return ret;
    }
    if (store->options.ring_size) {
        btrail_store_ring_add(&store->ring, &(struct btrail_ring_part) {
            part_path(store, store->header.part), store->offset,
            sideband_of(store), store->records, store->last_time,
        });
    }
    store->finished_size += store->offset;

    forget_part(store);
    store->fd = fd;
    store->header = header;
    store->offset = BTRAIL_FILE_HEADER_SIZE;
    for (i = 0; !ret && i < store->metas->len; i++) {
        GBytes *meta = g_ptr_array_index(store->metas, i);

        ret = append_meta(store, g_bytes_get_data(meta, NULL),
                          g_bytes_get_size(meta));
    }
    if (!ret && store->options.sync != BTRAIL_SYNC_NONE) {
        sync_folder(path);
    }
    return ret;
}

/* Appends the sideband of parts that were deleted. */
static int append_carried(struct btrail_store *store)
{
    uint64_t most = store->options.part_size / 2 - store->carried_here;
    struct btrail_sideband_info info;
    uint8_t *payload;
    uint32_t len;
    int ret = 0;

    while (!ret && btrail_store_ring_next(&store->ring, most, &payload, &len,
                                          &info)) {
        uint64_t offset = store->offset;

        ret = append(store, BTRAIL_CHUNK_SIDEBAND, payload, len);
        if (!ret) {
            add_sideband(store, offset, len, &info, CARRIED);
            store->carried_here += btrail_ring_sideband_size(len);
            most -= btrail_ring_sideband_size(len);
        }
        g_free(payload);
    }
    return ret;
}

/* The size of the part with this many more bytes */
static uint64_t size_with(const struct btrail_store *store, uint64_t chunk,
                          size_t entry_size)
{
    return store->offset + chunk + end_size(store->index_size + entry_size);
}

/* Makes room for a chunk, in a new part if this one is full. */
static int reserve(struct btrail_store *store, size_t len, size_t entry_size)
{
    uint64_t chunk = BTRAIL_CHUNK_HEADER_SIZE + (uint64_t)len;
    uint64_t limit = store->options.part_size;
    bool ring = store->options.ring_size;
    int ret;

    if (store->error || !limit) {
        return 0;
    }
    /* Once more, if there is no room for what was carried over to make room. */
    do {
        if (store->own_chunks && size_with(store, chunk, entry_size) +
            store->ring.carried_size > limit) {
            ret = next_part(store);
            if (ret) {
                return ret;
            }
        }
        if (ring && !btrail_store_ring_make_room(
                &store->ring, size_with(store, chunk, entry_size))) {
            return store_fail(store, ENOSPC);
        }
    } while (store->own_chunks && store->ring.carried_size &&
             size_with(store, chunk, entry_size) + store->ring.carried_size >
             limit);
    return append_carried(store);
}

int btrail_store_meta(struct btrail_store *store, const void *json, size_t len)
{
    int ret = reserve(store, len, BTRAIL_INDEX_ENTRY_SIZE);

    if (!ret) {
        ret = append_meta(store, json, len);
    }
    if (!ret && !store->has_data && store->options.part_size) {
        g_ptr_array_add(store->metas, g_bytes_new(json, len));
    }
    return ret;
}

static void sync_later(struct btrail_store *store)
{
    if (store->options.sync == BTRAIL_SYNC_INTERVAL && !store->sync_at) {
        store->sync_at = g_get_monotonic_time() +
                         store->options.sync_interval / 1000;
    }
}

void btrail_store_trim(struct btrail_store *store)
{
    btrail_store_ring_trim(&store->ring, store->records, store->last_time);
    btrail_store_ring_make_room(&store->ring, size_with(store, 0, 0));
}

/* Appends a chunk that is not repeated; @offset gets its place. */
static int append_own(struct btrail_store *store, uint16_t type,
                      const void *payload, size_t len, size_t entry_size,
                      uint64_t *offset)
{
    int ret = reserve(store, len, entry_size);

    if (ret) {
        return ret;
    }
    if (!store->error && store->index->len >= BTRAIL_MAX_CHUNKS) {
        return store_fail(store, EFBIG);
    }
    *offset = store->offset;
    ret = append(store, type, payload, len);
    if (!ret) {
        store->own_chunks++;
        sync_later(store);
    }
    return ret;
}

int btrail_store_data(struct btrail_store *store, const void *payload,
                      size_t len, const struct btrail_block_header *h)
{
    struct btrail_index_entry entry = { .switches = h->switches.n };
    bool ring = store->options.ring_size;
    uint64_t offset;
    int ret = 0;

    if (ring && !store->error &&
        btrail_store_ring_has_share(&store->ring, store->records,
                                    store->first_time, store->last_time)) {
        ret = next_part(store);
    }
    if (!ret) {
        ret = append_own(store, BTRAIL_CHUNK_DATA, payload, len,
                         btrail_index_entry_size(&entry), &offset);
    }
    if (ret) {
        return ret;
    }
    btrail_index_entry_fill(&entry, offset, len, h, store->roots);
    g_array_append_val(store->index, entry);
    store->index_size += btrail_index_entry_size(&entry);
    store->has_data = true;
    store->records += h->records;
    store->first_time = store->first_time ?: h->time_first;
    store->last_time = MAX(store->last_time, h->time_last);
    if (ring) {
        btrail_store_ring_trim(&store->ring, store->records,
                               store->last_time);
    }
    return 0;
}

int btrail_store_sideband(struct btrail_store *store, const void *payload,
                          size_t len)
{
    struct btrail_sideband_info info;
    uint64_t offset;
    int ret;

    if (!btrail_sideband_header_get(payload, len, &info)) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    if (store->options.ring_size &&
        btrail_ring_sideband_size(len) > store->options.part_size / 2) {
        /* It could not be kept when its part is deleted, nor could others. */
        return 0;
    }
    ret = append_own(store, BTRAIL_CHUNK_SIDEBAND, payload, len,
                     BTRAIL_INDEX_ENTRY_SIZE, &offset);
    if (!ret) {
        add_sideband(store, offset, len, &info, OWN);
    }
    return ret;
}

int btrail_store_sync(struct btrail_store *store, gint64 *next)
{
    if (!store->error && store->sync_at &&
        g_get_monotonic_time() >= store->sync_at) {
        sync_file(store);
    }
    if (next) {
        *next = store->error ? 0 : store->sync_at;
    }
    errno = store->error;
    return store->error ? -BTRAIL_ERR_IO : 0;
}

uint64_t btrail_store_size(const struct btrail_store *store)
{
    return store->finished_size + store->offset;
}

int btrail_store_identify(struct btrail_store *store, const uint8_t *id,
                          uint16_t begin)
{
    struct btrail_file_header header = store->header;
    uint8_t bytes[BTRAIL_FILE_HEADER_SIZE];
    ssize_t done;

    if (store->error) {
        errno = store->error;
        return -BTRAIL_ERR_IO;
    }
    memcpy(header.id, id, BTRAIL_ID_SIZE);
    header.begin = begin;
    btrail_file_header_put(bytes, &header);
    do {
        done = pwrite(store->fd, bytes, sizeof(bytes), 0);
    } while (done < 0 && errno == EINTR);
    if (done < 0 && errno == ESPIPE) {
        return -BTRAIL_ERR_IO;
    }
    if (done != sizeof(bytes)) {
        return store_fail(store, done < 0 ? errno : ENOSPC);
    }
    store->header = header;
    return 0;
}

/* Other parts of this name would look like parts of the new trace. */
static int remove_parts(const struct btrail_store *store, bool remove)
{
    g_autoptr(GArray) parts = btrail_parts_find(store->first);
    bool goes_on = strcmp(store->first, store->path);
    unsigned i;

    for (i = 0; i < parts->len; i++) {
        uint32_t part = g_array_index(parts, uint32_t, i);
        g_autofree char *path = part_path(store, part);

        if (goes_on && part <= store->options.part) {
            continue;
        }
        if (!remove) {
            errno = EEXIST;
            return -BTRAIL_ERR_IO;
        }
        if (unlink(path) < 0) {
            return -BTRAIL_ERR_IO;
        }
    }
    return 0;
}

static void store_free(struct btrail_store *store)
{
    btrail_store_ring_clear(&store->ring);
    g_array_free(store->index, TRUE);
    g_array_free(store->roots, TRUE);
    g_ptr_array_free(store->metas, TRUE);
    g_free(store->path);
    g_free(store->first);
    g_free(store);
}

static int create(struct btrail_store *store)
{
    const struct btrail_store_options *o = &store->options;
    int ret, error;

    if (o->id) {
        memcpy(store->header.id, o->id, BTRAIL_ID_SIZE);
    } else if (getrandom(store->header.id, BTRAIL_ID_SIZE, 0) !=
               BTRAIL_ID_SIZE) {
        return -BTRAIL_ERR_IO;
    }
    if (o->part_size && !o->replace && remove_parts(store, false)) {
        return -BTRAIL_ERR_IO;
    }
    store->fd = open_file(store->path, o->replace);
    if (store->fd < 0) {
        return -BTRAIL_ERR_IO;
    }
    ret = o->part_size && o->replace ? remove_parts(store, true) : 0;
    if (!ret && !write_header(store->fd, &store->header)) {
        ret = store_fail(store, errno);
    }
    if (ret) {
        error = errno;
        close(store->fd);
        if (!o->replace) {
            /* It is ours and empty, and the next call would fail. */
            unlink(store->path);
        }
        errno = error;
        return ret;
    }
    store->offset = BTRAIL_FILE_HEADER_SIZE;
    if (o->sync != BTRAIL_SYNC_NONE) {
        sync_folder(store->path);
    }
    return 0;
}

static struct btrail_store *
store_new(const struct btrail_store_options *options)
{
    struct btrail_store *store = g_new0(struct btrail_store, 1);

    store->options = *options;
    store->options.path = store->path = g_strdup(options->path);
    store->first = btrail_part_first(store->path, options->part);
    if (!store->first) {
        store->first = g_strdup(store->path);
    }
    store->header.begin = options->begin;
    store->header.part = options->part;
    store->header.merged = options->merged;
    store->index = btrail_index_new();
    store->roots = btrail_roots_new();
    store->metas = g_ptr_array_new_with_free_func(
        (GDestroyNotify)g_bytes_unref);
    btrail_store_ring_init(&store->ring, &store->options);
    if (options->ring_size && !options->part_size) {
        store->options.part_size = options->ring_size /
                                   BTRAIL_STORE_RING_PARTS;
    }
    return store;
}

int btrail_store_open(struct btrail_store **out,
                      const struct btrail_store_options *options)
{
    struct btrail_store *store = store_new(options);
    int ret = create(store);

    if (ret) {
        store_free(store);
        return ret;
    }
    *out = store;
    return 0;
}

int btrail_store_resume(struct btrail_store **out,
                        const struct btrail_store_options *options, int fd,
                        uint64_t offset, uint64_t sequence)
{
    struct btrail_store *store;

    if (ftruncate(fd, offset) < 0 || lseek(fd, offset, SEEK_SET) < 0) {
        btrail_close(fd);
        return -BTRAIL_ERR_IO;
    }
    store = store_new(options);
    store->fd = fd;
    store->offset = offset;
    store->sequence = sequence;
    *out = store;
    return 0;
}

void btrail_store_adopt(struct btrail_store *store,
                        const struct btrail_index_entry *entry,
                        const GArray *roots)
{
    struct btrail_index_entry copy = *entry;

    btrail_roots_copy(store->roots, &copy, roots);
    g_array_append_val(store->index, copy);
    store->index_size += btrail_index_entry_size(&copy);
    if (copy.type == BTRAIL_CHUNK_DATA) {
        store->own_chunks++;
        store->has_data = true;
    }
}

int btrail_store_close(struct btrail_store *store, uint64_t *size)
{
    int ret = finish_part(store, store->options.continued);

    if (size) {
        *size = btrail_store_size(store);
    }
    store_free(store);
    return ret;
}
