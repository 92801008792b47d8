/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Code that programs have not written: see written-code.h
 */

#include <glib.h>

#include "guest-linux/page-walk.h"
#include "pt/written-code.h"

#define USER        UINT64_C(4)
#define DIRTY       UINT64_C(64)
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

static bool is_written(struct written_code *w, uint64_t cr3, uint64_t address)
{
    uint64_t page = address / GUEST_PAGE_SIZE;
    struct written_page *p = &w->recent[(page ^ cr3 / GUEST_PAGE_SIZE) %
                                        RECENT];

    if (p->cr3 != cr3 || p->page != page + 1) {
        struct page_walk_entry e = { 0 };

        page_walk_find(w->memory, cr3 & (w->levels == 3 ?
                       UINT64_C(0xffffffe0) : PAGE_WALK_FRAME), w->levels,
                       address, &e);
        *p = (struct written_page){
            .cr3 = cr3, .page = page + 1,
            /* The kernel's own pages have that bit from the start. */
            .written = (e.entry & USER) && (e.entry & DIRTY),
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
