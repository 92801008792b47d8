/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the kinds of reports share
 */

#ifndef BTRAIL_REPORT_H
#define BTRAIL_REPORT_H

#include "cli/names-options.h"

/**
 * struct report
 * @names:     to name things with
 * @filter:    NULL for all records
 * @min_share: in percent; what has less is summed up in the text
 * @top:       rows, or edges of an address space
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

/* Part of a whole, from 0 to 1 */
double report_share(uint64_t part, uint64_t whole);

/* "0x" and 16 digits */
void report_set_hex(JsonObject *o, const char *name, uint64_t v);

/* Say what an error of the library means.  Returns CLI_FAILED. */
int report_failed(const struct report *r, int ret);

/* Are these columns of --sort?  False after having said what is wrong. */
bool report_check_keys(const char *keys);

/* Print rows for what @keys name.  Returns an exit code. */
int report_sorted(struct report *r, const char *keys);

/**
 * enum report_calls - what of call stacks
 *
 * @REPORT_CHILDREN: functions with what they called
 * @REPORT_CALLERS:  who called a function
 * @REPORT_CALLEES:  what it called
 * @REPORT_SYSCALLS: system calls of Linux
 */
enum report_calls {
    REPORT_NO_CALLS,
    REPORT_CHILDREN,
    REPORT_CALLERS,
    REPORT_CALLEES,
    REPORT_SYSCALLS,
};

/* Returns an exit code. */
int report_call_stacks(struct report *r, enum report_calls kind,
                       const char *function);

#endif /* BTRAIL_REPORT_H */
