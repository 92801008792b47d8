/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Code that programs have not written: see written-code.h
 */

#include <glib.h>

#include "guest-linux/page-walk.h"
#include "pt/data-frames.h"
#include "pt/written-code.h"
#include "util/hash.h"

#define USER        UINT64_C(4)
#define DIRTY       UINT64_C(64)
/* Pages that were looked up last */
#define RECENT      1024
/* Address spaces whose frames are kept, and tables that are read for all */
#define SPACES      1024u
#define TABLES      (UINT64_C(1) << 20)

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
    GHashTable *spaces;         /* root; struct data_frames */
    uint64_t tables;            /* that may still be read */
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
    w->spaces = g_hash_table_new_full(btrail_int64_hash, g_int64_equal, g_free,
                                      (GDestroyNotify)data_frames_free);
    w->tables = TABLES;
    return w;
}

void written_code_free(struct written_code *w)
{
    if (w) {
        g_hash_table_unref(w->spaces);
        g_free(w);
    }
}

static const struct data_frames *frames_of(struct written_code *w,
                                           uint64_t root)
{
    struct data_frames *d = g_hash_table_lookup(w->spaces, &root);

    if (!d) {
        if (g_hash_table_size(w->spaces) >= SPACES) {
            g_hash_table_remove_all(w->spaces);
        }
        d = data_frames_new(w->memory, root, w->levels, &w->tables);
        g_hash_table_insert(w->spaces, g_memdup2(&root, sizeof(root)), d);
    }
    return d;
}

static bool is_written(struct written_code *w, uint64_t cr3, uint64_t address)
{
    uint64_t page = address / GUEST_PAGE_SIZE;
    struct written_page *p = &w->recent[(page ^ cr3 / GUEST_PAGE_SIZE) %
                                        RECENT];

    if (p->cr3 != cr3 || p->page != page + 1) {
        uint64_t root = cr3 & (w->levels == 3 ? UINT64_C(0xffffffe0) :
                               PAGE_WALK_FRAME);
        struct page_walk_entry e = { 0 };

        *p = (struct written_page){
            .cr3 = cr3, .page = page + 1,
            /* The kernel's own pages have that bit from the start. */
            .written = page_walk_find(w->memory, root, w->levels, address,
                                      &e) && (e.entry & USER) &&
                       ((e.entry & DIRTY) ||
                        data_frames_have(frames_of(w, root), e.physical)),
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
