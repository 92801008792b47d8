/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fuzz target: the blocks that GDB gets of a stream
 *
 * The input is how many records and events each slab has, and then these.  With
 * KVM a guest can forge its records.  Whatever they are, GDB decodes no more
 * than a bounded piece of memory for each, and the last one ends where the vCPU
 * is.
 */

#include "qemu/osdep.h"
#include <glib.h>

#include "blocks.h"
#include "fuzz.h"

#define MAX_SLABS   8
#define MAX_BLOCK   (1u << 20)

struct stream {
    BranchTraceSlab slabs[MAX_SLABS];   /* the oldest first */
    unsigned n_slabs;
    GArray *blocks;
};

struct block {
    uint64_t begin, end;
};

static bool get_slab(void *opaque, unsigned n, BranchTraceSlab *slab)
{
    const struct stream *s = opaque;

    if (n >= s->n_slabs) {
        return false;
    }
    *slab = s->slabs[s->n_slabs - 1 - n];
    return true;
}

static bool is_mapped(void *opaque, uint64_t page)
{
    fuzz_require(page % BRANCH_TRACE_CODE_PAGE == 0);
    return page >> 12 & 3;
}

static void get_block(void *opaque, uint64_t begin, uint64_t end)
{
    struct stream *s = opaque;
    struct block block = { begin, end };

    g_array_append_val(s->blocks, block);
}

/* Cuts @n elements off the input; fewer if it does not have that many. */
static const void *take(const uint8_t **data, size_t *size, size_t element,
                        unsigned *n)
{
    const uint8_t *at = *data;

    *n = MIN(*n, *size / element);
    *data += *n * element;
    *size -= *n * element;
    /* Aligned, and for a sanitizer to see what is read after it */
    return g_memdup2(at, *n * element);
}

static void check_blocks(const GArray *blocks, uint64_t pc, bool delta)
{
    for (unsigned i = 0; i < blocks->len; i++) {
        const struct block *b = &g_array_index(blocks, struct block, i);
        bool oldest = i == blocks->len - 1;

        if (b->begin && b->end == b->begin - 1) {
            /* Something is missing; but there is something on each side. */
            fuzz_require(i && !oldest);
        } else {
            fuzz_require((delta && oldest && !b->begin) ||
                         (b->begin <= b->end &&
                          b->end - b->begin <= MAX_BLOCK));
        }
    }
    fuzz_require(g_array_index(blocks, struct block, 0).end == pc);
}

int fuzz_input(const uint8_t *data, size_t size)
{
    struct stream s = { .blocks = g_array_new(FALSE, FALSE,
                                              sizeof(struct block)) };
    BranchTraceBlocksSource source = {
        .most = UINT64_MAX,
        .slab = get_slab,
        .readable = is_mapped,
        .block = get_block,
        .opaque = &s,
    };
    uint64_t index = 0, records = 0;

    while (s.n_slabs < MAX_SLABS && size >= 3 + 16) {
        BranchTraceSlab *slab = &s.slabs[s.n_slabs++];

        slab->n_records = data[0];
        slab->n_events = data[1];
        slab->first_index = index + data[2] / 128;
        memcpy(&slab->cr3, data + 3, 8);
        memcpy(&source.pc, data + 11, 8);
        source.cr3 = slab->cr3;
        data += 3 + 16;
        size -= 3 + 16;
        slab->records = take(&data, &size, sizeof(*slab->records),
                             &slab->n_records);
        slab->events = take(&data, &size, sizeof(*slab->events),
                            &slab->n_events);
        index = slab->first_index + slab->n_records;
        records += slab->n_records;
    }
    if (s.n_slabs) {
        fuzz_accepted();
        branch_trace_blocks_all(&source);
        fuzz_require(s.blocks->len <= 3 * records + 1);
        check_blocks(s.blocks, source.pc, false);

        g_array_set_size(s.blocks, 0);
        if (branch_trace_blocks_since(&source, index / 2)) {
            check_blocks(s.blocks, source.pc, true);
        }
    }
    for (unsigned i = 0; i < s.n_slabs; i++) {
        g_free((void *)s.slabs[i].records);
        g_free((void *)s.slabs[i].events);
    }
    g_array_unref(s.blocks);
    return 0;
}
