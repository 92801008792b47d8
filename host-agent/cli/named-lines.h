/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Records as text, with names, instructions and source lines
 */

#ifndef BTRAIL_NAMED_LINES_H
#define BTRAIL_NAMED_LINES_H

#include <stdio.h>

#include "cli/analysis.h"

/**
 * struct named_lines_options
 * @in:    the trace, its names and the filter
 * @insn:  print the instructions before each record
 * @lines: print source lines
 * @json:  print one JSON object per line
 * @icount: print the instruction count of each record
 */
struct named_lines_options {
    const struct analysis *in;
    bool insn;
    bool lines;
    bool json;
    bool icount;
    FILE *out;
};

struct named_lines;

struct named_lines *named_lines_new(const struct named_lines_options *options);
void named_lines_free(struct named_lines *l);

/* Prints @n records of a batch from its record @first on. */
void named_lines_records(struct named_lines *l, unsigned vcpu,
                         const struct btrail_batch *b, size_t first,
                         size_t n);

/* The number of records that it has printed */
uint64_t named_lines_printed(const struct named_lines *l);

/* Records are missing here: the next one does not follow the last one. */
void named_lines_gap(struct named_lines *l, unsigned vcpu);

#endif /* BTRAIL_NAMED_LINES_H */
