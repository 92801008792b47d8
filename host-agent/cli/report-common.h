/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the kinds of reports share
 */

#ifndef BTRAIL_REPORT_COMMON_H
#define BTRAIL_REPORT_COMMON_H

#include "cli/names-options.h"

/**
 * struct report - the trace, and the options of all kinds of reports
 * @filter:    NULL for all records
 * @min_share: in percent; the text has a sum of what has less
 * @top:       limit of rows, or of edges of an address space
 * @damage:    gets the damage that was found while reading
 */
struct report {
    struct cli_trace trace;
    struct symbolizer *names;
    struct filter *filter;
    unsigned threads;
    unsigned top;
    double min_share;
    bool json;
    uint64_t damage;
};

/* The part of a whole, from 0 to 1 */
double report_share(uint64_t part, uint64_t whole);

/* Sets a member to a string: "0x" and 16 digits. */
void report_set_hex(JsonObject *o, const char *name, uint64_t v);

/* Reports an error of the library.  Returns CLI_FAILED. */
int report_failed(const struct report *r, int ret);

#endif /* BTRAIL_REPORT_COMMON_H */
