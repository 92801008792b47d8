/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Footprint: see footprint.h
 */

#include <stdlib.h>

#include "lib/internal/crc32c.h"
#include "lib/internal/footprint.h"

#define CRC_SIZE  4
#define LAST_LINE (UINT64_MAX >> BTRAIL_FOOTPRINT_SHIFT)
#define MORE_MASK (BTRAIL_FOOTPRINT_PIECE - 1)

/* Flags of a section */
#define HAS_GAP 1u
#define HAS_ANY 2u

void btrail_footprint_begin(struct btrail_footprint *f)
{
    f->n = 0;
    f->any = false;
    f->gap = false;
}

void btrail_footprint_free(struct btrail_footprint *f)
{
    g_clear_pointer(&f->pieces, g_free);
    f->n = f->cap = 0;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* Sorts pieces, and leaves out those that are there twice; how many are left. */
static unsigned sort(uint64_t *pieces, unsigned n)
{
    unsigned i, left = 0;

    if (n) {
        qsort(pieces, n, sizeof(*pieces), compare);
    }
    for (i = 0; i < n; i++) {
        if (!left || pieces[left - 1] != pieces[i]) {
            pieces[left++] = pieces[i];
        }
    }
    return left;
}

void btrail_footprint_add(struct btrail_footprint *f, uint64_t piece)
{
    if (f->n == BTRAIL_FOOTPRINT_PIECES) {
        f->n = sort(f->pieces, f->n);
        if (f->n > BTRAIL_FOOTPRINT_PIECES / 2) {
            f->any = true;
            f->n = 0;
        }
    }
    if (f->n == f->cap) {
        f->cap = MIN(MAX(1024, f->cap * 2), BTRAIL_FOOTPRINT_PIECES);
        f->pieces = g_renew(uint64_t, f->pieces, f->cap);
    }
    f->pieces[f->n++] = piece;
}

/* Lines that follow each other are one run. */
static void put_runs(const uint64_t *pieces, unsigned n, struct btrail_buf *out)
{
    uint64_t end = 0;
    unsigned i = 0;

    while (i < n) {
        uint64_t first = pieces[i] >> BTRAIL_FOOTPRINT_SHIFT;
        uint64_t last = first;

        for (; i < n && pieces[i] >> BTRAIL_FOOTPRINT_SHIFT <= last + 1; i++) {
            last = MAX(last, (pieces[i] >> BTRAIL_FOOTPRINT_SHIFT) +
                                 (pieces[i] & MORE_MASK));
        }
        btrail_buf_append_varint(out, first - end);
        btrail_buf_append_varint(out, last - first);
        end = last + 1;
    }
}

void btrail_footprint_pack(const struct btrail_footprint *f,
                           struct btrail_buf *section)
{
    static const uint8_t none[CRC_SIZE];
    g_autofree uint64_t *pieces = g_new(uint64_t, f->n);
    bool any = f->any;
    unsigned n;

    if (f->n) {
        memcpy(pieces, f->pieces, f->n * sizeof(*pieces));
    }
    n = sort(pieces, f->n);
    any |= n > BTRAIL_FOOTPRINT_PIECES / 2;
    section->len = 0;
    btrail_buf_append(section, none, CRC_SIZE);
    btrail_buf_append_varint(section,
                             (f->gap ? HAS_GAP : 0) | (any ? HAS_ANY : 0));
    if (!any) {
        put_runs(pieces, n, section);
    }
    btrail_put32(section->data, btrail_crc32c(0, section->data + CRC_SIZE,
                                              section->len - CRC_SIZE));
}

static bool has_run(uint64_t first, uint64_t last, const uint64_t *addresses,
                    size_t n)
{
    size_t i;

    for (i = 0; i < n; i++) {
        uint64_t line = addresses[i] >> BTRAIL_FOOTPRINT_SHIFT;

        if (first <= line && line <= last) {
            return true;
        }
    }
    return false;
}

enum btrail_ran btrail_footprint_ran(const uint8_t *section, size_t len,
                                     const uint64_t *addresses, size_t n)
{
    const uint8_t *end = section + len;
    const uint8_t *p = section + CRC_SIZE;
    enum btrail_ran ran = BTRAIL_RAN_NONE;
    uint64_t first, more, last = 0;

    if (len <= CRC_SIZE) {
        return BTRAIL_RAN_UNKNOWN;
    }
#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
    if (btrail_get32(section) != btrail_crc32c(0, p, len - CRC_SIZE)) {
        return BTRAIL_RAN_UNKNOWN;
    }
#endif
    if (*p++) {
        return BTRAIL_RAN_UNKNOWN;
    }
    while (p < end) {
        p = btrail_get_varint(p, end, &first);
        p = p ? btrail_get_varint(p, end, &more) : NULL;
        if (!p || first > LAST_LINE || first + last > LAST_LINE ||
            more > LAST_LINE - (first + last)) {
            return BTRAIL_RAN_UNKNOWN;
        }
        first += last;
        last = first + more + 1;
        if (has_run(first, last - 1, addresses, n)) {
            ran = BTRAIL_RAN_PERHAPS;
        }
    }
    return ran;
}
