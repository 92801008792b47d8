/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Code bytes in a piece of sideband
 */

#ifndef BTRAIL_CODE_PIECE_H
#define BTRAIL_CODE_PIECE_H

#include "backtrail/code.h"
#include "lib/agent/bytes.h"

/**
 * struct btrail_code_entry - the content of a page from a record on
 * @vcpu:     the vCPU that this applies to
 * @order:    of entries of a vCPU with the same @index, the higher is later
 * @index:    from this record on
 * @cr3:      in force there
 * @linear:   address of the page
 * @physical: its guest physical address
 * @number:   of the content.  0 if entries are missing: then earlier entries of
 *            the vCPU are not valid from record @linear on, and entries after
 *            this one are valid from record @index on.
 */
struct btrail_code_entry {
    uint32_t vcpu;
    uint32_t order;
    uint64_t index;
    uint64_t cr3;
    uint64_t linear;
    uint64_t physical;
    uint64_t number;
};

/* Sizes of the header, an entry, and so on, in bytes */
#define BTRAIL_CODE_HEADER      16
#define BTRAIL_CODE_ENTRY       48
#define BTRAIL_CODE_SAME        16
#define BTRAIL_CODE_CONTENT     (8 + BTRAIL_CODE_PAGE_SIZE)

struct btrail_code_builder;

struct btrail_code_builder *btrail_code_builder_new(void);
void btrail_code_builder_free(struct btrail_code_builder *b);

void btrail_code_builder_entry(struct btrail_code_builder *b,
                               const struct btrail_code_entry *entry);

/*
 * Adds a content.  The same content in this piece or an earlier one is not
 * stored again.
 */
void btrail_code_builder_content(struct btrail_code_builder *b,
                                 uint64_t number, const uint8_t *page);

/* Bytes of the piece so far; 0 if it is empty */
size_t btrail_code_builder_size(const struct btrail_code_builder *b);

/* Returns the piece, to be freed with g_free(), and begins the next one. */
uint8_t *btrail_code_builder_take(struct btrail_code_builder *b, size_t *size);

/**
 * struct btrail_code_piece - a piece that was read
 * @entries, @same, @contents: how many of each; contents are
 *            numbered from 0
 */
struct btrail_code_piece {
    uint32_t entries;
    uint32_t same;
    uint32_t contents;
    const uint8_t *bytes;
};

/* False if the size does not match the numbers. */
bool btrail_code_piece_get(const uint8_t *bytes, size_t size,
                           struct btrail_code_piece *piece);

/* @i is below their number, here and below. */
void btrail_code_piece_entry(const struct btrail_code_piece *piece,
                             uint32_t i, struct btrail_code_entry *entry);

/* Content @number is the same as content @other. */
void btrail_code_piece_same(const struct btrail_code_piece *piece,
                            uint32_t i, uint64_t *number, uint64_t *other);

/* The page with a content, and its number */
const uint8_t *btrail_code_piece_content(const struct btrail_code_piece *piece,
                                         uint32_t i, uint64_t *number);

/*
 * The first record of a vCPU after @index from which on btrail_code_read() can
 * return something else for these addresses; UINT64_MAX if there is none.
 */
uint64_t btrail_code_until(const struct btrail_code *code, unsigned vcpu,
                           uint64_t index, uint64_t cr3, uint64_t address,
                           size_t size);

/*
 * The number of the content that the page of an address has at a record: pages
 * with the same bytes have the same one.  0 if the content is not known.
 */
uint64_t btrail_code_content(const struct btrail_code *code, unsigned vcpu,
                             uint64_t index, uint64_t cr3, uint64_t address);

/**
 * struct btrail_code_stretch - records of a vCPU among which no page changes
 * @number: no other one has it; 0: none
 * @begin, @end: the records.  A page whose content is known at one of them has
 *          it at all of those that come after.
 */
struct btrail_code_stretch {
    uint32_t number;
    uint64_t begin;
    uint64_t end;
};

/* The one that a record is in */
struct btrail_code_stretch
btrail_code_stretch(const struct btrail_code *code, unsigned vcpu,
                    uint64_t index);

#endif /* BTRAIL_CODE_PIECE_H */
