/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * In which parts of a trace an instruction may have run: a search backwards
 * leaves the others out
 *
 * A part is a number of records, of which each ends a block.  What blocks a
 * part has is kept as a Bloom filter of the lines of 64 bytes that they touch.
 * A thread reads the trace once for that; a part that it has not come to yet
 * may have any.
 */

#ifndef BTRAIL_GDB_BLOCK_INDEX_H
#define BTRAIL_GDB_BLOCK_INDEX_H

#include "backtrail/trace.h"

struct block_index;

/**
 * block_index_new - begin to read a vCPU's records
 * @trace:   outlives the result
 * @records: that the vCPU has
 * @part:    records of a part; 0 for one that is neither small nor makes the
 *           index large
 */
struct block_index *block_index_new(const struct btrail_trace *trace,
                                    unsigned vcpu, uint64_t records,
                                    uint64_t part);
/* Ends the thread, too. */
void block_index_free(struct block_index *x);

/* Waits until all parts are read, or the rest cannot be. */
void block_index_wait(struct block_index *x);

/*
 * The records [*@begin, *@end) of the last part before @before that may have a
 * block with one of some addresses; false if there is none.  A part with a gap,
 * or with records without a count, may have any.
 */
bool block_index_last(const struct block_index *x, const uint64_t *addresses,
                      unsigned n, uint64_t before, uint64_t *begin,
                      uint64_t *end);

#endif /* BTRAIL_GDB_BLOCK_INDEX_H */
