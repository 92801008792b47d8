/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Indices: see index.h
 */

#include "lib/internal/index.h"

/* Lists that take no more memory than this: 128 MiB */
#define MAX_ROOTS   (1u << 24)

void btrail_roots_init(struct btrail_roots *roots)
{
    /* Never NULL: even adding 0 to that is undefined. */
    roots->list = g_array_sized_new(FALSE, FALSE, sizeof(uint64_t), 1);
}

void btrail_roots_clear(struct btrail_roots *roots)
{
    g_array_free(roots->list, TRUE);
}

/* Room for the list of @e; NULL if it has none. */
static uint64_t *add_list(struct btrail_roots *roots,
                          struct btrail_index_entry *e)
{
    uint32_t n = btrail_cr3set_listed(e->switches);

    e->roots = 0;
    if (!n) {
        return NULL;
    }
    if (n > MAX_ROOTS - roots->list->len) {
        /* Such chunks have to be looked into, that is all. */
        e->switches = BTRAIL_CR3SET_MANY;
        return NULL;
    }
    e->roots = roots->list->len;
    g_array_set_size(roots->list, e->roots + n);
    return &g_array_index(roots->list, uint64_t, e->roots);
}

enum btrail_switches btrail_roots_snapshot(const struct btrail_roots *roots,
                                       const struct btrail_index_entry *e,
                                       uint64_t root)
{
    const uint64_t *list = btrail_roots_of(roots, e);
    uint32_t i;

    if (e->switches == BTRAIL_CR3SET_MANY) {
        return BTRAIL_SWITCHES_PERHAPS;
    }
    for (i = 0; i < e->switches; i++) {
        if (list[i] == root) {
            return BTRAIL_SWITCHES_YES;
        }
    }
    return BTRAIL_SWITCHES_NO;
}

void btrail_roots_copy(struct btrail_roots *roots,
                       struct btrail_index_entry *e,
                       const struct btrail_roots *from)
{
    const uint64_t *old = btrail_roots_of(from, e);
    uint64_t *list = add_list(roots, e);

    if (list) {
        memcpy(list, old, e->switches * sizeof(*list));
    }
}

void btrail_index_entry_fill(struct btrail_index_entry *e, uint64_t offset,
                             uint32_t size,
                             const struct btrail_block_header *h,
                             struct btrail_roots *roots)
{
    uint64_t *list;

    *e = (struct btrail_index_entry) {
        .offset = offset,
        .size = size,
        .type = BTRAIL_CHUNK_DATA,
        .vcpu = h->vcpu,
        .first_index = h->first_index,
        .end_index = h->end_index,
        .time_first = h->time_first,
        .time_last = h->time_last,
        .records = h->records,
        .events = h->events,
        .cr3 = h->cr3,
        .switches = h->switches.n,
    };
    list = add_list(roots, e);
    if (list) {
        memcpy(list, h->switches.roots,
               e->switches * sizeof(*h->switches.roots));
    }
}

void btrail_index_entry_sideband(struct btrail_index_entry *e,
                                 uint64_t offset, uint32_t size,
                                 const struct btrail_sideband_info *info)
{
    *e = (struct btrail_index_entry) {
        .offset = offset,
        .size = size,
        .type = BTRAIL_CHUNK_SIDEBAND,
        .vcpu = info->kind,
        .time_first = info->time,
        .time_last = info->time,
        .records = info->size,
    };
}

void btrail_index_entry_info(const struct btrail_index_entry *e,
                             struct btrail_sideband_info *info)
{
    *info = (struct btrail_sideband_info) {
        .kind = e->vcpu, .size = e->records, .time = e->time_first,
    };
}

bool btrail_index_entry_fits(const struct btrail_index_entry *e,
                             const struct btrail_roots *roots,
                             const struct btrail_block_header *h)
{
    return h->vcpu == e->vcpu && h->first_index == e->first_index &&
           h->end_index == e->end_index && h->time_first == e->time_first &&
           h->time_last == e->time_last && h->records == e->records &&
           h->events == e->events && h->cr3 == e->cr3 &&
           (h->switches.n == e->switches ||
            e->switches == BTRAIL_CR3SET_MANY) &&
           !memcmp(h->switches.roots, btrail_roots_of(roots, e),
                   btrail_cr3set_listed(e->switches) *
                   sizeof(*h->switches.roots));
}

size_t btrail_index_entry_size(const struct btrail_index_entry *e)
{
    return BTRAIL_INDEX_ENTRY_SIZE +
           btrail_cr3set_listed(e->switches) * BTRAIL_INDEX_ROOT_SIZE;
}

void btrail_index_entry_append(struct btrail_buf *payload,
                               const struct btrail_index_entry *e,
                               const struct btrail_roots *roots)
{
    const uint64_t *list = btrail_roots_of(roots, e);
    size_t size = btrail_index_entry_size(e);
    uint32_t i;
    uint8_t *p;

    btrail_buf_reserve(payload, size);
    p = payload->data + payload->len;
    payload->len += size;
    btrail_put64(p, e->offset);
    btrail_put32(p + 8, e->size);
    btrail_put16(p + 12, e->type);
    btrail_put16(p + 14, e->vcpu);
    btrail_put64(p + 16, e->first_index);
    btrail_put64(p + 24, e->end_index);
    btrail_put64(p + 32, e->time_first);
    btrail_put64(p + 40, e->time_last);
    btrail_put32(p + 48, e->records);
    btrail_put32(p + 52, e->events);
    btrail_put64(p + 56, e->cr3);
    btrail_put32(p + 64, e->switches);
    btrail_put32(p + 68, 0);
    p += BTRAIL_INDEX_ENTRY_SIZE;
    for (i = 0; i < btrail_cr3set_listed(e->switches); i++) {
        btrail_put64(p + i * BTRAIL_INDEX_ROOT_SIZE, list[i]);
    }
}

static bool sound(const struct btrail_index_entry *e)
{
    switch (e->type) {
    case BTRAIL_CHUNK_META:
        return e->size <= BTRAIL_CHUNK_MAX_PAYLOAD && !e->switches &&
               !e->vcpu && !e->first_index && !e->end_index &&
               !e->time_first && !e->time_last && !e->records &&
               !e->events && !e->cr3;
    case BTRAIL_CHUNK_DATA:
        return e->size <= BTRAIL_CHUNK_MAX_PAYLOAD &&
               e->size >= BTRAIL_BLOCK_MIN && e->vcpu < BTRAIL_MAX_VCPUS &&
               e->first_index <= e->end_index &&
               e->end_index < UINT64_MAX &&
               e->records <= e->end_index - e->first_index &&
               e->records <= BTRAIL_BLOCK_MAX_RECORDS &&
               e->events <= BTRAIL_BLOCK_MAX_EVENTS &&
               btrail_cr3set_listed(e->switches) <= BTRAIL_CR3SET_MAX;
    case BTRAIL_CHUNK_SIDEBAND:
        return e->size >= BTRAIL_SIDEBAND_HEADER_SIZE &&
               e->records <= BTRAIL_SIDEBAND_MAX_SIZE &&
               e->size - BTRAIL_SIDEBAND_HEADER_SIZE <= e->records &&
               e->time_first == e->time_last && !e->switches &&
               !e->first_index && !e->end_index && !e->events && !e->cr3;
    default:
        return false;
    }
}

const uint8_t *btrail_index_entry_get(const uint8_t *p, const uint8_t *end,
                                      struct btrail_index_entry *e,
                                      struct btrail_roots *roots)
{
    uint64_t *list;
    uint32_t n, i;

    if (end - p < BTRAIL_INDEX_ENTRY_SIZE) {
        return NULL;
    }
    *e = (struct btrail_index_entry) {
        .offset = btrail_get64(p),
        .size = btrail_get32(p + 8),
        .type = btrail_get16(p + 12),
        .vcpu = btrail_get16(p + 14),
        .first_index = btrail_get64(p + 16),
        .end_index = btrail_get64(p + 24),
        .time_first = btrail_get64(p + 32),
        .time_last = btrail_get64(p + 40),
        .records = btrail_get32(p + 48),
        .events = btrail_get32(p + 52),
        .cr3 = btrail_get64(p + 56),
        .switches = btrail_get32(p + 64),
    };
    p += BTRAIL_INDEX_ENTRY_SIZE;
    n = btrail_cr3set_listed(e->switches);
    if (!sound(e) || (size_t)(end - p) < n * BTRAIL_INDEX_ROOT_SIZE) {
        return NULL;
    }
    list = add_list(roots, e);
    for (i = 0; list && i < n; i++) {
        list[i] = btrail_get64(p + i * BTRAIL_INDEX_ROOT_SIZE);
    }
    return p + n * BTRAIL_INDEX_ROOT_SIZE;
}
