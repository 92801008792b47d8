/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Checkpoints of a replay, saved in its recording: see saved-checkpoints.h
 */

#include <errno.h>
#include <fcntl.h>
#include <gnutls/crypto.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "replay/saved-checkpoints.h"
#include "replay/user-key.h"
#include "util/whole-io.h"

#define MAGIC           "BTCKPT\0\1"
#define NEW             RECORDING_CHECKPOINTS ".new"
/* Bytes of a chunk before it is compressed, except the last one */
#define CHUNK           (UINT64_C(4) << 20)
/* Much faster than the disk, and most of what there is to gain */
#define LEVEL           1
#define MAC_SIZE        32
/* They have some memory each. */
#define MAX_THREADS     8u
/* More cannot be: QEMU has them all in memory. */
#define MAX_MEMORY      (UINT64_C(1) << 40)

struct saved_header {
    uint8_t magic[8];
    uint8_t nonce[16];
    uint8_t identity[32];       /* of recording and QEMU */
    uint64_t memory;            /* little endian */
    uint32_t count;
    uint32_t reserved;
    uint8_t mac[MAC_SIZE];      /* of all before it */
} __attribute__((packed));

struct saved_chunk {
    uint32_t size;
    uint8_t mac[MAC_SIZE];
} __attribute__((packed));

/* An open file, and what it takes to check it */
struct saved {
    uint8_t key[USER_KEY_SIZE];
    struct saved_header header;
    int fd;
};

static void mac(const uint8_t *key, const void *a, size_t a_size,
                uint64_t index, const void *b, size_t b_size,
                uint8_t out[MAC_SIZE])
{
    gnutls_hmac_hd_t hmac;

    if (gnutls_hmac_init(&hmac, GNUTLS_MAC_SHA256, key,
                         USER_KEY_SIZE)) {
        g_error("GnuTLS has no HMAC of SHA-256");
    }
    index = GUINT64_TO_LE(index);
    gnutls_hmac(hmac, a, a_size);
    if (b) {
        gnutls_hmac(hmac, &index, sizeof(index));
        gnutls_hmac(hmac, b, b_size);
    }
    gnutls_hmac_deinit(hmac, out);
}

static bool same_mac(const uint8_t *a, const uint8_t *b)
{
    uint8_t other = 0;

    for (unsigned i = 0; i < MAC_SIZE; i++) {
        other |= a[i] ^ b[i];
    }
    return !other;
}

static void header_mac(const struct saved *s, uint8_t out[MAC_SIZE])
{
    mac(s->key, &s->header, offsetof(struct saved_header, mac), 0, NULL, 0,
        out);
}

static void chunk_mac(const struct saved *s, uint64_t index, const void *bytes,
                      size_t size, uint8_t out[MAC_SIZE])
{
    mac(s->key, s->header.nonce, sizeof(s->header.nonce), index, bytes, size,
        out);
}

/* What they belong to: all that a replay depends on */
static bool get_identity(const struct recording *r, const char *qemu_sha256,
                         uint8_t out[32], GError **error)
{
    g_autofree char *manifest = recording_path(r, RECORDING_MANIFEST);
    g_autofree char *log = recording_path(r, r->log.name);
    g_autofree char *hash = recording_hash(manifest, NULL, error);
    g_autofree char *log_hash = r->log.sha256 ? g_strdup(r->log.sha256) :
                                recording_hash(log, NULL, error);
    g_autoptr(GChecksum) sum = g_checksum_new(G_CHECKSUM_SHA256);
    gsize size = 32;

    if (!hash || !log_hash) {
        return false;
    }
    g_checksum_update(sum, (const void *)hash, strlen(hash));
    g_checksum_update(sum, (const void *)log_hash, strlen(log_hash));
    g_checksum_update(sum, (const void *)qemu_sha256, strlen(qemu_sha256));
    g_checksum_get_digest(sum, out, &size);
    return true;
}

static bool refuse(GError **error, const char *why)
{
    return agent_fail(error, AGENT_ERROR_PROTOCOL,
                      "the checkpoints of the recording are not used: "
                      "%s", why);
}

/* Reading ----------------------------------------------------------------- */

static bool check_header(struct saved *s, const struct recording *r,
                         const char *qemu_sha256, GError **error)
{
    struct saved_header *h = &s->header;
    uint8_t want[MAC_SIZE], identity[32];

    if (pread(s->fd, h, sizeof(*h), 0) != sizeof(*h) ||
        memcmp(h->magic, MAGIC, sizeof(h->magic))) {
        return refuse(error, "they are damaged");
    }
    header_mac(s, want);
    if (!same_mac(want, h->mac)) {
        return refuse(error, "another user has made them, or they are "
                      "damaged");
    }
    if (!get_identity(r, qemu_sha256, identity, error)) {
        return false;
    }
    if (memcmp(identity, h->identity, sizeof(identity))) {
        return refuse(error, "they are of another recording, or of another "
                      "QEMU");
    }
    h->memory = GUINT64_FROM_LE(h->memory);
    h->count = GUINT32_FROM_LE(h->count);
    return (h->memory && h->memory <= MAX_MEMORY) ||
           refuse(error, "they are damaged");
}

/* False without an error if there is no file. */
static bool open_saved(struct saved *s, const struct recording *r,
                       const char *qemu_sha256, struct stat *st,
                       GError **error)
{
    g_autofree char *path = recording_path(r, RECORDING_CHECKPOINTS);
    bool ok = false;

    s->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (s->fd < 0 && errno == ENOENT) {
        return false;
    }
    if (s->fd < 0 || fstat(s->fd, st)) {
        agent_error_errno(error, path);
    } else if (!S_ISREG(st->st_mode)) {
        refuse(error, "they are not a file");
    } else if (!user_key_get(s->key, false, error)) {
        g_prefix_error(error, "the checkpoints of the recording are not used: "
                       "you have made none: ");
    } else {
        ok = check_header(s, r, qemu_sha256, error);
    }
    if (!ok && s->fd >= 0) {
        close(s->fd);
    }
    return ok;
}

bool saved_checkpoints_info(const struct recording *r, const char *qemu_sha256,
                            struct saved_checkpoints_info *info,
                            GError **error)
{
    struct saved s;
    struct stat st;

    if (!open_saved(&s, r, qemu_sha256, &st, error)) {
        return false;
    }
    close(s.fd);
    *info = (struct saved_checkpoints_info) {
        s.header.count, st.st_size, s.header.memory
    };
    return true;
}

/* A chunk of this size becomes what is at @out. */
static bool read_chunk(const struct saved *s, uint64_t index, void *buffer,
                       size_t limit, void *out, size_t size)
{
    struct saved_chunk chunk;
    uint8_t want[MAC_SIZE];
    uint32_t packed;

    if (whole_read(s->fd, &chunk, sizeof(chunk)) != sizeof(chunk)) {
        return false;
    }
    packed = GUINT32_FROM_LE(chunk.size);
    if (packed > limit ||
        whole_read(s->fd, buffer, packed) != packed) {
        return false;
    }
    chunk_mac(s, index, buffer, packed, want);
    return same_mac(want, chunk.mac) &&
           ZSTD_decompress(out, size, buffer, packed) == size;
}

static bool read_chunks(const struct saved *s, uint8_t *out)
{
    const size_t limit = ZSTD_compressBound(CHUNK);
    g_autofree uint8_t *buffer = g_malloc(limit);
    uint64_t size = s->header.memory;
    uint8_t more;

    if (lseek(s->fd, sizeof(s->header), SEEK_SET) < 0) {
        return false;
    }
    for (uint64_t at = 0; at < size; at += CHUNK) {
        if (!read_chunk(s, at / CHUNK, buffer, limit, out + at,
                        MIN(CHUNK, size - at))) {
            return false;
        }
    }
    return !read(s->fd, &more, 1);
}

/* Nobody who writes to the file changes what QEMU gets. */
static int unpack(const struct saved *s, GError **error)
{
    uint64_t size = s->header.memory;
    int memory = memfd_create("backtrail-checkpoints",
                              MFD_CLOEXEC | MFD_ALLOW_SEALING);
    uint8_t *bytes = MAP_FAILED;
    bool ok = false;

    if (memory >= 0 && !ftruncate(memory, size)) {
        bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, memory,
                     0);
    }
    if (bytes == MAP_FAILED) {
        agent_error_errno(error, "memory for checkpoints");
    } else {
        ok = read_chunks(s, bytes);
        munmap(bytes, size);
        if (!ok) {
            refuse(error, "they are damaged");
        } else if (fcntl(memory, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK |
                         F_SEAL_GROW | F_SEAL_SEAL)) {
            agent_error_errno(error, "seal");
            ok = false;
        }
    }
    if (!ok && memory >= 0) {
        close(memory);
    }
    return ok ? memory : -1;
}

int saved_checkpoints_open(const struct recording *r, const char *qemu_sha256,
                           GError **error)
{
    struct saved s;
    struct stat st;
    int memory;

    if (!open_saved(&s, r, qemu_sha256, &st, error)) {
        return -1;
    }
    memory = unpack(&s, error);
    close(s.fd);
    return memory;
}

/* Writing ----------------------------------------------------------------- */

struct checkpoint_saver {
    struct saved saved;
    char *path;
    char *new;
    int from;
    GThread *thread;
    GError *error;
    GMutex lock;
    GCond packed;
};

/* A chunk on its way to the file */
struct packing {
    uint64_t index;
    size_t size;
    uint8_t *bytes;
    size_t packed;              /* 0 if that has failed */
    uint8_t *packed_bytes;
    struct saved_chunk chunk;
    bool done;                  /* under the lock */
};

/* Packs a chunk; any thread. */
static void pack_chunk(gpointer data, gpointer opaque)
{
    struct packing *p = data;
    struct checkpoint_saver *s = opaque;
    size_t packed = ZSTD_compress(p->packed_bytes, ZSTD_compressBound(CHUNK),
                                  p->bytes, p->size, LEVEL);

    p->packed = ZSTD_isError(packed) ? 0 : packed;
    p->chunk.size = GUINT32_TO_LE(p->packed);
    chunk_mac(&s->saved, p->index, p->packed_bytes, p->packed, p->chunk.mac);
    g_mutex_lock(&s->lock);
    p->done = true;
    g_cond_signal(&s->packed);
    g_mutex_unlock(&s->lock);
}

static bool write_chunk(struct checkpoint_saver *s, struct packing *p)
{
    g_mutex_lock(&s->lock);
    while (!p->done) {
        g_cond_wait(&s->packed, &s->lock);
    }
    g_mutex_unlock(&s->lock);
    if (!p->packed) {
        errno = ENOMEM;
        return false;
    }
    return !whole_write(s->saved.fd, &p->chunk, sizeof(p->chunk)) &&
           !whole_write(s->saved.fd, p->packed_bytes, p->packed);
}

/* Reads the chunks, and writes each when it is the turn of its place again. */
static bool pass_chunks(struct checkpoint_saver *s, struct packing *places,
                        unsigned n_places, GThreadPool *pool, uint64_t *all)
{
    uint64_t begun = 0, written = 0;
    ssize_t n = CHUNK;
    bool ok = true;

    *all = 0;
    while (ok && (n == (ssize_t)CHUNK || written < begun)) {
        struct packing *p = &places[begun % n_places];

        if (begun - written == n_places || n < (ssize_t)CHUNK) {
            ok = write_chunk(s, &places[written++ % n_places]);
            continue;
        }
        n = whole_read(s->from, p->bytes, CHUNK);
        if (n > 0) {
            p->index = begun++;
            p->size = n;
            p->done = false;
            *all += n;
            g_thread_pool_push(pool, p, NULL);
        }
        ok = n >= 0;
    }
    return ok;
}

static bool write_chunks(struct checkpoint_saver *s, uint64_t *all)
{
    unsigned threads = MIN(g_get_num_processors(), MAX_THREADS);
    unsigned n_places = 2 * threads;
    g_autofree struct packing *places = g_new0(struct packing, n_places);
    GThreadPool *pool = g_thread_pool_new(pack_chunk, s, threads, FALSE, NULL);
    int error;
    bool ok;

    for (unsigned i = 0; i < n_places; i++) {
        places[i].bytes = g_malloc(CHUNK);
        places[i].packed_bytes = g_malloc(ZSTD_compressBound(CHUNK));
    }
    ok = pass_chunks(s, places, n_places, pool, all);
    error = errno;
    g_thread_pool_free(pool, FALSE, TRUE);
    for (unsigned i = 0; i < n_places; i++) {
        g_free(places[i].bytes);
        g_free(places[i].packed_bytes);
    }
    errno = error;
    return ok;
}

/*
 * The header comes last: without it, the file is nothing.  Nor is the disk
 * waited for: the MACs show what a crash loses, and the next replay makes the
 * checkpoints again.
 */
static void *save(void *opaque)
{
    struct checkpoint_saver *s = opaque;
    struct saved_header *h = &s->saved.header;
    uint64_t all;

    if (whole_write(s->saved.fd, h, sizeof(*h)) ||
        !write_chunks(s, &all)) {
        agent_error_errno(&s->error, s->new);
    } else {
        memcpy(h->magic, MAGIC, sizeof(h->magic));
        h->memory = GUINT64_TO_LE(all);
        header_mac(&s->saved, h->mac);
        if (pwrite(s->saved.fd, h, sizeof(*h), 0) != sizeof(*h)) {
            agent_error_errno(&s->error, s->new);
        }
    }
    /* QEMU then gets an error, and does not wait. */
    close(s->from);
    s->from = -1;
    return NULL;
}

static bool open_new(struct checkpoint_saver *s, const struct recording *r,
                     const char *qemu_sha256)
{
    struct saved_header *h = &s->saved.header;

    if (!user_key_get(s->saved.key, true, &s->error) ||
        !get_identity(r, qemu_sha256, h->identity, &s->error)) {
        return false;
    }
    unlink(s->new);
    s->saved.fd = open(s->new, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC |
                       O_NOFOLLOW, 0600);
    if (s->saved.fd < 0 ||
        getrandom(h->nonce, sizeof(h->nonce), 0) != sizeof(h->nonce)) {
        return agent_error_errno(&s->error, s->new);
    }
    return true;
}

struct checkpoint_saver *checkpoint_saver_start(const struct recording *r,
                                                const char *qemu_sha256,
                                                uint32_t count, int from)
{
    struct checkpoint_saver *s = g_new0(struct checkpoint_saver, 1);

    s->path = recording_path(r, RECORDING_CHECKPOINTS);
    s->new = recording_path(r, NEW);
    s->from = from;
    s->saved.fd = -1;
    s->saved.header.count = GUINT32_TO_LE(count);
    g_mutex_init(&s->lock);
    g_cond_init(&s->packed);
    if (open_new(s, r, qemu_sha256)) {
        s->thread = g_thread_new("checkpoints", save, s);
    } else {
        close(s->from);
    }
    return s;
}

bool checkpoint_saver_finish(struct checkpoint_saver *s, bool ok,
                             GError **error)
{
    if (s->thread) {
        g_thread_join(s->thread);
    }
    if (ok && !s->error && rename(s->new, s->path)) {
        agent_error_errno(&s->error, s->path);
    }
    ok &= !s->error;
    if (!ok && s->saved.fd >= 0) {
        unlink(s->new);
    }
    if (s->saved.fd >= 0) {
        close(s->saved.fd);
    }
    if (s->error) {
        g_propagate_error(error, s->error);
    }
    explicit_bzero(s->saved.key, sizeof(s->saved.key));
    g_mutex_clear(&s->lock);
    g_cond_clear(&s->packed);
    g_free(s->path);
    g_free(s->new);
    g_free(s);
    return ok;
}
