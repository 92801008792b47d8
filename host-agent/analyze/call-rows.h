/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sums of a call tree: functions with what they called, callers and callees of
 * a function, system calls
 */

#ifndef BTRAIL_CALL_ROWS_H
#define BTRAIL_CALL_ROWS_H

#include "analyze/call-tree.h"
#include "analyze/rows.h"

/**
 * enum call_rows_kind - what the rows are
 *
 * @CALL_ROWS_CHILDREN: functions, with what they called
 * @CALL_ROWS_CALLERS:  functions that called a function
 * @CALL_ROWS_CALLEES:  functions that a function called
 * @CALL_ROWS_SYSCALLS: system calls of Linux
 */
enum call_rows_kind {
    CALL_ROWS_NONE,
    CALL_ROWS_CHILDREN,
    CALL_ROWS_CALLERS,
    CALL_ROWS_CALLEES,
    CALL_ROWS_SYSCALLS,
};

/**
 * enum call_rows_value - values of a row
 *
 * @CALL_ROWS_ALL:   records, with those of callees
 * @CALL_ROWS_SELF:  records without those of callees
 * @CALL_ROWS_TIME:  of CALL_ROWS_ALL, in nanoseconds
 * @CALL_ROWS_CALLS: number of calls
 */
enum call_rows_value {
    CALL_ROWS_ALL,
    CALL_ROWS_SELF,
    CALL_ROWS_TIME,
    CALL_ROWS_CALLS,
};

/**
 * call_rows_new
 * @function: for CALL_ROWS_CALLERS and CALL_ROWS_CALLEES
 * @all:      gets the number of records in the whole tree
 *
 * Returns rows with three columns: process, module, function or system call.
 * The caller frees them with rows_free().
 */
struct rows *call_rows_new(const struct call_tree *t,
                           enum call_rows_kind kind, const char *function,
                           uint64_t *all);

#endif /* BTRAIL_CALL_ROWS_H */
