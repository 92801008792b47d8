/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a guest of the guest has as its memory: see nested-memory.h
 */

#include <glib.h>
#include <string.h>

#include "guest-linux/nested-memory.h"
#include "guest-linux/page-walk.h"

/*
 * Pages that may be translated in a scan.  Each of those that the scan itself
 * translates takes one more for each level.
 */
#define SCAN_BUDGET     (UINT64_C(1) << 25)

#define ENTRIES         512
#define INDEX_BITS      9
#define PAGE_SHIFT      12
#define LARGEST_SHIFT   30      /* of a page */
#define PRESENT         1u
#define LARGE           128u

struct nested_memory {
    const struct guest_memory *ram;
    struct guest_memory *view;
    struct page_walk walk;
    uint64_t pages;
    uint64_t left;              /* of these, in this scan */
};

static bool read_nested(void *opaque, uint64_t address, void *buf, size_t size)
{
    struct nested_memory *n = opaque;

    /* Its addresses are not linear ones, of which half are negative. */
    return address >> 63 == 0 && page_walk_read(&n->walk, address, buf, size);
}

/* What is looked for, and from where on */
struct root_search {
    uint64_t from;
    const void *bytes;
    size_t size;
};

static bool is_at(struct nested_memory *n, const struct root_search *s,
                  uint64_t frame)
{
    uint8_t page[GUEST_PAGE_SIZE];

    return guest_memory_read(n->ram, frame, page, s->size) &&
           !memcmp(page, s->bytes, s->size);
}

/* In a page of any size: @address is that of the nested guest. */
static uint64_t find_in_page(struct nested_memory *n,
                             const struct root_search *s,
                             uint64_t address, uint64_t frame, uint64_t size)
{
    uint64_t at = s->from > address ? s->from - address : 0;

    for (; at < size && n->left; at += GUEST_PAGE_SIZE) {
        n->left--;
        if (is_at(n, s, frame + at)) {
            return address + at;
        }
    }
    return UINT64_MAX;
}

/* In what a table maps, the first address of which is @address */
static uint64_t find_in_table(struct nested_memory *n,
                              const struct root_search *s,
                              uint64_t table, uint64_t address, unsigned shift)
{
    uint64_t entries[ENTRIES];
    uint64_t size = UINT64_C(1) << shift;
    uint64_t found = UINT64_MAX;
    unsigned first = s->from > address ?
                     (unsigned)MIN((s->from - address) >> shift, ENTRIES) : 0;

    if (!guest_memory_read(n->ram, table, entries, sizeof(entries))) {
        return UINT64_MAX;
    }
    for (unsigned i = first; i < ENTRIES && found == UINT64_MAX &&
         n->left; i++) {
        uint64_t entry = GUINT64_FROM_LE(entries[i]);
        uint64_t at = address + i * size;
        uint64_t frame = entry & PAGE_WALK_FRAME;

        n->left--;
        if (!(entry & PRESENT)) {
            continue;
        }
        if (shift == PAGE_SHIFT ||
            (shift <= LARGEST_SHIFT && (entry & LARGE))) {
            found = find_in_page(n, s, at, frame & ~(size - 1), size);
        } else {
            found = find_in_table(n, s, frame, at, shift - INDEX_BITS);
        }
    }
    return found;
}

static uint64_t find_nested(void *opaque, uint64_t from, const void *bytes,
                            size_t size)
{
    struct nested_memory *n = opaque;
    const struct root_search s = {
        .from = (from + GUEST_PAGE_SIZE - 1) & -(uint64_t)GUEST_PAGE_SIZE,
        .bytes = bytes, .size = size,
    };

    return find_in_table(n, &s, n->walk.root, 0,
                         PAGE_SHIFT + INDEX_BITS * (n->walk.levels - 1));
}

static void begin_scan(void *opaque)
{
    struct nested_memory *n = opaque;

    page_walk_flush(&n->walk);
    n->walk.budget = SCAN_BUDGET;
    n->left = n->pages;
}

static const struct guest_memory_view nested_view = {
    .read = read_nested,
    .find_page = find_nested,
    .begin = begin_scan,
};

struct nested_memory *nested_memory_new(const struct guest_memory *ram,
                                        uint64_t root, uint64_t pages)
{
    struct nested_memory *n = g_new0(struct nested_memory, 1);

    n->ram = ram;
    n->pages = pages;
    n->left = pages;
    page_walk_init(&n->walk, ram, root, 4, SCAN_BUDGET);
    n->view = guest_memory_new_view(&nested_view, n);
    return n;
}

void nested_memory_free(struct nested_memory *n)
{
    if (n) {
        guest_memory_free(n->view);
        g_free(n);
    }
}

void nested_memory_set_levels(struct nested_memory *n, unsigned levels)
{
    n->walk.levels = levels;
    begin_scan(n);
}

const struct guest_memory *nested_memory_view(const struct nested_memory *n)
{
    return n->view;
}

uint64_t nested_memory_place(struct nested_memory *n, uint64_t address)
{
    uint64_t physical;

    return address >> 63 == 0 && page_walk(&n->walk, address, &physical) ?
           physical : UINT64_MAX;
}
