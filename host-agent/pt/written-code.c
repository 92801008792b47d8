/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Code that programs have not written: see written-code.h
 */

#include <glib.h>

#include "guest-linux/page-walk.h"
#include "pt/written-code.h"

#define PRESENT     UINT64_C(1)
#define USER        UINT64_C(4)
#define DIRTY       UINT64_C(64)
#define LARGE       UINT64_C(128)
/* Pages that were looked up last */
#define RECENT      1024

struct written_page {
    uint64_t cr3;
    uint64_t page;              /* plus 1; 0: none */
    bool written;
};

struct written_code {
    const struct guest_memory *memory;
    unsigned levels;
    pt_code_fn *code;
    void *opaque;
    struct written_page recent[RECENT];
};

struct written_code *written_code_new(const struct guest_memory *memory,
                                      unsigned levels, pt_code_fn *code,
                                      void *opaque)
{
    struct written_code *w = g_new0(struct written_code, 1);

    w->memory = memory;
    w->levels = levels;
    w->code = code;
    w->opaque = opaque;
    return w;
}

void written_code_free(struct written_code *w)
{
    g_free(w);
}

/* The entry that maps a page; 0 if none does */
static uint64_t entry_of(const struct written_code *w, uint64_t cr3,
                         uint64_t address)
{
    unsigned bits = w->levels == 2 ? 10 : 9;    /* of an index */
    unsigned size = w->levels == 2 ? 4 : 8;     /* of an entry */
    uint64_t table = cr3 & (w->levels == 3 ? UINT64_C(0xffffffe0) :
                            PAGE_WALK_FRAME);

    for (unsigned shift = 12 + bits * (w->levels - 1); ; shift -= bits) {
        uint64_t index = address >> shift & ((1u << bits) - 1);
        uint64_t entry = 0;

        if (!guest_memory_read(w->memory, table + index * size, &entry,
                               size)) {
            return 0;
        }
        entry = GUINT64_FROM_LE(entry);
        if (!(entry & PRESENT)) {
            return 0;
        }
        /* Only 1 GB, and less, is a page; PAE has no bit for it there. */
        if (shift == 12 || (shift <= 30 && (w->levels != 3 || shift < 30) &&
                            (entry & LARGE))) {
            return entry;
        }
        table = entry & PAGE_WALK_FRAME;
    }
}

static bool is_written(struct written_code *w, uint64_t cr3, uint64_t address)
{
    uint64_t page = address / GUEST_PAGE_SIZE, entry;
    struct written_page *p = &w->recent[(page ^ cr3 / GUEST_PAGE_SIZE) %
                                        RECENT];

    if (p->cr3 != cr3 || p->page != page + 1) {
        entry = entry_of(w, cr3, address);
        *p = (struct written_page){
            .cr3 = cr3, .page = page + 1,
            /* The kernel's own pages have that bit from the start. */
            .written = (entry & USER) && (entry & DIRTY),
        };
    }
    return p->written;
}

enum pt_code_result written_code_read(void *opaque, uint64_t cr3,
                                      uint64_t address,
                                      const struct pt_moment *moment,
                                      struct pt_code *code)
{
    struct written_code *w = opaque;
    enum pt_code_result result = w->code(w->opaque, cr3, address, moment,
                                         code);

    return result == PT_CODE_READ && w->levels > 1 && w->levels < 6 &&
           !(address >> 63) && is_written(w, cr3, address) ? PT_CODE_CHANGED :
           result;
}
