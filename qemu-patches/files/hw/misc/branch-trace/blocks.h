/*
 * Branch trace: from the records of a vCPU to the blocks that GDB takes
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef HW_MISC_BRANCH_TRACE_BLOCKS_H
#define HW_MISC_BRANCH_TRACE_BLOCKS_H

#include "hw/misc/branch-trace-transport.h"

/* A part of a stream, as the vCPU has filled it; see struct btrail_slab_desc */
typedef struct BranchTraceSlab {
    uint64_t first_index;
    uint64_t cr3;
    const struct btrail_record *records;
    const struct btrail_event *events;
    unsigned n_records;
    unsigned n_events;
} BranchTraceSlab;

/**
 * BranchTraceBlocksSource - what a vCPU has done, and where it is
 * @pc:    linear address of the next instruction
 * @cr3:   in force
 * @first: index of the first record that counts
 * @most:  how many records count, from the last one backwards
 * @slab:  sets @slab to slab number @n of the vCPU: 0 is the last one, with
 *         the last record, 1 the one before it.  False if there is none.
 * @readable: is there code at @page, a linear address, in the address space of
 *         the vCPU?
 * @block: gets the blocks, the newest first.  Each has the addresses of its
 *         first and of its last instruction.  That of the newest block is @pc.
 *         One with an @end before its @begin means that something is missing
 *         between its neighbours.
 */
typedef struct BranchTraceBlocksSource {
    uint64_t pc;
    uint64_t cr3;
    uint64_t first;
    uint64_t most;
    bool (*slab)(void *opaque, unsigned n, BranchTraceSlab *slab);
    bool (*readable)(void *opaque, uint64_t page);
    void (*block)(void *opaque, uint64_t begin, uint64_t end);
    void *opaque;
} BranchTraceBlocksSource;

#define BRANCH_TRACE_CODE_PAGE  4096

/*
 * GDB finds the instructions of a block in the guest's memory as it is now, so
 * the blocks are only those whose code is still there: that of the upper half
 * of the addresses, which all address spaces share, and the rest as far back as
 * CR3 has not been changed.  What is before a reset, or before a snapshot was
 * loaded, is not there any more.
 *
 * An interrupt or an exception ends a block with the instruction that would
 * have been executed next.
 */

/* All blocks */
void branch_trace_blocks_all(const BranchTraceBlocksSource *source);

/*
 * The blocks since record @since was about to be made.  The oldest one begins
 * at 0: where the vCPU was then.  False, perhaps after some blocks, if they do
 * not continue what was read then.
 */
bool branch_trace_blocks_since(const BranchTraceBlocksSource *source,
                               uint64_t since);

#endif /* HW_MISC_BRANCH_TRACE_BLOCKS_H */
