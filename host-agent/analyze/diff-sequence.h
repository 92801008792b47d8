/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The edges that a task has taken, in order, as far as they are needed
 *
 * Edges are added at the end, and dropped at the beginning.  Each has a
 * position, counted from 0, and the record that it is of.
 */

#ifndef BTRAIL_DIFF_SEQUENCE_H
#define BTRAIL_DIFF_SEQUENCE_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/**
 * struct diff_block - edges, and where they are from
 * @start:   position of the first one
 * @n:       how many
 * @runs:    how many
 * @run:     of each: the position, and the record there; the ones after follow
 *           one another in the trace
 * @edges:   numbers of diff-edges.h
 */
struct diff_run {
    uint64_t position;
    uint64_t index;
    unsigned vcpu;
};

struct diff_block {
    uint64_t start;
    uint32_t n;
    uint32_t runs;
    struct diff_run *run;
    uint32_t edges[];
};

/* A block with copies; positions are from the block's start. */
struct diff_block *diff_block_new(const uint32_t *edges, uint32_t n,
                                  const struct diff_run *run, uint32_t runs);
void diff_block_free(struct diff_block *block);

/**
 * struct diff_sequence
 * @blocks: of struct diff_block *; those before @first were dropped
 * @end:    position after the last edge
 * @whole:  no more will be added
 * @last:   the block that was used last
 */
struct diff_sequence {
    GPtrArray *blocks;
    unsigned first;
    unsigned last;
    uint64_t end;
    bool whole;
};

void diff_sequence_init(struct diff_sequence *s);
void diff_sequence_clear(struct diff_sequence *s);

/* Adds a block, which belongs to the sequence from here on. */
void diff_sequence_add(struct diff_sequence *s, struct diff_block *block);

/*
 * The edges from a position on that was not dropped; @n gets their number,
 * which is 0 at the end.
 */
const uint32_t *diff_sequence_at(struct diff_sequence *s, uint64_t position,
                                 size_t *n);

/* The record at a position; false if that is not in the sequence. */
bool diff_sequence_record(struct diff_sequence *s, uint64_t position,
                          unsigned *vcpu, uint64_t *index);

/* Drops blocks that end before a position.  Returns how many edges. */
uint64_t diff_sequence_drop(struct diff_sequence *s, uint64_t position);

#endif /* BTRAIL_DIFF_SEQUENCE_H */
