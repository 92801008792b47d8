/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Rings of Intel PT that are not written any more: see pt-ring.h
 */

#include <linux/perf_event.h>
#include <string.h>

#include "pt/pt-ring.h"
#include "util/read-file.h"

static bool is_zero(const uint8_t *p, size_t n)
{
    return !n || (!*p && !memcmp(p, p + 1, n - 1));
}

bool pt_ring_freeze(const struct perf_event_mmap_page *page, const void *aux,
                    size_t aux_size, struct pt_ring_bytes *out)
{
    const uint8_t *ring = aux;
    uint64_t head;
    size_t at;

    memset(out, 0, sizeof(*out));
    /* Read once: others who have mapped the page can write to it. */
    if (!ring || !aux_size || aux_size & (aux_size - 1) ||
        aux_size > PT_RING_MAX ||
        __atomic_load_n(&page->aux_size, __ATOMIC_RELAXED) != aux_size) {
        return false;
    }
    /* As perf does it: bytes are those from before the head was written. */
    head = __atomic_load_n(&page->aux_head, __ATOMIC_ACQUIRE);
    at = head & (aux_size - 1);
    /*
     * The driver of PT says a place in the ring, and not how often it went
     * around.  The kernel hands out a ring of zeros, and packets have few: if
     * none but zeros are after the head, nothing was written there yet.  Should
     * it be PAD packets of an older round, no more than these are lost.
     */
    out->wrapped = head >= aux_size || !is_zero(ring + at, aux_size - at);
    if (out->wrapped) {
        out->bytes[0] = ring + at;
        out->size[0] = aux_size - at;
        out->bytes[1] = ring;
        out->size[1] = at;
    } else {
        out->bytes[0] = out->bytes[1] = ring;
        out->size[0] = at;
    }
    return true;
}

bool pt_ring_from_file(const char *path, struct pt_ring_bytes *out,
                       GError **error)
{
    size_t size;

    memset(out, 0, sizeof(*out));
    out->owned = (uint8_t *)read_whole_file(path, PT_RING_MAX, &size, error);
    if (!out->owned) {
        g_prefix_error(error, "%s: ", path);
        return false;
    }
    out->bytes[0] = out->bytes[1] = out->owned;
    out->size[0] = size;
    return true;
}

void pt_ring_clear(struct pt_ring_bytes *out)
{
    g_free(out->owned);
    memset(out, 0, sizeof(*out));
}
