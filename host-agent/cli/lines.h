/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Records and events as text, one a line
 */

#ifndef BTRAIL_LINES_H
#define BTRAIL_LINES_H

#include "cli/cli.h"

struct lines;

/**
 * struct lines_options
 * @trace:   times are those since its start
 * @json:    a JSON object a line
 * @threads: that make text; the lines do not depend on it
 * @fd:      where it goes
 */
struct lines_options {
    const struct cli_trace *trace;
    bool json;
    unsigned threads;
    int fd;
};

struct lines *lines_new(const struct lines_options *options);

/* Add an event, or @n records of a batch from its record @first on. */
void lines_event(struct lines *l, unsigned vcpu, const struct btrail_batch *b);
void lines_records(struct lines *l, unsigned vcpu,
                   const struct btrail_batch *b, size_t first, size_t n);

/* The errno of what could not be written, after which nothing is; or 0 */
int lines_error(const struct lines *l);

/* Write what has been added.  Returns as lines_error(). */
int lines_flush(struct lines *l);

/* The same, and free all */
int lines_free(struct lines *l);

#endif /* BTRAIL_LINES_H */
