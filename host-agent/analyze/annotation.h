/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How often each instruction of a function was executed
 *
 * Between two records a vCPU executes the instructions from the target of the
 * first one to the branch of the second one: a block.  So the counts are exact
 * wherever the instructions of a block are known.
 *
 * Code can change.  All that was executed while its bytes were the same is one
 * version.
 */

#ifndef BTRAIL_ANNOTATION_H
#define BTRAIL_ANNOTATION_H

#include <glib.h>

#include "analyze/window.h"
#include "symbolize/filter.h"
#include "symbolize/instruction.h"
#include "util/closest.h"
#include "util/parse.h"

/**
 * struct annotation_options
 * @function: name of the functions; NULL for the addresses of @range
 * @range:    in the guest
 * @filter:   NULL for all records; chooses blocks by the records that end them
 * @window:   the same
 * @threads:  number of threads that decode
 */
struct annotation_options {
    struct symbolizer *names;
    const char *function;
    struct range range;
    const struct filter *filter;
    struct window window;
    unsigned threads;
};

/**
 * struct annotation_version - code that was executed
 * @process: that executed it first
 * @where:   the record that ended its first block there
 * @bias:    difference of addresses in that process to those in the module
 * @bits:    of the mode that it ran in
 * @blocks:  how many, or parts of them, are in the code
 * @pages:   where the bytes of each page come from, &enum annotation_source
 */
struct annotation_version {
    const struct process *process;
    struct symbolizer_where where;
    uint64_t bias;
    unsigned bits;
    uint64_t blocks;
    uint8_t *pages;
    uint8_t *bytes;
    struct annotation_slot *slots;
};

/**
 * enum annotation_source - where bytes come from
 *
 * @ANNOTATION_UNKNOWN: they are not known
 * @ANNOTATION_FILE:    a file, which has what the guest has
 * @ANNOTATION_CHANGED: the file of a kernel, which changes its code
 * @ANNOTATION_TRACE:   they were captured
 */
enum annotation_source {
    ANNOTATION_UNKNOWN,
    ANNOTATION_FILE,
    ANNOTATION_CHANGED,
    ANNOTATION_TRACE,
};

/**
 * struct annotation_code - a function, or the range
 * @function: NULL for the range
 * @start:    address in the module; of the guest for the range
 * @size:     in bytes
 * @bits:     of the mode that it runs in where CR3 does not say it; 0 if none
 *            of it has run there
 * @versions: of struct annotation_version, as they were met with
 */
struct annotation_code {
    const struct function *function;
    uint64_t start;
    size_t size;
    unsigned bits;
    GPtrArray *versions;
};

/**
 * struct annotation
 * @codes:   of struct annotation_code, in the order of module and address
 * @records: that were chosen
 * @likely:  blocks of a process that is likely, not certain
 * @unknown: blocks whose instructions are not known, or do not lead to the
 *           branch at their end: records between are missing
 * @beyond:  blocks that are beyond the limits of memory
 * @damage:  as of btrail_cursor_damage()
 * @closest: functions whose names are like the one that is wanted
 */
struct annotation {
    GPtrArray *codes;
    uint64_t records;
    uint64_t likely;
    uint64_t unknown;
    uint64_t beyond;
    uint64_t damage;
    struct closest closest;
};

/*
 * Counts a whole trace.  Returns 0, or a negative enum btrail_error; @a is to
 * be cleared then, too.
 */
int annotation_read(struct annotation *a, const struct btrail_trace *trace,
                    const struct annotation_options *options);
void annotation_clear(struct annotation *a);

/**
 * struct annotation_line - an instruction
 * @address: in the module
 * @count:   how often it was executed to its end
 * @bytes:   @length of them
 * @length:  0 if the bytes are not known up to the next instruction, or are
 *           none
 * @source:  where they come from
 */
struct annotation_line {
    uint64_t address;
    uint64_t count;
    const uint8_t *bytes;
    unsigned length;
    enum annotation_source source;
};

/*
 * The instructions of a version in the order of their addresses.  Those that
 * were executed overlap if one was jumped into.
 */
typedef void annotation_line_fn(void *opaque,
                                const struct annotation_line *line);
void annotation_lines(const struct annotation_code *code,
                      struct annotation_version *version,
                      annotation_line_fn *fn, void *opaque);

#endif /* BTRAIL_ANNOTATION_H */
