/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Appending chunks to a file: see store.h
 */

#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "chunk.h"
#include "crc32c.h"
#include "index.h"
#include "store.h"

struct btrail_store {
    int fd;
    int error;                  /* errno of the first failure, or 0 */
    uint64_t offset;            /* end of the last whole chunk */
    uint64_t sequence;
    GArray *index;              /* of struct btrail_index_entry */
    struct btrail_roots roots;
};

static int store_fail(struct btrail_store *store, int error)
{
    store->error = error;
    /*
     * Take back the piece of a chunk.  Not possible for a device or a pipe;
     * a reader finds the last whole chunk then, too.
     */
    if (ftruncate(store->fd, store->offset) < 0 ||
        lseek(store->fd, store->offset, SEEK_SET) < 0) {
        /* The first error is the one to tell. */
    }
    errno = error;
    return -BTRAIL_ERR_IO;
}

static int store_write(struct btrail_store *store, struct iovec *iov, int n)
{
    size_t left = 0, total;
    int i;

    if (store->error) {
        errno = store->error;
        return -BTRAIL_ERR_IO;
    }
    for (i = 0; i < n; i++) {
        left += iov[i].iov_len;
    }
    total = left;
    while (left) {
        ssize_t done = writev(store->fd, iov, n);

        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            return store_fail(store, done ? errno : ENOSPC);
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
    store->offset += total;
    return 0;
}

int btrail_store_open(struct btrail_store **out, const char *path,
                      bool replace)
{
    uint8_t header[BTRAIL_FILE_HEADER_SIZE];
    struct iovec iov = { header, sizeof(header) };
    struct btrail_store *store;
    int ret, fd;

    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC |
              (replace ? O_TRUNC : O_EXCL), 0666);
    if (fd < 0) {
        return -BTRAIL_ERR_IO;
    }
    store = g_new0(struct btrail_store, 1);
    store->fd = fd;
    store->index = g_array_new(FALSE, FALSE,
                               sizeof(struct btrail_index_entry));
    btrail_roots_init(&store->roots);
    btrail_file_header_put(header);
    ret = store_write(store, &iov, 1);
    if (ret) {
        int error;

        btrail_store_close(store);
        error = errno;
        if (!replace) {
            /* It is ours and empty, and would be in the way next time. */
            unlink(path);
        }
        errno = error;
        return ret;
    }
    *out = store;
    return 0;
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
    int ret;

    btrail_chunk_put(header, &chunk);
    ret = store_write(store, iov, G_N_ELEMENTS(iov));
    if (!ret) {
        store->sequence++;
    }
    return ret;
}

int btrail_store_meta(struct btrail_store *store, const void *json, size_t len)
{
    struct btrail_index_entry entry = {
        .offset = store->offset,
        .size = len,
        .type = BTRAIL_CHUNK_META,
    };
    int ret = append(store, BTRAIL_CHUNK_META, json, len);

    if (!ret) {
        g_array_append_val(store->index, entry);
    }
    return ret;
}

int btrail_store_data(struct btrail_store *store, const void *payload,
                      size_t len, const struct btrail_block_header *h)
{
    struct btrail_index_entry entry;
    uint64_t offset = store->offset;
    int ret;

    if (!store->error && store->index->len >= BTRAIL_MAX_CHUNKS) {
        return store_fail(store, EFBIG);
    }
    ret = append(store, BTRAIL_CHUNK_DATA, payload, len);
    if (!ret) {
        btrail_index_entry_fill(&entry, offset, len, h, &store->roots);
        g_array_append_val(store->index, entry);
    }
    return ret;
}

uint64_t btrail_store_size(const struct btrail_store *store)
{
    return store->offset;
}

static int write_index(struct btrail_store *store)
{
    struct btrail_end end = {
        .index_offset = store->offset,
        .entries = store->index->len,
    };
    uint8_t bytes[BTRAIL_END_SIZE];
    uint64_t body = store->offset;
    struct btrail_buf payload = { 0 };
    unsigned i;
    int ret = 0;

    for (i = 0; !ret && i < store->index->len; i++) {
        const struct btrail_index_entry *e =
            &g_array_index(store->index, struct btrail_index_entry, i);

        if (payload.len + btrail_index_entry_size(e) >
            BTRAIL_INDEX_MAX_PAYLOAD) {
            ret = append(store, BTRAIL_CHUNK_INDEX, payload.data,
                         payload.len);
            payload.len = 0;
        }
        btrail_index_entry_append(&payload, e, &store->roots);
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

int btrail_store_close(struct btrail_store *store)
{
    int error;

    if (!store->error) {
        write_index(store);
    }
    /* Some file systems find room only now; devices and pipes cannot sync. */
    if (!store->error && fdatasync(store->fd) < 0 &&
        errno != EINVAL && errno != EROFS) {
        store->error = errno;
    }
    if (close(store->fd) < 0 && !store->error && errno != EINTR) {
        store->error = errno;
    }
    error = store->error;
    g_array_free(store->index, TRUE);
    btrail_roots_clear(&store->roots);
    g_free(store);
    errno = error;
    return error ? -BTRAIL_ERR_IO : 0;
}
