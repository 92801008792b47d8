/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which pieces of a stream can have a moment that is searched
 *
 * The footprints of chunks say it, for records that go to one of some addresses
 * or begin a block with one of them.  In both cases that is the record before
 * the code that runs, so it can be the last one of the chunk before.
 */

#ifndef BTRAIL_CANDIDATES_H
#define BTRAIL_CANDIDATES_H

#include <glib.h>

#include "backtrail/trace.h"

/**
 * struct piece - records [@begin, @end) of a stream
 */
struct piece {
    uint64_t begin;
    uint64_t end;
};

/**
 * struct candidates - of one stream, within records [@begin, @end)
 * @addresses: of uint64_t, in order; NULL: any record can be it
 * @blocks:    blocks that have them are wanted.  The last record of a stream
 *             begins one that nothing is known of
 * @others:    of struct piece, in order, apart from each other: they can have
 *             it whatever the footprints say; or NULL
 */
struct candidates {
    const struct btrail_trace *trace;
    unsigned vcpu;
    const GArray *addresses;
    bool blocks;
    const GArray *others;
    uint64_t begin;
    uint64_t end;
};

/* The first piece after record @from, inclusive.  False if there is none. */
bool candidates_next(const struct candidates *p, uint64_t from,
                     struct piece *piece);

/* The last piece before record @before */
bool candidates_previous(const struct candidates *p, uint64_t before,
                         struct piece *piece);

#endif /* BTRAIL_CANDIDATES_H */
