/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The bytes of a ring of Intel PT that is not written any more, from the oldest
 * to the newest
 */

#ifndef BTRAIL_PT_RING_H
#define BTRAIL_PT_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

/* The kernel gives no event a larger ring (rb_alloc_aux()). */
#define PT_RING_MAX     (UINT64_C(2) << 30)

struct perf_event_mmap_page;

/**
 * struct pt_ring_bytes
 * @bytes:   two pieces, the older one first
 * @size:    of each; 0 if there is none
 * @wrapped: older bytes were overwritten.  False: all that was ever written is
 *           there; of a file, all that it has
 * @owned:   what pt_ring_clear() frees, or NULL
 */
struct pt_ring_bytes {
    const uint8_t *bytes[2];
    size_t size[2];
    bool wrapped;
    uint8_t *owned;
};

/**
 * pt_ring_freeze - what is in the ring of an event that was stopped
 * @page:     the event's base page, as it is mapped
 * @aux:      its AUX area, which was mapped to be read only: the kernel
 *            overwrites what is oldest
 * @aux_size: of that
 * @out:      gets pieces of @aux, which are valid as long as it is mapped and
 *            the event is not started again
 *
 * Nothing is copied.  A ring that was never filled has one piece, of size 0 if
 * nothing was written.
 *
 * Returns false, with @out empty, if @page is not that of a ring of this size.
 */
bool pt_ring_freeze(const struct perf_event_mmap_page *page, const void *aux,
                    size_t aux_size, struct pt_ring_bytes *out);

/**
 * pt_ring_from_file - the same of a file of PT's bytes
 * @path: of a regular file, of PT_RING_MAX bytes at most
 * @out:  to be cleared
 *
 * It is read into memory: a file that somebody shortens is no fault then.
 *
 * Returns false, with @out empty, after an error, which says the path.
 */
bool pt_ring_from_file(const char *path, struct pt_ring_bytes *out,
                       GError **error);

/* Frees what pt_ring_from_file() has read; @out is empty then. */
void pt_ring_clear(struct pt_ring_bytes *out);

#endif /* BTRAIL_PT_RING_H */
