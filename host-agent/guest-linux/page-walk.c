/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Linear addresses of a guest: see page-walk.h
 */

#include <glib.h>
#include <string.h>

#include "guest-linux/page-walk.h"

#define PRESENT     1u
#define LARGE       128u                        /* PS, where it can be set */
#define LARGE_SHIFT 21                          /* the smallest large page */
#define LARGE_MASK  ((UINT64_C(1) << LARGE_SHIFT) - 1)
#define RUN_MAX     (256u << 10)                /* bytes read at once */

void page_walk_init(struct page_walk *w, const struct guest_memory *memory,
                    uint64_t root, unsigned levels, uint64_t budget)
{
    memset(w, 0, sizeof(*w));
    w->memory = memory;
    w->root = root & PAGE_WALK_FRAME;
    w->levels = levels;
    w->budget = budget;
}

void page_walk_flush(struct page_walk *w)
{
    memset(w->tlb, 0, sizeof(w->tlb));
    memset(w->large, 0, sizeof(w->large));
}

bool page_walk(struct page_walk *w, uint64_t address, uint64_t *physical)
{
    unsigned top = 12 + 9 * w->levels;          /* bits of an address */
    uint64_t page = address >> 12;
    uint64_t table = w->root;
    uint64_t large = address >> LARGE_SHIFT;
    unsigned slot = (page ^ page >> 9) % PAGE_WALK_TLB;
    unsigned large_slot = large % PAGE_WALK_LARGE;
    unsigned shift;

    if ((uint64_t)((int64_t)(address << (64 - top)) >> (64 - top)) !=
        address || !w->budget) {
        return false;
    }
    w->budget--;
    if (w->tlb[slot].page == page + 1) {
        *physical = w->tlb[slot].frame | (address & (GUEST_PAGE_SIZE - 1));
        return true;
    }
    if (w->large[large_slot].page == large + 1) {
        *physical = w->large[large_slot].frame | (address & LARGE_MASK);
        return true;
    }
    for (shift = top - 9; ; shift -= 9) {
        uint64_t entry;

        if (!guest_memory_read(w->memory, table + (address >> shift & 511) * 8,
                               &entry, sizeof(entry))) {
            return false;
        }
        entry = GUINT64_FROM_LE(entry);
        if (!(entry & PRESENT)) {
            return false;
        }
        table = entry & PAGE_WALK_FRAME;
        if (shift == 12 || (shift <= 30 && (entry & LARGE))) {
            uint64_t within = (UINT64_C(1) << shift) - 1;

            /* Bit 12 of a large page's entry is PAT. */
            *physical = (table & ~within) | (address & within);
            break;
        }
    }
    if (shift >= LARGE_SHIFT) {
        w->large[large_slot].page = large + 1;
        w->large[large_slot].frame = *physical & ~LARGE_MASK;
        return true;
    }
    w->tlb[slot].page = page + 1;
    w->tlb[slot].frame = *physical & -(uint64_t)GUEST_PAGE_SIZE;
    return true;
}

size_t page_walk_read_some(struct page_walk *w, uint64_t address, void *buf,
                           size_t size)
{
    size_t most = RUN_MAX;
    size_t done = 0;

    while (done < size) {
        uint64_t at = address + done;
        size_t first = MIN(size - done,
                           GUEST_PAGE_SIZE - (at & (GUEST_PAGE_SIZE - 1)));
        size_t n = first;
        uint64_t physical, next;

        if (at < address || !page_walk(w, at, &physical)) {
            break;
        }
        /* Pages that are adjacent in RAM, too, are read at once. */
        while (n < most && n < size - done && at + n > at &&
               page_walk(w, at + n, &next) && next == physical + n) {
            n += MIN(GUEST_PAGE_SIZE, size - done - n);
        }
        if (!guest_memory_read(w->memory, physical, (char *)buf + done, n)) {
            if (n == first) {
                break;
            }
            most = 0;           /* one is not RAM: read each by itself */
            continue;
        }
        done += n;
    }
    return done;
}

bool page_walk_read(struct page_walk *w, uint64_t address, void *buf,
                    size_t size)
{
    return page_walk_read_some(w, address, buf, size) == size;
}

bool page_walk_u32(struct page_walk *w, uint64_t address, uint32_t *v)
{
    if (!page_walk_read(w, address, v, sizeof(*v))) {
        return false;
    }
    *v = GUINT32_FROM_LE(*v);
    return true;
}

bool page_walk_u64(struct page_walk *w, uint64_t address, uint64_t *v)
{
    if (!page_walk_read(w, address, v, sizeof(*v))) {
        return false;
    }
    *v = GUINT64_FROM_LE(*v);
    return true;
}
