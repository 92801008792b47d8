/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A ring of Intel PT that is read while it fills: see aux-ring.h
 */

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pt/aux-ring.h"
#include "pt/pt-ring.h"
#include "util/agent-error.h"
#include "util/close.h"

/* The base page and the records */
#define BASE_MAX    (UINT64_C(16) << 20)
/* Parts that the head has not come to yet: more are no kernel's. */
#define PARTS       65536u

/* What a PERF_RECORD_AUX says, of the bytes before @end */
struct aux_ring_part {
    uint64_t begin, end;
    uint64_t flags;
    uint64_t time;              /* 0: not known */
    bool lost;                  /* other records are missing */
};

static bool is_size(uint64_t size, uint64_t most)
{
    return size >= 4096 && size <= most && !(size & (size - 1));
}

static bool init(struct aux_ring *r, struct perf_event_mmap_page *page,
                 uint64_t size, uint64_t now)
{
    uint64_t offset = __atomic_load_n(&page->data_offset, __ATOMIC_RELAXED);
    uint64_t data_size = __atomic_load_n(&page->data_size, __ATOMIC_RELAXED);

    /* Kernels before 4.1 do not say them. */
    if (!is_size(data_size, BASE_MAX) || offset < sizeof(*page) ||
        offset > size || data_size > size - offset || offset % 8) {
        return false;
    }
    r->page = page;
    r->data = (const uint8_t *)page + offset;
    r->data_size = data_size;
    r->data_at = __atomic_load_n(&page->data_tail, __ATOMIC_RELAXED);
    r->aux_at = __atomic_load_n(&page->aux_tail, __ATOMIC_RELAXED);
    r->since = now;
    return true;
}

bool aux_ring_init(struct aux_ring *r, struct perf_event_mmap_page *page,
                   size_t size, const void *aux, size_t aux_size, uint64_t now)
{
    *r = (struct aux_ring){
        .aux = aux, .aux_size = aux_size,
        .parts = g_array_new(FALSE, FALSE, sizeof(struct aux_ring_part)),
    };
    return is_size(aux_size, PT_RING_MAX) &&
           __atomic_load_n(&page->aux_size, __ATOMIC_RELAXED) == aux_size &&
           init(r, page, size, now);
}

static bool map_file(struct aux_ring *r, int fd, GError **error)
{
    int seals = fcntl(fd, F_GET_SEALS);
    struct stat st;
    void *p;

    if (seals < 0 || !(seals & F_SEAL_SHRINK)) {
        return agent_fail(error, AGENT_ERROR_SYSTEM, "this is no memfd that is "
                          "sealed against being made smaller (F_SEAL_SHRINK)");
    }
    if (fstat(fd, &st)) {
        return agent_error_errno(error, "fstat");
    }
    if (st.st_size < 4096 ||
        (uint64_t)st.st_size > PT_RING_MAX + BASE_MAX + 4096) {
        return agent_fail(error, AGENT_ERROR_SYSTEM, "no ring has this size");
    }
    p = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
             0);
    if (p == MAP_FAILED) {
        return agent_error_errno(error, "mmap");
    }
    r->mapping = p;
    r->mapped = (size_t)st.st_size;
    return true;
}

bool aux_ring_from_file(struct aux_ring *r, const char *path, uint64_t now,
                        GError **error)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    struct perf_event_mmap_page *page;
    uint64_t offset, size;
    bool ok;

    *r = (struct aux_ring){ 0 };
    ok = fd >= 0 ? map_file(r, fd, error) : agent_error_errno(error, "open");
    btrail_close(fd);
    if (ok) {
        r->parts = g_array_new(FALSE, FALSE, sizeof(struct aux_ring_part));
        page = r->mapping;
        offset = __atomic_load_n(&page->aux_offset, __ATOMIC_RELAXED);
        size = __atomic_load_n(&page->aux_size, __ATOMIC_RELAXED);
        ok = is_size(size, PT_RING_MAX) && offset <= r->mapped &&
             size <= r->mapped - offset && init(r, page, offset, now);
        r->aux = (const uint8_t *)r->mapping + (ok ? offset : 0);
        r->aux_size = size;
        if (!ok) {
            agent_fail(error, AGENT_ERROR_SYSTEM, "this is not laid out as the "
                       "ring of an event (struct perf_event_mmap_page)");
        }
    }
    if (!ok) {
        g_prefix_error(error, "%s: ", path);
        aux_ring_clear(r);
    }
    return ok;
}

void aux_ring_clear(struct aux_ring *r)
{
    if (r->mapping) {
        munmap(r->mapping, r->mapped);
    }
    if (r->parts) {
        g_array_free(r->parts, TRUE);
    }
    memset(r, 0, sizeof(*r));
}

static uint64_t head_of(const struct aux_ring *r)
{
    return __atomic_load_n(&r->page->aux_head, __ATOMIC_ACQUIRE);
}

uint64_t aux_ring_waiting(const struct aux_ring *r)
{
    return MIN(head_of(r) - r->aux_at, r->aux_size);
}

/* Copies from the records, which go around. */
static void copy(const struct aux_ring *r, uint64_t at, void *to, size_t n)
{
    uint64_t offset = at & (r->data_size - 1);
    size_t first = MIN(n, r->data_size - offset);

    memcpy(to, r->data + offset, first);
    memcpy((uint8_t *)to + first, r->data, n - first);
}

static bool read_record(struct aux_ring *r, uint64_t left, size_t *size)
{
    struct {
        struct perf_event_header header;
        uint64_t offset, size, flags, time;
    } record = { .time = 0 };
    struct aux_ring_part part = { 0 };

    if (left < sizeof(record.header)) {
        return false;
    }
    copy(r, r->data_at, &record.header, sizeof(record.header));
    *size = record.header.size;
    if (*size < sizeof(record.header) || *size > left || *size % 8) {
        return false;
    }
    if (record.header.type == PERF_RECORD_LOST) {
        part.lost = true;
        part.begin = part.end = r->aux_at;
    } else if (record.header.type != PERF_RECORD_AUX ||
               *size < offsetof(typeof(record), time)) {
        return true;
    } else {
        /* The time is that of sample_id, all of it. */
        copy(r, r->data_at, &record, MIN(*size, sizeof(record)));
        part.begin = record.offset;
        part.end = record.offset + record.size;
        part.flags = record.flags;
        part.time = record.time;
        if (record.size > r->aux_size) {
            return false;
        }
    }
    g_array_append_val(r->parts, part);
    return r->parts->len < PARTS;
}

static bool read_records(struct aux_ring *r)
{
    uint64_t head = __atomic_load_n(&r->page->data_head, __ATOMIC_ACQUIRE);
    size_t size;

    if (head - r->data_at > r->data_size) {
        return false;
    }
    while (r->data_at != head) {
        if (!read_record(r, head - r->data_at, &size)) {
            return false;
        }
        r->data_at += size;
    }
    /* What was read is read before the room is given back. */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    __atomic_store_n(&r->page->data_tail, head, __ATOMIC_RELAXED);
    return true;
}

/* Gives the bytes before @end, in pieces that lie together. */
static void give(struct aux_ring *r, uint64_t end,
                 const struct aux_ring_ops *ops, void *opaque)
{
    while (r->aux_at != end) {
        uint64_t offset = r->aux_at & (r->aux_size - 1);
        size_t n = MIN(end - r->aux_at, r->aux_size - offset);

        ops->bytes(opaque, r->aux + offset, n, r->since);
        r->aux_at += n;
        r->read += n;
    }
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    __atomic_store_n(&r->page->aux_tail, end, __ATOMIC_RELAXED);
}

static void lose(struct aux_ring *r, const struct aux_ring_ops *ops,
                 void *opaque)
{
    r->lost++;
    ops->missing(opaque);
}

static void take(struct aux_ring *r, const struct aux_ring_part *p,
                 const struct aux_ring_ops *ops, void *opaque)
{
    const uint64_t partial = PERF_AUX_FLAG_PARTIAL | PERF_AUX_FLAG_COLLISION;

    r->flags |= p->flags;
    /* Somewhere within it */
    if (p->lost || (p->flags & partial)) {
        lose(r, ops, opaque);
    }
    give(r, p->end, ops, opaque);
    if (p->flags & (PERF_AUX_FLAG_TRUNCATED | partial)) {
        lose(r, ops, opaque);
        r->stopped |= p->flags & PERF_AUX_FLAG_TRUNCATED;
    }
    r->since = MAX(r->since, p->time);
}

bool aux_ring_read(struct aux_ring *r, const struct aux_ring_ops *ops,
                   void *opaque, bool *some)
{
    /* The kernel writes a record before the head that belongs to it. */
    uint64_t head = head_of(r), begin = r->aux_at;
    guint i;

    if (head - r->aux_at > r->aux_size || !read_records(r)) {
        return false;
    }
    for (i = 0; i < r->parts->len; i++) {
        struct aux_ring_part *p = &g_array_index(r->parts,
                                                 struct aux_ring_part, i);

        if (p->lost) {
            p->end = r->aux_at;
        }
        if (p->end - r->aux_at > r->aux_size) {
            return false;
        }
        if (p->end - r->aux_at > head - r->aux_at) {
            break;
        }
        take(r, p, ops, opaque);
    }
    g_array_remove_range(r->parts, 0, i);
    if (!r->parts->len && r->aux_at != head) {
        give(r, head, ops, opaque);
    }
    *some = r->aux_at != begin;
    return true;
}
