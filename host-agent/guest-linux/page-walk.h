/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Linear addresses of a guest: its page tables (SDM vol. 3, chapter "Paging")
 */

#ifndef PAGE_WALK_H
#define PAGE_WALK_H

#include "guest-linux/guest-memory.h"

/* The physical address in an entry of a table */
#define PAGE_WALK_FRAME UINT64_C(0x000ffffffffff000)

#define PAGE_WALK_TLB   512
#define PAGE_WALK_LARGE 512

/**
 * struct page_walk - an address space
 * @memory: the guest's RAM
 * @root:   physical address of the highest table
 * @levels: 2 or, with PAE, 3 for addresses of 32 bits; 4 or 5 for those of 64
 * @budget: how many more pages may be translated or read.  The guest's memory
 *          decides how many a caller wants, so this ends a walk that would not
 *          end otherwise.  With 0 nothing is read
 * @tlb:    translations of @page
 * @large:  translations of 2 MB, which are of pages as large or larger: the
 *          kernel finds all of RAM through such ones
 */
struct page_walk {
    const struct guest_memory *memory;
    uint64_t root;
    unsigned levels;
    uint64_t budget;
    struct {
        uint64_t page;      /* linear, plus 1; 0 if there is none */
        uint64_t frame;
    } tlb[PAGE_WALK_TLB];
    struct {
        uint64_t page;      /* linear, in units of 2 MB, plus 1 */
        uint64_t frame;
    } large[PAGE_WALK_LARGE];
};

/*
 * The levels that a vCPU with these registers walks; 1 if it has paging off, so
 * that linear addresses are physical.  Returns 0 for tables that are not walked
 * here: of two levels, with bits for large pages that do not count (CR4.PSE).
 */
unsigned page_walk_levels(uint64_t cr0, uint64_t cr4, uint64_t efer);

void page_walk_init(struct page_walk *w, const struct guest_memory *memory,
                    uint64_t root, unsigned levels, uint64_t budget);

/**
 * struct page_walk_entry - the entry that maps a page
 * @entry:    as it is in the table
 * @shift:    of the size of the page
 * @physical: of the address
 */
struct page_walk_entry {
    uint64_t entry;
    unsigned shift;
    uint64_t physical;
};

/* Does an entry, of a table whose entries each have 2^@shift bytes, map a page,
 * and no other table? */
bool page_walk_is_large(unsigned levels, unsigned shift, uint64_t entry);

/*
 * Reads the entry that maps an address, each time anew: the guest may run.
 * @root has no bits but those of an address.  False if none maps it.
 */
bool page_walk_find(const struct guest_memory *memory, uint64_t root,
                    unsigned levels, uint64_t address,
                    struct page_walk_entry *e);

/* Bytes of a pointer */
static inline unsigned page_walk_word(const struct page_walk *w)
{
    return w->levels < 4 ? 4 : 8;
}

/* Forgets translations: the guest may have changed its tables. */
void page_walk_flush(struct page_walk *w);

/* Returns false if the address is not mapped, or not canonical. */
bool page_walk(struct page_walk *w, uint64_t address, uint64_t *physical);

/* Reads all of the range, or returns false. */
bool page_walk_read(struct page_walk *w, uint64_t address, void *buf,
                    size_t size);

/* Reads from @address on as far as possible; returns how many bytes. */
size_t page_walk_read_some(struct page_walk *w, uint64_t address, void *buf,
                           size_t size);

bool page_walk_u32(struct page_walk *w, uint64_t address, uint32_t *v);
bool page_walk_u64(struct page_walk *w, uint64_t address, uint64_t *v);

/* Reads a number of 1 to 8 bytes. */
bool page_walk_number(struct page_walk *w, uint64_t address, unsigned size,
                      uint64_t *v);

#endif /* PAGE_WALK_H */
