/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Indices: see index.h
 */

#include "lib/internal/index.h"

/* Lists that take no more memory than this: 128 MiB */
#define MAX_ROOTS   (1u << 24)

GArray *btrail_index_new(void)
{
    return g_array_new(FALSE, FALSE, sizeof(struct btrail_index_entry));
}

GArray *btrail_roots_new(void)
{
    /* Never NULL: even adding 0 to that is undefined. */
    return g_array_sized_new(FALSE, FALSE, sizeof(uint64_t), 1);
}

static void add_list(GArray *roots, struct btrail_index_entry *e,
                     const uint64_t *list)
{
    uint32_t n = btrail_cr3set_listed(e->switches);

    e->roots = n ? roots->len : 0;
    if (n > MAX_ROOTS - roots->len) {
        /* Readers must load the chunk to know. */
        e->switches = BTRAIL_CR3SET_MANY;
        e->roots = n = 0;
    }
    g_array_append_vals(roots, list, n);
}

enum btrail_switches btrail_roots_switches(const GArray *roots,
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

void btrail_roots_copy(GArray *roots, struct btrail_index_entry *e,
                       const GArray *from)
{
    add_list(roots, e, btrail_roots_of(from, e));
}

void btrail_index_entry_fill(struct btrail_index_entry *e, uint64_t offset,
                             uint32_t size,
                             const struct btrail_block_header *h,
                             GArray *roots)
{
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
    add_list(roots, e, h->switches.roots);
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
                             const GArray *roots,
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
                               const GArray *roots)
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
                                      GArray *roots)
{
    uint64_t list[BTRAIL_CR3SET_MAX];
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
    for (i = 0; i < n; i++) {
        list[i] = btrail_get64(p + i * BTRAIL_INDEX_ROOT_SIZE);
    }
    add_list(roots, e, list);
    return p + n * BTRAIL_INDEX_ROOT_SIZE;
}
