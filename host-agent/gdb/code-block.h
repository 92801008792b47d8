/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Blocks: the instructions that ran between two records of a lane
 */

#ifndef BTRAIL_CODE_BLOCK_H
#define BTRAIL_CODE_BLOCK_H

#include "gdb/lane.h"

/* A longer block is not decoded: only its first and last instruction are known.
 */
#define BLOCK_MAX   65536

/**
 * struct block
 * @addresses: of the instructions, in order; none if the trace does not say
 *             where it ran, as in a mode that was not recorded
 * @hole:      after this many of them some are not known: code, or records, are
 *             missing; 0 if it is whole
 * @bits:      of the mode it ran in
 */
struct block {
    GArray *addresses;
    unsigned hole;
    unsigned bits;
};

/*
 * Reads a block, to be cleared: what ran after @begin, up to the branch of
 * @end, the next record of the lane.  An instruction that an interrupt came
 * before is not part of it; one that has faulted is.  NULL for @end if there is
 * none: then it has the next instruction.
 */
struct block block_read(struct symbolizer *s, const struct lane_record *begin,
                        const struct lane_record *end);
void block_clear(struct block *b);

uint64_t block_address(const struct block *b, unsigned i);

struct block_search;

/* @addresses: sorted; they live as long */
struct block_search *block_search_new(struct symbolizer *s,
                                      const uint64_t *addresses, size_t n);
void block_search_free(struct block_search *b);

/*
 * Has the block that block_read() would return one of the addresses?  While
 * code does not change, each instruction is decoded once, however many blocks
 * it is in.  Of a block that wraps around the end of the address space only its
 * ends are looked at.
 */
bool block_search_has(struct block_search *b, const struct lane_record *begin,
                      const struct lane_record *end);

/*
 * Reads bytes as they were before a record: code that was captured, or whatever
 * else the process cannot have changed.  Returns how many are known.  Those of
 * a kernel's code that was not captured are not: it may have been changed.
 */
size_t block_code(struct symbolizer *s, const struct process *process,
                  const struct symbolizer_where *where, uint64_t address,
                  void *buf, size_t n);

/* Has an interrupt come before the instruction at @r's from? */
bool block_interrupted(struct symbolizer *s, const struct lane_record *r);

/*
 * Is this a call of a place close after it?  It does not return: it fills the
 * CPU's return predictor, or begins a retpoline.
 */
bool block_near_call(struct symbolizer *s, const struct lane_record *r);

/* Is this the return of an interrupt or exception? */
bool block_iret(struct symbolizer *s, const struct lane_record *r);

/*
 * Does @ret end a retpoline, of which @call is the call?  It calls a place
 * close after, replaces the return address by the address of a function, and
 * returns there: together they are a jump.
 */
bool block_retpoline(struct symbolizer *s, const struct lane_record *call,
                     const struct lane_record *ret);

/*
 * Is this the delivery of an interrupt or exception?  What it comes before can
 * be a call or return, too.
 */
bool block_delivery(struct symbolizer *s, const struct lane_record *r);

/* Where the code of such a block is to be read */
struct symbolizer_where block_where(const struct lane_record *begin,
                                    const struct lane_record *end);

#endif /* BTRAIL_CODE_BLOCK_H */
