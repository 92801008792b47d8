/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One stream of Intel PT, decoded by several threads
 *
 * A PSB+ says where the guest is, so a piece of the stream can be decoded from
 * there on before it is known what came before.  What comes before decides
 * whether that was right: it must come to the same place in the same state.  If
 * it does not, as in a gap, the piece is decoded again from there.  So what is
 * given is what one flow gives, in the same order.
 */

#ifndef BTRAIL_FLOW_PIECES_H
#define BTRAIL_FLOW_PIECES_H

#include "pt/flow.h"

/**
 * struct flow_pieces_options
 * @flow:    of all pieces.  Their blocks have @memory each
 * @threads: that decode, beside the one that calls
 * @piece:   bytes of a piece; 0: as usual
 * @code:    its answer must not depend on the moment, nor on what it was asked
 *           before
 * @code_opaque: of each thread, and one more for who calls
 */
struct flow_pieces_options {
    struct pt_flow_options flow;
    unsigned threads;
    size_t piece;
    pt_code_fn *code;
    void *const *code_opaque;
};

/**
 * struct flow_pieces_count
 * @flow:   of what was given
 * @pieces: the stream had
 * @again:  of these, were decoded again
 */
struct flow_pieces_count {
    struct pt_flow_count flow;
    uint64_t pieces;
    uint64_t again;
};

/* Decodes all of a stream.  @give is called by the thread that calls this. */
void flow_pieces_decode(const struct flow_pieces_options *options,
                        const uint8_t *p, size_t n, pt_flow_fn *give,
                        void *give_opaque, struct flow_pieces_count *count);

#endif /* BTRAIL_FLOW_PIECES_H */
