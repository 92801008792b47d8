/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest's RAM: see guest-memory.h
 */

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "guest-linux/guest-memory.h"

#define BLOCK   (256u << 10)

struct ram_range {
    uint64_t address;
    uint64_t size;
    int fd;
    uint64_t offset;
    const uint8_t *bytes;       /* where the range can be read, or NULL */
    bool mapped;                /* they are a mapping of the file */
};

struct guest_memory {
    const struct guest_memory_view *view;       /* NULL, or without ranges */
    void *opaque;               /* of it */
    unsigned n;
    struct ram_range ranges[GUEST_RANGES_MAX];  /* in the order of addresses */
};

void guest_memory_files_free(struct guest_memory_files *files)
{
    for (unsigned i = 0; files && i < BTRAIL_MEMORY_MAX_FILES; i++) {
        if (files->fds[i] >= 0) {
            close(files->fds[i]);
        }
    }
    g_free(files);
}

struct guest_memory *guest_memory_new(void)
{
    return g_new0(struct guest_memory, 1);
}

struct guest_memory *guest_memory_new_view(const struct guest_memory_view *view,
                                           void *opaque)
{
    struct guest_memory *m = guest_memory_new();

    m->view = view;
    m->opaque = opaque;
    return m;
}

bool guest_memory_is_view(const struct guest_memory *m)
{
    return m->view;
}

void guest_memory_begin(const struct guest_memory *m)
{
    if (m->view) {
        m->view->begin(m->opaque);
    }
}

static void drop_ranges(struct guest_memory *m)
{
    for (unsigned i = 0; i < m->n; i++) {
        struct ram_range *r = &m->ranges[i];

        if (r->mapped) {
            munmap((void *)r->bytes, r->size);
        }
        if (r->fd >= 0) {
            close(r->fd);
        }
    }
}

void guest_memory_free(struct guest_memory *m)
{
    if (m) {
        drop_ranges(m);
        g_free(m);
    }
}

void guest_memory_replace(struct guest_memory *m, struct guest_memory *other)
{
    drop_ranges(m);
    *m = *other;
    g_free(other);
}

/* The index in the order of addresses at which a range belongs */
static unsigned place(const struct guest_memory *m, const struct ram_range *r)
{
    unsigned i = 0;

    while (i < m->n && m->ranges[i].address < r->address) {
        i++;
    }
    return i;
}

/* May it be added? */
static bool is_sound(const struct guest_memory *m, const struct ram_range *r)
{
    unsigned i = place(m, r);

    return m->n < GUEST_RANGES_MAX && r->size &&
           !((r->address | r->size | r->offset) % GUEST_PAGE_SIZE) &&
           r->size <= UINT64_MAX - r->address &&
           r->offset <= INT64_MAX && r->size <= INT64_MAX - r->offset &&
           (!i || m->ranges[i - 1].address + m->ranges[i - 1].size <=
            r->address) &&
           (i == m->n || r->address + r->size <= m->ranges[i].address);
}

static void add_range(struct guest_memory *m, const struct ram_range *r)
{
    unsigned i = place(m, r);

    memmove(&m->ranges[i + 1], &m->ranges[i],
            (m->n - i) * sizeof(m->ranges[0]));
    m->ranges[i] = *r;
    m->n++;
}

/*
 * Can no access to the range fail?  The file cannot shrink, and its pages are
 * made as they are needed; there may be no huge page to make.
 */
static bool is_safe_to_map(const struct ram_range *r)
{
    int seals = fcntl(r->fd, F_GET_SEALS);
    struct statfs fs;
    struct stat st;

    return seals >= 0 && (seals & F_SEAL_SHRINK) &&
           !fstatfs(r->fd, &fs) && fs.f_type == TMPFS_MAGIC &&
           !fstat(r->fd, &st) && st.st_size >= 0 &&
           r->offset + r->size <= (uint64_t)st.st_size;
}

bool guest_memory_add_file(struct guest_memory *m, uint64_t address,
                           uint64_t size, int fd, uint64_t offset)
{
    struct ram_range r = { address, size, fd, offset, NULL, false };
    void *bytes = MAP_FAILED;

    if (fd < 0 || !is_sound(m, &r)) {
        return false;
    }
    if (is_safe_to_map(&r)) {
        bytes = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, (off_t)offset);
    }
    if (bytes != MAP_FAILED) {
        r.bytes = bytes;
        r.mapped = true;
    }
    add_range(m, &r);
    return true;
}

bool guest_memory_add_bytes(struct guest_memory *m, uint64_t address,
                            uint64_t size, const void *bytes)
{
    struct ram_range r = { address, size, -1, 0, bytes, false };

    if (!bytes || !is_sound(m, &r)) {
        return false;
    }
    add_range(m, &r);
    return true;
}

struct guest_memory *guest_memory_open(const struct guest_memory_files *files)
{
    struct guest_memory *m = guest_memory_new();

    for (uint32_t i = 0; i < files->head.ranges; i++) {
        const struct btrail_memory_range *r = &files->ranges[i];
        int fd = dup(files->fds[r->file]);

        if (!guest_memory_add_file(m, r->address, r->size, fd, r->offset) &&
            fd >= 0) {
            close(fd);
        }
    }
    return m;
}

uint64_t guest_memory_size(const struct guest_memory *m)
{
    uint64_t size = 0;

    for (unsigned i = 0; i < m->n; i++) {
        size += m->ranges[i].size;
    }
    return size;
}

static bool read_range(const struct ram_range *r, uint64_t at, uint8_t *buf,
                       size_t size)
{
    if (r->bytes) {
        memcpy(buf, r->bytes + at, size);
        return true;
    }
    while (size) {
        ssize_t n = pread(r->fd, buf, size, (off_t)(r->offset + at));

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return false;
        }
        buf += n;
        at += (uint64_t)n;
        size -= (size_t)n;
    }
    return true;
}

bool guest_memory_read(const struct guest_memory *m, uint64_t address,
                       void *buf, size_t size)
{
    uint8_t *out = buf;

    if (m->view) {
        return m->view->read(m->opaque, address, buf, size);
    }
    for (unsigned i = 0; i < m->n && size; i++) {
        const struct ram_range *r = &m->ranges[i];
        uint64_t at = address - r->address;
        size_t n;

        if (address < r->address || at >= r->size) {
            continue;
        }
        n = MIN(size, r->size - at);
        if (!read_range(r, at, out, n)) {
            return false;
        }
        out += n;
        address += n;
        size -= n;
    }
    return !size;
}

/*
 * Sets @at and @end to the next pages that were written to, from @at on.
 * Reading others would make the guest's file take memory for them.  Returns
 * false if there are none.
 */
static bool next_written(const struct ram_range *r, uint64_t *at,
                         uint64_t *end)
{
    off_t data, hole;

    *end = r->size;
    data = r->fd < 0 ? -1 :
           lseek(r->fd, (off_t)(r->offset + *at), SEEK_DATA);
    if (data >= 0) {
        hole = lseek(r->fd, data, SEEK_HOLE);
        *at = MAX(*at, ((uint64_t)data - r->offset) &
                       -(uint64_t)GUEST_PAGE_SIZE);
        if (hole > data) {
            *end = MIN(r->size, ((uint64_t)hole - r->offset +
                                 GUEST_PAGE_SIZE - 1) &
                                -(uint64_t)GUEST_PAGE_SIZE);
        }
    } else if (r->fd >= 0 && errno == ENXIO) {
        return false;
    }
    return *at < r->size;
}

static uint64_t find_in(const struct ram_range *r, uint64_t from,
                        uint8_t *block, const void *bytes, size_t size)
{
    uint64_t at, end, n;

    for (at = from; next_written(r, &at, &end); ) {
        for (; at < end; at += n) {
            const uint8_t *pages = r->bytes ? r->bytes + at : block;

            n = MIN(BLOCK, end - at);
            /* A copy takes much longer than what is compared here. */
            if (!r->bytes && !read_range(r, at, block, n)) {
                return UINT64_MAX;
            }
            for (uint64_t i = 0; i + size <= n; i += GUEST_PAGE_SIZE) {
                if (!memcmp(pages + i, bytes, size)) {
                    return r->address + at + i;
                }
            }
        }
    }
    return UINT64_MAX;
}

uint64_t guest_memory_find_page(const struct guest_memory *m, uint64_t from,
                                const void *bytes, size_t size)
{
    g_autofree uint8_t *block = NULL;
    uint64_t found = UINT64_MAX;

    if (!size || size > GUEST_PAGE_SIZE ||
        from > UINT64_MAX - GUEST_PAGE_SIZE) {
        return UINT64_MAX;
    }
    if (m->view) {
        return m->view->find_page(m->opaque, from, bytes, size);
    }
    block = g_malloc(BLOCK);
    for (unsigned i = 0; i < m->n && found == UINT64_MAX; i++) {
        const struct ram_range *r = &m->ranges[i];
        uint64_t first = MAX(from, r->address) + GUEST_PAGE_SIZE - 1;

        first &= -(uint64_t)GUEST_PAGE_SIZE;
        if (first >= r->address && first - r->address < r->size) {
            found = find_in(r, first - r->address, block, bytes, size);
        }
    }
    return found;
}
