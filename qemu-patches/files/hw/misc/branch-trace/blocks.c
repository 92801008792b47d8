/*
 * Branch trace: from the records of a vCPU to the blocks that GDB takes
 *
 * Goes backwards, from the place where the vCPU is: that is what GDB asks for
 * first, and what is known of the guest's memory.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "blocks.h"

/* Nothing is executed as far as this without a branch. */
#define MAX_BLOCK   (1u << 20)

typedef struct Walk {
    const BranchTraceBlocksSource *source;
    BranchTraceSlab slab;
    unsigned slabs;     /* so far */
    unsigned records;   /* of the slab that are left, to the left of here */
    unsigned events;    /* likewise */
    uint64_t index;     /* of the record to the right of here */

    uint64_t end;       /* the last instruction of the block that ends there */
    bool newest;        /* that block ends where the vCPU is */
    bool broken;        /* it is not one block: its flow was broken */
    bool changed;       /* CR3 has been changed to the right of here */
    bool over;          /* to the left of here, the guest was another */
    bool missing;       /* something is, before the block that was put last */
    uint64_t missing_at;
} Walk;

/* Is it code of another address space? */
static bool walk_is_foreign(const Walk *w, uint64_t addr)
{
    return w->changed && !(addr >> 63);
}

/* Does the guest's memory still have the code of this block? */
static bool walk_knows(const Walk *w, uint64_t begin, uint64_t end)
{
    uint64_t page;

    if (end < begin || end - begin > MAX_BLOCK || walk_is_foreign(w, begin)) {
        return false;
    }
    for (page = begin / BRANCH_TRACE_CODE_PAGE;
         page <= end / BRANCH_TRACE_CODE_PAGE; page++) {
        if (!w->source->readable(w->source->opaque,
                                 page * BRANCH_TRACE_CODE_PAGE)) {
            return false;
        }
    }
    return true;
}

static void walk_put(Walk *w, uint64_t begin, uint64_t end)
{
    if (w->missing) {
        w->source->block(w->source->opaque, w->missing_at, w->missing_at - 1);
        w->missing = false;
    }
    w->source->block(w->source->opaque, begin, end);
}

static void walk_miss(Walk *w, uint64_t at)
{
    w->missing = true;
    w->missing_at = at ? at : 1;
}

/* The vCPU has been where it is, and where it has branched. */
static void walk_put_end(Walk *w)
{
    if (w->newest || walk_knows(w, w->end, w->end)) {
        walk_put(w, w->end, w->end);
    }
    w->newest = false;
}

/* The block before has begun at @begin. */
static void walk_block(Walk *w, uint64_t begin)
{
    if (!w->broken && walk_knows(w, begin, w->end)) {
        walk_put(w, begin, w->end);
    } else if (!w->broken && !w->newest && walk_is_foreign(w, begin)) {
        /* The kernel has left for it, and is entered from it. */
    } else if (w->broken || w->newest) {
        walk_put_end(w);
        walk_miss(w, begin);
        if (walk_knows(w, begin, begin)) {
            walk_put(w, begin, begin);
        }
    } else {
        walk_miss(w, begin);
    }
    w->newest = false;
    w->broken = false;
}

static uint64_t cr3_before(const BranchTraceSlab *slab, unsigned event)
{
    while (event) {
        const struct btrail_event *e = &slab->events[--event];

        if (e->type == BTRAIL_EVENT_CR3) {
            return e->data[0];
        }
    }
    return slab->cr3;
}

static void walk_event(Walk *w, unsigned event)
{
    const struct btrail_event *e = &w->slab.events[event];

    if (e->type == BTRAIL_EVENT_CR3) {
        uint64_t before = cr3_before(&w->slab, event);

        w->changed |= btrail_cr3_root(before) !=
                      btrail_cr3_root(w->source->cr3);
    } else if (e->type == BTRAIL_EVENT_GAP) {
        w->broken = true;
        w->over |= e->reason == BTRAIL_GAP_RESET ||
                   e->reason == BTRAIL_GAP_RESTORED;
    }
}

/* Continues with the slab before, if the stream has it. */
static bool walk_slab(Walk *w)
{
    BranchTraceSlab slab;

    if (!w->source->slab(w->source->opaque, w->slabs, &slab) ||
        (w->slabs && slab.first_index + slab.n_records != w->index)) {
        return false;
    }
    w->slabs++;
    w->slab = slab;
    w->records = slab.n_records;
    w->events = slab.n_events;
    w->index = slab.first_index + slab.n_records;
    return true;
}

/* Passes the events here, also those at the end of the slab before. */
static void walk_events(Walk *w)
{
    do {
        while (w->events &&
               w->slab.events[w->events - 1].index >= w->index) {
            walk_event(w, --w->events);
        }
    } while (!w->records && walk_slab(w));
}

static void walk_record(Walk *w)
{
    const struct btrail_record *record = &w->slab.records[--w->records];

    walk_block(w, record->to);
    w->end = record->from;
    w->index--;
    walk_events(w);
}

static Walk walk_begin(const BranchTraceBlocksSource *source)
{
    Walk w = {
        .source = source,
        .end = source->pc,
        .newest = true,
    };

    walk_events(&w);
    return w;
}

void branch_trace_blocks_all(const BranchTraceBlocksSource *source)
{
    Walk w = walk_begin(source);
    uint64_t n;

    for (n = 0; n < source->most && w.records && w.index > source->first &&
         !w.over; n++) {
        walk_record(&w);
    }
    walk_put_end(&w);
}

bool branch_trace_blocks_since(const BranchTraceBlocksSource *source,
                               uint64_t since)
{
    Walk w = walk_begin(source);
    uint64_t n;

    for (n = 0; w.index > since && w.records && n < source->most &&
         !w.changed && !w.broken; n++) {
        walk_record(&w);
    }
    if (w.index != since || w.changed || w.broken ||
        (!w.newest && !walk_knows(&w, w.end, w.end))) {
        return false;
    }
    walk_put(&w, 0, w.end);
    return true;
}
