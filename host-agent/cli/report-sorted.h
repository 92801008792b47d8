/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail report --sort: records by process, module, function, line, edge
 */

#ifndef BTRAIL_REPORT_SORTED_H
#define BTRAIL_REPORT_SORTED_H

#include "cli/report-common.h"

/* Checks the columns of --sort; prints an error if one is unknown. */
bool report_check_keys(const char *keys);

/* Prints rows for the columns @keys.  Returns an exit code. */
int report_sorted(struct report *r, const char *keys);

#endif /* BTRAIL_REPORT_SORTED_H */
