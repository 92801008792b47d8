/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail report of call stacks: records and time of functions with their
 * callees, callers of a function, and system calls
 */

#ifndef BTRAIL_REPORT_CALLS_H
#define BTRAIL_REPORT_CALLS_H

#include "analyze/call-rows.h"
#include "cli/report-common.h"

/* Prints a report of one kind.  Returns an exit code. */
int report_call_stacks(struct report *r, enum call_rows_kind kind,
                       const char *function);

#endif /* BTRAIL_REPORT_CALLS_H */
