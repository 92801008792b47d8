/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A ring of files: see store-ring.h
 */

#include <fcntl.h>
#include <unistd.h>

#include "lib/internal/pread.h"
#include "lib/internal/store-ring.h"

/* A part that was deleted, open as long as something of it is needed */
struct deleted {
    int fd;
    unsigned users;
};

/* A SIDEBAND chunk of it, to be appended */
struct carried {
    struct deleted *part;
    uint64_t offset;            /* of the payload */
    uint32_t size;
};

static void clear_kept(gpointer p)
{
    struct btrail_ring_part *part = p;

    g_free(part->path);
    g_clear_pointer(&part->sideband, g_array_unref);
}

void btrail_store_ring_init(struct btrail_store_ring *ring,
                            const struct btrail_store_options *options)
{
    ring->options = options;
    ring->kept = g_array_new(FALSE, FALSE, sizeof(struct btrail_ring_part));
    g_array_set_clear_func(ring->kept, clear_kept);
    g_queue_init(&ring->carried);
}

uint64_t btrail_ring_sideband_size(uint32_t payload)
{
    return (uint64_t)BTRAIL_CHUNK_HEADER_SIZE + payload +
           BTRAIL_INDEX_ENTRY_SIZE;
}

static void drop_carried(struct btrail_store_ring *ring)
{
    struct carried *c = g_queue_pop_head(&ring->carried);

    ring->carried_size -= btrail_ring_sideband_size(c->size);
    if (!--c->part->users) {
        btrail_close(c->part->fd);
        g_free(c->part);
    }
    g_free(c);
}

void btrail_store_ring_clear(struct btrail_store_ring *ring)
{
    while (!g_queue_is_empty(&ring->carried)) {
        drop_carried(ring);
    }
    g_array_free(ring->kept, TRUE);
}

void btrail_store_ring_add(struct btrail_store_ring *ring,
                           const struct btrail_ring_part *part)
{
    g_array_append_vals(ring->kept, part, 1);
    ring->kept_size += part->size;
    ring->kept_records += part->records;
}

/*
 * Keeps the sideband of a part that is about to be deleted: what names older
 * records names newer ones, too.  Of more than fits into half a part, drops the
 * oldest.
 */
static void carry(struct btrail_store_ring *ring,
                  const struct btrail_ring_part *part)
{
    struct deleted *deleted;
    unsigned i;
    int fd = part->sideband ? open(part->path, O_RDONLY | O_CLOEXEC) : -1;

    if (fd < 0) {
        return;
    }
    deleted = g_new0(struct deleted, 1);
    deleted->fd = fd;
    for (i = 0; i < part->sideband->len; i++) {
        const struct btrail_index_entry *e =
            btrail_entry(part->sideband, i);
        struct carried *c = g_new(struct carried, 1);

        *c = (struct carried) {
            deleted, e->offset + BTRAIL_CHUNK_HEADER_SIZE, e->size,
        };
        deleted->users++;
        g_queue_push_tail(&ring->carried, c);
        ring->carried_size += btrail_ring_sideband_size(c->size);
    }
    while (ring->carried_size > ring->options->part_size / 2) {
        drop_carried(ring);
    }
}

static void delete_oldest(struct btrail_store_ring *ring)
{
    const struct btrail_ring_part *oldest =
        &g_array_index(ring->kept, struct btrail_ring_part, 0);

    carry(ring, oldest);
    unlink(oldest->path);
    ring->kept_size -= oldest->size;
    ring->kept_records -= oldest->records;
    g_array_remove_index(ring->kept, 0);
}

static bool is_held(const struct btrail_store_ring *ring)
{
    const unsigned *held = ring->options->ring_held;

    return held && __atomic_load_n(held, __ATOMIC_ACQUIRE);
}

bool btrail_store_ring_make_room(struct btrail_store_ring *ring,
                                 uint64_t bytes)
{
    uint64_t size = ring->options->ring_size * (is_held(ring) ? 2 : 1);

    while (bytes > size || ring->carried_size > size - bytes ||
           ring->kept_size > size - bytes - ring->carried_size) {
        if (ring->kept->len) {
            delete_oldest(ring);
        } else if (!g_queue_is_empty(&ring->carried)) {
            drop_carried(ring);
        } else {
            return false;
        }
    }
    return true;
}

bool btrail_store_ring_has_share(const struct btrail_store_ring *ring,
                                 uint64_t records, uint64_t first_time,
                                 uint64_t last_time)
{
    const struct btrail_store_options *o = ring->options;

    return (o->ring_records &&
            records >= o->ring_records / BTRAIL_STORE_RING_PARTS) ||
           (o->ring_ns && first_time &&
            last_time - first_time >= o->ring_ns / BTRAIL_STORE_RING_PARTS);
}

void btrail_store_ring_trim(struct btrail_store_ring *ring, uint64_t records,
                            uint64_t last_time)
{
    const struct btrail_store_options *o = ring->options;

    while (ring->kept->len && !is_held(ring)) {
        const struct btrail_ring_part *oldest =
            &g_array_index(ring->kept, struct btrail_ring_part, 0);

        if (!(o->ring_records && records + ring->kept_records -
              oldest->records >= o->ring_records) &&
            !(o->ring_ns && last_time > o->ring_ns &&
              oldest->last_time < last_time - o->ring_ns)) {
            return;
        }
        delete_oldest(ring);
    }
}

bool btrail_store_ring_next(struct btrail_store_ring *ring, uint64_t most,
                            uint8_t **payload, uint32_t *len,
                            struct btrail_sideband_info *info)
{
    while (ring->carried_size > most) {
        drop_carried(ring);
    }
    while (!g_queue_is_empty(&ring->carried)) {
        const struct carried *c = g_queue_peek_head(&ring->carried);
        g_autofree uint8_t *bytes = g_malloc(c->size);
        bool ok = !btrail_pread_all(c->part->fd, bytes, c->size, c->offset) &&
                  btrail_sideband_header_get(bytes, c->size, info);

        *len = c->size;
        drop_carried(ring);
        if (ok) {
            *payload = g_steal_pointer(&bytes);
            return true;
        }
    }
    return false;
}
