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
#define PAE_ROOT    UINT64_C(0xffffffe0)        /* where four entries are */
#define RUN_MAX     (256u << 10)                /* bytes read at once */

#define CR0_PG      (UINT64_C(1) << 31)
#define CR4_PSE     (UINT64_C(1) << 4)
#define CR4_PAE     (UINT64_C(1) << 5)
#define CR4_LA57    (UINT64_C(1) << 12)
#define EFER_LMA    (UINT64_C(1) << 10)

unsigned page_walk_levels(uint64_t cr0, uint64_t cr4, uint64_t efer)
{
    return !(cr0 & CR0_PG) ? 1 :
           efer & EFER_LMA ? (cr4 & CR4_LA57 ? 5 : 4) :
           cr4 & CR4_PAE ? 3 : cr4 & CR4_PSE ? 2 : 0;
}

void page_walk_init(struct page_walk *w, const struct guest_memory *memory,
                    uint64_t root, unsigned levels, uint64_t budget)
{
    memset(w, 0, sizeof(*w));
    w->memory = memory;
    w->root = root & (levels == 3 ? PAE_ROOT : PAGE_WALK_FRAME);
    w->levels = levels;
    w->budget = budget;
}

void page_walk_flush(struct page_walk *w)
{
    memset(w->tlb, 0, sizeof(w->tlb));
    memset(w->large, 0, sizeof(w->large));
}

static bool is_canonical(const struct page_walk *w, uint64_t address)
{
    unsigned unused = 64 - (12 + 9 * w->levels);

    return w->levels < 4 ? !(address >> 32) :
           (uint64_t)((int64_t)(address << unused) >> unused) == address;
}

/* Of a page of 4 MB, bits 13 to 20 are bits 32 to 39 of its address. */
static uint64_t frame_of(uint64_t entry, bool large, unsigned levels)
{
    return levels == 2 && large ? (entry & 0xffc00000) |
           (entry >> 13 & 0xff) << 32 : entry & PAGE_WALK_FRAME;
}

bool page_walk_is_large(unsigned levels, unsigned shift, uint64_t entry)
{
    /* Only 1 GB, and less, is a page; PAE has no bit for it there. */
    return shift > 12 && shift <= (levels == 3 ? 21 : 30) && (entry & LARGE);
}

bool page_walk_find(const struct guest_memory *memory, uint64_t root,
                    unsigned levels, uint64_t address,
                    struct page_walk_entry *e)
{
    unsigned bits = levels == 2 ? 10 : 9;       /* of an index */
    unsigned size = levels == 2 ? 4 : 8;        /* of an entry */
    uint64_t table = root;

    for (unsigned shift = 12 + bits * (levels - 1); ; shift -= bits) {
        uint64_t index = address >> shift & ((1u << bits) - 1);
        uint64_t entry = 0;
        bool is_large;

        if (!guest_memory_read(memory, table + index * size, &entry, size)) {
            return false;
        }
        entry = GUINT64_FROM_LE(entry);
        if (!(entry & PRESENT)) {
            return false;
        }
        is_large = page_walk_is_large(levels, shift, entry);
        table = frame_of(entry, is_large, levels);
        if (shift == 12 || is_large) {
            uint64_t within = (UINT64_C(1) << shift) - 1;

            /* Bit 12 of a large page's entry is PAT. */
            *e = (struct page_walk_entry){
                .entry = entry, .shift = shift,
                .physical = (table & ~within) | (address & within),
            };
            return true;
        }
    }
}

bool page_walk(struct page_walk *w, uint64_t address, uint64_t *physical)
{
    uint64_t page = address >> 12;
    uint64_t large = address >> LARGE_SHIFT;
    unsigned slot = (page ^ page >> 9) % PAGE_WALK_TLB;
    unsigned large_slot = large % PAGE_WALK_LARGE;
    struct page_walk_entry e;

    if (!is_canonical(w, address) || !w->budget) {
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
    if (!page_walk_find(w->memory, w->root, w->levels, address, &e)) {
        return false;
    }
    *physical = e.physical;
    if (e.shift >= LARGE_SHIFT) {
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
    return page_walk_number(w, address, sizeof(*v), v);
}

bool page_walk_number(struct page_walk *w, uint64_t address, unsigned size,
                      uint64_t *v)
{
    uint64_t n = 0;

    if (!page_walk_read(w, address, &n, size)) {
        return false;
    }
    *v = GUINT64_FROM_LE(n);
    return true;
}
