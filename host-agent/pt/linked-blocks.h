/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Blocks of decoded instructions, linked to those that follow them
 *
 * A block begins where something jumps to, and ends with the first instruction
 * of which a PT stream, or a record, says something.  Blocks are found by
 * address, address space and mode, and are made once, until their code changes.
 */

#ifndef BTRAIL_LINKED_BLOCKS_H
#define BTRAIL_LINKED_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * enum pt_code_result - of whoever is asked for code
 *
 * @PT_CODE_READ:       it is as it was executed
 * @PT_CODE_UNREADABLE: it is not known
 * @PT_CODE_CHANGED:    it has changed meanwhile, and it is not known how it was
 */
enum pt_code_result {
    PT_CODE_READ,
    PT_CODE_UNREADABLE,
    PT_CODE_CHANGED,
};

/**
 * struct pt_moment - where in a stream code is executed
 * @tsc:          of the guest, as far as packets have said it
 * @records:      how many are before it, of those that were made and not
 *                dropped
 * @since:        offset in the stream of the packet from which on they follow
 *                each other without a gap
 * @since_records: @records there
 */
struct pt_moment {
    uint64_t tsc;
    uint64_t records;
    uint64_t since;
    uint64_t since_records;
};

/**
 * struct pt_code - bytes of code
 * @bytes:   valid until the next call
 * @size:    at least 1; they need not go beyond the page
 * @tsc:     from this time on the page has others: UINT64_MAX if it is not
 *           known to
 * @records: the same, as a number of records since the moment's gap
 */
struct pt_code {
    const uint8_t *bytes;
    size_t size;
    uint64_t tsc;
    uint64_t records;
};

/*
 * Who has the code.  @cr3 is as PIP says it; addresses from 2^63 on are those
 * of all address spaces.
 */
typedef enum pt_code_result pt_code_fn(void *opaque, uint64_t cr3,
                                       uint64_t address,
                                       const struct pt_moment *moment,
                                       struct pt_code *code);

/**
 * enum linked_kind - what the last instruction does
 *
 * @LINKED_CONDITIONAL: TNT says whether it jumps
 * @LINKED_JUMP:        direct
 * @LINKED_CALL:        direct
 * @LINKED_ON:          nothing: the next block begins after it
 * @LINKED_CR3:         writes CR3; as LINKED_ON
 * @LINKED_CR:          writes CR0 or CR4; as LINKED_ON
 * @LINKED_JUMP_TO:     indirect
 * @LINKED_CALL_TO:     indirect
 * @LINKED_RET:         near
 * @LINKED_FAR:         any other transfer that a TIP follows
 */
enum linked_kind {
    LINKED_CONDITIONAL,
    LINKED_JUMP,
    LINKED_CALL,
    LINKED_ON,
    LINKED_CR3,
    LINKED_CR,
    LINKED_JUMP_TO,
    LINKED_CALL_TO,
    LINKED_RET,
    LINKED_FAR,
};

struct linked_block;

/* To a block; @next: another link to the same one */
struct linked_block_link {
    struct linked_block *to;
    struct linked_block_link *next;
};

/**
 * struct linked_block
 * @from:   address of the last instruction
 * @taken:  where it jumps to, if it is direct
 * @link:   0: to the block at @next; 1: to that at @taken; NULL if not known
 * @next:   address after it
 * @start:  address of the first one
 * @space:  linked_block_space(); another number once its code has changed
 * @far:    the block that it went to last, if it is indirect
 * @starts: bit n: an instruction begins at @start + n
 * @length: of the first instruction
 * @exits:  in a guest, the first instruction is executed by the hypervisor
 */
struct linked_block {
    uint64_t from;
    uint64_t taken;
    struct linked_block_link link[2];
    uint64_t next;
    uint8_t kind;
    uint8_t length;
    bool exits;
    uint16_t instructions;

    uint64_t start;
    uint64_t space;
    uint64_t starts;
    struct linked_block *far;
    struct linked_block_link *linked;      /* all links to it */
    struct linked_block *chain;
    struct linked_block *on_page[2];    /* others of its first and last page */
};

struct linked_blocks;

/**
 * struct linked_blocks_count
 * @made:    blocks
 * @changed: pages with blocks whose code has changed
 * @flushed: how often all were dropped to make room
 */
struct linked_blocks_count {
    uint64_t made;
    uint64_t changed;
    uint64_t flushed;
};

/* @memory: bytes for blocks, at most; 0: as much as usual */
struct linked_blocks *linked_blocks_new(size_t memory, pt_code_fn *code,
                                        void *opaque);
void linked_blocks_free(struct linked_blocks *b);

/* The address space of an address: what has the same is the same code. */
static inline uint64_t linked_block_space(uint64_t cr3, uint64_t address,
                                   unsigned bits)
{
    return (address >> 63 ? 0 : cr3 & ~UINT64_C(31)) |
           (bits == 64 ? 0 : bits == 32 ? 1 : 2);
}

/**
 * linked_blocks_at - the block at an address
 * @bits:    16, 32 or 64
 * @result:  gets why there is none
 *
 * A block is valid until linked_blocks_at() says in @flushed that all were
 * dropped.  If its code changes it is found no more, and no link leads to it.
 *
 * Returns NULL if its code is not known, or not that of an instruction (then
 * @result is PT_CODE_READ).
 */
struct linked_block *linked_blocks_at(struct linked_blocks *b, uint64_t cr3,
                                      unsigned bits, uint64_t address,
                                      const struct pt_moment *moment,
                                      enum pt_code_result *result,
                                      bool *flushed);

/* The block after a link, which is made; as linked_blocks_at() */
struct linked_block *linked_blocks_follow(struct linked_blocks *b,
                                          struct linked_block *from,
                                          unsigned n, uint64_t cr3,
                                          unsigned bits,
                                          const struct pt_moment *moment,
                                          enum pt_code_result *result,
                                          bool *flushed);

/* The code of a page has changed, or may have. */
void linked_blocks_change(struct linked_blocks *b, uint64_t cr3,
                          uint64_t address);

/*
 * Drops the blocks of pages that have other code at a moment; those of all
 * pages with a @records if the moment is after a gap.
 */
void linked_blocks_expire(struct linked_blocks *b,
                          const struct pt_moment *moment, bool gap);

/* The next moment for linked_blocks_expire() */
uint64_t linked_blocks_until_tsc(const struct linked_blocks *b);
uint64_t linked_blocks_until_records(const struct linked_blocks *b);

const struct linked_blocks_count *
linked_blocks_counted(const struct linked_blocks *b);

#endif /* BTRAIL_LINKED_BLOCKS_H */
