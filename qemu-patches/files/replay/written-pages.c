/*
 * Which virtual pages the guest writes to
 *
 * A watchpoint is met by a vCPU that writes through its TLB, at the virtual
 * address that the watchpoint has, in whichever address space.  The first write
 * through each entry of a TLB takes the slow path, where the page is noted.  Of
 * what is not plain memory, each write does.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "qemu/units.h"
#include "exec/breakpoint.h"
#include "exec/cputlb.h"
#include "exec/target_page.h"
#include "exec/written-pages.h"
#include "hw/core/cpu.h"
#include "written-pages.h"

/* More are taken to be all there are. */
#define MOST_PAGES  (256 * KiB)
#define FIRST_SLOTS 1024

struct WrittenPages {
    size_t count;
    uint64_t pages[];           /* their numbers, in order */
};

bool written_pages_noted;

/* A hash table with open addressing; the key of a page is its number + 1. */
static struct {
    uint64_t *slots;
    size_t size;                /* a power of two */
    size_t count;
    uint64_t seed;
    bool lost;
} noted = { .lost = true };

static size_t slot_of(uint64_t key)
{
    /* The seed is secret: a guest cannot choose pages that collide. */
    uint64_t hash = (key ^ noted.seed) * 0x9e3779b97f4a7c15ull;

    hash = (hash ^ hash >> 32) * noted.seed;
    return (hash ^ hash >> 29) & (noted.size - 1);
}

/* Returns whether it was not there. */
static bool put(uint64_t key)
{
    size_t i = slot_of(key);

    while (noted.slots[i] && noted.slots[i] != key) {
        i = (i + 1) & (noted.size - 1);
    }
    if (noted.slots[i]) {
        return false;
    }
    noted.slots[i] = key;
    return true;
}

static void grow(void)
{
    g_autofree uint64_t *old = noted.slots;
    size_t size = noted.size;

    noted.size = size ? size * 2 : FIRST_SLOTS;
    noted.slots = g_new0(uint64_t, noted.size);
    for (size_t i = 0; i < size; i++) {
        if (old[i]) {
            put(old[i]);
        }
    }
}

static void clear(void)
{
    g_clear_pointer(&noted.slots, g_free);
    noted.size = noted.count = 0;
}

void written_pages_lose(void)
{
    clear();
    noted.lost = true;
}

void written_pages_add(vaddr addr)
{
    if (noted.lost) {
        return;
    }
    if (noted.count >= noted.size / 2) {
        grow();
    }
    if (put((addr >> TARGET_PAGE_BITS) + 1) && ++noted.count > MOST_PAGES) {
        written_pages_lose();
    }
}

void written_pages_start(void)
{
    CPUState *cpu;

    clear();
    noted.lost = false;
    noted.seed = (uint64_t)g_random_int() << 32 | g_random_int() | 1;
    written_pages_noted = true;
    CPU_FOREACH(cpu) {
        tlb_reset_dirty(cpu, 0, RAM_ADDR_MAX);
    }
}

void written_pages_stop(void)
{
    written_pages_lose();
    written_pages_noted = false;
}

static WrittenPages *allocate(size_t count)
{
    WrittenPages *w = g_malloc(sizeof(*w) + count * sizeof(*w->pages));

    w->count = 0;
    return w;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

WrittenPages *written_pages_get(void)
{
    WrittenPages *w;

    if (noted.lost) {
        return NULL;
    }
    w = allocate(noted.count);
    for (size_t i = 0; i < noted.size; i++) {
        if (noted.slots[i]) {
            w->pages[w->count++] = noted.slots[i] - 1;
        }
    }
    qsort(w->pages, w->count, sizeof(*w->pages), compare);
    return w;
}

WrittenPages *written_pages_new(const uint64_t *pages, size_t count)
{
    WrittenPages *w;

    for (size_t i = 0; i < count; i++) {
        if (pages[i] > UINT64_MAX >> TARGET_PAGE_BITS ||
            (i && pages[i] <= pages[i - 1])) {
            return NULL;
        }
    }
    if (count > MOST_PAGES) {
        return NULL;
    }
    w = allocate(count);
    w->count = count;
    memcpy(w->pages, pages, count * sizeof(*pages));
    return w;
}

const uint64_t *written_pages_list(const WrittenPages *w, size_t *count)
{
    *count = w ? w->count : 0;
    return w ? w->pages : NULL;
}

void written_pages_free(WrittenPages *w)
{
    g_free(w);
}

WrittenPages *written_pages_union(const WrittenPages *a,
                                  const WrittenPages *b)
{
    g_autofree WrittenPages *w = NULL;
    size_t i = 0, k = 0;

    if (!a || !b) {
        return NULL;
    }
    w = allocate(a->count + b->count);
    while (i < a->count || k < b->count) {
        uint64_t x = i < a->count ? a->pages[i] : UINT64_MAX;
        uint64_t y = k < b->count ? b->pages[k] : UINT64_MAX;

        w->pages[w->count++] = MIN(x, y);
        i += x <= y;
        k += y <= x;
    }
    return w->count > MOST_PAGES ? NULL :
           g_realloc(g_steal_pointer(&w),
                     sizeof(*w) + w->count * sizeof(*w->pages));
}

uint64_t written_pages_size(const WrittenPages *w)
{
    return w ? sizeof(*w) + w->count * sizeof(*w->pages) : 0;
}

uint64_t written_pages_cost(void)
{
    return sizeof(WrittenPages) + noted.count * sizeof(uint64_t);
}

/* Is there any from one address up to another one? */
static bool has(const WrittenPages *w, vaddr from, vaddr to)
{
    uint64_t first = from >> TARGET_PAGE_BITS;
    size_t low = 0;
    size_t high = w->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (w->pages[middle] < first) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < w->count && w->pages[low] <= to >> TARGET_PAGE_BITS;
}

bool written_pages_can_stop(const WrittenPages *w)
{
    CPUState *cpu;

    CPU_FOREACH(cpu) {
        CPUBreakpoint *bp;
        CPUWatchpoint *wp;

        QTAILQ_FOREACH(bp, &cpu->breakpoints, entry) {
            if (bp->flags & BP_GDB) {
                return true;
            }
        }
        QTAILQ_FOREACH(wp, &cpu->watchpoints, entry) {
            if ((wp->flags & BP_GDB) &&
                (!w || (wp->flags & BP_MEM_READ) ||
                 has(w, wp->vaddr, wp->vaddr + wp->len - 1))) {
                return true;
            }
        }
    }
    return !w;
}
