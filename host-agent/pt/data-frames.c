/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory that is code and data: see data-frames.h
 */

#include <glib.h>
#include <string.h>

#include "guest-linux/page-walk.h"
#include "pt/data-frames.h"

#define PAGE        GUEST_PAGE_SIZE
/* Of physical memory, that are kept of one address space */
#define RANGES      (1u << 18)

#define PRESENT     UINT64_C(1)
#define WRITABLE    UINT64_C(2)
#define USER        UINT64_C(4)
#define DIRTY       UINT64_C(64)
#define NO_EXECUTE  (UINT64_C(1) << 63)

struct frames_range {
    uint64_t start, end;
};

struct data_frames {
    GArray *written;            /* of struct frames_range, of code */
    bool unknown;
};

struct frames_walk {
    const struct guest_memory *memory;
    unsigned levels;
    uint64_t *budget;
    GArray *code;               /* NULL: it gets all that can be executed */
    GArray *found;
    bool unknown;
};

static int compare(const void *a, const void *b)
{
    const struct frames_range *x = a, *y = b;

    return x->start < y->start ? -1 : x->start > y->start;
}

/* Puts them in order, each once. */
static void merge(GArray *ranges)
{
    struct frames_range *r = (struct frames_range *)ranges->data;
    guint n = 0;

    g_array_sort(ranges, compare);
    for (guint i = 0; i < ranges->len; i++) {
        if (n && r[i].start <= r[n - 1].end) {
            r[n - 1].end = MAX(r[n - 1].end, r[i].end);
        } else {
            r[n++] = r[i];
        }
    }
    g_array_set_size(ranges, n);
}

/* Is any of it in ranges that are in order? */
static bool has(const GArray *ranges, uint64_t start, uint64_t end)
{
    guint low = 0, high = ranges->len;

    while (low < high) {
        guint middle = low + (high - low) / 2;
        const struct frames_range *r = &g_array_index(
            ranges, struct frames_range, middle);

        if (r->end <= start) {
            low = middle + 1;
        } else if (r->start >= end) {
            high = middle;
        } else {
            return true;
        }
    }
    return false;
}

static void add(struct frames_walk *w, uint64_t start, uint64_t end)
{
    struct frames_range *last = w->found->len ? &g_array_index(
        w->found, struct frames_range, w->found->len - 1) : NULL;
    const struct frames_range r = { start, end };

    if (last && last->end == start) {
        last->end = end;
        return;
    }
    if (w->found->len == RANGES) {
        merge(w->found);
        if (w->found->len > RANGES / 2) {
            w->unknown = true;
            return;
        }
    }
    g_array_append_val(w->found, r);
}

static void take_page(struct frames_walk *w, uint64_t entry, unsigned shift)
{
    uint64_t size = UINT64_C(1) << shift;
    uint64_t start = entry & PAGE_WALK_FRAME & -size;

    if (!w->code) {
        if (!(entry & NO_EXECUTE)) {
            add(w, start, start + size);
        }
    } else if ((entry & (entry & NO_EXECUTE ? WRITABLE | DIRTY : DIRTY)) &&
               has(w->code, start, start + size)) {
        /* Of code that can be written to, the dirty bit says it.  Data can
         * have been written back to its file since, without that bit. */
        add(w, start, start + size);
    }
}

/* @above: NO_EXECUTE, if an entry above it has that */
static void read_table(struct frames_walk *w, uint64_t table, unsigned shift,
                       uint64_t above)
{
    unsigned bits = w->levels == 2 ? 10 : 9, n = 1u << bits;
    unsigned size = w->levels == 2 ? 4 : 8;
    bool top = shift == 12 + bits * (w->levels - 1);
    uint8_t entries[PAGE];

    if (top && w->levels > 3) {
        n /= 2;
    } else if (top && w->levels == 3) {
        n = 4;
    }
    if (!*w->budget || w->unknown) {
        w->unknown = true;
        return;
    }
    --*w->budget;
    if (!guest_memory_read(w->memory, table, entries, n * size)) {
        return;
    }
    for (unsigned i = 0; i < n; i++) {
        uint64_t entry = 0;

        memcpy(&entry, entries + i * size, size);
        entry = GUINT64_FROM_LE(entry) | above;
        if (!(entry & PRESENT) ||
            (!(entry & USER) && !(top && w->levels == 3))) {
            continue;
        }
        if (shift == 12 || page_walk_is_large(w->levels, shift, entry)) {
            take_page(w, entry, shift);
        } else if (w->code || !(entry & NO_EXECUTE)) {
            read_table(w, entry & PAGE_WALK_FRAME, shift - bits,
                       entry & NO_EXECUTE);
        }
    }
}

static GArray *find(struct frames_walk *w, uint64_t root, GArray *code)
{
    w->code = code;
    w->found = g_array_new(FALSE, FALSE, sizeof(struct frames_range));
    read_table(w, root, 12 + (w->levels == 2 ? 10 : 9) * (w->levels - 1), 0);
    merge(w->found);
    return w->found;
}

struct data_frames *data_frames_new(const struct guest_memory *memory,
                                    uint64_t root, unsigned levels,
                                    uint64_t *budget)
{
    struct data_frames *d = g_new0(struct data_frames, 1);
    struct frames_walk w = {
        .memory = memory, .levels = levels, .budget = budget,
    };
    GArray *code = find(&w, root, NULL);

    d->written = find(&w, root, code);
    d->unknown = w.unknown;
    g_array_free(code, TRUE);
    return d;
}

void data_frames_free(struct data_frames *d)
{
    if (d) {
        g_array_free(d->written, TRUE);
        g_free(d);
    }
}

bool data_frames_have(const struct data_frames *d, uint64_t physical)
{
    return d->unknown || has(d->written, physical, physical + 1);
}
