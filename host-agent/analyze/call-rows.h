/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sums of a call tree: functions with what they called, callers and callees of
 * a function, system calls
 */

#ifndef BTRAIL_CALL_ROWS_H
#define BTRAIL_CALL_ROWS_H

#include "analyze/call-tree.h"
#include "analyze/rows.h"
#include "util/closest.h"

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
 * struct call_rows
 * @function: for CALL_ROWS_CALLERS and CALL_ROWS_CALLEES
 * @closest:  the function that was called and has the most similar name
 * @rows:     has three columns: command, module, function or system call
 * @all:      number of records in all trees that were added
 * @all_ns:   their time
 */
struct call_rows {
    enum call_rows_kind kind;
    const char *function;
    struct closest closest;
    struct rows *rows;
    uint64_t all;
    uint64_t all_ns;
};

void call_rows_init(struct call_rows *c, enum call_rows_kind kind,
                    const char *function);
void call_rows_clear(struct call_rows *c);

/* Adds a tree, or what it has counted since it was spilled. */
void call_rows_add(struct call_rows *c, const struct call_tree *t);

#endif /* BTRAIL_CALL_ROWS_H */
