/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A ring of Intel PT that is read while it fills: that of an event whose AUX
 * area is mapped to be written to, so that the kernel overwrites nothing; or a
 * file that is laid out as such a mapping
 *
 * linux/perf_event.h has the protocol: whoever writes advances @aux_head, and
 * says of each part by a record, PERF_RECORD_AUX, whether something is missing
 * and when it was written; whoever reads advances @aux_tail.
 */

#ifndef BTRAIL_AUX_RING_H
#define BTRAIL_AUX_RING_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

/**
 * struct aux_ring
 * @stopped: the kernel has stopped the event, as the ring was full: what was
 *           fed is up to there, and it is to be started again
 * @flags:   PERF_AUX_FLAG_* of all records so far
 * @read:    bytes that were read
 * @lost:    how often bytes were missing
 */
struct aux_ring {
    bool stopped;
    uint64_t flags;
    uint64_t read;
    uint64_t lost;

    struct perf_event_mmap_page *page;
    const uint8_t *data, *aux;
    uint64_t data_size, aux_size;
    uint64_t data_at, aux_at;   /* what is read next */
    uint64_t since;
    GArray *parts;              /* of struct aux_ring_part: not read yet */
    void *mapping;              /* of a file */
    size_t mapped;
};

/**
 * struct aux_ring_ops - who takes what is read
 * @bytes:   the next bytes, which were written after @since; they are
 *           overwritten once it returns
 * @missing: before the next bytes, others are missing
 */
struct aux_ring_ops {
    void (*bytes)(void *opaque, const uint8_t *p, size_t n, uint64_t since);
    void (*missing)(void *opaque);
};

/**
 * aux_ring_init - a ring that is mapped
 * @page, @size: the base page, and how much is mapped there: the records follow
 *               it
 * @aux, @aux_size: the ring
 * @now:         before the event is started: nothing is older
 *
 * Returns false if the page does not say of itself that it is so; @r is to be
 * cleared anyway.
 */
bool aux_ring_init(struct aux_ring *r, struct perf_event_mmap_page *page,
                   size_t size, const void *aux, size_t aux_size, uint64_t now);

/**
 * aux_ring_from_file - the same of a file
 * @path: of a memfd that is sealed against being made smaller, such as
 *        /proc/PID/fd/N: so that its owner cannot take what is read away
 */
bool aux_ring_from_file(struct aux_ring *r, const char *path, uint64_t now,
                        GError **error);
void aux_ring_clear(struct aux_ring *r);

/* Bytes that wait to be read */
uint64_t aux_ring_waiting(const struct aux_ring *r);

/**
 * aux_ring_read - reads what has come
 * @some: gets whether anything has
 *
 * Returns false if the ring says what cannot be.
 */
bool aux_ring_read(struct aux_ring *r, const struct aux_ring_ops *ops,
                   void *opaque, bool *some);

#endif /* BTRAIL_AUX_RING_H */
