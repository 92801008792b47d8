/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Records and events as text, one per line
 */

#ifndef BTRAIL_LINES_H
#define BTRAIL_LINES_H

#include "cli/cli.h"

struct lines;

/**
 * struct lines_options
 * @trace:   times are relative to its start
 * @json:    print one JSON object per line
 * @icount:  print the instruction counts of records
 * @threads: number of threads; the lines do not depend on it
 * @fd:      file to write to
 */
struct lines_options {
    const struct cli_trace *trace;
    bool json;
    bool icount;
    unsigned threads;
    int fd;
};

struct lines *lines_new(const struct lines_options *options);

/* Adds an event, or @n records of a batch from its record @first on. */
void lines_event(struct lines *l, unsigned vcpu, const struct btrail_batch *b);
void lines_records(struct lines *l, unsigned vcpu,
                   const struct btrail_batch *b, size_t first, size_t n);

/* The errno of a failed write, after which nothing is written; or 0 */
int lines_error(const struct lines *l);

/* Writes everything that was added.  Returns as lines_error(). */
int lines_flush(struct lines *l);

/* Flushes and frees @l.  Returns as lines_error(). */
int lines_free(struct lines *l);

#endif /* BTRAIL_LINES_H */
