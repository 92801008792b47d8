/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Code from the memory of a guest that stands still: see frozen-code.h
 */

#include <glib.h>
#include <string.h>

#include "guest-linux/page-walk.h"
#include "pt/frozen-code.h"

#define PAGE        GUEST_PAGE_SIZE
#define PAGES       ((size_t)1 << 16)
#define PLACES      ((size_t)1 << 19)
#define WALKS       (UINT64_C(1) << 22)
#define ROOTS       4096                /* more are no help */
/* What one walk may take, with large pages and all */
#define WALK_BUDGET 4

#define PRESENT     UINT64_C(1)
/* What those two have differently in their entries of user addresses: the
 * kernel's have XD, and CPUs set the accessed bit in each by themselves. */
#define DIFFERENT   (UINT64_C(1) << 63 | 0x60)

/* Where a page is, or is not; the hash table's key is its first members. */
struct frozen_code_place {
    uint64_t space;
    uint64_t address;
    uint64_t cr3;
    const uint8_t *bytes;       /* NULL: there is none, */
    uint64_t roots;             /* as of this many roots that have worked */
};

struct frozen_code_frame {
    uint64_t physical;          /* the hash table's key */
    uint8_t bytes[PAGE];
};

struct frozen_code {
    const struct guest_memory *memory;
    unsigned levels;
    uint64_t root_mask;
    uint64_t *roots;
    size_t n_roots;
    size_t max_pages;
    size_t max_places;
    uint64_t walks;
    uint64_t worked;            /* the root that had a kernel's page last */
    uint64_t n_worked;          /* how often it was another one; 0: none */
    struct page_walk walk;
    GHashTable *frames;         /* struct frozen_code_frame */
    GHashTable *places;         /* struct frozen_code_place */
    GPtrArray *order;           /* those with bytes */
    struct frozen_code_count count;
};

static guint place_hash(gconstpointer key)
{
    const struct frozen_code_place *p = key;
    uint64_t h = (p->space ^ p->address >> 12) * UINT64_C(0x9e3779b97f4a7c15);

    return (guint)(h >> 32);
}

static gboolean place_equal(gconstpointer a, gconstpointer b)
{
    const struct frozen_code_place *p = a, *q = b;

    return p->space == q->space && p->address == q->address;
}

struct frozen_code *frozen_code_new(const struct guest_memory *memory,
                                    const struct frozen_code_options *o)
{
    struct frozen_code *f = g_new0(struct frozen_code, 1);

    *f = (struct frozen_code){
        .memory = memory,
        .levels = o->levels,
        .root_mask = o->levels == FROZEN_CODE_UNPAGED ? 0 :
                     o->levels == 3 ? UINT64_C(0xffffffe0) : PAGE_WALK_FRAME,
        .n_roots = MIN(o->n_roots, ROOTS),
        .max_pages = o->pages ? o->pages : PAGES,
        .max_places = o->places ? o->places : PLACES,
        .walks = o->walks ? o->walks : WALKS,
        .frames = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free,
                                        NULL),
        .places = g_hash_table_new_full(place_hash, place_equal, g_free,
                                        NULL),
        .order = g_ptr_array_new(),
    };
    f->roots = g_new(uint64_t, f->n_roots);
    for (size_t i = 0; i < f->n_roots; i++) {
        f->roots[i] = o->roots[i] & f->root_mask;
    }
    return f;
}

void frozen_code_free(struct frozen_code *f)
{
    if (f) {
        g_ptr_array_free(f->order, TRUE);
        g_hash_table_unref(f->places);
        g_hash_table_unref(f->frames);
        g_free(f->roots);
        g_free(f);
    }
}

static bool maps(struct frozen_code *f, uint64_t root, uint64_t address,
                 uint64_t *physical)
{
    if (!f->walk.memory || f->walk.root != root) {
        page_walk_init(&f->walk, f->memory, root, f->levels, 0);
    }
    f->walk.budget = WALK_BUDGET;
    return page_walk(&f->walk, address, physical);
}

bool frozen_code_has_kernel_root(const struct guest_memory *memory,
                                 unsigned levels, uint64_t root)
{
    unsigned n = levels == 3 ? 3 : 256;
    uint64_t user[256], kernel[256];
    uint64_t some = 0;

    if (levels < 3 || !(root & FROZEN_CODE_USER_ROOT) || root % PAGE ||
        !guest_memory_read(memory, root, user, n * sizeof(user[0])) ||
        !guest_memory_read(memory, root - FROZEN_CODE_USER_ROOT, kernel,
                           n * sizeof(kernel[0]))) {
        return false;
    }
    for (unsigned i = 0; i < n; i++) {
        uint64_t u = GUINT64_FROM_LE(user[i]);
        uint64_t k = GUINT64_FROM_LE(kernel[i]);

        if ((u ^ k) & ~DIFFERENT) {
            return false;
        }
        some |= u & PRESENT;
    }
    return some;
}

static bool maps_with_kernel(struct frozen_code *f, uint64_t root,
                             uint64_t address, uint64_t *physical)
{
    return maps(f, root, address, physical) ||
           /* They have the same user addresses; of 32 bits, a kernel's can
            * be anywhere. */
           ((address >> 63 || f->levels == 3) &&
            frozen_code_has_kernel_root(f->memory, f->levels, root) &&
            maps(f, root - FROZEN_CODE_USER_ROOT, address, physical));
}

/*
 * A kernel's page.  Tables that are in use are right for certain; those of the
 * stream may be free, and anything else, by now.
 */
static bool maps_shared(struct frozen_code *f, uint64_t root, uint64_t address,
                        uint64_t *physical)
{
    for (size_t i = 0; i < f->n_roots; i++) {
        if (maps_with_kernel(f, f->roots[i], address, physical)) {
            return true;
        }
    }
    if (maps_with_kernel(f, root, address, physical)) {
        if (!f->n_worked || f->worked != root) {
            f->worked = root;
            f->n_worked++;
        }
        return true;
    }
    return f->n_worked &&
           maps_with_kernel(f, f->worked, address, physical);
}

static bool find(struct frozen_code *f, uint64_t cr3, uint64_t address,
                 uint64_t *physical)
{
    uint64_t root = cr3 & f->root_mask;

    if (f->levels == FROZEN_CODE_UNPAGED) {
        *physical = address;
        return !(address >> 32);
    }
    if (f->levels < 2 || f->levels > 5) {
        return false;
    }
    return address >> 63 ? maps_shared(f, root, address, physical) :
           maps_with_kernel(f, root, address, physical);
}

/* Returns NULL if it is no RAM, or if there are too many. */
static const uint8_t *frame_at(struct frozen_code *f, uint64_t physical)
{
    struct frozen_code_frame *frame = g_hash_table_lookup(f->frames,
                                                          &physical);

    if (frame) {
        return frame->bytes;
    }
    if (f->count.pages >= f->max_pages) {
        f->count.refused++;
        return NULL;
    }
    frame = g_new(struct frozen_code_frame, 1);
    frame->physical = physical;
    if (!guest_memory_read(f->memory, physical, frame->bytes, PAGE)) {
        g_free(frame);
        return NULL;
    }
    g_hash_table_add(f->frames, frame);
    f->count.pages++;
    return frame->bytes;
}

/* Returns NULL if there is no place for it. */
static struct frozen_code_place *place_at(struct frozen_code *f, uint64_t cr3,
                                          uint64_t space, uint64_t page)
{
    struct frozen_code_place key = { space, page, cr3, NULL, UINT64_MAX };
    struct frozen_code_place *p = g_hash_table_lookup(f->places, &key);

    if (!p && g_hash_table_size(f->places) < f->max_places) {
        p = g_memdup2(&key, sizeof(key));
        g_hash_table_add(f->places, p);
        f->count.unreadable++;
    }
    return p;
}

static const uint8_t *page_at(struct frozen_code *f, uint64_t cr3,
                              uint64_t page)
{
    bool shared = page >> 63;
    uint64_t space = shared ? 0 : cr3 & f->root_mask;
    struct frozen_code_place *p = place_at(f, cr3, space, page);
    uint64_t physical;

    /* A page that is not there is not, until there is another root to try;
     * which was there is not known to all spaces. */
    if (p && (p->bytes || (p->roots == f->n_worked && p->cr3 == cr3))) {
        return p->bytes;
    }
    if (!p || !f->walks) {
        f->count.refused++;
        return NULL;
    }
    f->walks--;
    p->cr3 = cr3;
    if (find(f, cr3, page, &physical)) {
        p->bytes = frame_at(f, physical & -(uint64_t)PAGE);
    }
    p->roots = f->n_worked;
    if (p->bytes) {
        f->count.places++;
        f->count.unreadable--;
        g_ptr_array_add(f->order, p);
    }
    return p->bytes;
}

enum pt_code_result frozen_code_read(void *opaque, uint64_t cr3,
                                     uint64_t address,
                                     const struct pt_moment *moment,
                                     struct pt_code *code)
{
    struct frozen_code *f = opaque;
    unsigned offset = address % PAGE;
    const uint8_t *bytes = page_at(f, cr3, address - offset);

    if (!bytes) {
        return PT_CODE_UNREADABLE;
    }
    *code = (struct pt_code){
        .bytes = bytes + offset, .size = PAGE - offset,
        .tsc = UINT64_MAX, .records = UINT64_MAX,
    };
    return PT_CODE_READ;
}

void frozen_code_each(const struct frozen_code *f, frozen_code_page_fn *fn,
                      void *opaque)
{
    for (guint i = 0; i < f->order->len; i++) {
        const struct frozen_code_place *p = g_ptr_array_index(f->order, i);

        fn(opaque, p->cr3, p->address, p->bytes);
    }
}

const struct frozen_code_count *
frozen_code_counted(const struct frozen_code *f)
{
    return &f->count;
}
