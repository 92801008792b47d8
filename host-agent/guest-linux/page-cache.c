/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Files in the page cache: see page-cache.h
 *
 * An address_space has its pages in an xarray (lib/xarray.c): a tree whose
 * nodes have entries for 2^shift pages each.  An entry with bits 1:0 = 00 is a
 * page, that of a folio with several pages in the entries of all of them; with
 * 10 it is the tree's own: above 4096 a node, and below the number of slots the
 * slot that has the entry.  Others are no pages.
 */

#include <glib.h>
#include <string.h>

#include "guest-linux/page-cache.h"

#define TYPE_MASK       3u
#define TYPE_INTERNAL   2u
#define NODE_MIN        4096
#define PAGE_STRUCT_MAX 256             /* bytes of a struct page */
#define FOLIO_MAX       (1u << 18)      /* pages: 1 GB */

static bool is_internal(uint64_t entry)
{
    return (entry & TYPE_MASK) == TYPE_INTERNAL;
}

static bool is_node(uint64_t entry)
{
    return is_internal(entry) && entry > NODE_MIN;
}

/* Reads a node, which is then that of f->node. */
static bool read_node(struct linux_file *f, uint64_t node, unsigned *shift)
{
    struct linux_kernel *k = f->k;
    const struct linux_layout *l = &k->layout;
    uint8_t byte;

    f->node.n = 0;
    if (!linux_pointer(node) || l->node_shift == LINUX_NONE ||
        l->node_slots == LINUX_NONE ||
        !page_walk_read(&k->walk, node + l->node_shift, &byte, 1) ||
        !page_walk_read(&k->walk, node + l->node_slots, f->node.slots,
                        l->node_slots_n * sizeof(f->node.slots[0]))) {
        return false;
    }
    *shift = byte;
    return true;
}

/* The entry in a slot of f->node, of which others may be a part */
static uint64_t entry_in(const struct linux_file *f, unsigned slot)
{
    uint64_t entry = GUINT64_FROM_LE(f->node.slots[slot]);

    return is_internal(entry) && entry >> 2 < slot ?
           GUINT64_FROM_LE(f->node.slots[entry >> 2]) : entry;
}

/*
 * Finds the entry of a page.  Each node is for fewer pages than the one above
 * it, so this ends.
 */
static bool find_entry(struct linux_file *f, uint64_t index, uint64_t *entry)
{
    uint32_t n = f->k->layout.node_slots_n;
    unsigned above = 0, shift, slot;

    if (index - f->node.first < f->node.n) {
        *entry = entry_in(f, index - f->node.first);
        return true;
    }
    if (!n || n > LINUX_NODE_SLOTS || n & (n - 1) ||
        !linux_u64(f->k, f->mapping, f->k->layout.mapping_pages, entry)) {
        return false;
    }
    if (!is_node(*entry)) {
        return !index;                  /* the only one */
    }
    for (; is_node(*entry); above = shift) {
        if (!read_node(f, *entry - TYPE_INTERNAL, &shift) ||
            (above ? shift + __builtin_ctz(n) != above :
             shift >= 64 || index >> shift >= n)) {
            return false;
        }
        slot = index >> shift & (n - 1);
        *entry = entry_in(f, slot);
        if (!shift) {
            /* Entries of the pages beside it are here, too. */
            f->node.first = index - slot;
            f->node.n = n;
            break;
        }
    }
    return true;
}

static uint64_t page_member(const uint8_t *page, uint32_t offset)
{
    uint64_t v;

    memcpy(&v, page + offset, sizeof(v));
    return GUINT64_FROM_LE(v);
}

/*
 * Is @page, the first one of its folio, one of the file with the page @index in
 * it?  @first gets its own index.
 */
static bool is_of_file(struct linux_file *f, uint64_t page, uint64_t index,
                       uint64_t *first)
{
    struct linux_kernel *k = f->k;
    const struct linux_layout *l = &k->layout;
    uint32_t at = l->page_index != LINUX_NONE ? l->page_index :
                  l->folio_index;
    uint8_t bytes[PAGE_STRUCT_MAX];

    if (k->page_size > sizeof(bytes) ||
        MAX(MAX(l->page_mapping, l->page_flags), at) + UINT64_C(8) >
        k->page_size ||
        !page_walk_read(&k->walk, page, bytes, k->page_size) ||
        page_member(bytes, l->page_mapping) != f->mapping) {
        return false;
    }
    *first = page_member(bytes, at);
    return index - *first < FOLIO_MAX &&
           (l->page_uptodate < 0 || l->page_uptodate > 63 ||
            page_member(bytes, l->page_flags) >> l->page_uptodate & 1);
}

/* Reads some of one page. */
static bool read_page(struct linux_file *f, uint64_t offset, void *buf,
                      size_t size)
{
    struct linux_kernel *k = f->k;
    uint64_t index = offset / GUEST_PAGE_SIZE;
    uint64_t page, first, frame;

    if (!f->budget) {
        return false;
    }
    f->budget--;
    if (!find_entry(f, index, &page) || page & TYPE_MASK ||
        !linux_pointer(page) || page < k->vmemmap || !k->page_size ||
        (page - k->vmemmap) % k->page_size ||
        !is_of_file(f, page, index, &first)) {
        return false;
    }
    frame = (page - k->vmemmap) / k->page_size + (index - first);
    /* It may have become another file's meanwhile. */
    return frame <= UINT64_MAX / GUEST_PAGE_SIZE &&
           guest_memory_read(k->memory, frame * GUEST_PAGE_SIZE +
                             offset % GUEST_PAGE_SIZE, buf, size) &&
           is_of_file(f, page, index, &first);
}

/* Reads page by page; without @hole, up to the first that cannot be read. */
static bool read_pages(struct linux_file *f, uint64_t offset, void *buf,
                       size_t size, bool hole)
{
    uint8_t *to = buf;
    bool whole = size <= UINT64_MAX - offset;

    while (size && (whole || hole)) {
        size_t n = MIN(size, GUEST_PAGE_SIZE - offset % GUEST_PAGE_SIZE);

        if (!read_page(f, offset, to, n)) {
            memset(to, 0, n);
            whole = false;
        }
        offset += n;
        to += n;
        size -= n;
    }
    return whole;
}

bool linux_file_read(struct linux_file *f, uint64_t offset, void *buf,
                     size_t size)
{
    return read_pages(f, offset, buf, size, false);
}

bool linux_file_read_present(struct linux_file *f, uint64_t offset, void *buf,
                             size_t size)
{
    return read_pages(f, offset, buf, size, true);
}
