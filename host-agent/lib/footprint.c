/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Footprint: see footprint.h
 */

#include "lib/internal/crc32c.h"
#include "lib/internal/footprint.h"
#include "util/sort.h"

#define CRC_SIZE  4
#define LAST_LINE (UINT64_MAX >> BTRAIL_FOOTPRINT_SHIFT)
#define MORE_MASK (BTRAIL_FOOTPRINT_PIECE - 1)

/* Flags of a section */
#define HAS_GAP 1u
#define HAS_ANY 2u

void btrail_footprint_begin(struct btrail_footprint *f)
{
    if (!f->pieces) {
        f->pieces = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    }
    g_array_set_size(f->pieces, 0);
    f->any = false;
    f->gap = false;
}

void btrail_footprint_free(struct btrail_footprint *f)
{
    g_clear_pointer(&f->pieces, g_array_unref);
}

size_t btrail_footprint_size(const struct btrail_footprint *f)
{
    return f->pieces ? f->pieces->len * sizeof(uint64_t) : 0;
}

void btrail_footprint_add(struct btrail_footprint *f, uint64_t piece)
{
    if (f->pieces->len == BTRAIL_FOOTPRINT_PIECES) {
        btrail_sort_u64(f->pieces);
        if (f->pieces->len > BTRAIL_FOOTPRINT_PIECES / 2) {
            f->any = true;
            g_array_set_size(f->pieces, 0);
        }
    }
    g_array_append_val(f->pieces, piece);
}

/* Lines that follow each other are one run. */
static void put_runs(const GArray *sorted, struct btrail_buf *out)
{
    const uint64_t *pieces = (const uint64_t *)sorted->data;
    uint64_t end = 0;
    unsigned i = 0;

    while (i < sorted->len) {
        uint64_t first = pieces[i] >> BTRAIL_FOOTPRINT_SHIFT;
        uint64_t last = first;

        for (;
             i < sorted->len && pieces[i] >> BTRAIL_FOOTPRINT_SHIFT <= last + 1;
             i++) {
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
    g_autoptr(GArray) sorted = g_array_copy(f->pieces);
    bool any;

    btrail_sort_u64(sorted);
    any = f->any || sorted->len > BTRAIL_FOOTPRINT_PIECES / 2;
    section->len = 0;
    btrail_buf_append(section, none, CRC_SIZE);
    btrail_buf_append_varint(section,
                             (f->gap ? HAS_GAP : 0) | (any ? HAS_ANY : 0));
    if (!any) {
        put_runs(sorted, section);
    }
    btrail_put32(section->data, btrail_crc32c(0, section->data + CRC_SIZE,
                                              section->len - CRC_SIZE));
}

/* The addresses before line @first, which are no longer wanted, are passed. */
static bool has_run(uint64_t first, uint64_t last, const uint64_t **addresses,
                    size_t *n)
{
    while (*n && **addresses >> BTRAIL_FOOTPRINT_SHIFT < first) {
        (*addresses)++;
        (*n)--;
    }
    return *n && **addresses >> BTRAIL_FOOTPRINT_SHIFT <= last;
}

enum btrail_ran btrail_footprint_ran(const uint8_t *section, size_t len,
                                     const uint64_t *addresses, size_t n)
{
    enum btrail_ran ran = BTRAIL_RAN_NONE;
    const uint8_t *p, *end;
    uint64_t first, more, last = 0;

    if (len <= CRC_SIZE) {
        /* There may be no bytes at all: NULL. */
        return BTRAIL_RAN_UNKNOWN;
    }
    p = section + CRC_SIZE;
    end = section + len;
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
        if (has_run(first, last - 1, &addresses, &n)) {
            ran = BTRAIL_RAN_PERHAPS;
        }
    }
    return ran;
}
