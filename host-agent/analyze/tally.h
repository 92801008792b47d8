/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a trace adds up to: the records of each address space
 */

#ifndef BTRAIL_TALLY_H
#define BTRAIL_TALLY_H

#include <glib.h>

#include "analyze/edges.h"

struct moment {
    uint64_t time;
    unsigned vcpu;
    uint64_t index;
};

/**
 * struct space - an address space
 * @cr3:   bits of BTRAIL_CR3_ROOT
 * @spans: how often it came into force and had records
 * @first: its first record, in the order of time and then of index
 * @last:  its last record
 * @edges: of all its records
 * @vcpus: those that it has run on
 */
struct space {
    uint64_t cr3;
    uint64_t records;
    uint64_t spans;
    struct moment first;
    struct moment last;
    struct edges *edges;
    bool vcpus[BTRAIL_MAX_VCPUS];
};

/**
 * struct tally_limits - what a file may make us remember
 * @spaces: address spaces; the records of later ones are counted together
 * @edges:  different edges of all of them, at least 1
 */
struct tally_limits {
    size_t spaces;
    size_t edges;
};

/**
 * struct tally
 * @spaces:  of struct space *, those with most records first
 * @records: in all
 * @others:  of these, in address spaces beyond the limit
 * @lost:    as far as GAP events tell
 * @lost_unknown: there were more
 * @damage:  damaged chunks, and GAP events that tell of what is missing
 */
struct tally {
    GPtrArray *spaces;
    uint64_t records;
    uint64_t others;
    uint64_t lost;
    bool lost_unknown;
    uint64_t damage;
};

/**
 * tally_trace - add up a whole trace
 * @threads: to do it with; their number does not change the result
 *
 * Returns 0 and a tally, to be freed with tally_clear(); or a negative enum
 * btrail_error.
 */
int tally_trace(struct tally *t, const struct btrail_trace *trace,
                unsigned threads, const struct tally_limits *limits);

void tally_clear(struct tally *t);

#endif /* BTRAIL_TALLY_H */
