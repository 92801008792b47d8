/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A walker in a trace of branches whose code is not known: of each block there
 * are its first instruction and its last one.
 */

#ifndef BTRAIL_WALKER_SAMPLE_H
#define BTRAIL_WALKER_SAMPLE_H

#include "gdb/walker.h"
#include "symbolize/stack-edge.h"

/* How many records there are */
#define WALKER_SAMPLE_N     6000u

/* What ran: addresses, and after which record */
struct walker_step {
    uint64_t pc;
    uint64_t index;
};

/**
 * struct walker_sample
 * @steps: of struct walker_step: all that ran
 */
struct walker_sample {
    char *path;
    struct btrail_trace *trace;
    struct symbolizer *symbols;
    struct walker *walker;
    struct stack_edges *edges;
    GArray *steps;
};

/* A target of branches, at random */
uint64_t walker_sample_address(void);

/* @lost: records that are missing in the middle */
struct walker_sample walker_sample_begin(unsigned lost);
void walker_sample_end(struct walker_sample *f);

static inline const struct walker_step *
walker_sample_step(const struct walker_sample *f, unsigned i)
{
    return &g_array_index(f->steps, struct walker_step, i);
}

/* Demands that the walker is at a step; and has it go there. */
void walker_sample_at(const struct walker_sample *f, unsigned i);
void walker_sample_go(struct walker_sample *f, unsigned i);

/* The step that a search must come to, by all steps; -1 if none */
int walker_sample_search(const struct walker_sample *f, unsigned from,
                         bool forward, const uint64_t *addresses, unsigned n);

/* For searches: @opaque is how often to go on, or NULL */
bool walker_sample_go_on(void *opaque);

#endif /* BTRAIL_WALKER_SAMPLE_H */
